// SPDX-License-Identifier: Apache-2.0
#include "lost_sight.hpp"

#include <utility>

namespace holdfast::detail {

Task<std::optional<CommitOutcome>> commit_or_lose_sight(Store& store, Batch batch) {
  std::optional<CommitOutcome> seen;
  try {
    seen = co_await store.commit(std::move(batch));
  } catch (const OutcomeUnknown&) {
    seen.reset();
  }
  co_return seen;
}

}  // namespace holdfast::detail
