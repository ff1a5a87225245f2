// SPDX-License-Identifier: Apache-2.0
#include "escape.hpp"

#include <cstddef>
#include <cstdint>

#include <fmt/core.h>

namespace holdfast::cli {

namespace {

/// A character of UTF-8, or one byte that is none.
struct Letter {
  std::string_view bytes;
  bool valid;
  bool control;
};

bool continues(std::string_view text, std::size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0U) == 0x80U;
}

std::size_t length_by(unsigned char first) {
  if (first < 0x80) {
    return 1;
  }
  if (first < 0xc2 || first > 0xf4) {
    return 0;
  }
  return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/// Neither too long for what it says, nor half of a pair, nor above the last one there is.
bool in_range(std::uint32_t code, std::size_t length) {
  switch (length) {
    case 3:
      return code >= 0x800 && (code < 0xd800 || code > 0xdfff);
    case 4:
      return code >= 0x10000 && code <= 0x10ffff;
    default:
      return true;
  }
}

/// The first letter of `text`, which is not empty.
Letter first_letter(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  const std::size_t length = length_by(first);
  std::uint32_t code = length < 2 ? first : first & (0x7fU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if (!continues(text, i)) {
      return {text.substr(0, 1), false, false};
    }
    code = code << 6U | (static_cast<unsigned char>(text[i]) & 0x3fU);
  }
  if (length == 0 || !in_range(code, length)) {
    return {text.substr(0, 1), false, false};
  }
  // Those from U+0080 on are commands to some terminals, too.
  return {text.substr(0, length), true, code < 0x20 || (code >= 0x7f && code < 0xa0)};
}

template <typename Append>
std::string rewritten(std::string_view text, Append append) {
  std::string out;
  while (!text.empty()) {
    const Letter letter = first_letter(text);
    append(out, letter);
    text.remove_prefix(letter.bytes.size());
  }
  return out;
}

}  // namespace

std::string one_line(std::string_view text) {
  return rewritten(text, [](std::string& out, const Letter& letter) {
    if (letter.valid && !letter.control) {
      out += letter.bytes;
      return;
    }
    for (const char byte : letter.bytes) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    }
  });
}

std::string json_string(std::string_view text) {
  return '"' +
         rewritten(text,
                   [](std::string& out, const Letter& letter) {
                     if (!letter.valid) {
                       out += "\\ufffd";
                     } else if (letter.control) {
                       // Of two bytes the second is the code.
                       out += fmt::format("\\u{:04x}",
                                          static_cast<unsigned char>(letter.bytes.back()));
                     } else {
                       out += letter.bytes == "\"" || letter.bytes == "\\" ? "\\" : "";
                       out += letter.bytes;
                     }
                   }) +
         '"';
}

}  // namespace holdfast::cli
