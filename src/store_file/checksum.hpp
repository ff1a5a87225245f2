// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::detail {

/// XXH3 over parts, each with its length and its place: parts that are cut otherwise, or change
/// places, make another sum. Against damage, not against forgery.
class Checksum {
 public:
  Checksum& add(std::string_view bytes) noexcept;
  Checksum& add(std::uint64_t number) noexcept;

  [[nodiscard]] std::uint64_t value() const noexcept { return value_; }

 private:
  std::uint64_t value_ = 0;
};

/// 16 hexadecimal digits.
[[nodiscard]] std::string to_hex(std::uint64_t number);
/// Some number if the text is none.
[[nodiscard]] std::uint64_t from_hex(std::string_view text) noexcept;

}  // namespace holdfast::detail
