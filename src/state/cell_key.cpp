// SPDX-License-Identifier: Apache-2.0
#include "cell_key.hpp"

#include <holdfast/error.hpp>
#include <holdfast/state.hpp>

#include "store/printable.hpp"

namespace holdfast::detail {

namespace {

bool is_plain(unsigned char byte) noexcept {
  constexpr unsigned char kFirstPrintable = 0x20;
  constexpr unsigned char kDelete = 0x7f;
  return byte >= kFirstPrintable && byte != kDelete && byte != '/' && byte != '%';
}

void append_escaped(std::string& out, unsigned char byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  out += '%';
  out += kDigits[byte >> 4];
  out += kDigits[byte & 15];
}

}  // namespace

std::string key_part(std::string_view what, std::string_view text) {
  if (text.empty() || text.size() > kCellNameBytesMax) {
    std::string message("the ");
    message.append(what).append(" ").append(printable(text)).append(" has ");
    message.append(std::to_string(text.size())).append(" bytes; give 1 to ");
    throw InvalidArgument(message.append(std::to_string(kCellNameBytesMax)));
  }
  std::string part;
  part.reserve(text.size());
  for (const char character : text) {
    const auto byte = static_cast<unsigned char>(character);
    if (is_plain(byte)) {
      part += character;
    } else {
      append_escaped(part, byte);
    }
  }
  return part;
}

std::string checked_cell_key(std::string_view key) {
  if (!key.starts_with(kCellPrefix) || key.size() == kCellPrefix.size()) {
    throw InvalidArgument("there is no cell under the key " + printable(key) +
                          ": those of cells begin with \"cell/\"");
  }
  return std::string(key);
}

}  // namespace holdfast::detail
