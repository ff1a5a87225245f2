// SPDX-License-Identifier: Apache-2.0
// Steps under limits: the permits of their attempts. The first is asked for by the commit that
// begins the step, and all are given back by the one that says how the attempt ended.
#include <algorithm>
#include <set>
#include <utility>

#include <holdfast/error.hpp>

#include "busy_pause.hpp"
#include "gate/gate_keys.hpp"
#include "live_run.hpp"
#include "run_failure.hpp"
#include "run_rows.hpp"
#include "tenure.hpp"

namespace holdfast::detail {

namespace {

/// Nothing: it has it, or waits.
std::exception_ptr refusal_of_permit(const std::string& gate, const RunGates::Ask& ask) {
  if (ask.error || ask.asked.outcome != Asked::Outcome::kRefused) {
    return ask.error;
  }
  const std::string why = ask.asked.why ? to_string(*ask.asked.why) : "it is not free";
  return std::make_exception_ptr(QueueFull("'" + gate + "': " + why + ", and nobody may wait"));
}

/// It is not the fault of the step.
bool may_pass(const std::exception_ptr& refusal) {
  return failure_of(refusal).code() == static_cast<int>(ErrorCode::kQueueFull);
}

}  // namespace

// --- In the commit of an activation --------------------------------------------------------------

bool LiveRun::asks_for_permits(const Activated& activated) {
  return std::ranges::any_of(activated.steps,
                             [](const BegunStep& step) { return !step.limits.wanted.empty(); });
}

void LiveRun::leave_gates_of(std::uint64_t operation, record::GateGrant::End how,
                             RunGates::DeedsByGate& deeds) const {
  for (const StepPermits::Place& place : permits_.at(operation).places()) {
    deeds[place.gate].endings.push_back(
        {run_holder_key(place.gate, uid_, operation), place.waiter_key, how});
  }
}

/// Of steps that have ended, of those that nobody wants and that have not begun, and, with the run,
/// of all.
void LiveRun::add_permit_endings(const Activated& activated, RunGates::DeedsByGate& deeds) const {
  std::set<std::uint64_t> left;
  const auto leave = [&](std::uint64_t operation, record::GateGrant::End how) {
    if (permits_.contains(operation) && left.insert(operation).second) {
      leave_gates_of(operation, how, deeds);
    }
  };
  for (const record::RunEvent& event : activated.record.events()) {
    if (event.kind() == record::RunEvent::STEP_ENDED) {
      leave(event.operation(), record::GateGrant::RELEASED);
    }
  }
  for (const auto& [operation, permits] : permits_) {
    const bool is_unwanted =
        !permits.waiter_key().empty() &&
        std::ranges::find(activated.unwanted, operation) != activated.unwanted.end();
    if (activated.end || is_unwanted) {
      leave(operation, record::GateGrant::ABANDONED);
    }
  }
}

void LiveRun::add_permit_asks(const Activated& activated, bool waits_for_one_alone, StoreTime now,
                              RunGates::DeedsByGate& deeds) {
  for (const BegunStep& step : activated.steps) {
    if (!step.limits.wanted.empty()) {
      const LockTerms& terms = step.limits.wanted.front();
      RunGates::Ask ask;
      ask.operation = step.operation;
      ask.definition = terms.definition;
      ask.as_stored = terms.as_stored;
      const Standing standing{waits_for_one_alone, has_what_others_want()};
      ask.request = request_for(step.operation, terms, standing, now, 1);
      deeds[terms.gate].asks.push_back(std::move(ask));
    }
  }
}

void LiveRun::settle_permits(Activated& activated, LockChanges& changes) {
  for (BegunStep& step : activated.steps) {
    if (step.limits.wanted.empty()) {
      continue;
    }
    step.permit = {};
    const std::string& gate = step.limits.wanted.front().gate;
    const RunGates::Ask* const ask = changes.find(gate, step.operation);
    if (ask != nullptr) {
      step.permit.refusal = refusal_of_permit(gate, *ask);
      if (!step.permit.refusal && ask->asked.outcome == Asked::Outcome::kWaits) {
        step.permit.waiter_key = ask->asked.key;
      }
    }
  }
}

void LiveRun::write_first_waits(Writing& writing, const Activated& activated, StoreTime now) const {
  for (const BegunStep& step : activated.steps) {
    if (step.permit.waiter_key.empty()) {
      continue;
    }
    record::RunAttempts row;
    row.set_format(kRunFormat);
    row.set_began_at_ns(ns_of(now));
    row.set_waiter_key(step.permit.waiter_key);
    writing.batch.put(tenure_->keys().attempts(uid_, step.operation), row.SerializeAsString());
    if (step.terms.options.timeout > Duration::zero()) {
      set_timer(writing, now + step.terms.options.timeout, step.operation);
    }
  }
}

void LiveRun::drop_permit_rows(Writing& writing, std::uint64_t operation) const {
  const auto permits = permits_.find(operation);
  if (permits == permits_.end()) {
    return;
  }
  if (permits->second.deadline) {
    drop_timer(writing, *permits->second.deadline, operation);
  }
  drop_permit_messages(writing, permits->second);
}

void LiveRun::drop_permit_messages(Writing& writing, const StepPermits& permits) {
  for (const std::string& message : permits.messages) {
    writing.batch.erase(message);
    writing.messages_gone.push_back(message);
  }
}

void LiveRun::begin_step(std::uint64_t operation, Version version) {
  const std::shared_ptr<StepRun> step = step_at(operation);
  if (step == nullptr) {
    return;
  }
  const auto found = permits_.find(operation);
  if (found == permits_.end()) {
    step->begin(shared_from_this(), version);
    return;
  }
  StepPermits& permits = found->second;
  if (const std::exception_ptr refusal = permits.take_refusal()) {
    step->fail_to_begin(shared_from_this(), refusal, may_pass(refusal));
  } else if (!permits.waiter_key().empty()) {
    permits.deadline = step->deadline();
  } else if (permits.next() == nullptr) {
    begin_with_permits(step, false);
  } else {
    ask_for_permits(operation);
  }
}

void LiveRun::ask_for_permits(std::uint64_t operation) {
  Mail mail;
  mail.kind = Mail::Kind::kPermits;
  mail.event.set_operation(operation);
  static_cast<void>(deliver(std::move(mail)));
}

void LiveRun::begin_with_permits(const std::shared_ptr<StepRun>& step, bool may_have_run) {
  const StepPermits& permits = permits_.at(step->operation());
  step->begin_with_permit(shared_from_this(), permits.fence(), permits.newest(), may_have_run);
}

// --- Between activations -------------------------------------------------------------------------

Task<std::optional<Version>> LiveRun::change_gates(RunGates::DeedsByGate& deeds, WriteRows write) {
  for (;;) {
    for (auto& [gate, at_gate] : deeds) {
      for (RunGates::Ask& ask : at_gate.asks) {
        ask.error = nullptr;
      }
    }
    RunGates::Change change = co_await tenure_->world().gates.prepare(deeds);
    Writing writing;
    if (!write(writing)) {
      co_return std::nullopt;
    }
    Batch batch = std::exchange(writing.batch, {});
    require_last_row(batch);
    batch.append(change.take_batch());
    const Tenure::Applied applied = co_await tenure_->try_apply(std::move(batch));
    if (applied.busy) {
      change = {};
      co_await busy_pause();
      continue;
    }
    if (!applied.outcome) {
      co_return std::nullopt;
    }
    if (const Conflict* conflict = applied.outcome->conflict()) {
      if (change.is_founded_on(conflict->key)) {
        continue;
      }
      tenure_->end("a row of run '" + uid_ + "' was changed by somebody else: " + conflict->key);
      co_return std::nullopt;
    }
    const Version version = applied.outcome->committed()->version;
    tell_admitted(change, version, writing);
    note_timers(writing);
    if (!writing.messages.empty()) {
      tenure_->run(send_on(shared_from_this(), std::move(writing)));
    }
    co_return version;
  }
}

Task<void> LiveRun::take_permits(std::shared_ptr<StepRun> step) {
  const std::uint64_t operation = step->operation();
  if (!step->waits_for_permit() && !step->is_between_attempts()) {
    co_return;
  }
  StepPermits& permits = permits_.at(operation);
  if (step->is_between_attempts() && !permits.places().empty()) {
    // It was told to go on before it was written down that the last attempt has ended.
    co_await give_permits_back(step, step->take_change());
  }
  while (permits.next() != nullptr) {
    const LockTerms& terms = *permits.next();
    const StoreTime now = co_await tenure_->world().store.time();
    RunGates::DeedsByGate deeds;
    RunGates::Ask& ask = deeds[terms.gate].asks.emplace_back();
    ask.operation = operation;
    ask.definition = terms.definition;
    ask.as_stored = terms.as_stored;
    const Standing standing{machine_.waits_for_one_alone(), has_what_others_want()};
    ask.request = request_for(operation, terms, standing, now, step->attempt_number());
    std::exception_ptr refusal;
    const WriteRows write = [&](Writing& writing) {
      refusal = refusal_of_permit(terms.gate, ask);
      if (!refusal && ask.asked.outcome == Asked::Outcome::kWaits) {
        write_wait(writing, *step, ask.asked.key);
        drop_permit_messages(writing, permits);  // There will be another one.
      }
      return refusal == nullptr;
    };
    const std::optional<Version> version = co_await change_gates(deeds, write);
    if (refusal) {
      step->fail_to_begin(shared_from_this(), refusal, may_pass(refusal));
      co_return;
    }
    if (!version) {
      co_return;
    }
    if (ask.asked.outcome == Asked::Outcome::kWaits) {
      permits.wait(ask.asked.key);
      permits.messages.clear();
      permits.deadline = step->deadline();
      step->wait_for_permit();
      co_return;
    }
    permits.take(*version);
  }
  begin_with_permits(step, false);
}

/// The pause before it is over, and the row of the waiter is all that it needs.
void LiveRun::write_wait(Writing& writing, const StepRun& step, const std::string& waiter_key) {
  for (const StoreTime due : step.timers()) {
    drop_timer(writing, due, step.operation());
  }
  if (const std::optional<StoreTime> deadline = step.deadline()) {
    set_timer(writing, *deadline, step.operation());
  }
  record::RunAttempts row = step.row_while_waiting();
  row.set_waiter_key(waiter_key);
  writing.batch.put(tenure_->keys().attempts(uid_, step.operation()), row.SerializeAsString());
}

/// The attempt has failed, and the step pauses.
Task<void> LiveRun::give_permits_back(std::shared_ptr<StepRun> step, StepRun::Change change) {
  const std::uint64_t operation = step->operation();
  RunGates::DeedsByGate deeds;
  leave_gates_of(operation, record::GateGrant::RELEASED, deeds);
  const WriteRows write = [&](Writing& writing) {
    write_attempts(writing, operation, change);
    drop_permit_rows(writing, operation);
    return true;
  };
  const std::optional<Version> version = co_await change_gates(deeds, write);
  if (version) {
    permits_.at(operation).give_back();
  }
}

/// It was let in, or its permit was taken away.
Task<void> LiveRun::hear_of_permit(std::shared_ptr<StepRun> step, Mail mail) {
  const auto found = permits_.find(step->operation());
  const record::RunEvent& event = mail.event;
  const bool is_current = found != permits_.end() && event.attempts() == step->attempt_number();
  const bool is_bad = event.kind() == record::RunEvent::LOCK_LOST || event.has_failure();
  if (is_current && event.kind() == record::RunEvent::LOCK_LOST) {
    step->lose_permit(event.name());
  } else if (is_current && event.has_failure() && step->waits_for_permit()) {
    step->fail_to_begin(shared_from_this(), lock_exception_of(event.failure(), event.payload()),
                        false);
  }
  if (!is_current || is_bad) {
    Batch batch;
    batch.erase(mail.consumed);
    static_cast<void>(co_await tenure_->apply(std::move(batch)));
    tenure_->row_done(mail.consumed);
    co_return;
  }
  StepPermits& permits = found->second;
  permits.messages.push_back(mail.consumed);
  if (!step->waits_for_permit() || permits.waiter_key().empty()) {
    co_return;  // It knows already, or does not want it any more.
  }
  Store& store = tenure_->world().store;
  const std::string key = run_holder_key(permits.next()->gate, uid_, step->operation());
  const std::optional<Entry> holder = co_await store.get(key, Read::kApplied);
  if (holder) {
    permits.take(holder->version);
  } else {
    const std::optional<Entry> waiter = co_await store.get(permits.waiter_key(), Read::kApplied);
    if (waiter) {
      co_return;  // It was about another one.
    }
    permits.stop_waiting();  // An operator has taken it away before it was seen.
  }
  co_await take_permits(step);
}

// --- After a crash -------------------------------------------------------------------------------

/// What it has and where it waits, as the rows of the gates say.
Task<void> LiveRun::look_for_permits() {
  Store& store = tenure_->world().store;
  for (auto& [operation, permits] : permits_) {
    const std::string waiter_key = permits.waiter_key();
    permits.stop_waiting();
    bool waits = false;
    if (!waiter_key.empty()) {
      const std::optional<Entry> waiter = co_await store.get(waiter_key, Read::kApplied);
      waits = waiter.has_value();
    }
    const auto waits_at = [&](const std::string& gate) {
      return waits && waiter_key.starts_with(GateKeys(gate).waiters());
    };
    while (const LockTerms* next = permits.next()) {
      const std::string key = run_holder_key(next->gate, uid_, operation);
      const std::optional<Entry> holder = co_await store.get(key, Read::kApplied);
      if (!holder) {
        if (waits_at(next->gate)) {
          permits.wait(waiter_key);
        }
        break;
      }
      permits.take(holder->version);
    }
    for (const std::string& gate : permits.former_limits()) {
      permits.leave_later({gate, waits_at(gate) ? waiter_key : std::string()});
    }
  }
}

void LiveRun::resume_limited_steps() {
  for (const auto& [operation, permits] : permits_) {
    const std::shared_ptr<StepRun> step = step_at(operation);
    if (step == nullptr || !permits.waiter_key().empty()) {
      continue;
    }
    const bool pauses = step->is_between_attempts() && !permits.has_any();
    if (permits.next() == nullptr && !pauses) {
      begin_with_permits(step, true);
    } else if (!pauses) {
      ask_for_permits(operation);
    }
  }
}

}  // namespace holdfast::detail
