// SPDX-License-Identifier: Apache-2.0
#include <holdfast/gate_control.hpp>

#include <algorithm>
#include <functional>
#include <utility>

#include "gate_inspection.hpp"
#include "gate_keys.hpp"
#include "gate_ledger.hpp"
#include "gate_rows.hpp"
#include "gate_rules.hpp"

namespace holdfast {

namespace {

using detail::GateRows;

/// Changes the rows; what it did, in words, or nothing if that was so already.
using Edit = std::function<std::optional<std::string>(GateRows&, StoreTime)>;

GateRows::ByOperator checked(const OperatorNote& note) {
  if (note.by.empty() || note.by.size() > kGateNameMax || note.reason.size() > kGateNameMax) {
    throw InvalidArgument("who changes a gate has a name of " + std::to_string(note.by.size()) +
                          " bytes and a reason of " + std::to_string(note.reason.size()) +
                          "; give 1 to " + std::to_string(kGateNameMax) + " and at most " +
                          std::to_string(kGateNameMax));
  }
  return {std::string(note.by), std::string(note.reason)};
}

Task<void> edit_gate(Store& store, detail::GateKeys keys, GateRows::ByOperator by, Edit edit) {
  detail::GateLedger ledger(store, std::move(keys), nullptr);
  const detail::GateLedger::Plan plan = [&](GateRows& rows, detail::KnownLeases& leases,
                                            StoreTime now) {
    if (!rows.exists()) {
      throw NoSuchGate("there is no gate '" + rows.keys().name() + "' in " + store.url());
    }
    std::optional<std::string> what = edit(rows, now);
    if (!what) {
      return detail::Served{};
    }
    rows.note(by, *std::move(what), now);
    return detail::serve(rows, leases, now);
  };
  const detail::GateLedger::Changed changed = co_await ledger.change(plan);
  if (changed.version != 0) {
    co_await store.until_durable(changed.version);
  }
}

Task<std::optional<GateHolderInfo>> put_out(Store& store, detail::GateKeys keys,
                                            GateRows::ByOperator by, std::uint64_t fence) {
  std::optional<GateHolderInfo> ended;
  Edit edit = [&](GateRows& rows, StoreTime now) -> std::optional<std::string> {
    ended.reset();
    const auto holder = std::ranges::find_if(
        rows.holders(), [&](const auto& one) { return one.second.fence == fence; });
    if (holder == rows.holders().end()) {
      return std::nullopt;
    }
    ended = detail::info_of(holder->first, holder->second);
    const std::string lease_key = holder->second.request->asker->lease_key;
    if (lease_key.starts_with(rows.keys().leases())) {
      rows.batch().erase(lease_key);
    }
    const std::string key = holder->first;
    rows.end_by_force(key, by, now);
    std::string what("released ");
    return what.append(ended->holder).append(", fence ").append(std::to_string(fence));
  };
  co_await edit_gate(store, std::move(keys), by, std::move(edit));
  co_return ended;
}

std::string from_to(std::string what, std::uint64_t from, std::uint64_t to) {
  return what.append(" ").append(std::to_string(from)).append(" -> ").append(std::to_string(to));
}

std::uint64_t seconds_of(Duration time) {
  return static_cast<std::uint64_t>(std::chrono::ceil<std::chrono::seconds>(time).count());
}

/// Opens or closes it.
std::optional<std::string> set_flow(GateRows& rows, bool paused, bool draining, const char* what) {
  if (rows.head().paused() == paused && rows.head().draining() == draining) {
    return std::nullopt;
  }
  rows.change_head().set_paused(paused);
  rows.change_head().set_draining(draining);
  return what;
}

/// Without operators' disabling.
std::uint64_t slot_count(const record::GateHead& head) {
  return std::max(head.definition().capacity(), head.capacity_override());
}

void check_slot(const GateRows& rows, std::uint64_t slot) {
  const std::string& name = rows.keys().name();
  if (rows.head().definition().kind() == record::GateDefinition::READ_WRITE) {
    throw InvalidArgument("'" + name + "' has readers and a writer, and no slots");
  }
  if (slot >= slot_count(rows.head())) {
    throw InvalidArgument("'" + name + "' has no slot " + std::to_string(slot) +
                          "; they are 0 to " + std::to_string(slot_count(rows.head()) - 1));
  }
}

std::optional<std::string> switch_slot(GateRows& rows, std::uint64_t slot, bool enabled) {
  check_slot(rows, slot);
  const auto& disabled = rows.head().disabled_slots();
  const bool is_enabled = std::ranges::find(disabled, slot) == disabled.end();
  if (is_enabled == enabled) {
    return std::nullopt;
  }
  auto& changed = *rows.change_head().mutable_disabled_slots();
  if (enabled) {
    changed.erase(std::remove(changed.begin(), changed.end(), slot), changed.end());
  } else {
    changed.Add(slot);
  }
  if (detail::capacity_of(rows.head()) == 0) {
    throw InvalidArgument("slot " + std::to_string(slot) + " is the last one of '" +
                          rows.keys().name() + "'; to let nobody in, pause it or drain it");
  }
  return (enabled ? "slot enabled: " : "slot disabled: ") + std::to_string(slot);
}

}  // namespace

GateControl::GateControl(Store& store) : store_(store) {
  require_capabilities(store, {.atomic = true}, "GateControl");
}

Task<void> GateControl::set_capacity(std::string_view gate, std::optional<std::uint64_t> capacity,
                                     const OperatorNote& note) {
  if (capacity && (*capacity == 0 || *capacity > kGateCapacityMax)) {
    throw InvalidArgument("a capacity of " + std::to_string(*capacity) + " was given to '" +
                          std::string(gate) + "'; give 1 to " + std::to_string(kGateCapacityMax) +
                          ", or pause it");
  }
  Edit edit = [capacity](GateRows& rows, StoreTime) -> std::optional<std::string> {
    const record::GateHead& head = rows.head();
    const std::uint64_t before =
        head.capacity_override() != 0 ? head.capacity_override() : head.definition().capacity();
    const std::uint64_t after = capacity.value_or(head.definition().capacity());
    if (before == after) {
      return std::nullopt;
    }
    rows.change_head().set_capacity_override(capacity.value_or(0));
    if (detail::capacity_of(rows.head()) == 0) {
      throw InvalidArgument("all " + std::to_string(after) + " slots that '" + rows.keys().name() +
                            "' would have are disabled; enable one first");
    }
    return from_to("capacity", before, after);
  };
  return edit_gate(store_, detail::GateKeys(gate), checked(note), std::move(edit));
}

Task<void> GateControl::keep_grants_for(std::string_view gate, std::optional<Duration> time,
                                        const OperatorNote& note) {
  if (time && *time <= Duration::zero()) {
    throw InvalidArgument("the records of '" + std::string(gate) +
                          "' cannot be kept for no time; give more than zero");
  }
  Edit edit = [time](GateRows& rows, StoreTime) -> std::optional<std::string> {
    const Duration before = detail::grants_kept_for(rows.head());
    const Duration after = time.value_or(kGateGrantsKeptFor);
    if (before == after) {
      return std::nullopt;
    }
    rows.change_head().set_grants_kept_ns(after.count());
    return from_to("history kept for seconds", seconds_of(before), seconds_of(after));
  };
  return edit_gate(store_, detail::GateKeys(gate), checked(note), std::move(edit));
}

Task<void> GateControl::pause(std::string_view gate, const OperatorNote& note) {
  Edit edit = [](GateRows& rows, StoreTime) { return set_flow(rows, true, false, "paused"); };
  return edit_gate(store_, detail::GateKeys(gate), checked(note), std::move(edit));
}

Task<void> GateControl::drain(std::string_view gate, const OperatorNote& note) {
  Edit edit = [](GateRows& rows, StoreTime) { return set_flow(rows, false, true, "draining"); };
  return edit_gate(store_, detail::GateKeys(gate), checked(note), std::move(edit));
}

Task<void> GateControl::resume(std::string_view gate, const OperatorNote& note) {
  Edit edit = [](GateRows& rows, StoreTime) { return set_flow(rows, false, false, "resumed"); };
  return edit_gate(store_, detail::GateKeys(gate), checked(note), std::move(edit));
}

Task<void> GateControl::disable_slot(std::string_view gate, std::uint64_t slot,
                                     const OperatorNote& note) {
  Edit edit = [slot](GateRows& rows, StoreTime) { return switch_slot(rows, slot, false); };
  return edit_gate(store_, detail::GateKeys(gate), checked(note), std::move(edit));
}

Task<void> GateControl::enable_slot(std::string_view gate, std::uint64_t slot,
                                    const OperatorNote& note) {
  Edit edit = [slot](GateRows& rows, StoreTime) { return switch_slot(rows, slot, true); };
  return edit_gate(store_, detail::GateKeys(gate), checked(note), std::move(edit));
}

Task<std::optional<GateHolderInfo>> GateControl::force_release(std::string_view gate,
                                                               std::uint64_t fence,
                                                               const OperatorNote& note) {
  return put_out(store_, detail::GateKeys(gate), checked(note), fence);
}

namespace {

Task<std::vector<OperatorChangeInfo>> changes_of(Store& store, detail::GateKeys keys) {
  std::vector<OperatorChangeInfo> changes;
  const std::string prefix = keys.operator_changes();
  const ScanOptions all{.limit = kGateGrantsKept};
  const Page page = co_await store.scan(prefix, all);
  for (const Entry& entry : page.entries) {
    const auto record = detail::parse_gate_record<record::GateOperatorChange>(
        entry, "the operator's change of a gate");
    changes.push_back({record.number(), detail::store_time(record.at_ns()), record.by(),
                       record.reason(), record.what()});
  }
  std::ranges::sort(changes, std::greater{}, &OperatorChangeInfo::number);
  co_return changes;
}

}  // namespace

Task<std::vector<OperatorChangeInfo>> operator_changes(Store& store, std::string_view gate) {
  return changes_of(store, detail::GateKeys(gate));
}

}  // namespace holdfast
