// SPDX-License-Identifier: Apache-2.0
#include "explain_command.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <holdfast/executor.hpp>
#include <holdfast/run_inspection.hpp>
#include <holdfast/spawn.hpp>

#include "duration.hpp"
#include "escape.hpp"
#include "explain_party.hpp"
#include "explain_text.hpp"
#include "lock_facts.hpp"
#include "lock_json.hpp"
#include "party.hpp"
#include "suggest.hpp"
#include "wait_chain.hpp"
#include "waits.hpp"

namespace holdfast::cli {

namespace {

// --- A lock --------------------------------------------------------------------------------------

/// Without the chain of those who hold it.
Sentences sentences_of(const Locks& locks, const GateInfo& gate) {
  const StoreTime now = locks.now;
  Sentences all{fmt::format("'{}': {}", one_line(gate.name), summary_of(gate))};
  for (const GateHolderInfo& holder : gate.holders) {
    all.push_back(
        fmt::format("{} has it {}", full_name(party_of(locks, holder)), hold_text(holder, now)));
  }
  if (gate.holders.empty()) {
    all.emplace_back("nobody has it");
  }
  for (std::size_t i = 0; i < gate.waiters.size(); ++i) {
    const GateWaiterInfo& waiter = gate.waiters[i];
    all.push_back(fmt::format("{}. {} waits for {}: {}{}", i + 1,
                              full_name(party_of(locks, waiter)),
                              duration_text(now - waiter.asked_at), why_text(waiter.why, now),
                              reason_text(waiter.reason)));
  }
  if (gate.waiter_count > gate.waiters.size()) {
    all.push_back(fmt::format("and {} more", gate.waiter_count - gate.waiters.size()));
  }
  if (!gate.waiters.empty()) {
    all.push_back(fmt::format("the first of them gets in {}",
                              outlook_text(locks, {&gate, &gate.waiters.front(), 0})));
  }
  return all;
}

std::string json_outlook(const Locks& locks, const Wait& wait) {
  const StoreTime now = locks.now;
  const Outlook outlook = outlook_of(locks, wait);
  return json_object(
      {{"holder", json_string(wait.waiter->holder)},
       {"when", json_string(outlook.when)},
       {"at_latest_ms", outlook.at_latest ? json_ms(*outlook.at_latest - now) : "null"}});
}

Task<void> explain_lock(Terminal& terminal, const ExplainArgs& args, Store& store,
                        const Locks& locks, const GateInfo& gate) {
  Sentences sentences = sentences_of(locks, gate);
  if (!gate.waiters.empty()) {
    WaitChain chain(store, locks, sentences);
    co_await chain.follow_lock(gate);
  }
  if (args.json) {
    terminal.line(json_object(
        {{"kind", json_string("lock")},
         {"lock", json_lock(locks, gate)},
         {"next",
          gate.waiters.empty() ? "null" : json_outlook(locks, {&gate, &gate.waiters.front(), 0})},
         {"text", json_strings(sentences)}}));
    co_return;
  }
  print_sentences(terminal, sentences);
}

// --- Which one -----------------------------------------------------------------------------------

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

ExitCode tell_unknown(const ExplainArgs& args, const Locks& locks,
                      std::vector<std::string> parties) {
  for (const GateInfo& gate : locks.gates) {
    parties.push_back(gate.name);
  }
  fmt::print(stderr,
             "holdfast: there is no lock '{0}', no run, and nobody of that name holds a lock or "
             "waits{1}\n",
             one_line(args.what), one_line(did_you_mean(args.what, parties)));
  return kNoStore;
}

ExitCode tell_ambiguous(const ExplainArgs& args, const std::vector<std::string>& found) {
  fmt::print(stderr, "holdfast: '{}' may be any of these; write more of it\n", one_line(args.what));
  for (const std::string& one : found) {
    fmt::print(stderr, "  {}\n", one_line(one));
  }
  return kUsage;
}

/// A lock, a run, or else who holds a lock or waits for one, by a part of its name.
Task<ExitCode> explain(Terminal& terminal, const ExplainArgs& args, Store& store) {
  const Locks locks = co_await read_locks(store);
  const auto gate = std::ranges::find(locks.gates, args.what, &GateInfo::name);
  if (gate != locks.gates.end()) {
    co_await explain_lock(terminal, args, store, locks, *gate);
    co_return kOk;
  }
  std::optional<RunInspection> run = co_await inspect_run(store, args.what);
  std::string name = args.what;
  if (!run) {
    const std::vector<std::string> parties = names_of_parties(locks);
    const std::vector<std::string> found = matches(args.what, parties);
    if (found.size() != 1) {
      co_return found.empty() ? tell_unknown(args, locks, parties) : tell_ambiguous(args, found);
    }
    name = found.front();
    run = co_await inspect_run(store, name);
  }
  if (run) {
    co_await explain_run(terminal, args, store, locks, *std::move(run));
  } else {
    co_await explain_process(terminal, args, store, locks, std::move(name));
  }
  co_return kOk;
}

}  // namespace

ExitCode run_explain_command(Terminal& terminal, const ExplainArgs& args) {
  const std::unique_ptr<Store> store = existing_store(args.url);
  if (store == nullptr) {
    return tell_unknown(args, {}, {});
  }
  ThreadPool pool(1, store->clock());
  return sync_wait(pool, explain(terminal, args, *store));
}

}  // namespace holdfast::cli
