// SPDX-License-Identifier: Apache-2.0
#include "locks_change.hpp"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>
#include <holdfast/gate_control.hpp>
#include <holdfast/gate_inspection.hpp>

#include "duration.hpp"
#include "escape.hpp"
#include "host_name.hpp"
#include "lock_facts.hpp"
#include "lock_json.hpp"
#include "lock_page.hpp"
#include "party.hpp"
#include "table.hpp"

namespace holdfast::cli {

namespace {

/// "ada@db1".
std::string this_user() {
  const passwd* user = getpwuid(getuid());  // NOLINT(concurrency-mt-unsafe): one thread asks.
  const std::string name = user == nullptr ? std::to_string(getuid()) : user->pw_name;
  return fmt::format("{}@{}", name, host_name());
}

// --- Release -------------------------------------------------------------------------------------

std::vector<GateHolderInfo> chosen_holds(const LocksArgs& args, const GateInfo& gate) {
  const auto that = [&](auto fits) {
    std::vector<GateHolderInfo> chosen;
    std::ranges::copy_if(gate.holders, std::back_inserter(chosen), fits);
    return chosen;
  };
  if (args.fence) {
    return that([&](const GateHolderInfo& one) { return one.fence == *args.fence; });
  }
  auto exact = that([&](const GateHolderInfo& one) { return one.holder == args.holder; });
  return !exact.empty() ? exact : that([&](const GateHolderInfo& one) {
    return one.holder.find(args.holder) != std::string::npos;
  });
}

/// "with the fence 7", "of 'sh'", or nothing.
std::string choice_text(const LocksArgs& args) {
  return args.fence            ? fmt::format(" with the fence {}", *args.fence)
         : args.holder.empty() ? ""
                               : fmt::format(" by '{}'", one_line(args.holder));
}

/// On standard error, whatever the form of the output is.
void print_holds(const Locks& locks, std::vector<GateHolderInfo> holds) {
  GateInfo only = locks.gates.front();
  only.holders = std::move(holds);
  for (const std::string& line : table_lines(holder_rows(locks, only), "  ")) {
    fmt::print(stderr, "{}\n", line);
  }
}

/// What becomes of whoever has it.
std::string_view consequence_for(const Party& party) {
  return party.is_run() ? "The run is not asked: what it has in hand is not committed, its next "
                          "operation is a "
                          "StaleFence, and others get the lock."
                        : "Its holder is not asked, and others get the lock.";
}

bool agreed() {
  fmt::print(stderr, "Release it? [y/N] ");
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

/// Nothing: it may be done.
std::optional<ExitCode> objection(const LocksArgs& args, const Locks& locks,
                                  const std::vector<GateHolderInfo>& holds) {
  const std::string name = one_line(args.name);
  if (holds.empty()) {
    fmt::print(stderr, "holdfast: '{}' is not held{}\n", name, choice_text(args));
    return kNoStore;
  }
  if (holds.size() > 1) {
    fmt::print(stderr, "holdfast: '{}' is held{} {} times; choose one with '--fence N'\n", name,
               choice_text(args), holds.size());
    print_holds(locks, holds);
    return kUsage;
  }
  if (args.yes) {
    return std::nullopt;
  }
  fmt::print(stderr, "'{}' is held by\n", name);
  print_holds(locks, holds);
  fmt::print(stderr, "{}\n", consequence_for(party_of(locks, holds.front())));
  if (isatty(STDIN_FILENO) != 1) {
    fmt::print(stderr, "holdfast: there is no terminal to ask on; write '--yes' to release it\n");
    return kUsage;
  }
  if (!agreed()) {
    fmt::print(stderr, "holdfast: nothing was changed\n");
    return kCheckFailed;
  }
  return std::nullopt;
}

// --- The other changes ---------------------------------------------------------------------------

/// By its name, or its number.
std::uint64_t slot_of(const LocksArgs& args, const GateInfo& gate) {
  const auto& names = gate.definition.slot_names;
  const auto named = std::ranges::find(names, args.slot);
  if (named != names.end()) {
    return static_cast<std::uint64_t>(named - names.begin());
  }
  std::uint64_t number = 0;
  const char* const end = args.slot.data() + args.slot.size();
  const auto [rest, error] = std::from_chars(args.slot.data(), end, number);
  if (error != std::errc{} || rest != end) {
    throw UsageError(fmt::format("'{}' is no slot of '{}'; write {}its number, from 0", args.slot,
                                 args.name, names.empty() ? "" : "its name, or "));
  }
  return number;
}

Task<void> set_both(GateControl& control, const LocksArgs& args, OperatorNote note) {
  if (args.sets_capacity) {
    co_await control.set_capacity(args.name, args.capacity, note);
  }
  if (args.sets_history) {
    co_await control.keep_grants_for(args.name, args.keep_history, note);
  }
}

Task<void> change(GateControl& control, const LocksArgs& args, const GateInfo& gate,
                  const OperatorNote& note) {
  switch (args.action) {
    case LocksAction::kPause:
      return control.pause(args.name, note);
    case LocksAction::kDrain:
      return control.drain(args.name, note);
    case LocksAction::kResume:
      return control.resume(args.name, note);
    case LocksAction::kDisableSlot:
      return control.disable_slot(args.name, slot_of(args, gate), note);
    case LocksAction::kEnableSlot:
      return control.enable_slot(args.name, slot_of(args, gate), note);
    default:
      return set_both(control, args, note);
  }
}

}  // namespace

Task<ExitCode> release_lock(Terminal& terminal, const LocksArgs& args, Store& store) {
  GateControl control(store);
  Locks locks = co_await read_lock(store, args.name);
  if (locks.gates.empty()) {
    const ExitCode code = co_await tell_no_such_lock(&store, args.name);
    co_return code;
  }
  const std::vector<GateHolderInfo> holds = chosen_holds(args, locks.gates.front());
  const std::optional<ExitCode> no = objection(args, locks, holds);
  if (no) {
    co_return *no;
  }
  const std::string by = args.by.empty() ? this_user() : args.by;
  const OperatorNote note{.by = by, .reason = args.reason};
  const std::optional<GateHolderInfo> ended =
      co_await control.force_release(args.name, holds.front().fence, note);
  if (!ended) {
    fmt::print(stderr, "holdfast: the hold with the fence {} was over already\n",
               holds.front().fence);
    co_return kNoStore;
  }
  locks.now = co_await store.time();
  if (args.output != Output::kTable) {
    terminal.line(
        json_object({{"name", json_string(args.name)}, {"released", json_holder(locks, *ended)}}));
    co_return kOk;
  }
  terminal.line(fmt::format("released '{}': {} had it with fence {} for {}", one_line(args.name),
                            full_name(party_of(locks, *ended)), ended->fence,
                            duration_text(locks.now - ended->granted_at)));
  co_return kOk;
}

Task<ExitCode> change_lock(Terminal& terminal, const LocksArgs& args, Store& store) {
  GateControl control(store);
  const std::optional<GateInfo> gate = co_await inspect_gate(store, args.name);
  if (!gate) {
    const ExitCode code = co_await tell_no_such_lock(&store, args.name);
    co_return code;
  }
  const std::string by = args.by.empty() ? this_user() : args.by;
  const OperatorNote note{.by = by, .reason = args.reason};
  co_await change(control, args, *gate, note);
  const Locks locks = co_await read_lock(store, args.name);
  const GateInfo& changed = locks.gates.at(0);
  terminal.line(args.output == Output::kTable
                    ? fmt::format("{}: {}", one_line(args.name), summary_of(changed))
                    : json_lock(locks, changed));
  co_return kOk;
}

}  // namespace holdfast::cli
