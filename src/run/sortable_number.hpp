// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace holdfast::detail {

/// As many digits for every number, so that keys sort as numbers do.
[[nodiscard]] inline std::string sortable(std::uint64_t number, std::size_t digits) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text(digits, '0');
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit, number >>= 4U) {
    *digit = kDigits[number & 0xfU];
  }
  return text;
}

}  // namespace holdfast::detail
