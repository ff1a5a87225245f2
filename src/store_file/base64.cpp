// SPDX-License-Identifier: Apache-2.0
#include "base64.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace holdfast::detail {

namespace {

constexpr std::string_view kPaddedDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view kFileNameDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

constexpr std::string_view digits_of(Base64 form) {
  return form == Base64::kPadded ? kPaddedDigits : kFileNameDigits;
}

using Values = std::array<std::uint8_t, 256>;
constexpr std::uint8_t kNoDigit = 64;

constexpr Values values_of(Base64 form) {
  Values values{};
  values.fill(kNoDigit);
  for (std::uint8_t value = 0; value < kNoDigit; ++value) {
    values[static_cast<unsigned char>(digits_of(form)[value])] = value;
  }
  return values;
}

constexpr Values kPaddedValues = values_of(Base64::kPadded);
constexpr Values kFileNameValues = values_of(Base64::kFileName);

}  // namespace

std::string to_base64(std::string_view bytes, Base64 form) {
  const std::string_view digits = digits_of(form);
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::string_view three = bytes.substr(at, 3);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      bits = bits << 8U | (i < three.size() ? static_cast<unsigned char>(three[i]) : 0U);
    }
    for (std::size_t i = 0; i <= three.size(); ++i) {
      text += digits[bits >> (18U - 6U * i) & 63U];
    }
  }
  if (form == Base64::kPadded) {
    text.append((4 - text.size() % 4) % 4, '=');
  }
  return text;
}

std::optional<std::string> from_base64(std::string_view text, Base64 form) {
  const Values& values = form == Base64::kPadded ? kPaddedValues : kFileNameValues;
  const std::string_view digits = text.substr(0, std::min(text.find('='), text.size()));
  std::string bytes;
  bytes.reserve(digits.size() / 4 * 3 + 3);
  std::uint32_t bits = 0;
  unsigned bit_count = 0;
  for (const char digit : digits) {
    const std::uint32_t value = values[static_cast<unsigned char>(digit)];
    if (value == kNoDigit) {
      return std::nullopt;
    }
    bits = bits << 6U | value;
    bit_count += 6;
    if (bit_count >= 8) {
      bit_count -= 8;
      bytes += static_cast<char>(bits >> bit_count & 0xffU);
    }
  }
  // One test for all that is left: padding, stray bits, a lone digit.
  if (to_base64(bytes, form) != text) {
    return std::nullopt;
  }
  return bytes;
}

}  // namespace holdfast::detail
