// SPDX-License-Identifier: Apache-2.0
#include "utf8.hpp"

#include <cstddef>

namespace holdfast::detail {

namespace {

unsigned char byte_at(std::string_view bytes, std::size_t at) noexcept {
  return at < bytes.size() ? static_cast<unsigned char>(bytes[at]) : 0;
}

bool is_within(unsigned char byte, unsigned char first, unsigned char last) noexcept {
  return first <= byte && byte <= last;
}

/// How many bytes the code point at the beginning has; 0 if there is none. Only the second byte has
/// bounds that depend on the first one.
std::size_t code_point_bytes(std::string_view bytes) noexcept {
  const unsigned char first = byte_at(bytes, 0);
  const unsigned char second = byte_at(bytes, 1);
  const bool third = is_within(byte_at(bytes, 2), 0x80, 0xbf);
  const bool fourth = is_within(byte_at(bytes, 3), 0x80, 0xbf);
  if (first < 0x80) {
    return 1;
  }
  if (is_within(first, 0xc2, 0xdf)) {
    return is_within(second, 0x80, 0xbf) ? 2 : 0;
  }
  if (is_within(first, 0xe0, 0xef)) {
    const unsigned char from = first == 0xe0 ? 0xa0 : 0x80;
    const unsigned char to = first == 0xed ? 0x9f : 0xbf;
    return is_within(second, from, to) && third ? 3 : 0;
  }
  if (is_within(first, 0xf0, 0xf4)) {
    const unsigned char from = first == 0xf0 ? 0x90 : 0x80;
    const unsigned char to = first == 0xf4 ? 0x8f : 0xbf;
    return is_within(second, from, to) && third && fourth ? 4 : 0;
  }
  return 0;
}

}  // namespace

bool is_utf8(std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    const std::size_t count = code_point_bytes(bytes);
    if (count == 0) {
      return false;
    }
    bytes.remove_prefix(count);
  }
  return true;
}

}  // namespace holdfast::detail
