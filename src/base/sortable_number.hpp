// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace holdfast::detail {

/// As many digits for every number, so that keys sort as numbers do.
inline void append_sortable(std::string& text, std::uint64_t number, std::size_t digits) {
  constexpr char kDigits[] = "0123456789abcdef";
  text.append(digits, '0');
  for (auto digit = text.rbegin(); number != 0 && digits > 0; ++digit, --digits, number >>= 4U) {
    *digit = kDigits[number & 0xfU];
  }
}
[[nodiscard]] inline std::string sortable(std::uint64_t number, std::size_t digits) {
  std::string text;
  append_sortable(text, number, digits);
  return text;
}

}  // namespace holdfast::detail
