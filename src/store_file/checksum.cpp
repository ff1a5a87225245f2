// SPDX-License-Identifier: Apache-2.0
#include "checksum.hpp"

#define XXH_INLINE_ALL  // NOLINT(readability-identifier-naming): its name for "no library".
#include <xxhash.h>

#include <array>
#include <charconv>
#include <cstddef>

namespace holdfast::detail {

Checksum& Checksum::add(std::string_view bytes) noexcept {
  value_ = XXH3_64bits_withSeed(bytes.data(), bytes.size(), value_);
  return *this;
}

Checksum& Checksum::add(std::uint64_t number) noexcept {
  std::array<char, sizeof number> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(number >> (8 * i) & 0xffU);
  }
  return add(std::string_view(bytes.data(), bytes.size()));
}

std::string to_hex(std::uint64_t number) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (unsigned shift = 64; shift > 0; shift -= 4) {
    text += kDigits[number >> (shift - 4) & 0xfU];
  }
  return text;
}

std::uint64_t from_hex(std::string_view text) noexcept {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number, 16);
  return number;
}

}  // namespace holdfast::detail
