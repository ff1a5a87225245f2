// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string_view>

#include <holdfast/batch.hpp>

namespace holdfast::detail {

/// Whether a conflict at this key is about what the batch was made from.
[[nodiscard]] inline bool has_condition_on(const Batch& batch, std::string_view key) {
  return std::ranges::any_of(batch.conditions(),
                             [key](const auto& condition) { return condition.key == key; });
}

}  // namespace holdfast::detail
