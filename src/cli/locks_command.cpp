// SPDX-License-Identifier: Apache-2.0
#include "locks_command.hpp"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <holdfast/executor.hpp>
#include <holdfast/gate_inspection.hpp>
#include <holdfast/gates.hpp>
#include <holdfast/open_store.hpp>
#include <holdfast/spawn.hpp>

#include "duration.hpp"
#include "escape.hpp"
#include "json.hpp"
#include "own_store.hpp"
#include "table.hpp"

namespace holdfast::cli {

namespace {

struct Locks {
  StoreTime now{};
  std::vector<GateInfo> gates;
};

Task<Locks> read_locks(Store& store, std::string only) {
  Locks locks;
  std::vector<std::string> names;
  if (only.empty()) {
    names = co_await list_gates(store);
  } else {
    names.push_back(std::move(only));
  }
  for (const std::string& name : names) {
    std::optional<GateInfo> info = co_await inspect_gate(store, name);
    if (info) {
      locks.gates.push_back(*std::move(info));
    }
  }
  locks.now = co_await store.time();
  co_return locks;
}

bool is_read_write(const GateInfo& gate) {
  return gate.definition.kind == GateDefinition::Kind::kReadWrite;
}

/// How much of the capacity is held; of a read-write lock, how many hold it.
std::uint64_t held_of(const GateInfo& gate) {
  if (is_read_write(gate)) {
    return gate.holders.size();
  }
  std::uint64_t held = 0;
  for (const GateHolderInfo& holder : gate.holders) {
    held += holder.weight;
  }
  return held;
}

std::string kind_of(const GateInfo& gate) {
  return is_read_write(gate) ? "read-write" : gate.definition.capacity == 1 ? "mutex" : "slots";
}

std::string state_of(const GateInfo& gate) {
  return gate.draining ? "draining" : gate.paused ? "paused" : "open";
}

// --- JSON ----------------------------------------------------------------------------------------

std::string json_ms(Duration duration) {
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

std::string json_bool(bool value) { return value ? "true" : "false"; }

std::string json_holder(const GateHolderInfo& holder, StoreTime now) {
  std::vector<std::string> slots;
  slots.reserve(holder.slots.size());
  for (const std::uint64_t slot : holder.slots) {
    slots.push_back(std::to_string(slot));
  }
  return json_object(
      {{"holder", json_string(holder.holder)},
       {"fence", std::to_string(holder.fence)},
       {"weight", std::to_string(holder.weight)},
       {"shared", json_bool(holder.shared)},
       {"slots", json_array(slots)},
       {"held_ms", json_ms(now - holder.granted_at)},
       {"expires_in_ms", holder.expires_at ? json_ms(*holder.expires_at - now) : "null"},
       {"reason", json_string(holder.reason)}});
}

std::string json_waiter(const GateWaiterInfo& waiter, StoreTime now) {
  return json_object({{"holder", json_string(waiter.holder)},
                      {"weight", std::to_string(waiter.weight)},
                      {"shared", json_bool(waiter.shared)},
                      {"priority", std::to_string(waiter.priority)},
                      {"waited_ms", json_ms(now - waiter.asked_at)},
                      {"reason", json_string(waiter.reason)}});
}

std::string json_lock(const GateInfo& gate, StoreTime now) {
  std::vector<std::string> holders;
  holders.reserve(gate.holders.size());
  for (const GateHolderInfo& holder : gate.holders) {
    holders.push_back(json_holder(holder, now));
  }
  std::vector<std::string> waiters;
  waiters.reserve(gate.waiters.size());
  for (const GateWaiterInfo& waiter : gate.waiters) {
    waiters.push_back(json_waiter(waiter, now));
  }
  return json_object({{"name", json_string(gate.name)},
                      {"kind", json_string(kind_of(gate))},
                      {"state", json_string(state_of(gate))},
                      {"capacity", std::to_string(gate.capacity)},
                      {"held", std::to_string(held_of(gate))},
                      {"waiting", std::to_string(gate.waiter_count)},
                      {"holders", json_array(holders)},
                      {"waiters", json_array(waiters)}});
}

// --- Tables --------------------------------------------------------------------------------------

std::string capacity_of(const GateInfo& gate) {
  return is_read_write(gate) ? fmt::format("1 or {}", gate.capacity)
                             : std::to_string(gate.capacity);
}

void print_list(Terminal& terminal, const Locks& locks) {
  if (locks.gates.empty()) {
    terminal.line("no locks");
    return;
  }
  std::vector<Row> rows{{"NAME", "KIND", "STATE", "CAPACITY", "HELD", "WAITING", "HOLDERS"}};
  for (const GateInfo& gate : locks.gates) {
    std::string holders;
    for (const GateHolderInfo& holder : gate.holders) {
      holders += fmt::format("{}{}", holders.empty() ? "" : ", ", one_line(holder.holder));
    }
    rows.push_back({one_line(gate.name), kind_of(gate), state_of(gate), capacity_of(gate),
                    std::to_string(held_of(gate)), std::to_string(gate.waiter_count), holders});
  }
  print_table(terminal, rows);
}

std::string slots_text(const GateHolderInfo& holder) {
  if (holder.shared) {
    return "shared";
  }
  std::string text;
  for (const std::uint64_t slot : holder.slots) {
    text += fmt::format("{}{}", text.empty() ? "" : ",", slot);
  }
  return text.empty() ? "all" : text;
}

void print_one(Terminal& terminal, const GateInfo& gate, StoreTime now) {
  terminal.line(fmt::format("{}: {}, {}, capacity {}, {} held, {} waiting",
                            terminal.paint(Colour::kBold, one_line(gate.name)), kind_of(gate),
                            state_of(gate), capacity_of(gate), held_of(gate), gate.waiter_count));
  if (!gate.holders.empty()) {
    std::vector<Row> rows{{"HOLDER", "SLOTS", "FENCE", "SINCE", "EXPIRES", "REASON"}};
    for (const GateHolderInfo& holder : gate.holders) {
      const bool live = holder.expires_at && *holder.expires_at > now;
      rows.push_back({one_line(holder.holder), slots_text(holder), std::to_string(holder.fence),
                      duration_text(now - holder.granted_at),
                      live ? fmt::format("in {}", duration_text(*holder.expires_at - now)) : "over",
                      one_line(holder.reason)});
    }
    print_table(terminal, rows, "  ");
  }
  if (!gate.waiters.empty()) {
    std::vector<Row> rows{{"WAITER", "WEIGHT", "PRIORITY", "SINCE", "REASON"}};
    for (const GateWaiterInfo& waiter : gate.waiters) {
      rows.push_back({one_line(waiter.holder),
                      waiter.shared ? "shared" : std::to_string(waiter.weight),
                      std::to_string(waiter.priority), duration_text(now - waiter.asked_at),
                      one_line(waiter.reason)});
    }
    print_table(terminal, rows, "  ");
  }
}

/// Nothing if it is the user's own store, and nothing was ever locked there.
std::unique_ptr<Store> store_of(const LocksArgs& args) {
  if (!args.url.empty()) {
    return open_existing_store(args.url);
  }
  std::error_code error;
  return std::filesystem::exists(own_store_path(), error) || error
             ? open_existing_store(own_store_url(false))
             : nullptr;
}

}  // namespace

ExitCode run_locks_command(Terminal& terminal, const LocksArgs& args) {
  Locks locks;
  std::string url = args.url;
  if (const auto store = store_of(args)) {
    ThreadPool pool(1, store->clock());
    locks = sync_wait(pool, read_locks(*store, args.name));
    url = store->url();
  }
  const bool one = !args.name.empty();
  if (one && locks.gates.empty()) {
    fmt::print(stderr, "holdfast: there is no lock '{}': it was never used\n", one_line(args.name));
    return kNoStore;
  }
  std::vector<std::string> objects;
  objects.reserve(locks.gates.size());
  for (const GateInfo& gate : locks.gates) {
    objects.push_back(json_lock(gate, locks.now));
  }
  if (args.output == Output::kJsonLines || (one && args.output == Output::kJson)) {
    for (const std::string& object : objects) {
      terminal.line(object);
    }
  } else if (args.output == Output::kJson) {
    terminal.line(
        json_object({{"store", json_string(redacted_url(url))}, {"locks", json_array(objects)}}));
  } else if (one) {
    print_one(terminal, locks.gates.front(), locks.now);
  } else {
    print_list(terminal, locks);
  }
  return kOk;
}

}  // namespace holdfast::cli
