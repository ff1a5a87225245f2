// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <holdfast/batch.hpp>

#include "tests/soak/guarded_counters.hpp"

namespace holdfast::testing {

/// The counter that stands in the store of the locks, and a row for each increment of it, in the
/// order of their fences.
inline constexpr std::string_view kCounterKey = "soak/counter";
inline constexpr std::string_view kIncrementPrefix = "soak/increment/";

inline Batch increment_batch(const Increment& increment) {
  constexpr std::size_t kDigits = 20;
  const std::string fence = std::to_string(increment.fence);
  std::string key(kIncrementPrefix);
  key.append(kDigits - fence.size(), '0').append(fence);
  std::string row = std::to_string(increment.value);
  row.append(" ").append(std::to_string(increment.doer.process));
  row.append(" ").append(std::to_string(increment.doer.task));
  Batch batch;
  batch.put(kCounterKey, std::to_string(increment.value)).put(key, row);
  return batch;
}

inline Increment read_increment(const Entry& entry) {
  std::size_t end = 0;
  Increment increment;
  increment.fence = std::stoull(entry.key.substr(kIncrementPrefix.size()));
  increment.value = std::stoull(entry.value, &end);
  const std::string rest = entry.value.substr(end);
  increment.doer.process = std::stoll(rest, &end);
  increment.doer.task = std::stoll(rest.substr(end));
  return increment;
}

}  // namespace holdfast::testing
