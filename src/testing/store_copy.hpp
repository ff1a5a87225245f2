// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <holdfast/store.hpp>

namespace holdfast::detail {

/// What a store has, as of one moment.
struct StoreCopy {
  std::vector<Entry> entries;
  StoreTime time{};
};

/// Without the sessions: to the copy, the processes are dead. Changes nothing. Throws `StoreBusy`
/// if the store changed each time while it was read.
[[nodiscard]] Task<StoreCopy> copy_store(Store& store);

}  // namespace holdfast::detail
