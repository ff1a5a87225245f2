// SPDX-License-Identifier: Apache-2.0
#include "gate_keys.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <holdfast/error.hpp>
#include <holdfast/gate.hpp>

#include "store/printable.hpp"

namespace holdfast::detail {

namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

bool is_control(char byte) noexcept {
  const auto value = static_cast<unsigned char>(byte);
  return value < 0x20 || value == 0x7f;
}

/// As many digits for every number, so that keys sort as numbers do.
std::string sortable(std::uint64_t number) {
  std::string text(16, '0');
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit, number >>= 4U) {
    *digit = kDigits[number & 0xfU];
  }
  return text;
}

std::string checked_name(std::string_view name) {
  if (name.empty() || name.size() > kGateNameMax || std::ranges::any_of(name, is_control)) {
    throw InvalidArgument("the name of a gate, " + printable(name) + ", has " +
                          std::to_string(name.size()) + " bytes; give 1 to " +
                          std::to_string(kGateNameMax) + ", without control characters");
  }
  return std::string(name);
}

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

GateKeys::GateKeys(std::string_view name) : name_(checked_name(name)) {
  prefix_.append(kGatePrefix).append(key_part(name)).push_back('/');
}

std::string GateKeys::holders_of(std::string_view owner) const {
  return holders().append(key_part(owner)).append("/");
}

std::string GateKeys::holder(std::string_view owner, std::string_view request_id) const {
  return holders_of(owner).append(key_part(request_id));
}

std::string GateKeys::waiter(std::uint64_t rank, std::uint64_t ticket) const {
  return waiters().append(sortable(rank)).append("-").append(sortable(ticket));
}

std::string GateKeys::lease(std::string_view holder) const {
  std::string key = prefix_;
  return key.append("lease/").append(key_part(holder));
}

std::string GateKeys::grant(std::uint64_t number) const {
  return grants().append(sortable(number % kGateGrantsKept));
}

}  // namespace holdfast::detail
