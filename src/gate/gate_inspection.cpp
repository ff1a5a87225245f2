// SPDX-License-Identifier: Apache-2.0
#include <holdfast/gate_inspection.hpp>

#include <algorithm>
#include <functional>
#include <utility>

#include "gate_inspection.hpp"
#include "gate_keys.hpp"
#include "gate_ledger.hpp"
#include "gate_rows.hpp"
#include "gate_rules.hpp"
#include "store/key_part.hpp"
#include "store/printable.hpp"

namespace holdfast {

namespace {

constexpr char kBehindSlash = '/' + 1;

using detail::store_time;

/// Without the sign that it is known in all processes; empty if it is not.
std::string known_everywhere(std::string_view actor) {
  return actor.starts_with('@') ? std::string(actor.substr(1)) : std::string{};
}

GateTie shown_tie(record::GateGrant::Tie tie) {
  return record::GateGrant::Tie_IsValid(tie) ? static_cast<GateTie>(tie) : GateTie::kUnknown;
}

GateWaiterInfo info_of(const detail::GateWaiter& waiter) {
  const detail::GateRequest& request = *waiter.request;
  GateWaiterInfo info;
  info.holder = request.asker->holder;
  info.weight = request.weight;
  info.shared = request.shared;
  info.priority = request.priority;
  info.asked_at = waiter.asked_at;
  if (request.deadline != StoreTime{}) {
    info.deadline = request.deadline;
  }
  info.reason = request.reason;
  info.tie = shown_tie(detail::tie_of(request.asker->lease_key));
  for (const std::string& one : request.asker->actors) {
    std::string actor = known_everywhere(one);
    if (!actor.empty() && info.actor.empty()) {
      info.actor = std::move(actor);
    } else if (!actor.empty()) {
      info.needed_by.push_back(std::move(actor));
    }
  }
  return info;
}

GateGrantInfo info_of(const record::GateGrant& grant) {
  GateGrantInfo info;
  info.number = grant.number();
  info.holder = grant.holder();
  info.fence = grant.fence();
  info.weight = grant.weight();
  info.shared = grant.shared();
  info.slots.assign(grant.slots().begin(), grant.slots().end());
  info.asked_at = store_time(grant.asked_at_ns());
  info.granted_at = store_time(grant.granted_at_ns());
  info.ended_at = store_time(grant.ended_at_ns());
  if (record::GateGrant::End_IsValid(grant.end())) {
    info.end = static_cast<GateGrantInfo::End>(grant.end());
  }
  info.tie = shown_tie(grant.tie());
  info.actor = known_everywhere(grant.actor());
  info.reason = grant.reason();
  info.ended_by = grant.ended_by();
  return info;
}

Task<std::optional<GateInfo>> inspect(Store& store, detail::GateKeys keys,
                                      std::size_t waiters_max) {
  const detail::GateRows rows =
      co_await detail::load_gate(store, keys, waiters_max, Read::kDurable);
  if (!rows.exists()) {
    co_return std::nullopt;
  }
  const record::GateHead& head = rows.head();
  GateInfo info;
  info.name = keys.name();
  info.definition = detail::definition_of(head);
  info.capacity = detail::capacity_of(head);
  info.paused = head.paused();
  info.draining = head.draining();
  info.disabled_slots.assign(head.disabled_slots().begin(), head.disabled_slots().end());
  info.grants_kept_for = detail::grants_kept_for(head);
  info.waiter_count = rows.waiter_count();
  const StoreTime now = co_await store.time();
  for (const auto& [key, holder] : rows.holders()) {
    GateHolderInfo& one = info.holders.emplace_back(detail::info_of(key, holder));
    const std::string& lease_key = holder.request->asker->lease_key;
    std::optional<Entry> lease;
    if (!lease_key.empty()) {
      lease = co_await store.get(lease_key);
    }
    if (lease) {
      one.expires_at = detail::read_lease(lease_key, lease, now, now).expires_at;
    }
  }
  const std::vector<WhyNot> reasons = detail::why_they_wait(rows, now);
  for (const auto& [key, waiter] : rows.waiters()) {
    GateWaiterInfo& one = info.waiters.emplace_back(info_of(waiter));
    one.why = reasons[info.waiters.size() - 1];
  }
  co_return info;
}

Task<std::vector<GateGrantInfo>> history_of(Store& store, detail::GateKeys keys) {
  std::vector<GateGrantInfo> grants;
  const std::string prefix = keys.grants();
  const ScanOptions all{.limit = kGateGrantsKept};
  const Page page = co_await store.scan(prefix, all);
  grants.reserve(page.entries.size());
  for (const Entry& entry : page.entries) {
    grants.push_back(
        info_of(detail::parse_gate_record<record::GateGrant>(entry, "the grant of a gate")));
  }
  std::ranges::sort(grants, std::greater{}, &GateGrantInfo::number);
  co_return grants;
}

}  // namespace

namespace detail {

GateHolderInfo info_of(std::string key, const GateHolder& holder) {
  const GateRequest& request = *holder.request;
  GateHolderInfo info;
  info.holder = request.asker->holder;
  info.key = std::move(key);
  info.fence = holder.fence;
  info.weight = request.weight;
  info.shared = request.shared;
  info.slots = holder.slots;
  info.asked_at = holder.asked_at;
  info.granted_at = holder.granted_at;
  info.reason = request.reason;
  info.tie = shown_tie(tie_of(request.asker->lease_key));
  if (!request.asker->actors.empty()) {
    info.actor = known_everywhere(request.asker->actors.front());
  }
  return info;
}

}  // namespace detail

Task<std::optional<GateInfo>> inspect_gate(Store& store, std::string_view name,
                                           std::size_t waiters_max) {
  return inspect(store, detail::GateKeys(name), waiters_max);
}

Task<std::vector<GateGrantInfo>> gate_history(Store& store, std::string_view name) {
  return history_of(store, detail::GateKeys(name));
}

std::string_view to_string(GateGrantInfo::End end) noexcept {
  switch (end) {
    case GateGrantInfo::End::kReleased:
      return "released";
    case GateGrantInfo::End::kExpired:
      return "expired";
    case GateGrantInfo::End::kAbandoned:
      return "abandoned";
    case GateGrantInfo::End::kForced:
      return "forced";
    case GateGrantInfo::End::kUnknown:
      break;
  }
  return "unknown";
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
