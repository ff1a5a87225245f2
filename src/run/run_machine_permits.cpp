// SPDX-License-Identifier: Apache-2.0
// Children that hold a lock in the place of a run. Nobody waits for their ends as for those of
// others, so they are not among the operations that are pending.
#include <algorithm>
#include <utility>

#include "permit_run.hpp"
#include "run_machine.hpp"
#include "run_payload.hpp"

namespace holdfast::detail {

std::shared_ptr<RunPermit> RunMachine::begin_permit(std::uint64_t lock, std::string_view id,
                                                    std::string_view queue,
                                                    boost::json::value input) {
  const Operation operation = begin(record::RunOperation::CHILD, kPermitType);
  auto permit = std::make_shared<RunPermit>();
  permit->operation = operation->number();
  permit->lock = lock;
  permits_.emplace(permit->operation, permit);
  BegunChild& child = current().children.emplace_back();
  child.operation = permit->operation;
  child.type = kPermitType;
  child.input = std::move(input);
  child.terms.id = id;
  child.terms.queue = queue;
  child.terms.takes_lock = lock;
  return permit;
}

void RunMachine::release_permit(RunPermit& permit) noexcept {
  if (permits_.erase(permit.operation) > 0) {
    permit.phase = RunPermit::Phase::kReleased;
    const bool is_new = permit.operation >= first_of_activation_;
    (is_new ? withdrawn_ : current().given_up).push_back(permit.operation);
  }
}

void RunMachine::renew_permit(RunPermit& permit, Duration lease) {
  static_cast<void>(begin(record::RunOperation::TELL, kRenewSignal));
  BegunTell& tell = current().tells.emplace_back();
  tell.child = permit.operation;
  tell.event.set_kind(Event::SIGNALLED);
  tell.event.set_name(std::string(kRenewSignal));
  tell.event.set_payload(payload_text(renewal_value({++permit.renewals_asked, lease})));
}

void RunMachine::tell_parent(const boost::json::value& word) {
  static_cast<void>(begin(record::RunOperation::TELL, "parent"));
  BegunTell& tell = current().tells.emplace_back();
  tell.event.set_kind(Event::CHILD_TOLD);
  tell.event.set_payload(payload_text(word));
}

/// The lock is the child's now. If it was taken away on the way, there is nothing to hold.
void RunMachine::permit_began(std::uint64_t operation) {
  const auto found = permits_.find(operation);
  if (found == permits_.end()) {
    return;  // It was given up before this was known.
  }
  RunPermit& permit = *found->second;
  permit.phase = RunPermit::Phase::kHeld;
  const auto lock = locks_.find(permit.lock);
  const bool is_lost = lock != locks_.end() && lock->second.is_lost;
  locks_.erase(permit.lock);
  if (is_lost) {
    lose_permit(permit);
  }
}

void RunMachine::permit_told(const Event& event) {
  const auto permit = permits_.find(event.operation());
  const auto number = parse_payload(event.payload()).to_number<std::uint64_t>();
  if (permit != permits_.end() && number <= permit->second->renewals_asked) {
    permit->second->renewals_made = number;
  }
}

bool RunMachine::end_permit(const Event& event) {
  const auto found = permits_.find(event.operation());
  if (found == permits_.end()) {
    return false;
  }
  RunPermit& permit = *found->second;
  if (permit.phase == RunPermit::Phase::kBegins) {
    permit.phase = RunPermit::Phase::kRefused;
    permit.refusal = event.failure().message();
    permit.taken_by = event.name();
  } else {
    permit.phase = RunPermit::Phase::kOver;
  }
  permits_.erase(found);
  return true;
}

/// By an operator: the child holds nothing any more, and need not go on.
void RunMachine::lose_permit(RunPermit& permit) {
  release_permit(permit);
  permit.phase = RunPermit::Phase::kOver;
}

}  // namespace holdfast::detail
