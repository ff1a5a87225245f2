// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <holdfast/commit_outcome.hpp>
#include <holdfast/store.hpp>
#include <holdfast/task.hpp>

namespace holdfast::detail {

/// The outcome of the commit; nothing if it may or may not have happened.
[[nodiscard]] Task<std::optional<CommitOutcome>> commit_or_lose_sight(Store& store, Batch batch);

}  // namespace holdfast::detail
