// SPDX-License-Identifier: Apache-2.0
// What a run does with its mail, before and besides its code.
#include <algorithm>
#include <iterator>
#include <utility>

#include <holdfast/error.hpp>

#include "live_run.hpp"
#include "run_payload.hpp"
#include "run_rows.hpp"
#include "tenure.hpp"

namespace holdfast::detail {

namespace {

bool ends_it(const Mail& mail) {
  return mail.kind == Mail::Kind::kTimeUp || mail.kind == Mail::Kind::kTerminate;
}

record::RunFailure failure_of_end(const char* type, std::string message) {
  record::RunFailure failure;
  failure.set_type(type);
  failure.set_message(std::move(message));
  return failure;
}

bool is_of_lock(const Mail& mail) {
  return mail.event.kind() == record::RunEvent::LOCK_SETTLED ||
         mail.event.kind() == record::RunEvent::LOCK_LOST;
}

bool is_loss(const Mail& mail) {
  return mail.kind == Mail::Kind::kEvent && mail.event.kind() == record::RunEvent::LOCK_LOST;
}

/// To whoever asked, wherever that is.
void answer(const Mail& mail, boost::json::value value, std::exception_ptr error, Batch& answers) {
  if (!mail.reply_key.empty()) {
    answers.put(mail.reply_key, reply_row(value, error));
  }
  if (!mail.consumed.empty()) {
    answers.erase(mail.consumed);
  }
  if (mail.answer != nullptr) {
    mail.answer->set(std::move(value), std::move(error));
    mail.answer->give();
  }
}

}  // namespace

Task<bool> LiveRun::handle(std::vector<Mail> mails) {
  const auto ender = std::find_if(mails.begin(), mails.end(), ends_it);
  if (ender != mails.end()) {
    Mail mail = std::move(*ender);
    mails.erase(ender);
    const bool is_late = mail.kind == Mail::Kind::kTimeUp;
    record::RunFailure failure = is_late ? failure_of_end("TimedOut", "its time is up")
                                         : failure_of_end("Terminated", mail.event.payload());
    co_await end_by_force(is_late ? record::RunHead::TIMED_OUT : record::RunHead::TERMINATED,
                          std::move(failure), std::move(mail));
    give_back(std::move(mails));
    co_return false;
  }
  std::size_t event_count = 0;  // These are moved to the front.
  std::vector<Mail> transactions;
  std::vector<Mail> early;  // Questions to code that has no handlers yet.
  Batch answers;
  bool shall_leave = false;
  bool is_woken = false;
  bool is_started = next_row_ > 0;
  for (Mail& mail : mails) {
    switch (mail.kind) {
      case Mail::Kind::kTimeUp:
      case Mail::Kind::kTerminate:
        break;  // Dealt with above.
      case Mail::Kind::kQuery:
        if (next_row_ == 0) {
          early.push_back(std::move(mail));
        } else {
          answer_query(mail, answers);
        }
        break;
      case Mail::Kind::kRetryNow:
        for (const std::shared_ptr<StepRun>& step : open()) {
          co_await begin_next(step);
        }
        answers.erase(mail.consumed);
        break;
      case Mail::Kind::kStepRow:
        co_await write_step_row(mail.event.operation());
        break;
      case Mail::Kind::kPermits:
        if (const auto step = step_at(mail.event.operation())) {
          co_await take_permits(step);
        }
        break;
      case Mail::Kind::kTransact:
        transactions.push_back(std::move(mail));
        break;
      case Mail::Kind::kEvict:
        shall_leave = true;
        break;
      case Mail::Kind::kWaitOver:
      case Mail::Kind::kWake:
        if (!mail.consumed.empty()) {
          answers.erase(mail.consumed);
        }
        is_woken = true;
        break;
      case Mail::Kind::kEvent:
        if (mail.event.kind() == record::RunEvent::TIMER_FIRED &&
            step_at(mail.event.operation()) != nullptr) {
          co_await end_pause(step_at(mail.event.operation()), mail.consumed);
        } else if (is_of_lock(mail) && step_at(mail.event.operation()) != nullptr) {
          const std::shared_ptr<StepRun> step = step_at(mail.event.operation());
          co_await hear_of_permit(step, std::move(mail));
        } else if (starts_it(mail) && is_started) {
          answers.erase(mail.consumed);  // It began before its timer was heard.
        } else if (mail.event.kind() == record::RunEvent::UPDATED && next_row_ == 0) {
          early.push_back(std::move(mail));
        } else if (mail.event.kind() != record::RunEvent::UPDATED || !refuses(mail, answers)) {
          is_started = is_started || starts_it(mail);
          Mail& place = mails[event_count++];
          if (&place != &mail) {
            place = std::move(mail);
          }
        }
        break;
    }
  }
  std::vector<Mail>& events = mails;
  events.resize(event_count);
  if (must_enter()) {
    const StoreTime now = co_await tenure_->world().store.time();
    if (wants_in(events, now)) {
      const bool is_in = co_await enter();
      if (!is_in) {
        co_await wait_outside(std::move(events), std::move(early), std::move(answers));
        bool stays = !is_gone();
        if (stays && shall_leave) {
          stays = co_await leave_memory();
        }
        co_return stays;
      }
      std::vector<Mail> kept = take_kept();
      std::vector<Mail>& line = next_row_ == 0 ? early : events;
      line.insert(line.begin(), std::make_move_iterator(kept.begin()),
                  std::make_move_iterator(kept.end()));
      resume_steps();
    }
  }
  if (next_row_ == 0) {
    const StoreTime now = co_await tenure_->world().store.time();
    const auto first = std::find_if(events.begin(), events.end(), starts_it);
    if (first != events.end()) {
      std::rotate(events.begin(), first, first + 1);
    } else if (time_of(head_.starts_at_ns()) <= now) {
      events.emplace(events.begin())->event.set_kind(record::RunEvent::STARTED);
    } else {
      for (const Mail& mail : early) {
        if (mail.kind == Mail::Kind::kQuery) {
          answer_query(mail, answers);
        } else {
          static_cast<void>(refuses(mail, answers));
        }
      }
      co_await write_timers_again(std::move(answers));
      co_await keep_until_start(std::move(events));
      const std::lock_guard lock(mutex_);
      co_return !gone_;
    }
  }
  if (events.empty() && !machine_.has_held()) {
    if (is_woken) {
      co_await write_timers_again(std::move(answers));
    } else if (answers.size() > 0) {
      static_cast<void>(co_await tenure_->apply(std::move(answers)));
    }
    bool stays = true;
    if (shall_leave) {
      stays = co_await leave_memory();
    }
    if (stays) {
      stays = co_await transact_first(std::move(transactions));
    }
    co_return stays;
  }
  if (next_row_ > 0) {
    auto front = events.begin();
    for (auto mail = events.begin(); mail != events.end(); ++mail) {
      if (is_loss(*mail)) {
        std::rotate(front++, mail, mail + 1);
      }
    }
  }
  if (is_woken && next_row_ > 0 && !has_its_timers_) {
    Batch nothing_else;
    co_await write_timers_again(std::move(nothing_else));
  }
  std::optional<StoreTime> now = tenure_->world().store.try_time();
  if (!now) {
    now = co_await tenure_->world().store.time();
  }
  Entrance is_in_already;
  const std::optional<CommitOutcome> outcome =
      co_await activate(std::move(events), std::move(answers), *now, std::move(is_in_already));
  if (outcome && outcome->committed() == nullptr) {
    tenure_->end("a row of run '" + uid_ + "' was changed by somebody else: " +
                 (outcome->conflict() != nullptr ? outcome->conflict()->key : std::string()));
  }
  put_back(std::move(early));
  if (transactions.empty()) {
    co_return !is_gone();
  }
  drive_follower_apart();
  const bool stays = co_await transact_first(std::move(transactions));
  co_return stays;
}

/// For one that was put here by others, who do not know which timers are known.
Task<void> LiveRun::write_timers_again(Batch extra) {
  has_its_timers_ = true;
  Writing writing;
  writing.batch = std::move(extra);
  write_own_timers(writing, next_row_ == 0);
  for (const auto& [operation, due] : timers_) {
    set_timer(writing, due, operation);
  }
  if (writing.batch.size() == 0) {
    co_return;
  }
  const std::optional<CommitOutcome> outcome = co_await tenure_->apply(std::move(writing.batch));
  if (outcome && outcome->committed() != nullptr) {
    note_timers(writing);
  }
}

/// What a commit did to timers, and to messages that came before.
void LiveRun::note_timers(const Writing& writing) {
  for (const std::string& key : writing.messages_gone) {
    tenure_->row_done(key);
  }
  for (const std::string& key : writing.timers_gone) {
    tenure_->remove_timer(key);
  }
  for (const std::string& key : writing.timers_set) {
    tenure_->add_timer(key);
  }
}

/// A timer of an earlier pause says nothing about this one.
Task<void> LiveRun::end_pause(std::shared_ptr<StepRun> step, std::string timer) {
  const auto is_for = [&](StoreTime due) {
    return timer == tenure_->keys().timer(due, uid_, step->operation());
  };
  const auto permits = permits_.find(step->operation());
  if (permits != permits_.end() && permits->second.deadline && is_for(*permits->second.deadline)) {
    step->end_waiting(shared_from_this());
    co_return;
  }
  const std::vector<StoreTime> timers = step->timers();
  if (!timers.empty() && is_for(timers.back())) {
    co_await begin_next(step);
  }
}

Task<void> LiveRun::begin_next(std::shared_ptr<StepRun> step) {
  if (!permits_.contains(step->operation())) {
    step->begin_next(shared_from_this());
  } else if (step->is_between_attempts()) {
    co_await take_permits(step);
  }
}

/// By whoever drives the run, so that it is not written when the step has gone meanwhile.
Task<void> LiveRun::write_step_row(std::uint64_t operation) {
  const std::shared_ptr<StepRun> step = step_at(operation);
  if (step == nullptr) {
    co_return;
  }
  StepRun::Change change = step->take_change();
  if (const auto permits = permits_.find(operation); permits != permits_.end()) {
    if (change.pauses) {
      co_await give_permits_back(step, std::move(change));
      co_return;
    }
    change.row.set_waiter_key(permits->second.waiter_key());
  }
  Writing writing;
  write_attempts(writing, operation, change);
  const std::optional<CommitOutcome> outcome = co_await tenure_->apply(std::move(writing.batch));
  if (outcome && outcome->committed() != nullptr) {
    note_timers(writing);
  }
}

void LiveRun::write_attempts(Writing& writing, std::uint64_t operation,
                             const StepRun::Change& change) const {
  if (change.old_due) {
    drop_timer(writing, *change.old_due, operation);
  }
  if (change.due) {
    set_timer(writing, *change.due, operation);
  }
  writing.batch.put(tenure_->keys().attempts(uid_, operation), change.row.SerializeAsString());
}

/// What comes before a run has begun.
Task<void> LiveRun::keep_until_start(std::vector<Mail> mails) {
  Batch batch;
  for (const Mail& mail : mails) {
    if (mail.event.kind() == record::RunEvent::CANCEL_REQUESTED) {
      record::RunFailure failure = failure_of_end("Terminated", "before it began");
      co_await end_by_force(record::RunHead::CANCELLED, std::move(failure), mail);
      give_back(std::move(mails));
      co_return;
    }
    if (mail.event.kind() == record::RunEvent::SIGNALLED) {
      *head_.add_signals() = mail.event;
    }
    if (!mail.consumed.empty()) {
      batch.erase(mail.consumed);
    }
  }
  if (mails.empty()) {
    co_return;
  }
  head_.set_signals_kept(full_with(static_cast<std::size_t>(head_.signals_size())));
  const std::string key = tenure_->keys().run(uid_);
  batch.require_version(key, head_version_).put(key, head_.SerializeAsString());
  const std::optional<CommitOutcome> outcome = co_await tenure_->apply(std::move(batch));
  if (!outcome) {
    co_return;
  }
  if (outcome->committed() == nullptr) {
    tenure_->end("run '" + uid_ + "' was changed by somebody else");
    co_return;
  }
  head_version_ = outcome->committed()->version;
  waits_in_store_ = head_.waits();
  is_full_in_store_ = head_.signals_kept() > 0;
  for (const Mail& mail : mails) {
    if (!mail.consumed.empty()) {
      tenure_->row_done(mail.consumed);
    }
  }
}

void LiveRun::put_back(std::vector<Mail> mails) {
  if (mails.empty()) {
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    if (!gone_) {
      mail_.insert(mail_.begin(), std::make_move_iterator(mails.begin()),
                   std::make_move_iterator(mails.end()));
      return;
    }
  }
  give_back(std::move(mails));
}

void LiveRun::answer_query(const Mail& mail, Batch& answers) {
  boost::json::value value;
  std::exception_ptr error;
  try {
    value = machine_.query(mail.event.name(), parse_payload(mail.event.payload()));
  } catch (...) {
    error = std::current_exception();
  }
  answer(mail, std::move(value), std::move(error), answers);
}

bool LiveRun::refuses(const Mail& update, Batch& answers) {
  if (machine_.knows_update(update.event.request())) {
    return false;  // Whatever the validator says by now, it was made.
  }
  std::exception_ptr error;
  try {
    machine_.check_update(update.event.name(), parse_payload(update.event.payload()));
  } catch (...) {
    error = std::current_exception();
    answer(update, nullptr, error, answers);
  }
  return error != nullptr;
}

}  // namespace holdfast::detail
