// SPDX-License-Identifier: Apache-2.0
#include "lock_facts.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/core.h>
#include <holdfast/open_store.hpp>
#include <holdfast/run_inspection.hpp>

#include "duration.hpp"
#include "escape.hpp"
#include "own_store.hpp"
#include "suggest.hpp"

namespace holdfast::cli {

namespace {

std::string slot_name(const GateInfo& gate, std::uint64_t slot) {
  const auto& names = gate.definition.slot_names;
  return slot < names.size() ? one_line(names[slot]) : std::to_string(slot);
}

/// Without what operators did to the capacity itself.
std::uint64_t defined_capacity(const GateInfo& gate) noexcept {
  const std::uint64_t capacity = gate.definition.capacity;
  const auto off = std::ranges::count_if(gate.disabled_slots,
                                         [&](std::uint64_t slot) { return slot < capacity; });
  return capacity - static_cast<std::uint64_t>(off);
}

/// The ids of runs that hold a lock or wait, by their uids.
std::map<std::string, std::string> ids_of_runs(const std::vector<GateInfo>& gates) {
  std::map<std::string, std::string> ids;
  for (const GateInfo& gate : gates) {
    for (const GateHolderInfo& holder : gate.holders) {
      ids.emplace(run_uid_of(holder), holder.holder);
    }
    for (const GateWaiterInfo& waiter : gate.waiters) {
      ids.emplace(run_uid_of(waiter), waiter.holder);
    }
  }
  ids.erase("");  // Who is no run.
  return ids;
}

/// One that has ended meanwhile may have lost its id to another.
Task<Runs> read_runs(Store& store, const std::vector<GateInfo>& gates, Runs known) {
  Runs runs;
  for (const auto& [uid, id] : ids_of_runs(gates)) {
    if (auto found = known.extract(uid)) {
      runs.insert(std::move(found));
      continue;
    }
    std::optional<RunInfo> run = co_await find_run(store, id);
    if (run && run->uid == uid) {
      runs.emplace(uid, *std::move(run));
    }
  }
  co_return runs;
}

}  // namespace

Task<Locks> read_locks(Store& store, Runs known) {
  Locks locks;
  const std::vector<std::string> names = co_await list_gates(store);
  for (const std::string& name : names) {
    std::optional<GateInfo> info = co_await inspect_gate(store, name);
    if (info) {
      locks.gates.push_back(*std::move(info));
    }
  }
  locks.runs = co_await read_runs(store, locks.gates, std::move(known));
  locks.now = co_await store.time();
  co_return locks;
}

Task<Locks> read_lock(Store& store, std::string name) {
  Locks locks;
  std::optional<GateInfo> info = co_await inspect_gate(store, name);
  if (info) {
    locks.gates.push_back(*std::move(info));
  }
  locks.runs = co_await read_runs(store, locks.gates, {});
  locks.now = co_await store.time();
  co_return locks;
}

std::unique_ptr<Store> existing_store(const std::string& url) {
  if (!url.empty()) {
    return open_existing_store(url);
  }
  std::error_code error;
  return std::filesystem::exists(own_store_path(), error) || error
             ? open_existing_store(own_store_url(false))
             : nullptr;
}

Task<ExitCode> tell_no_such_lock(Store* store, std::string name) {
  std::vector<std::string> names;
  if (store != nullptr) {
    names = co_await list_gates(*store);
  }
  fmt::print(stderr, "holdfast: there is no lock '{}': it was never used{}\n", one_line(name),
             one_line(did_you_mean(name, names)));
  co_return kNoStore;
}

bool is_read_write(const GateInfo& gate) noexcept {
  return gate.definition.kind == GateDefinition::Kind::kReadWrite;
}

std::uint64_t held_of(const GateInfo& gate) noexcept {
  if (is_read_write(gate)) {
    return gate.holders.size();
  }
  std::uint64_t held = 0;
  for (const GateHolderInfo& holder : gate.holders) {
    held += holder.weight;
  }
  return held;
}

std::string_view kind_of(const GateInfo& gate) noexcept {
  return is_read_write(gate) ? "read-write" : gate.definition.capacity == 1 ? "mutex" : "slots";
}

std::string_view state_of(const GateInfo& gate) noexcept {
  return gate.draining ? "draining" : gate.paused ? "paused" : "open";
}

bool is_overridden(const GateInfo& gate) noexcept {
  return gate.capacity != defined_capacity(gate);
}

std::string_view word_of(WhyNot::Kind kind) noexcept {
  switch (kind) {
    case WhyNot::Kind::kFull:
      return "full";
    case WhyNot::Kind::kHeld:
      return "held";
    case WhyNot::Kind::kBehind:
      return "behind";
    case WhyNot::Kind::kRate:
      return "rate";
    case WhyNot::Kind::kPaused:
      return "paused";
    case WhyNot::Kind::kDraining:
      return "draining";
    case WhyNot::Kind::kTooHeavy:
      return "too_heavy";
    case WhyNot::Kind::kNext:
      return "next";
  }
  return "unknown";
}

std::string capacity_text(const GateInfo& gate) {
  std::string text =
      is_read_write(gate) ? fmt::format("1 or {}", gate.capacity) : std::to_string(gate.capacity);
  std::string notes;
  if (is_overridden(gate)) {
    notes = fmt::format("defined {}", gate.definition.capacity);
  }
  for (const std::uint64_t slot : gate.disabled_slots) {
    notes += fmt::format("{}slot {} off", notes.empty() ? "" : ", ", slot_name(gate, slot));
  }
  return notes.empty() ? text : text.append(" (").append(notes).append(")");
}

std::string slots_text(const GateInfo& gate, const GateHolderInfo& holder) {
  if (holder.shared) {
    return "shared";
  }
  std::string text;
  for (const std::uint64_t slot : holder.slots) {
    text += fmt::format("{}{}", text.empty() ? "" : ",", slot_name(gate, slot));
  }
  return text.empty() ? "all" : text;
}

std::string why_text(const WhyNot& why, StoreTime now) {
  std::string text = to_string(why);
  if (why.until && *why.until > now) {
    text += fmt::format("; the next one may go in after {}", duration_text(*why.until - now));
  }
  return text;
}

std::string summary_of(const GateInfo& gate) {
  return fmt::format("{}, {}, capacity {}, {} held, {} waiting", kind_of(gate), state_of(gate),
                     capacity_text(gate), held_of(gate), gate.waiter_count);
}

}  // namespace holdfast::cli
