// SPDX-License-Identifier: Apache-2.0
#include "gate_keys.hpp"

#include <algorithm>
#include <optional>

#include <holdfast/error.hpp>
#include <holdfast/gate.hpp>
#include <holdfast/store_error.hpp>

#include "store/key_part.hpp"
#include "store/printable.hpp"

namespace holdfast::detail {

namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

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

std::string GateKeys::grant(std::uint64_t number) const {
  return grants().append(sortable(number % kGateGrantsKept));
}

std::string GateKeys::operator_change(std::uint64_t number) const {
  return operator_changes().append(sortable(number % kGateGrantsKept));
}

std::string GateKeys::lease(std::string_view holder) const {
  return leases().append(key_part(holder));
}

std::string unattended_key(std::string_view gate) {
  return std::string(kUnattendedPrefix).append(key_part(gate));
}

std::string gate_in_unattended_key(std::string_view key) {
  const std::optional<std::string> name =
      key.starts_with(kUnattendedPrefix) ? text_of_key_part(key.substr(kUnattendedPrefix.size()))
                                         : std::nullopt;
  if (!name) {
    throw StoreCorrupt("the key " + printable(key) + " names no gate");
  }
  return *name;
}

std::string wait_key(std::string_view lease_key, std::string_view actor) {
  std::string key("wait/");
  if (!actor.starts_with('@')) {
    key.append(key_part(lease_key)).append("/");
  }
  return key.append(key_part(actor));
}

}  // namespace holdfast::detail
