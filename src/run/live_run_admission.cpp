// SPDX-License-Identifier: Apache-2.0
// What a run does at the gates of its workflow: how it comes in, waits outside, and lets go.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <sstream>
#include <utility>

#include <holdfast/error.hpp>

#include "busy_pause.hpp"
#include "live_run.hpp"
#include "run_directory.hpp"
#include "run_failure.hpp"
#include "run_keys.hpp"
#include "run_rows.hpp"
#include "tenure.hpp"

namespace holdfast::detail {

namespace {

/// Before one that goes on asks again at a gate that takes nobody, not even into its queue.
constexpr Duration kDrainPause = std::chrono::seconds(1);

std::string text_of_wait(const record::RunAdmission& stands) {
  const Duration waited(stands.deadline_ns() - stands.asked_at_ns());
  std::ostringstream text;
  text << "it was queued at '" << stands.gate() << "' for "
       << std::chrono::duration<double>(waited).count()
       << " s, as long as it may be (Concurrency::wait_max)";
  return text.str();
}

bool holds_gate(const record::RunHead& head, const std::string& gate) {
  return std::ranges::any_of(head.holds(),
                             [&](const record::RunHold& hold) { return hold.gate() == gate; });
}

}  // namespace

// --- Coming in -----------------------------------------------------------------------------------

bool LiveRun::must_enter() const noexcept {
  switch (head_.admission().state()) {
    case record::RunAdmission::WAITS:
      return true;
    case record::RunAdmission::OUT:
      return admission_ != nullptr;
    case record::RunAdmission::IN:
      return false;
    default:
      return admission_ != nullptr && next_row_ == 0;
  }
}

bool LiveRun::wants_in(const std::vector<Mail>& events, StoreTime now) const {
  if (waits_at_gate()) {
    return true;
  }
  if (next_row_ == 0) {
    return time_of(head_.starts_at_ns()) <= now || std::ranges::any_of(events, starts_it);
  }
  const bool has_something_to_do =
      !events.empty() || has_kept() || machine_.has_held() || !open().empty();
  return has_something_to_do || admission_->terms().hold == HoldSlot::kForRun;
}

Task<bool> LiveRun::enter() {
  RunWorld& world = tenure_->world();
  const RunPlace own_place = place();
  const std::string key = tenure_->keys().run(uid_);
  for (;;) {
    const StoreTime now = co_await world.store.time();
    record::RunHead next = head_;
    if (waits_at_gate()) {
      const Turn turn = co_await turn_at_gate();
      const std::int64_t deadline = head_.admission().deadline_ns();
      const bool is_too_late = turn == Turn::kIsLost && deadline != 0 && deadline <= ns_of(now);
      if (turn == Turn::kIsToCome || is_too_late) {
        co_await mind_the_time_of_its_wait(now);
        co_return false;
      }
      if (turn == Turn::kHasCome) {
        record::RunHold& hold = *next.add_holds();
        hold.set_gate(head_.admission().gate());
        hold.set_holder_key(entrance_holder_key(hold.gate(), uid_));
      }
    }
    Entrance entrance;
    if (admission_ != nullptr) {
      const bool has_begun =
          next_row_ > 0 || head_.admission().state() == record::RunAdmission::OUT;
      const Applicant applicant{*admission_, own_place, next, has_begun, !locks_.empty()};
      entrance = co_await ask_for_entrance(world, applicant, now);
      if (has_begun && entrance.outcome == Entrance::Outcome::kRefused) {
        entrance.change = {};
        co_await ask_again_later(now);
        co_return false;
      }
    }
    if (entrance.error) {
      entrance.change = {};
      co_await end_refused(entrance.outcome, entrance.error);
      co_return false;
    }
    note_entrance(next, entrance, uid_, now);
    Writing writing;
    writing.messages = stop_messages(world, entrance, now);
    for (const Outgoing& out : writing.messages) {
      writing.batch.put(out.key, out.message.SerializeAsString());
    }
    drop_wait_timers(writing);
    const record::RunHead before = std::exchange(head_, std::move(next));
    write_wait_timers(writing);
    writing.batch.require_version(key, head_version_).put(key, head_.SerializeAsString());
    if (next_row_ > 0) {
      require_last_row(writing.batch);
    }
    writing.batch.append(entrance.change.take_batch());
    const Tenure::Applied applied = co_await tenure_->try_apply(std::exchange(writing.batch, {}));
    if (applied.outcome && applied.outcome->committed() != nullptr) {
      const Version version = applied.outcome->committed()->version;
      std::ranges::move(messages_of(entrance.change.committed(version)),
                        std::back_inserter(writing.messages));
      head_version_ = version;
      waits_in_store_ = head_.waits();
      if (next_row_ == 0) {
        machine_.limit_steps(step_limits_of(head_));
      }
      note_timers(writing);
      if (!writing.messages.empty()) {
        tenure_->run(send_on(shared_from_this(), std::move(writing)));
      }
      co_return !waits_at_gate();
    }
    head_ = before;
    const CommitOutcome* const outcome = applied.outcome ? &*applied.outcome : nullptr;
    if (outcome == nullptr && !applied.busy) {
      co_return false;
    }
    if (outcome != nullptr && outcome->conflict() != nullptr && outcome->conflict()->key == key) {
      tenure_->end("run '" + uid_ + "' was changed by somebody else");
      co_return false;
    }
    entrance.change = {};
    if (applied.busy) {
      co_await busy_pause();
    }
  }
}

/// By the rows of the gate: what it was told may be old, or not have come yet.
Task<LiveRun::Turn> LiveRun::turn_at_gate() {
  Store& store = tenure_->world().store;
  const record::RunAdmission& stands = head_.admission();
  const std::string holder = entrance_holder_key(stands.gate(), uid_);
  const std::optional<Entry> held = co_await store.get(holder, Read::kApplied);
  if (held) {
    co_return Turn::kHasCome;
  }
  const std::optional<Entry> waiter = co_await store.get(stands.waiter_key(), Read::kApplied);
  co_return waiter ? Turn::kIsToCome : Turn::kIsLost;
}

Task<void> LiveRun::end_refused(Entrance::Outcome outcome, std::exception_ptr error) {
  const bool is_skipped =
      outcome == Entrance::Outcome::kRefused && admission_->terms().when_full == WhenFull::kSkip;
  record::RunFailure failure = failure_of(error);
  Mail of_nobody;
  co_await end_by_force(is_skipped ? record::RunHead::CANCELLED : record::RunHead::FAILED,
                        std::move(failure), std::move(of_nobody));
}

// --- Waiting outside -----------------------------------------------------------------------------

void LiveRun::write_wait_timers(Writing& writing) const {
  const record::RunAdmission& stands = head_.admission();
  for (const std::int64_t due : {stands.deadline_ns(), stands.terminate_at_ns()}) {
    if (waits_at_gate() && due != 0) {
      set_timer(writing, time_of(due), kAdmissionTimer);
    }
  }
}

void LiveRun::drop_wait_timers(Writing& writing) const {
  const record::RunAdmission& stands = head_.admission();
  for (const std::int64_t due : {stands.deadline_ns(), stands.terminate_at_ns()}) {
    if (waits_at_gate() && due != 0) {
      drop_timer(writing, time_of(due), kAdmissionTimer);
    }
  }
}

Task<void> LiveRun::mind_the_time_of_its_wait(StoreTime now) {
  const record::RunAdmission& stands = head_.admission();
  if (stands.deadline_ns() != 0 && stands.deadline_ns() <= ns_of(now)) {
    record::RunFailure failure;
    failure.set_type("TimedOut");
    failure.set_message(text_of_wait(stands));
    Mail of_nobody;
    co_await end_by_force(record::RunHead::TIMED_OUT, std::move(failure), std::move(of_nobody));
  } else if (stands.terminate_at_ns() != 0 && stands.terminate_at_ns() <= ns_of(now)) {
    co_await terminate_replaced(now);
  }
}

/// Those that were asked to stop, and hold what it waits for all the same.
Task<void> LiveRun::terminate_replaced(StoreTime now) {
  RunWorld& world = tenure_->world();
  record::RunHead next = head_;
  next.mutable_admission()->clear_terminate_at_ns();
  Writing writing;
  for (const std::string& id : head_.admission().replaced()) {
    const std::optional<RunRow> run = co_await find_run(world.store, id, Read::kApplied);
    if (run && !has_ended(run->head) && holds_gate(run->head, head_.admission().gate())) {
      record::RunMessage message;
      message.set_format(kRunFormat);
      message.set_uid(run->place.uid);
      message.set_kind(record::RunMessage::TERMINATE);
      message.mutable_event()->set_payload("another run was started instead, and it did not stop");
      send(writing, run->place, std::move(message), now);
    }
  }
  const std::string key = tenure_->keys().run(uid_);
  writing.batch.require_version(key, head_version_).put(key, next.SerializeAsString());
  const std::optional<CommitOutcome> outcome =
      co_await tenure_->apply(std::exchange(writing.batch, {}));
  if (outcome && outcome->committed() != nullptr) {
    head_ = std::move(next);
    head_version_ = outcome->committed()->version;
    tenure_->run(send_on(shared_from_this(), std::move(writing)));
  } else if (outcome) {
    tenure_->end("run '" + uid_ + "' was changed by somebody else");
  }
}

Task<void> LiveRun::ask_again_later(StoreTime now) {
  Writing writing;
  set_timer(writing, now + kDrainPause, kAdmissionTimer);
  const std::optional<CommitOutcome> outcome = co_await tenure_->apply(std::move(writing.batch));
  if (outcome && outcome->committed() != nullptr) {
    note_timers(writing);
  }
}

/// Signals of one that has not begun go into its head, and whoever asks it something waits with it.
/// All that comes for one that has begun stays where it came from.
Task<void> LiveRun::wait_outside(std::vector<Mail> events, std::vector<Mail> early, Batch answers) {
  if (is_gone()) {
    give_back(std::move(events));
    give_back(std::move(early));
    co_return;
  }
  if (answers.size() > 0) {
    co_await write_timers_again(std::move(answers));
  }
  {
    const std::lock_guard lock(mutex_);
    waits_outside_ = true;
    std::vector<Mail>& to_keep = next_row_ == 0 ? early : events;
    for (Mail& mail : to_keep) {
      const bool is_known =
          !mail.consumed.empty() && std::ranges::any_of(kept_, [&](const Mail& kept) {
            return kept.consumed == mail.consumed;
          });
      if (!is_known) {
        kept_.push_back(std::move(mail));
      }
    }
  }
  if (next_row_ == 0) {
    co_await keep_until_start(std::move(events));
  }
}

std::vector<Mail> LiveRun::take_kept() {
  const std::lock_guard lock(mutex_);
  waits_outside_ = false;
  return std::exchange(kept_, {});
}

bool LiveRun::has_kept() const {
  const std::lock_guard lock(mutex_);
  return !kept_.empty();
}

bool LiveRun::can_leave_kept() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(
      kept_, [](const Mail& mail) { return !mail.consumed.empty() && mail.answer == nullptr; });
}

// --- In the commit of an activation --------------------------------------------------------------

/// What it prepared is used if nothing else is done at gates: else all of them have to be taken in
/// their order, and others may come first.
Task<LiveRun::LockChanges> LiveRun::settle_entrance(Activated& activated, StoreTime now,
                                                    Entrance& entrance, bool passes) {
  LockChanges changes;
  const bool ends = activated.end && !activated.end->continue_with;
  changes.deeds = deeds_of(activated, now);
  if (!passes && !ends && changes.deeds.empty()) {
    changes.deeds = entrance.deeds;
    changes.gates = std::move(entrance.change);
    co_return changes;
  }
  entrance.change = {};
  for (const AdmissionGate& gate : entrance.gates) {
    RunGates::Ask ask = entrance.ask_at(gate);
    ask.ends_at_once = ask.ends_at_once || passes || ends;
    changes.deeds[gate.name].asks.push_back(std::move(ask));
  }
  changes.gates = co_await tenure_->world().gates.prepare(changes.deeds);
  for (const AdmissionGate& gate : entrance.gates) {
    const auto& asks = changes.deeds.at(gate.name).asks;
    const auto ask = std::ranges::find(asks, kAdmissionOperation, &RunGates::Ask::operation);
    changes.is_shut_out =
        changes.is_shut_out || ask->error || ask->asked.outcome != Asked::Outcome::kHeld;
  }
  co_await note_asked(changes, activated);
  co_return changes;
}

bool LiveRun::may_let_go(const Activated& activated) const {
  // One whose steps hold the slots has none itself, whatever the definition says by now.
  const bool is_asked_to = admission_ != nullptr &&
                           admission_->terms().hold == HoldSlot::kWhileBusy &&
                           head_.step_limits_size() == 0;
  if (!is_asked_to || head_.admission().state() != record::RunAdmission::IN || activated.end ||
      !activated.steps.empty()) {
    return false;
  }
  const auto& events = activated.record.events();
  return std::ranges::all_of(open(), [&](const std::shared_ptr<StepRun>& step) {
    return std::ranges::any_of(events, [&](const record::RunEvent& event) {
      return event.kind() == record::RunEvent::STEP_ENDED && event.operation() == step->operation();
    });
  });
}

Task<LiveRun::LockChanges> LiveRun::settle_letting_go(Activated& activated, StoreTime now,
                                                      Entrance& entrance) {
  LockChanges changes;
  if (!entrance.gates.empty()) {
    changes = co_await settle_entrance(activated, now, entrance, true);
  } else {
    changes.deeds = deeds_of(activated, now);
    for (const record::RunHold& hold : head_.holds()) {
      changes.deeds[hold.gate()].endings.push_back(
          {hold.holder_key(), std::string(), record::GateGrant::RELEASED});
    }
    changes.gates = co_await tenure_->world().gates.prepare(changes.deeds);
    co_await note_asked(changes, activated);
  }
  changes.slots_let_go.emplace(head_.holds().begin(), head_.holds().end());
  head_.clear_holds();
  head_.mutable_admission()->set_state(record::RunAdmission::OUT);
  co_return changes;
}

void LiveRun::take_back_slots(LockChanges& changes) {
  if (changes.slots_let_go) {
    head_.mutable_holds()->Assign(changes.slots_let_go->begin(), changes.slots_let_go->end());
    head_.mutable_admission()->set_state(record::RunAdmission::IN);
  }
}

}  // namespace holdfast::detail
