// SPDX-License-Identifier: Apache-2.0
#include "wait_chain.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "escape.hpp"
#include "party.hpp"
#include "run_facts.hpp"
#include "waits.hpp"

namespace holdfast::cli {

namespace {

constexpr std::size_t kDepthMax = 20;

// A lock and a run may have the same name.

std::string step_of_run(const std::string& id) { return "run " + id; }
std::string step_of_lock(const std::string& name) { return "lock " + name; }

}  // namespace

std::string WaitChain::circle_text(const std::string& step) const {
  return std::ranges::find(path_, step) != path_.end() ? ": a circle" : "";
}

Task<void> WaitChain::follow_lock(const GateInfo& gate) {
  if (!seen_.insert(step_of_lock(gate.name)).second || path_.size() > kDepthMax) {
    co_return;
  }
  for (const GateHolderInfo& holder : gate.holders) {
    const Party party = party_of(locks_, holder);
    std::string who =
        fmt::format("{}'{}' is held by {}", margin(), one_line(gate.name), full_name(party));
    std::optional<RunInspection> run;
    if (party.is_run()) {
      run = co_await inspect_run(store_, party.name);
    }
    path_.push_back(step_of_lock(gate.name));
    if (run && run->run.uid == party.uid) {
      co_await tell_of_run(who.append(", which "), *run);
    } else {
      co_await tell_of_process(std::move(who), holder);
    }
    path_.pop_back();
  }
}

/// Known by its name alone, or by what it has told of itself.
Task<void> WaitChain::tell_of_process(std::string who, const GateHolderInfo& holder) {
  const std::vector<Wait> waits = waits_of(locks_, holder);
  if (waits.empty()) {
    sentences_.push_back(who + ", which waits for no lock");
  }
  for (const Wait& wait : waits) {
    const bool as_other = wait.waiter->holder != holder.holder;
    sentences_.push_back(fmt::format(
        "{}, which waits for '{}'{}{}", who, one_line(wait.gate->name),
        as_other ? fmt::format(" by its command {}", one_line(wait.waiter->holder)) : "",
        circle_text(step_of_lock(wait.gate->name))));
    co_await follow_lock(*wait.gate);
  }
}

Task<void> WaitChain::tell_of_run(std::string who, const RunInspection& run) {
  for (const RunDeed& deed : deeds_of(run, locks_.now)) {
    std::string circle;
    if (deed.wait != nullptr && deed.wait->kind == RunWaitInfo::Kind::kLock) {
      circle = circle_text(step_of_lock(deed.wait->name));
    }
    sentences_.push_back(fmt::format("{}{}{}", who, deed.text, circle));
  }
  if (!run.run.ended_at && !is_driven(run)) {
    sentences_.push_back(
        fmt::format("{}of {}: {}", margin(), full_name(run.run), driver_text(run)));
  }
  co_await follow_run(run);
}

Task<void> WaitChain::follow_run(const RunInspection& run) {
  if (!seen_.insert(step_of_run(run.run.id)).second) {
    co_return;
  }
  for (const RunWaitInfo& wait : run.waits) {
    if (wait.kind == RunWaitInfo::Kind::kLock) {
      const auto gate = std::ranges::find(locks_.gates, wait.name, &GateInfo::name);
      if (gate != locks_.gates.end()) {
        co_await follow_lock(*gate);
      }
    } else if (wait.kind == RunWaitInfo::Kind::kChild) {
      co_await follow_child(wait);
    }
  }
}

Task<void> WaitChain::follow_child(const RunWaitInfo& child) {
  const std::optional<RunInspection> run = co_await inspect_run(store_, child.name);
  const std::string step = step_of_run(child.name);
  if (!run || seen_.contains(step) || path_.size() > kDepthMax) {
    co_return;
  }
  std::string who = margin() + full_name(run->run) + " ";
  path_.push_back(step);
  co_await tell_of_run(std::move(who), *run);
  path_.pop_back();
}

}  // namespace holdfast::cli
