// SPDX-License-Identifier: Apache-2.0
#include "gate_payloads.hpp"

#include <boost/json/value_from.hpp>
#include <boost/json/value_to.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::detail {

namespace {

using boost::json::array;
using boost::json::object;
using boost::json::value;
using boost::json::value_from;
using boost::json::value_to;

using Numbers = std::vector<std::uint64_t>;

value value_of(StoreTime time) { return time.time_since_epoch().count(); }
value value_of(const std::optional<StoreTime>& time) { return time ? value_of(*time) : nullptr; }

StoreTime time_in(const value& at) { return StoreTime(Duration(at.to_number<std::int64_t>())); }
std::optional<StoreTime> time_if_any(const value& at) {
  return at.is_null() ? std::nullopt : std::optional(time_in(at));
}
template <typename T>
T member(const object& of, const char* name) {
  return value_to<T>(of.at(name));
}

value value_of(const WhyNot& why) {
  return object{{"kind", static_cast<int>(why.kind)},
                {"wanted", why.wanted},
                {"free", why.free},
                {"until", value_of(why.until)}};
}
WhyNot why_in(const value& from) {
  const object& why = from.as_object();
  return {static_cast<WhyNot::Kind>(member<int>(why, "kind")), member<std::uint64_t>(why, "wanted"),
          member<std::uint64_t>(why, "free"), time_if_any(why.at("until"))};
}

value value_of(const GateDefinition& definition) {
  return object{{"kind", static_cast<int>(definition.kind)},
                {"capacity", definition.capacity},
                {"slot_names", value_from(definition.slot_names)},
                {"rate_count", definition.rate_count},
                {"rate_period", definition.rate_period.count()}};
}
GateDefinition definition_in(const value& from) {
  const object& of = from.as_object();
  GateDefinition definition;
  definition.kind = static_cast<GateDefinition::Kind>(member<int>(of, "kind"));
  definition.capacity = member<std::uint64_t>(of, "capacity");
  definition.slot_names = member<std::vector<std::string>>(of, "slot_names");
  definition.rate_count = member<std::uint64_t>(of, "rate_count");
  definition.rate_period = Duration(member<std::int64_t>(of, "rate_period"));
  return definition;
}

value value_of(const GateHolderInfo& holder) {
  return object{{"holder", holder.holder},
                {"key", holder.key},
                {"fence", holder.fence},
                {"weight", holder.weight},
                {"shared", holder.shared},
                {"slots", value_from(holder.slots)},
                {"asked_at", value_of(holder.asked_at)},
                {"granted_at", value_of(holder.granted_at)},
                {"reason", holder.reason},
                {"expires_at", value_of(holder.expires_at)},
                {"tie", static_cast<int>(holder.tie)},
                {"actor", holder.actor}};
}
GateHolderInfo holder_in(const value& from) {
  const object& of = from.as_object();
  GateHolderInfo holder;
  holder.holder = member<std::string>(of, "holder");
  holder.key = member<std::string>(of, "key");
  holder.fence = member<std::uint64_t>(of, "fence");
  holder.weight = member<std::uint64_t>(of, "weight");
  holder.shared = member<bool>(of, "shared");
  holder.slots = member<Numbers>(of, "slots");
  holder.asked_at = time_in(of.at("asked_at"));
  holder.granted_at = time_in(of.at("granted_at"));
  holder.reason = member<std::string>(of, "reason");
  holder.expires_at = time_if_any(of.at("expires_at"));
  holder.tie = static_cast<GateTie>(member<int>(of, "tie"));
  holder.actor = member<std::string>(of, "actor");
  return holder;
}

value value_of(const GateWaiterInfo& waiter) {
  return object{{"holder", waiter.holder},
                {"weight", waiter.weight},
                {"shared", waiter.shared},
                {"priority", waiter.priority},
                {"asked_at", value_of(waiter.asked_at)},
                {"deadline", value_of(waiter.deadline)},
                {"reason", waiter.reason},
                {"why", value_of(waiter.why)},
                {"tie", static_cast<int>(waiter.tie)},
                {"actor", waiter.actor},
                {"needed_by", value_from(waiter.needed_by)}};
}
GateWaiterInfo waiter_in(const value& from) {
  const object& of = from.as_object();
  GateWaiterInfo waiter;
  waiter.holder = member<std::string>(of, "holder");
  waiter.weight = member<std::uint64_t>(of, "weight");
  waiter.shared = member<bool>(of, "shared");
  waiter.priority = member<int>(of, "priority");
  waiter.asked_at = time_in(of.at("asked_at"));
  waiter.deadline = time_if_any(of.at("deadline"));
  waiter.reason = member<std::string>(of, "reason");
  waiter.why = why_in(of.at("why"));
  waiter.tie = static_cast<GateTie>(member<int>(of, "tie"));
  waiter.actor = member<std::string>(of, "actor");
  waiter.needed_by = member<std::vector<std::string>>(of, "needed_by");
  return waiter;
}

}  // namespace

value leased_grant_value(const LeasedGrant& grant) {
  return object{{"acquired", grant.acquired},
                {"position", grant.position},
                {"fence", grant.fence},
                {"slots", value_from(grant.slots)},
                {"why", grant.why ? value_of(*grant.why) : value(nullptr)}};
}

LeasedGrant read_leased_grant(const value& from) {
  const object& of = from.as_object();
  LeasedGrant grant;
  grant.acquired = member<bool>(of, "acquired");
  grant.position = member<std::int64_t>(of, "position");
  grant.fence = member<std::uint64_t>(of, "fence");
  grant.slots = member<Numbers>(of, "slots");
  if (!of.at("why").is_null()) {
    grant.why = why_in(of.at("why"));
  }
  return grant;
}

value gate_info_value(const std::optional<GateInfo>& info) {
  if (!info) {
    return nullptr;
  }
  array holders;
  for (const GateHolderInfo& holder : info->holders) {
    holders.push_back(value_of(holder));
  }
  array waiters;
  for (const GateWaiterInfo& waiter : info->waiters) {
    waiters.push_back(value_of(waiter));
  }
  return object{{"name", info->name},
                {"definition", value_of(info->definition)},
                {"capacity", info->capacity},
                {"paused", info->paused},
                {"draining", info->draining},
                {"disabled_slots", value_from(info->disabled_slots)},
                {"grants_kept_for", info->grants_kept_for.count()},
                {"holders", std::move(holders)},
                {"waiters", std::move(waiters)},
                {"waiter_count", info->waiter_count}};
}

std::optional<GateInfo> read_gate_info(const value& from) {
  if (from.is_null()) {
    return std::nullopt;
  }
  const object& of = from.as_object();
  GateInfo info;
  info.name = member<std::string>(of, "name");
  info.definition = definition_in(of.at("definition"));
  info.capacity = member<std::uint64_t>(of, "capacity");
  info.paused = member<bool>(of, "paused");
  info.draining = member<bool>(of, "draining");
  info.disabled_slots = member<Numbers>(of, "disabled_slots");
  info.grants_kept_for = Duration(member<std::int64_t>(of, "grants_kept_for"));
  for (const value& holder : of.at("holders").as_array()) {
    info.holders.push_back(holder_in(holder));
  }
  for (const value& waiter : of.at("waiters").as_array()) {
    info.waiters.push_back(waiter_in(waiter));
  }
  info.waiter_count = member<std::uint64_t>(of, "waiter_count");
  return info;
}

}  // namespace holdfast::detail
