// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <holdfast/batch.hpp>
#include <holdfast/deadlock.hpp>
#include <holdfast/store.hpp>
#include <holdfast/task.hpp>

#include "gate_rows.hpp"

namespace holdfast::detail {

/// Of the holders of other gates, so many are looked at; in a greater crowd no deadlock is found.
inline constexpr std::size_t kDeadlockActorsMax = 1'000;

/// Those who wait for each other, each for what the next one has; whoever asks is the first.
struct DeadlockCircle {
  struct Member {
    std::string waiter_key;
    Version version = 0;  ///< Of that row; zero: it is the one that asks.
    SharedRequest request;
  };
  std::vector<DeadlockStep> steps;
  std::vector<Member> members;  ///< One for each step.
};

/// Who gives way, of those who wait already, and will leave the queue; nothing: whoever asks.
using ChooseVictim = std::function<std::optional<std::size_t>(const DeadlockCircle&)>;

/// Throws `DeadlockError` if whoever asks, and is about to wait at `rows`, would wait for one who
/// waits for it: then nobody of them could ever go on. Otherwise it adds to the batch of `rows`
/// what has to be so still when that is committed, so that of two who close a circle at once one
/// will see it.
///
/// Reckons with capacities, weights and readers, and passes over the dead. Holders who are not
/// known as actors never wait.
///
/// `leaving` are keys of holders that end with the same commit: they count no more. `choose` is
/// asked for each circle; that the one it chose waits still becomes a condition of the batch.
[[nodiscard]] Task<void> check_for_deadlock(Store& store, GateRows& rows, std::string waiter_key,
                                            SharedRequest request,
                                            std::vector<std::string> leaving = {},
                                            ChooseVictim choose = {});

/// A wait for the end of somebody else, instead of one at a gate.
struct WaitForEnd {
  std::vector<std::string> actors;  ///< Who waits, and those who wait for that; see `GateRequest`.
  std::string name;                 ///< For people.
  std::string of_actor;
  std::string of_name;
};
/// The same for such a wait: the conditions, and the rows by which others see it, are added to
/// `batch`. Names of actors begin with '@'.
[[nodiscard]] Task<void> begin_wait_for_end(Store& store, Batch& batch, WaitForEnd wait,
                                            std::vector<std::string> leaving);
void end_wait_for_end(Batch& batch, const WaitForEnd& wait);

}  // namespace holdfast::detail
