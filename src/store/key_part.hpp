// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace holdfast::detail {

/// `text` as a part of a key: '/', '%' and control characters as %XX, so that parts cannot run into
/// each other.
[[nodiscard]] std::string key_part(std::string_view text);
void append_key_part(std::string& key, std::string_view text);
/// The text whose part this is; nothing if it is nobody's.
[[nodiscard]] std::optional<std::string> text_of_key_part(std::string_view part);

/// As %XX are: bytes below the space, and the one that deletes.
[[nodiscard]] constexpr bool is_control(char byte) noexcept {
  const auto value = static_cast<unsigned char>(byte);
  return value < 0x20 || value == 0x7f;
}

}  // namespace holdfast::detail
