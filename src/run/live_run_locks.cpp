// SPDX-License-Identifier: Apache-2.0
// What a run does at gates: in the commit of an activation, and when it is read again.
#include <algorithm>
#include <utility>

#include <holdfast/error.hpp>

#include "base/fetch_ahead.hpp"
#include "gate/gate_keys.hpp"
#include "live_run.hpp"
#include "permit_run.hpp"
#include "run_failure.hpp"
#include "run_gates.hpp"
#include "run_keys.hpp"
#include "run_payload.hpp"
#include "run_rows.hpp"
#include "store/record_out.hpp"
#include "tenure.hpp"

namespace holdfast::detail {

namespace {

/// The payload of one who will not have the lock, or has it already.
constexpr const char* kNoGrant = "null";

record::RunEvent lock_event(record::RunEvent::Kind kind, std::uint64_t operation) {
  record::RunEvent event;
  event.set_kind(kind);
  event.set_operation(operation);
  return event;
}

Mail lock_mail(record::RunEvent event) {
  Mail mail;
  mail.event = std::move(event);
  return mail;
}

bool is_grant(const record::RunEvent& event) {
  return event.kind() == record::RunEvent::LOCK_SETTLED && !event.has_failure();
}

/// Why one who may not wait, or not there, is not let in.
std::exception_ptr refusal_of(const LockTerms& terms, const std::optional<WhyNot>& why) {
  std::string text("'");
  text.append(terms.gate).append("': ").append(why ? to_string(*why) : "it is not free");
  if (terms.timeout == Duration::zero()) {
    return std::make_exception_ptr(TimedOut(text.append(", and the time-out is zero")));
  }
  return std::make_exception_ptr(QueueFull(text.append(", and no more may wait there")));
}

/// How a hold ends that a run of this type had from its start on.
record::GateGrant::End end_of_hold(std::string_view type, const RunEnd& end) {
  if (type != kPermitType) {
    return record::GateGrant::RELEASED;
  }
  const boost::json::string* const outcome = end.value.if_string();
  if (outcome == nullptr) {
    return record::GateGrant::ABANDONED;  // It was ended by force, with its parent.
  }
  return *outcome == kPermitExpired ? record::GateGrant::EXPIRED : record::GateGrant::RELEASED;
}

/// Behind a message that it was settled, it makes of it one that it is lost: of two fields the
/// later one counts.
const std::string& lost_suffix() {
  static const std::string kSuffix = [] {
    record::RunMessage changed;
    changed.mutable_event()->set_kind(record::RunEvent::LOCK_LOST);
    return changed.SerializeAsString();
  }();
  return kSuffix;
}

record::RunEvent failed(std::uint64_t operation, const std::exception_ptr& error) {
  record::RunEvent event = lock_event(record::RunEvent::LOCK_SETTLED, operation);
  *event.mutable_failure() = failure_of(error);
  event.set_payload(circle_text(error));
  return event;
}

}  // namespace

/// What waits for others only by this lock, and holds something that others may wait for, can be
/// part of a circle. So can a child: its parent may wait for it, now or later.
SharedRequest LiveRun::request_for(std::uint64_t operation, const LockTerms& terms,
                                   Standing standing, StoreTime now, std::uint32_t attempt) {
  GateRequest request;
  request.asker = asker();
  request.request_id = std::to_string(operation);
  request.weight = terms.weight;
  request.shared = terms.shared;
  request.priority = terms.priority;
  request.reason = terms.reason;
  request.queue_max = terms.may_wait() ? terms.queue_max : 0;
  request.slot_seed = terms.slot_seed;
  if (terms.timeout && terms.may_wait()) {
    request.deadline = now + *terms.timeout;
  }
  request.may_hold_others = standing.waits_for_this_alone &&
                            (standing.has_what_others_want || request.asker->actors.size() > 1);
  std::string message;
  {
    RecordOut out(message);
    out.number(record::RunMessage::kFormatFieldNumber, kRunFormat);
    out.text(record::RunMessage::kUidFieldNumber, uid_);
    out.record(record::RunMessage::kEventFieldNumber, [&] {
      out.number(record::RunEvent::kKindFieldNumber, record::RunEvent::LOCK_SETTLED);
      out.number(record::RunEvent::kOperationFieldNumber, operation);
      if (attempt != 0) {
        out.text(record::RunEvent::kNameFieldNumber, terms.gate);
        out.number(record::RunEvent::kAttemptsFieldNumber, attempt);
      }
    });
  }
  // A lock is asked for once, a permit at several gates, and again at each attempt.
  const std::string ticket =
      attempt == 0 ? uid_ + "-" + request.request_id : tenure_->world().next_uid(now);
  request.notice.emplace(
      GateRequest::Notice{tenure_->keys().message(ticket), std::move(message), lost_suffix()});
  request.party = weak_from_this();
  if (attempt == 0) {
    request.party_operation = operation;
  }
  request.party_address = this;
  return std::make_shared<const GateRequest>(std::move(request));
}

/// Who it is depends on what it holds since its start.
SharedAsker LiveRun::asker() {
  if (head_.holds_size() > 0 || asker_ == nullptr) {
    asker_ = shared_asker({machine_.facts().id, uid_, {}, run_actors(head_, uid_)});
  }
  return asker_;
}

/// They are the children's, but at the gates the run itself is who holds them.
bool LiveRun::has_permits() const {
  return std::ranges::any_of(children_,
                             [](const auto& child) { return child.second.lock.has_value(); });
}

RunGates::DeedsByGate LiveRun::deeds_of(Activated& activated, StoreTime now) {
  RunGates::DeedsByGate deeds;
  const auto let_go = [&](std::uint64_t operation, record::GateGrant::End how) {
    if (const auto lock = locks_.find(operation); lock != locks_.end()) {
      const OpenLock& open = lock->second;
      deeds[open.gate].endings.push_back(
          {open.holder_key, open.fence == 0 ? open.waiter_key : std::string(), how});
    }
  };
  for (const std::uint64_t operation : activated.let_go) {
    let_go(operation, record::GateGrant::RELEASED);
  }
  for (const std::uint64_t operation : activated.given_up) {
    let_go(operation, record::GateGrant::ABANDONED);
  }
  for (const record::RunEvent& event : activated.record.events()) {
    const auto lock = locks_.find(event.operation());
    const bool gives_way = event.kind() == record::RunEvent::LOCK_SETTLED && event.has_failure() &&
                           lock != locks_.end() && lock->second.fence == 0;
    if (gives_way) {
      let_go(event.operation(), record::GateGrant::ABANDONED);
    }
  }
  const auto is_let_go = [&](std::uint64_t operation) {
    return std::ranges::find(activated.let_go, operation) != activated.let_go.end() ||
           std::ranges::find(activated.given_up, operation) != activated.given_up.end();
  };
  if (activated.end) {
    for (const auto& [operation, lock] : locks_) {
      if (!is_let_go(operation)) {
        let_go(operation, record::GateGrant::ABANDONED);
      }
    }
    if (!activated.end->continue_with) {  // Else they are those of the run that goes on.
      const record::GateGrant::End how = end_of_hold(head_.type(), *activated.end);
      for (const record::RunHold& hold : head_.holds()) {
        deeds[hold.gate()].endings.push_back({hold.holder_key(), std::string(), how});
      }
    }
    if (waits_at_gate()) {
      const record::RunAdmission& stands = head_.admission();
      deeds[stands.gate()].endings.push_back({entrance_holder_key(stands.gate(), uid_),
                                              stands.waiter_key(), record::GateGrant::ABANDONED});
    }
    add_permit_endings(activated, deeds);
    return deeds;
  }
  add_permit_endings(activated, deeds);
  const bool is_all = machine_.waits_for_one_alone();
  add_permit_asks(activated, is_all, now, deeds);
  add_uses(activated, deeds);
  // What is let go of in the same commit closes no circle.
  const bool keeps_some =
      has_permits() || !permits_.empty() || head_.holds_size() > 0 ||
      std::ranges::any_of(locks_, [&](const auto& lock) { return !is_let_go(lock.first); });
  const Standing standing{is_all, keeps_some || head_.has_parent()};
  for (const BegunLock& lock : activated.locks) {
    RunGates::Ask ask;
    ask.operation = lock.operation;
    ask.definition = lock.terms.definition;
    ask.request = request_for(lock.operation, lock.terms, standing, now);
    ask.victim = lock.terms.victim;
    deeds[lock.terms.gate].asks.push_back(std::move(ask));
  }
  return deeds;
}

bool LiveRun::settle_known_locks(Activated& activated, StoreTime now, LockChanges& changes) {
  if (!activated.uses.empty() ||
      !tenure_->world().gates.prepare_known(changes.deeds, now, changes.gates)) {
    changes.gates = {};
    return false;
  }
  note_locks_asked(changes, activated);
  return true;
}

Task<void> LiveRun::settle_locks(Activated& activated, LockChanges& changes) {
  if (!changes.deeds.empty()) {
    changes.gates = co_await tenure_->world().gates.prepare(changes.deeds);
    co_await note_asked(changes, activated);
  }
}

Task<void> LiveRun::note_asked(LockChanges& changes, Activated& activated) {
  note_locks_asked(changes, activated);
  if (!activated.uses.empty()) {
    co_await settle_uses(changes);
  }
}

void LiveRun::note_locks_asked(LockChanges& changes, Activated& activated) {
  for (BegunLock& lock : activated.locks) {
    RunGates::Ask* const ask = changes.find(lock.terms.gate, lock.operation);
    if (ask == nullptr) {
      continue;
    }
    lock.holder_key = std::move(ask->asked.holder_key);
    if (ask->error) {
      changes.events.push_back(failed(lock.operation, ask->error));
      continue;
    }
    record::RunOperation& operation =
        *activated.record.mutable_operations(static_cast<int>(lock.operation - next_operation_));
    operation.clear_waiter_key();
    switch (ask->asked.outcome) {
      case Asked::Outcome::kHeld:
        changes.any_granted = true;
        break;
      case Asked::Outcome::kWaits:
        operation.set_waiter_key(std::move(ask->asked.key));
        break;
      case Asked::Outcome::kRefused:
        if (lock.terms.only_tries) {
          changes.events.push_back(lock_event(record::RunEvent::LOCK_SETTLED, lock.operation));
          changes.events.back().set_payload(kNoGrant);
        } else {
          changes.events.push_back(failed(lock.operation, refusal_of(lock.terms, ask->asked.why)));
        }
        break;
    }
  }
  settle_permits(activated, changes);
}

RunGates::Ask* LiveRun::LockChanges::find(const std::string& gate, std::uint64_t operation) {
  const auto at_gate = deeds.find(gate);
  if (at_gate == deeds.end()) {
    return nullptr;
  }
  auto& asks = at_gate->second.asks;
  const auto found = std::ranges::find(asks, operation, &RunGates::Ask::operation);
  return found == asks.end() ? nullptr : &*found;
}

/// What was believed to be held is still. A change of a gate that ends a hold is on condition of
/// that anyway.
void LiveRun::guard_locks(Batch& batch, const record::Activation& row,
                          const LockChanges& changes) const {
  const auto is_ended = [&](const OpenLock& lock) {
    const auto at_gate = changes.deeds.find(lock.gate);
    return at_gate != changes.deeds.end() &&
           std::ranges::any_of(at_gate->second.endings, [&](const RunGates::Ending& ending) {
             return ending.fence == lock.fence && ending.holder_key == lock.holder_key;
           });
  };
  for (const auto& [operation, lock] : locks_) {
    const bool is_lost = std::ranges::any_of(row.events(), [op = operation](const auto& event) {
      return event.kind() == record::RunEvent::LOCK_LOST && event.operation() == op;
    });
    if (lock.fence != 0 && !is_lost && !is_ended(lock)) {
      batch.guard(lock.holder_key, lock.fence);
    }
  }
}

void LiveRun::tell_admitted(RunGates::Change& gates, Version version, Writing& writing) {
  for (const RunGates::Change::Told& told : gates.committed(version)) {
    hand_over(told, writing);
  }
  for (const auto& [request, step] : gates.next_in_line()) {
    if (step == FetchStep::kObject) {
      detail::fetch_ahead(request->party_address, sizeof(LiveRun));
    } else if (const auto party = request->party.lock()) {
      static_cast<const LiveRun&>(*party).fetch_ahead(step);
    }
  }
}

/// Those who were let in by the commit, and the run itself.
void LiveRun::after_commit_of(LockChanges& changes, Activated& activated, Writing& writing,
                              Version version) {
  if (changes.deeds.empty()) {
    return;
  }
  tell_admitted(changes.gates, version, writing);
  for (BegunStep& step : activated.steps) {
    const FirstPermit& permit = step.permit;
    if (!step.limits.wanted.empty() && permit.waiter_key.empty() && !permit.refusal) {
      step.permit.fence = version;
    }
  }
  for (const BegunLock& lock : activated.locks) {
    const RunGates::Ask* const ask = changes.find(lock.terms.gate, lock.operation);
    if (ask != nullptr && !ask->error && ask->asked.outcome == Asked::Outcome::kHeld) {
      record::RunEvent event = lock_event(record::RunEvent::LOCK_SETTLED, lock.operation);
      event.set_payload(grant_text({version, ask->slots}));
      granted_.push_back(std::move(event));
    }
  }
  tell_uses(changes, version);
  changes.gates = {};  // Others may have their turn.
}

void LiveRun::fetch_ahead(FetchStep step) const {
  const std::lock_guard lock(mutex_);
  if (driven_ || locks_.empty()) {
    return;
  }
  const auto& [operation, open] = *locks_.begin();
  if (step == FetchStep::kParts) {
    detail::fetch_ahead(&*locks_.begin(), sizeof(*locks_.begin()));
  } else if (step == FetchStep::kOperation) {
    detail::fetch_ahead(open.gate.data());
    detail::fetch_ahead(open.holder_key.data(), open.holder_key.size());
    detail::fetch_ahead(open.waiter_key.data());
  }
  machine_.fetch_ahead(step);
}

/// Those who wait as parties are runs. Others were read from the store, and may be in memory again.
std::shared_ptr<LiveRun> LiveRun::run_in_memory(const RunGates::Change::Told& told,
                                                const std::string& uid) const {
  if (told.who != nullptr) {
    if (auto party = told.who->party.lock()) {
      return std::static_pointer_cast<LiveRun>(std::move(party));
    }
  }
  const auto there = tenure_->world().tenure_of(place_in_message_key(told.notice().key, uid));
  return there == nullptr ? nullptr : there->find_live(uid);
}

/// The first one that is in memory here is driven next by whoever drives this one: to send it a
/// message, and to have that taken by another thread, would take longer than all else.
void LiveRun::hand_over(const RunGates::Change::Told& told, Writing& writing) {
  const std::string& key = told.notice().key;
  if (follower_ == nullptr && hand_over_at_once(told)) {
    return;
  }
  record::RunMessage message;
  if (!read_word(told, message)) {
    return;
  }
  if (follower_ == nullptr) {
    const std::shared_ptr<LiveRun> run = run_in_memory(told, message.uid());
    if (run != nullptr && run->tenure_->take_here(run, key, message, follower_)) {
      return;
    }
  }
  RunPlace to = place_in_message_key(key, message.uid());
  writing.messages.push_back({std::move(to), key, std::move(message)});
}

/// To one that waits for a lock and was never out of memory: its message need not be read.
bool LiveRun::hand_over_at_once(const RunGates::Change::Told& told) {
  if (!told.grant || told.who == nullptr || !told.who->party_operation) {
    return false;
  }
  const auto run = std::static_pointer_cast<LiveRun>(told.who->party.lock());
  if (run == nullptr) {
    return false;
  }
  record::RunEvent event = lock_event(record::RunEvent::LOCK_SETTLED, *told.who->party_operation);
  event.set_payload(grant_text(*told.grant));
  Mail mail = lock_mail(std::move(event));
  mail.consumed = told.notice().key;
  return run->tenure_->take_here(run, mail, follower_);
}

void LiveRun::remember_locks(Activated& activated, const record::Activation& row) {
  for (BegunLock& lock : activated.locks) {
    OpenLock open;
    open.gate = std::move(lock.terms.gate);
    open.holder_key = lock.holder_key.empty() ? run_holder_key(open.gate, uid_, lock.operation)
                                              : std::move(lock.holder_key);
    open.waiter_key =
        row.operations(static_cast<int>(lock.operation - next_operation_)).waiter_key();
    locks_.emplace(lock.operation, std::move(open));
  }
  const auto note = [&](const record::RunEvent& event) {
    const auto lock = locks_.find(event.operation());
    if (lock == locks_.end()) {
      return;
    }
    if (event.kind() == record::RunEvent::LOCK_LOST) {
      locks_.erase(lock);
    } else if (event.kind() == record::RunEvent::LOCK_SETTLED) {
      timers_.erase(event.operation());
      if (lock->second.fence != 0) {
        return;  // It was told twice.
      }
      if (event.has_failure() || event.payload() == kNoGrant) {
        locks_.erase(lock);
      } else {
        lock->second.fence = fence_in(event.payload());
      }
    }
  };
  std::ranges::for_each(row.events(), note);
  std::ranges::for_each(row.held(), note);
  for (const std::uint64_t operation : activated.let_go) {
    locks_.erase(operation);
  }
  for (const std::uint64_t operation : activated.given_up) {
    locks_.erase(operation);
  }
}

// --- Mail ----------------------------------------------------------------------------------------

/// From now on it is a holder: what it does next is on condition that it still is.
bool LiveRun::learn_fence(const record::RunEvent& event) {
  if (event.payload().empty()) {
    return false;
  }
  const auto lock = locks_.find(event.operation());
  if (lock != locks_.end() && lock->second.fence == 0 && event.payload() != kNoGrant) {
    lock->second.fence = fence_in(event.payload());
  }
  return true;
}

bool LiveRun::learn_fences(const std::vector<Mail>& mails) {
  return locks_.empty() || std::ranges::all_of(mails, [this](const Mail& mail) {
           return !is_grant(mail.event) || learn_fence(mail.event);
         });
}

/// Whoever let it in may not have known with what fence.
Task<void> LiveRun::complete_grants(std::vector<Mail>& mails) {
  for (Mail& mail : mails) {
    record::RunEvent& event = mail.event;
    if (!is_grant(event) || learn_fence(event)) {
      continue;
    }
    event.set_payload(kNoGrant);
    const auto lock = locks_.find(event.operation());
    if (lock == locks_.end() || lock->second.fence != 0) {
      continue;
    }
    const std::string& key = lock->second.holder_key;
    const std::optional<Entry> holder = co_await tenure_->world().store.get(key, Read::kApplied);
    if (holder) {
      event.set_payload(grant_text(grant_in(*holder)));
      lock->second.fence = holder->version;
    } else {
      const Dropped dropped("'" + lock->second.gate + "': an operator released it before run '" +
                            machine_.facts().id + "' saw that it had it");
      event = failed(event.operation(), std::make_exception_ptr(dropped));
    }
  }
}

/// It was granted by the run's own commit, and nobody has told the run before it left the memory,
/// or the rows are not there: the journal is that of another run, which was reset.
Task<void> LiveRun::look_for_locks() {
  for (const auto& [operation, lock] : locks_) {
    const std::string& key = lock.holder_key;
    const std::optional<Entry> holder = co_await tenure_->world().store.get(key, Read::kApplied);
    if (lock.fence != 0) {
      if (!holder || holder->version != lock.fence) {
        found_.push_back(lock_event(record::RunEvent::LOCK_LOST, operation));
      }
      continue;
    }
    std::optional<Entry> waiter;
    if (!holder && !lock.waiter_key.empty()) {
      waiter = co_await tenure_->world().store.get(lock.waiter_key, Read::kApplied);
    }
    if (holder || !waiter) {
      found_.push_back(lock_event(record::RunEvent::LOCK_SETTLED, operation));
    }
  }
}

void LiveRun::deliver_found() {
  for (record::RunEvent& event : std::exchange(found_, {})) {
    static_cast<void>(deliver(lock_mail(std::move(event))));
  }
}

void LiveRun::deliver_granted() {
  if (granted_.empty()) {
    return;
  }
  const std::lock_guard lock(mutex_);
  for (record::RunEvent& event : std::exchange(granted_, {})) {
    mail_.push_back(lock_mail(std::move(event)));
  }
}

}  // namespace holdfast::detail
