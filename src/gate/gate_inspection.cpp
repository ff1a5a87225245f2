// SPDX-License-Identifier: Apache-2.0
#include <holdfast/gates.hpp>

#include <algorithm>
#include <utility>

#include "gate_keys.hpp"
#include "gate_rows.hpp"
#include "gate_rules.hpp"
#include "session_rules.hpp"
#include "store/key_part.hpp"
#include "store/printable.hpp"

namespace holdfast {

namespace {

constexpr char kBehindSlash = '/' + 1;

StoreTime store_time(std::int64_t ns) { return StoreTime(Duration(ns)); }

GateHolderInfo info_of(const detail::GateRows::Holder& holder) {
  GateHolderInfo info;
  info.holder = holder.record.holder();
  info.fence = holder.fence;
  info.weight = holder.record.weight();
  info.shared = holder.record.shared();
  info.slots.assign(holder.record.slots().begin(), holder.record.slots().end());
  info.asked_at = store_time(holder.record.asked_at_ns());
  info.granted_at = store_time(holder.record.granted_at_ns());
  info.reason = holder.record.reason();
  return info;
}

GateWaiterInfo info_of(const detail::GateRows::Waiter& waiter) {
  GateWaiterInfo info;
  info.holder = waiter.record.holder();
  info.weight = waiter.record.weight();
  info.shared = waiter.record.shared();
  info.priority = waiter.record.priority();
  info.asked_at = store_time(waiter.record.asked_at_ns());
  info.reason = waiter.record.reason();
  return info;
}

Task<std::optional<GateInfo>> inspect(Store& store, detail::GateKeys keys,
                                      std::size_t waiters_max) {
  const std::optional<Entry> head = co_await store.get(keys.head());
  if (!head) {
    co_return std::nullopt;
  }
  detail::GateRows rows(keys);
  rows.read_head(*head);
  GateInfo info;
  info.name = keys.name();
  info.definition = detail::definition_of(rows.head());
  info.capacity = detail::capacity_of(rows.head());
  info.paused = rows.head().paused();
  info.draining = rows.head().draining();
  info.waiter_count = rows.waiter_count();
  const StoreTime now = co_await store.time();
  const std::string holders = keys.holders();
  std::string after;
  for (bool more = true; more;) {
    const ScanOptions behind{.after = after};
    const Page held = co_await store.scan(holders, behind);
    for (const Entry& entry : held.entries) {
      rows.read_holder(entry);
      const detail::GateRows::Holder& holder = rows.holders().at(entry.key);
      GateHolderInfo& one = info.holders.emplace_back(info_of(holder));
      const std::optional<Entry> lease = co_await store.get(holder.record.lease_key());
      if (lease) {
        one.expires_at = detail::read_session(*lease, now).expires;
      }
      after = entry.key;
    }
    more = held.more;
  }
  const ScanOptions first{.limit = waiters_max};
  const std::string waiters = keys.waiters();
  const Page waiting = co_await store.scan(waiters, first);
  for (const Entry& entry : waiting.entries) {
    rows.read_waiter(entry);
    info.waiters.push_back(info_of(rows.waiters().at(entry.key)));
  }
  co_return info;
}

}  // namespace

Task<std::optional<GateInfo>> inspect_gate(Store& store, std::string_view name,
                                           std::size_t waiters_max) {
  return inspect(store, detail::GateKeys(name), waiters_max);
}

Task<std::vector<std::string>> list_gates(Store& store) {
  std::vector<std::string> names;
  std::string after;
  for (;;) {
    const ScanOptions next{.after = after, .limit = 1};
    const Page page = co_await store.scan(detail::kGatePrefix, next);
    if (page.entries.empty()) {
      break;
    }
    const std::string_view key = page.entries.front().key;
    const std::string_view rest = key.substr(detail::kGatePrefix.size());
    const std::string_view part = rest.substr(0, rest.find('/'));
    std::optional<std::string> name = detail::text_of_key_part(part);
    if (!name || part.size() == rest.size()) {
      throw StoreCorrupt("the key " + detail::printable(key) + " is that of no gate");
    }
    names.push_back(*std::move(name));
    // All rows of the gate lie behind its part and a slash, and '0' is the byte behind a slash.
    after.assign(detail::kGatePrefix).append(part).push_back(kBehindSlash);
  }
  std::sort(names.begin(), names.end());
  co_return names;
}

}  // namespace holdfast
