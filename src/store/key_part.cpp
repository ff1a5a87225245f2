// SPDX-License-Identifier: Apache-2.0
#include "key_part.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace holdfast::detail {

namespace {

constexpr std::string_view kDigits = "0123456789ABCDEF";

constexpr std::array<bool, 256> kEscaped = [] {
  std::array<bool, 256> escaped{};
  for (std::size_t byte = 0; byte < escaped.size(); ++byte) {
    const char as_char = static_cast<char>(byte);
    escaped[byte] = as_char == '/' || as_char == '%' || is_control(as_char);
  }
  return escaped;
}();

bool must_be_escaped(char byte) { return kEscaped[static_cast<unsigned char>(byte)]; }

}  // namespace

void append_key_part(std::string& key, std::string_view text) {
  while (!text.empty()) {
    const auto* const escaped = std::ranges::find_if(text, must_be_escaped);
    key.append(text.begin(), escaped);
    text.remove_prefix(static_cast<std::size_t>(escaped - text.begin()));
    if (!text.empty()) {
      const auto value = static_cast<unsigned char>(text.front());
      key.push_back('%');
      key.push_back(kDigits[value >> 4U]);
      key.push_back(kDigits[value & 0xfU]);
      text.remove_prefix(1);
    }
  }
}

std::string key_part(std::string_view text) {
  std::string part;
  part.reserve(text.size());
  append_key_part(part, text);
  return part;
}

std::optional<std::string> text_of_key_part(std::string_view part) {
  constexpr std::size_t kEscapeSize = 3;
  if (std::ranges::none_of(part, must_be_escaped)) {
    return std::string(part);
  }
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
