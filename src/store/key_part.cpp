// SPDX-License-Identifier: Apache-2.0
#include "key_part.hpp"

#include <cstddef>
#include <utility>

namespace holdfast::detail {

namespace {

constexpr std::string_view kDigits = "0123456789ABCDEF";

}  // namespace

std::string key_part(std::string_view text) {
  std::string part;
  part.reserve(text.size());
  for (const char byte : text) {
    if (byte == '/' || byte == '%' || is_control(byte)) {
      const auto value = static_cast<unsigned char>(byte);
      part.push_back('%');
      part.push_back(kDigits[value >> 4U]);
      part.push_back(kDigits[value & 0xfU]);
    } else {
      part.push_back(byte);
    }
  }
  return part;
}

std::optional<std::string> text_of_key_part(std::string_view part) {
  constexpr std::size_t kEscapeSize = 3;
  std::string text;
  for (std::size_t at = 0; at < part.size();) {
    if (part[at] != '%') {
      text.push_back(part[at++]);
      continue;
    }
    const std::string_view escape = part.substr(at, kEscapeSize);
    const auto high = escape.size() == kEscapeSize ? kDigits.find(escape[1]) : kDigits.npos;
    const auto low = escape.size() == kEscapeSize ? kDigits.find(escape[2]) : kDigits.npos;
    if (high == kDigits.npos || low == kDigits.npos) {
      return std::nullopt;
    }
    text.push_back(static_cast<char>(high << 4U | low));
    at += kEscapeSize;
  }
  return key_part(text) == part ? std::optional(std::move(text)) : std::nullopt;
}

}  // namespace holdfast::detail
