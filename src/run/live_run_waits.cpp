// SPDX-License-Identifier: Apache-2.0
// A run that waits for a child which it began earlier. One for which it waits from its start on
// knows that by its head; of others there is a row, so that a circle through both is found.
#include <algorithm>
#include <utility>

#include <holdfast/deadlock.hpp>

#include "gate/gate_keys.hpp"
#include "gate/gate_rows.hpp"
#include "live_run.hpp"
#include "run_failure.hpp"
#include "run_rows.hpp"
#include "tenure.hpp"

namespace holdfast::detail {

/// Who holds nothing, and is nobody's child, is part of no circle.
std::optional<LiveRun::ChildWait> LiveRun::wait_for_child() const {
  const bool may_be_in_circle = holds_or_waits() || has_permits() || head_.has_parent();
  if (!may_be_in_circle || !machine_.waits_for_one_alone()) {
    return std::nullopt;
  }
  const auto found = std::ranges::find_if(
      children_, [&](const auto& child) { return machine_.is_pending(child.first); });
  if (found == children_.end() || found->second.knows_who_waits) {
    return std::nullopt;
  }
  const auto& [operation, child] = *found;
  std::string id = child.id.empty() ? id_of_place(child.place) : child.id;
  return ChildWait{
      operation,
      {run_actors(head_, uid_), machine_.facts().id, run_actor(child.place.uid), std::move(id)}};
}

Task<std::optional<LiveRun::ChildWait>> LiveRun::settle_wait(const Activated& activated,
                                                             const LockChanges& locks,
                                                             StateChanges& changes) {
  std::optional<ChildWait> wait;
  if (activated.end) {
    co_return wait;  // What is left of an earlier one goes with the run.
  }
  wait = wait_for_child();
  if (wait && child_wait_ && wait->operation == child_wait_->operation) {
    co_return child_wait_;
  }
  if (child_wait_) {
    end_wait_for_end(changes.batch, child_wait_->wait);
  }
  if (!wait) {
    co_return wait;
  }
  std::vector<std::string> leaving;
  for (const auto& [gate, deeds] : locks.deeds) {
    for (const RunGates::Ending& ending : deeds.endings) {
      leaving.push_back(ending.holder_key);
    }
  }
  Batch batch;
  std::exception_ptr circle;
  try {
    co_await begin_wait_for_end(tenure_->world().store, batch, wait->wait, std::move(leaving));
  } catch (const DeadlockError&) {
    circle = std::current_exception();
  }
  changes.batch.append(std::move(batch));
  if (circle) {
    record::RunEvent& refused = changes.events.emplace_back();
    refused.set_kind(record::RunEvent::WAIT_REFUSED);
    refused.set_operation(wait->operation);
    *refused.mutable_failure() = failure_of(circle);
    refused.set_payload(circle_text(circle));
    wait.reset();
  }
  co_return wait;
}

/// Its journal does not say whether others had to know.
Task<void> LiveRun::look_for_wait() {
  std::optional<ChildWait> wait = wait_for_child();
  if (!wait) {
    co_return;
  }
  const std::string key = wait_key({}, run_actor(uid_));
  const std::optional<Entry> row = co_await tenure_->world().store.get(key, Read::kApplied);
  if (row && parse_gate_record<record::GateWait>(*row, "the wait of a run").for_actor() ==
                 wait->wait.of_actor) {
    child_wait_ = std::move(wait);
  }
}

}  // namespace holdfast::detail
