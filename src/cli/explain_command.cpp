// SPDX-License-Identifier: Apache-2.0
#include "explain_command.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <holdfast/executor.hpp>
#include <holdfast/spawn.hpp>

#include "duration.hpp"
#include "escape.hpp"
#include "lock_facts.hpp"
#include "lock_json.hpp"
#include "suggest.hpp"
#include "waits.hpp"

namespace holdfast::cli {

namespace {

using Sentences = std::vector<std::string>;

std::string reason_text(const std::string& reason) {
  return reason.empty() ? std::string{} : fmt::format(", reason: {}", one_line(reason));
}

std::string lease_text(const GateHolderInfo& holder, StoreTime now) {
  if (holder.until_released) {
    return "it has no lease: it ends when it is released";
  }
  if (!holder.expires_at || *holder.expires_at <= now) {
    return "its lease is over: it will be passed over";
  }
  return fmt::format("its lease ends in {} unless it is renewed",
                     duration_text(*holder.expires_at - now));
}

std::string hold_text(const GateHolderInfo& holder, StoreTime now) {
  return fmt::format("for {}, with fence {}{}; {}", duration_text(now - holder.granted_at),
                     holder.fence, reason_text(holder.reason), lease_text(holder, now));
}

std::string outlook_text(const Wait& wait, StoreTime now) {
  const Outlook outlook = outlook_of(wait, now);
  std::string text = outlook.when;
  if (wait.waiter->why.kind == WhyNot::Kind::kNext) {
    return text;
  }
  if (outlook.at_latest) {
    const std::string time = duration_text(*outlook.at_latest - now);
    text += wait.waiter->why.kind == WhyNot::Kind::kRate
                ? fmt::format(", in {}", time)
                : fmt::format("; at the latest in {}, if the lease is not renewed", time);
  }
  if (wait.waiter->deadline) {
    text += fmt::format("; it gives up in {}", duration_text(*wait.waiter->deadline - now));
  }
  return text;
}

// --- The chain -----------------------------------------------------------------------------------

/// Who holds what is waited for, what they wait for in turn, and so on.
class Chain {
 public:
  Chain(const Locks& locks, Sentences& sentences) : locks_(locks), sentences_(sentences) {}

  void follow(const GateInfo& gate, std::size_t depth) {
    constexpr std::size_t kDepthMax = 20;
    if (!seen_.insert(gate.name).second || depth > kDepthMax) {
      return;
    }
    const std::string margin(2 * depth, ' ');
    for (const GateHolderInfo& holder : gate.holders) {
      const std::vector<Wait> waits = waits_of(locks_, holder);
      const std::string who =
          fmt::format("{}'{}' is held by {}", margin, one_line(gate.name), one_line(holder.holder));
      if (waits.empty()) {
        sentences_.push_back(who + ", which waits for no lock");
      }
      for (const Wait& wait : waits) {
        const bool as_other = wait.waiter->holder != holder.holder;
        sentences_.push_back(fmt::format(
            "{}, which waits for '{}'{}{}", who, one_line(wait.gate->name),
            as_other ? fmt::format(" by its command {}", one_line(wait.waiter->holder)) : "",
            seen_.contains(wait.gate->name) ? ": a circle" : ""));
        follow(*wait.gate, depth + 1);
      }
    }
  }

 private:
  const Locks& locks_;
  Sentences& sentences_;
  std::set<std::string> seen_;
};

// --- A lock --------------------------------------------------------------------------------------

Sentences sentences_of(const Locks& locks, const GateInfo& gate) {
  const StoreTime now = locks.now;
  Sentences all{fmt::format("'{}': {}", one_line(gate.name), summary_of(gate))};
  for (const GateHolderInfo& holder : gate.holders) {
    all.push_back(fmt::format("{} has it {}", one_line(holder.holder), hold_text(holder, now)));
  }
  if (gate.holders.empty()) {
    all.emplace_back("nobody has it");
  }
  for (std::size_t i = 0; i < gate.waiters.size(); ++i) {
    const GateWaiterInfo& waiter = gate.waiters[i];
    all.push_back(fmt::format("{}. {} waits for {}: {}{}", i + 1, one_line(waiter.holder),
                              duration_text(now - waiter.asked_at), why_text(waiter.why, now),
                              reason_text(waiter.reason)));
  }
  if (gate.waiter_count > gate.waiters.size()) {
    all.push_back(fmt::format("and {} more", gate.waiter_count - gate.waiters.size()));
  }
  if (!gate.waiters.empty()) {
    all.push_back(fmt::format("the first of them gets in {}",
                              outlook_text({&gate, &gate.waiters.front(), 0}, now)));
    Chain(locks, all).follow(gate, 0);
  }
  return all;
}

std::string json_outlook(const Wait& wait, StoreTime now) {
  const Outlook outlook = outlook_of(wait, now);
  return json_object(
      {{"holder", json_string(wait.waiter->holder)},
       {"when", json_string(outlook.when)},
       {"at_latest_ms", outlook.at_latest ? json_ms(*outlook.at_latest - now) : "null"}});
}

void explain_lock(Terminal& terminal, const ExplainArgs& args, const Locks& locks,
                  const GateInfo& gate) {
  const Sentences sentences = sentences_of(locks, gate);
  if (args.json) {
    terminal.line(
        json_object({{"kind", json_string("lock")},
                     {"lock", json_lock(gate, locks.now)},
                     {"next", gate.waiters.empty()
                                  ? "null"
                                  : json_outlook({&gate, &gate.waiters.front(), 0}, locks.now)},
                     {"text", json_strings(sentences)}}));
    return;
  }
  for (const std::string& sentence : sentences) {
    terminal.line(sentence);
  }
}

// --- A holder ------------------------------------------------------------------------------------

std::vector<std::string> names_of_parties(const Locks& locks) {
  std::set<std::string> names;
  for (const GateInfo& gate : locks.gates) {
    for (const GateHolderInfo& holder : gate.holders) {
      names.insert(holder.holder);
    }
    for (const GateWaiterInfo& waiter : gate.waiters) {
      names.insert(waiter.holder);
    }
  }
  return {names.begin(), names.end()};
}

/// The one, or those of whose names it is a part.
std::vector<std::string> matches(const std::string& what, std::vector<std::string> names) {
  if (std::ranges::find(names, what) != names.end()) {
    return {what};
  }
  std::erase_if(names, [&](const std::string& one) { return one.find(what) == one.npos; });
  return names;
}

std::vector<Wait> waits_by(const Locks& locks, const std::string& name) {
  std::vector<Wait> waits = all_waits(locks);
  std::erase_if(waits, [&](const Wait& wait) { return wait.waiter->holder != name; });
  for (const GateInfo& gate : locks.gates) {
    for (const GateHolderInfo& holder : gate.holders) {
      if (holder.holder != name) {
        continue;
      }
      for (const Wait& wait : waits_of(locks, holder)) {
        if (std::ranges::find(waits, wait.waiter, &Wait::waiter) == waits.end()) {
          waits.push_back(wait);
        }
      }
    }
  }
  return waits;
}

std::string behind_text(const Wait& wait) {
  if (wait.position == 0) {
    return "it is the first in line";
  }
  return fmt::format(
      "before it {}, {} last",
      wait.position == 1 ? std::string("waits 1") : fmt::format("wait {}", wait.position),
      one_line(wait.gate->waiters[wait.position - 1].holder));
}

Sentences sentences_of(const Locks& locks, const std::string& name) {
  const StoreTime now = locks.now;
  const std::string who = one_line(name);
  Sentences all;
  for (const GateInfo& gate : locks.gates) {
    for (const GateHolderInfo& holder : gate.holders) {
      if (holder.holder == name) {
        all.push_back(
            fmt::format("{} has '{}' {}", who, one_line(gate.name), hold_text(holder, now)));
      }
    }
  }
  if (all.empty()) {
    all.push_back(who + " holds no lock");
  }
  const std::vector<Wait> waits = waits_by(locks, name);
  if (waits.empty()) {
    all.push_back(who + " waits for no lock");
  }
  Chain chain(locks, all);
  for (const Wait& wait : waits) {
    const bool as_other = wait.waiter->holder != name;
    all.push_back(fmt::format(
        "{} waits for '{}'{} for {}: {}; {}", who, one_line(wait.gate->name),
        as_other ? fmt::format(" by its command {}", one_line(wait.waiter->holder)) : "",
        duration_text(now - wait.waiter->asked_at), why_text(wait.waiter->why, now),
        behind_text(wait)));
    all.push_back(fmt::format("it gets in {}", outlook_text(wait, now)));
    chain.follow(*wait.gate, 0);
  }
  return all;
}

std::string json_held(const Locks& locks, const std::string& name) {
  std::vector<std::string> holds;
  for (const GateInfo& gate : locks.gates) {
    for (const GateHolderInfo& holder : gate.holders) {
      if (holder.holder == name) {
        holds.push_back(json_object(
            {{"lock", json_string(gate.name)}, {"hold", json_holder(holder, locks.now)}}));
      }
    }
  }
  return json_array(holds);
}

std::string json_waited_for(const Locks& locks, const std::string& name) {
  std::vector<std::string> waits;
  for (const Wait& wait : waits_by(locks, name)) {
    std::vector<std::string> before;
    before.reserve(wait.position);
    for (std::size_t i = 0; i < wait.position; ++i) {
      before.push_back(wait.gate->waiters[i].holder);
    }
    waits.push_back(json_object({{"lock", json_string(wait.gate->name)},
                                 {"wait", json_waiter(*wait.waiter, locks.now)},
                                 {"held_by", json_strings(names_of_holders(*wait.gate))},
                                 {"behind", json_strings(before)}}));
  }
  return json_array(waits);
}

void explain_holder(Terminal& terminal, const ExplainArgs& args, const Locks& locks,
                    const std::string& name) {
  const Sentences sentences = sentences_of(locks, name);
  if (args.json) {
    terminal.line(json_object({{"kind", json_string("holder")},
                               {"holder", json_string(name)},
                               {"holds", json_held(locks, name)},
                               {"waits", json_waited_for(locks, name)},
                               {"text", json_strings(sentences)}}));
    return;
  }
  for (const std::string& sentence : sentences) {
    terminal.line(sentence);
  }
}

ExitCode tell_unknown(const ExplainArgs& args, const Locks& locks,
                      std::vector<std::string> parties) {
  for (const GateInfo& gate : locks.gates) {
    parties.push_back(gate.name);
  }
  fmt::print(stderr,
             "holdfast: there is no lock '{0}', and nobody of that name holds one or waits{1}\n",
             one_line(args.what), one_line(did_you_mean(args.what, parties)));
  return kNoStore;
}

}  // namespace

ExitCode run_explain_command(Terminal& terminal, const ExplainArgs& args) {
  Locks locks;
  if (const std::unique_ptr<Store> store = existing_store(args.url)) {
    ThreadPool pool(1, store->clock());
    locks = sync_wait(pool, read_locks(*store));
  }
  const auto gate = std::ranges::find(locks.gates, args.what, &GateInfo::name);
  if (gate != locks.gates.end()) {
    explain_lock(terminal, args, locks, *gate);
    return kOk;
  }
  const std::vector<std::string> parties = names_of_parties(locks);
  const std::vector<std::string> found = matches(args.what, parties);
  if (found.empty()) {
    return tell_unknown(args, locks, parties);
  }
  if (found.size() > 1) {
    fmt::print(stderr, "holdfast: '{}' may be any of these; write more of it\n",
               one_line(args.what));
    for (const std::string& one : found) {
      fmt::print(stderr, "  {}\n", one_line(one));
    }
    return kUsage;
  }
  explain_holder(terminal, args, locks, found.front());
  return kOk;
}

}  // namespace holdfast::cli
