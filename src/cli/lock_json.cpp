// SPDX-License-Identifier: Apache-2.0
#include "lock_json.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "escape.hpp"
#include "lock_facts.hpp"
#include "party.hpp"

namespace holdfast::cli {

namespace {

std::string json_numbers(const std::vector<std::uint64_t>& numbers) {
  std::vector<std::string> values;
  values.reserve(numbers.size());
  for (const std::uint64_t number : numbers) {
    values.push_back(std::to_string(number));
  }
  return json_array(values);
}

std::string json_rate(const GateDefinition& definition) {
  return definition.rate_count == 0 ? "null"
                                    : json_object({{"count", std::to_string(definition.rate_count)},
                                                   {"period_ms", json_ms(definition.rate_period)}});
}

/// Null: it is none.
std::string json_run(const Party& party) {
  return !party.is_run()
             ? "null"
             : json_object({{"id", json_string(party.name)},
                            {"uid", json_string(party.uid)},
                            {"type", party.type.empty() ? "null" : json_string(party.type)}});
}

}  // namespace

std::string json_ms(Duration duration) {
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

std::string json_bool(bool value) { return value ? "true" : "false"; }

std::string json_holder(const Locks& locks, const GateHolderInfo& holder) {
  const StoreTime now = locks.now;
  const Party party = party_of(locks, holder);
  return json_object(
      {{"holder", json_string(holder.holder)},
       {"kind", json_string(word_of(party))},
       {"run", json_run(party)},
       {"fence", std::to_string(holder.fence)},
       {"weight", std::to_string(holder.weight)},
       {"shared", json_bool(holder.shared)},
       {"slots", json_numbers(holder.slots)},
       {"waited_ms", json_ms(holder.granted_at - holder.asked_at)},
       {"held_ms", json_ms(now - holder.granted_at)},
       {"expires_in_ms", holder.expires_at ? json_ms(*holder.expires_at - now) : "null"},
       {"reason", json_string(holder.reason)}});
}

std::string json_waiter(const Locks& locks, const GateWaiterInfo& waiter) {
  const StoreTime now = locks.now;
  const Party party = party_of(locks, waiter);
  return json_object(
      {{"holder", json_string(waiter.holder)},
       {"kind", json_string(word_of(party))},
       {"run", json_run(party)},
       {"weight", std::to_string(waiter.weight)},
       {"shared", json_bool(waiter.shared)},
       {"priority", std::to_string(waiter.priority)},
       {"waited_ms", json_ms(now - waiter.asked_at)},
       {"gives_up_in_ms", waiter.deadline ? json_ms(*waiter.deadline - now) : "null"},
       {"why", json_string(word_of(waiter.why.kind))},
       {"why_text", json_string(to_string(waiter.why))},
       {"why_until_ms", waiter.why.until ? json_ms(*waiter.why.until - now) : "null"},
       {"reason", json_string(waiter.reason)}});
}

std::string json_lock(const Locks& locks, const GateInfo& gate) {
  std::vector<std::string> holders;
  holders.reserve(gate.holders.size());
  for (const GateHolderInfo& holder : gate.holders) {
    holders.push_back(json_holder(locks, holder));
  }
  std::vector<std::string> waiters;
  waiters.reserve(gate.waiters.size());
  for (const GateWaiterInfo& waiter : gate.waiters) {
    waiters.push_back(json_waiter(locks, waiter));
  }
  return json_object({{"name", json_string(gate.name)},
                      {"kind", json_string(kind_of(gate))},
                      {"state", json_string(state_of(gate))},
                      {"capacity", std::to_string(gate.capacity)},
                      {"defined_capacity", std::to_string(gate.definition.capacity)},
                      {"overridden", json_bool(is_overridden(gate))},
                      {"disabled_slots", json_numbers(gate.disabled_slots)},
                      {"slot_names", json_strings(gate.definition.slot_names)},
                      {"rate", json_rate(gate.definition)},
                      {"history_kept_ms", json_ms(gate.grants_kept_for)},
                      {"held", std::to_string(held_of(gate))},
                      {"waiting", std::to_string(gate.waiter_count)},
                      {"holders", json_array(holders)},
                      {"waiters", json_array(waiters)}});
}

std::string json_grant(const GateGrantInfo& grant, StoreTime now) {
  const Party party = party_of(grant);
  return json_object({{"what", json_string("hold")},
                      {"number", std::to_string(grant.number)},
                      {"ago_ms", json_ms(now - grant.ended_at)},
                      {"holder", json_string(grant.holder)},
                      {"kind", json_string(word_of(party))},
                      {"run", json_run(party)},
                      {"fence", std::to_string(grant.fence)},
                      {"weight", std::to_string(grant.weight)},
                      {"shared", json_bool(grant.shared)},
                      {"slots", json_numbers(grant.slots)},
                      {"waited_ms", json_ms(grant.granted_at - grant.asked_at)},
                      {"held_ms", json_ms(grant.ended_at - grant.granted_at)},
                      {"end", json_string(to_string(grant.end))},
                      {"ended_by", json_string(grant.ended_by)},
                      {"reason", json_string(grant.reason)}});
}

std::string json_change(const OperatorChangeInfo& change, StoreTime now) {
  return json_object({{"what", json_string("change")},
                      {"number", std::to_string(change.number)},
                      {"ago_ms", json_ms(now - change.at)},
                      {"by", json_string(change.by)},
                      {"change", json_string(change.what)},
                      {"reason", json_string(change.reason)}});
}

}  // namespace holdfast::cli
