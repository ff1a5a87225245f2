// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <holdfast/store.hpp>
#include <holdfast/task.hpp>

#include "gate_rows.hpp"

namespace holdfast::detail {

/// Of the holders of other gates, so many are looked at; in a greater crowd no deadlock is found.
inline constexpr std::size_t kDeadlockActorsMax = 1'000;

/// Throws `DeadlockError` if `waiter`, who is about to wait at `rows`, would wait for one who waits
/// for it: then nobody of them could ever go on. Otherwise it adds to the batch of `rows` what has
/// to be so still when that is committed, so that of two who close a circle at once one will see
/// it.
///
/// Reckons with capacities, weights and readers, and passes over the dead. Holders who are not
/// known as actors never wait.
///
/// `leaving` are keys of holders that end with the same commit: they count no more.
[[nodiscard]] Task<void> check_for_deadlock(Store& store, GateRows& rows, std::string waiter_key,
                                            record::GateWaiter waiter,
                                            std::vector<std::string> leaving = {});

}  // namespace holdfast::detail
