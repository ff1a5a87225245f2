// SPDX-License-Identifier: Apache-2.0
#include "explain_party.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "duration.hpp"
#include "escape.hpp"
#include "explain_text.hpp"
#include "lock_json.hpp"
#include "party.hpp"
#include "run_facts.hpp"
#include "wait_chain.hpp"
#include "waits.hpp"

namespace holdfast::cli {

namespace {

/// A process is known by its name, a run by its uid.
struct Explained {
  std::string name;
  std::string uid;  ///< Empty: it is no run.

  template <typename Info>
  [[nodiscard]] bool is(const Info& info) const {
    const std::string other = run_uid_of(info);
    return uid.empty() ? other.empty() && info.holder == name : other == uid;
  }
};

struct Held {
  const GateInfo* gate;
  const GateHolderInfo* hold;
};

std::vector<Held> holds_of(const Locks& locks, const Explained& who) {
  std::vector<Held> holds;
  for (const GateInfo& gate : locks.gates) {
    for (const GateHolderInfo& holder : gate.holders) {
      if (who.is(holder)) {
        holds.push_back({&gate, &holder});
      }
    }
  }
  return holds;
}

/// Its own; of a process, also those of commands below it.
std::vector<Wait> waits_by(const Locks& locks, const Explained& who) {
  std::vector<Wait> waits = all_waits(locks);
  std::erase_if(waits, [&](const Wait& wait) { return !who.is(*wait.waiter); });
  if (!who.uid.empty()) {
    return waits;
  }
  for (const Held& held : holds_of(locks, who)) {
    for (const Wait& wait : waits_of(locks, *held.hold)) {
      if (std::ranges::find(waits, wait.waiter, &Wait::waiter) == waits.end()) {
        waits.push_back(wait);
      }
    }
  }
  return waits;
}

std::string behind_text(const Locks& locks, const Wait& wait) {
  if (wait.position == 0) {
    return "it is the first in line";
  }
  return fmt::format(
      "before it {}, {} last",
      wait.position == 1 ? std::string("waits 1") : fmt::format("wait {}", wait.position),
      full_name(party_of(locks, wait.gate->waiters[wait.position - 1])));
}

void tell_of_wait(Sentences& all, const Locks& locks, const Wait& wait, const std::string& who,
                  const std::string& by) {
  all.push_back(fmt::format("{} waits for '{}'{} for {}: {}; {}{}", who, one_line(wait.gate->name),
                            by, duration_text(locks.now - wait.waiter->asked_at),
                            why_text(wait.waiter->why, locks.now), behind_text(locks, wait),
                            reason_text(wait.waiter->reason)));
  all.push_back(fmt::format("it gets in {}", outlook_text(locks, wait)));
}

void tell_of_holds(Sentences& all, const Locks& locks, const Explained& explained,
                   const std::string& who) {
  const std::vector<Held> holds = holds_of(locks, explained);
  for (const Held& held : holds) {
    all.push_back(fmt::format("{} has '{}' {}", who, one_line(held.gate->name),
                              hold_text(*held.hold, locks.now)));
  }
  if (holds.empty()) {
    all.push_back(who + " holds no lock");
  }
}

std::string json_held(const Locks& locks, const Explained& who) {
  std::vector<std::string> holds;
  for (const Held& held : holds_of(locks, who)) {
    holds.push_back(json_object(
        {{"lock", json_string(held.gate->name)}, {"hold", json_holder(locks, *held.hold)}}));
  }
  return json_array(holds);
}

std::string json_waited_for(const Locks& locks, const Explained& who) {
  std::vector<std::string> waits;
  for (const Wait& wait : waits_by(locks, who)) {
    std::vector<std::string> before;
    before.reserve(wait.position);
    for (std::size_t i = 0; i < wait.position; ++i) {
      before.push_back(wait.gate->waiters[i].holder);
    }
    waits.push_back(json_object({{"lock", json_string(wait.gate->name)},
                                 {"wait", json_waiter(locks, *wait.waiter)},
                                 {"held_by", json_strings(names_of_holders(*wait.gate))},
                                 {"behind", json_strings(before)}}));
  }
  return json_array(waits);
}

/// What the queues that were read say of the waits of a run, and what its journal says.
void tell_of_deeds(Sentences& all, const Locks& locks, const RunInspection& run,
                   const Explained& explained) {
  const std::vector<Wait> waits = waits_by(locks, explained);
  for (const RunDeed& deed : deeds_of(run, locks.now)) {
    const bool is_lock = deed.wait != nullptr && deed.wait->kind == RunWaitInfo::Kind::kLock;
    const auto wait = std::ranges::find_if(
        waits, [&](const Wait& one) { return is_lock && one.gate->name == deed.wait->name; });
    if (wait != waits.end()) {
      tell_of_wait(all, locks, *wait, "it", "");
    } else {
      all.push_back("it " + deed.text);
    }
  }
}

}  // namespace

Task<void> explain_process(Terminal& terminal, const ExplainArgs& args, Store& store,
                           const Locks& locks, std::string name) {
  const Explained explained{.name = name, .uid = {}};
  const std::string who = one_line(name);
  Sentences all;
  tell_of_holds(all, locks, explained, who);
  const std::vector<Wait> waits = waits_by(locks, explained);
  if (waits.empty()) {
    all.push_back(who + " waits for no lock");
  }
  WaitChain chain(store, locks, all);
  for (const Wait& wait : waits) {
    const bool as_other = wait.waiter->holder != name;
    tell_of_wait(all, locks, wait, who,
                 as_other ? fmt::format(" by its command {}", one_line(wait.waiter->holder)) : "");
    co_await chain.follow_lock(*wait.gate);
  }
  if (!args.json) {
    print_sentences(terminal, all);
    co_return;
  }
  terminal.line(json_object({{"kind", json_string("holder")},
                             {"holder", json_string(name)},
                             {"holds", json_held(locks, explained)},
                             {"waits", json_waited_for(locks, explained)},
                             {"text", json_strings(all)}}));
}

Task<void> explain_run(Terminal& terminal, const ExplainArgs& args, Store& store,
                       const Locks& locks, RunInspection run) {
  const Explained explained{.name = run.run.id, .uid = run.run.uid};
  Sentences all{fmt::format("{}: {}", full_name(run.run), summary_of(run, locks.now))};
  if (!run.run.ended_at) {
    all.push_back(driver_text(run));
    tell_of_holds(all, locks, explained, "it");
    tell_of_deeds(all, locks, run, explained);
    WaitChain chain(store, locks, all);
    co_await chain.follow_run(run);
  }
  if (!args.json) {
    print_sentences(terminal, all);
    co_return;
  }
  terminal.line(json_object({{"kind", json_string("run")},
                             {"run", json_run(run, locks.now)},
                             {"holds", json_held(locks, explained)},
                             {"waits", json_waited_for(locks, explained)},
                             {"text", json_strings(all)}}));
}

}  // namespace holdfast::cli
