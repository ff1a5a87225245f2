// SPDX-License-Identifier: Apache-2.0
#include "gate_keys.hpp"

#include <algorithm>
#include <optional>

#include <holdfast/error.hpp>
#include <holdfast/gate.hpp>
#include <holdfast/store_error.hpp>

#include "base/sortable_number.hpp"
#include "store/key_part.hpp"
#include "store/printable.hpp"

namespace holdfast::detail {

namespace {

constexpr std::string_view kHolders = "holder/";
constexpr std::string_view kWaiters = "waiter/";
constexpr std::string_view kGrants = "grant/";

constexpr std::size_t kSortableSize = 16;

void append_gate_prefix(std::string& key, std::string_view gate) {
  key.append(kGatePrefix);
  append_key_part(key, gate);
  key.push_back('/');
}

void append_holders_of(std::string& key, std::string_view prefix, std::string_view owner) {
  key.append(prefix).append(kHolders);
  append_key_part(key, owner);
  key.push_back('/');
}

std::string holder_behind(std::string_view prefix, std::string_view owner,
                          std::string_view request_id) {
  std::string key;
  // Mostly nothing has to be escaped.
  key.reserve(prefix.size() + kHolders.size() + owner.size() + 1 + request_id.size());
  append_holders_of(key, prefix, owner);
  append_key_part(key, request_id);
  return key;
}

}  // namespace

void check_gate_name(std::string_view name) {
  if (name.empty() || name.size() > kGateNameMax || std::ranges::any_of(name, is_control)) {
    throw InvalidArgument("the name of a gate, " + printable(name) + ", has " +
                          std::to_string(name.size()) + " bytes; give 1 to " +
                          std::to_string(kGateNameMax) + ", without control characters");
  }
}

GateKeys::GateKeys(std::string_view name) : name_(name) {
  check_gate_name(name);
  append_gate_prefix(prefix_, name);
}

std::string GateKeys::holders() const { return std::string(prefix_).append(kHolders); }
std::string GateKeys::waiters() const { return std::string(prefix_).append(kWaiters); }
std::string GateKeys::grants() const { return std::string(prefix_).append(kGrants); }

std::string GateKeys::holders_of(std::string_view owner) const {
  std::string key;
  append_holders_of(key, prefix_, owner);
  return key;
}

std::string GateKeys::holder(std::string_view owner, std::string_view request_id) const {
  return holder_behind(prefix_, owner, request_id);
}

std::string GateKeys::waiter(std::uint64_t rank, std::uint64_t ticket) const {
  std::string key;
  key.reserve(prefix_.size() + kWaiters.size() + 2 * kSortableSize + 1);
  key.append(prefix_).append(kWaiters);
  append_sortable(key, rank, kSortableSize);
  key.push_back('-');
  append_sortable(key, ticket, kSortableSize);
  return key;
}

std::string holder_key(std::string_view gate, std::string_view owner, std::string_view request_id) {
  std::string prefix;
  prefix.reserve(kGatePrefix.size() + gate.size() + 1);
  append_gate_prefix(prefix, gate);
  return holder_behind(prefix, owner, request_id);
}

std::string GateKeys::grant(std::uint64_t number) const {
  std::string key;
  key.reserve(prefix_.size() + kGrants.size() + kSortableSize);
  key.append(prefix_).append(kGrants);
  append_sortable(key, number % kGateGrantsKept, kSortableSize);
  return key;
}

std::string GateKeys::operator_change(std::uint64_t number) const {
  std::string key = operator_changes();
  append_sortable(key, number % kGateGrantsKept, kSortableSize);
  return key;
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
