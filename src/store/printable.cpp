// SPDX-License-Identifier: Apache-2.0
#include "printable.hpp"

#include <cstddef>

namespace holdfast::detail {

namespace {

void append_escaped(std::string& text, std::string_view bytes) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  for (const char letter : bytes) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte >= 0x20 && byte < 0x7f && letter != '\'' && letter != '\\') {
      text += letter;
    } else {
      text += "\\x";
      text += kDigits[byte >> 4U];
      text += kDigits[byte & 0xfU];
    }
  }
}

}  // namespace

std::string printable(std::string_view bytes, std::size_t bytes_max) {
  const std::size_t end = bytes_max / 4;
  std::string text = "'";
  if (bytes.size() <= bytes_max) {
    append_escaped(text, bytes);
  } else {
    append_escaped(text, bytes.substr(0, bytes_max - end));
    text += "...";
    append_escaped(text, bytes.substr(bytes.size() - end));
  }
  text += '\'';
  return text;
}

}  // namespace holdfast::detail
