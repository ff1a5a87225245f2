// SPDX-License-Identifier: Apache-2.0
#include "step_run.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include <holdfast/error.hpp>
#include <holdfast/step_context.hpp>
#include <holdfast/this_task.hpp>

#include "live_run.hpp"
#include "run_failure.hpp"
#include "run_payload.hpp"
#include "run_rows.hpp"
#include "tenure.hpp"

namespace holdfast::detail {

namespace {

/// How often what a step reports is written down, at most.
constexpr Duration kProgressInterval = std::chrono::seconds(1);

record::RunFailure late_failure(const std::string& why) {
  record::RunFailure failure;
  failure.set_type("holdfast::TimedOut");
  failure.set_message(why);
  failure.set_code(static_cast<int>(ErrorCode::kTimedOut));
  return failure;
}

Duration pause_before(const Retry& retry, std::uint32_t failed) {
  const double first = static_cast<double>(retry.pause_first.count());
  const double most = static_cast<double>(retry.pause_max.count());
  const double pause = first * std::pow(retry.factor, static_cast<double>(failed - 1));
  return pause < most ? Duration(static_cast<Duration::rep>(pause)) : retry.pause_max;
}

}  // namespace

/// What the function of an attempt talks to.
class StepRun::Link final : public StepLink {
 public:
  Link(Step step, Run run, std::uint32_t number)
      : step_(std::move(step)), run_(std::move(run)), number_(number) {}
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  ~Link() = default;

  void heartbeat(std::string progress) override {
    step_->heartbeat(run_, number_, std::move(progress));
  }

 private:
  const Step step_;
  const Run run_;
  const std::uint32_t number_;
};

StepRun::StepRun(BegunStep begun, StoreTime began_at)
    : begun_(std::move(begun)), began_at_(began_at) {}

void StepRun::recall(const record::RunAttempts& attempts) {
  const std::lock_guard lock(mutex_);
  failed_ = attempts.failed();
  if (attempts.has_failure()) {
    failure_ = attempts.failure();
  }
  progress_ = attempts.progress();
  has_row_ = true;
  if (attempts.due_ns() != 0) {
    due_ = time_of(attempts.due_ns());
  }
}

void StepRun::begin(const Run& run, bool may_have_run) {
  {
    const std::lock_guard lock(mutex_);
    if (due_ || current_ != 0) {
      return;
    }
  }
  begin_attempt(run, may_have_run);
}

void StepRun::begin_next(const Run& run) {
  if (is_pausing()) {
    begin_attempt(run, true);
  }
}

void StepRun::begin_attempt(const Run& run, bool may_have_run) {
  std::uint32_t number = 0;
  std::stop_token stop;
  {
    const std::lock_guard lock(mutex_);
    if (current_ != 0 || abandoned_) {
      return;
    }
    number = current_ = failed_ + 1;
    late_.clear();
    stop_ = {};
    stop = stop_.get_token();
    attempt_began_ = last_heartbeat_ = run->tenure_->world().store.clock().now();
    if (first_began_ == TimePoint{}) {
      first_began_ = attempt_began_;
    }
  }
  RunWorld& world = run->tenure_->world();
  BackgroundTasks& where = begun_.code->blocks() ? world.step_tasks : world.tasks;
  where.run(attempt(shared_from_this(), run, number, may_have_run), stop);
  if (next_deadline(number)) {
    world.tasks.run(watch_time(shared_from_this(), run, number));
  }
}

// --- An attempt ----------------------------------------------------------------------------------

Task<void> StepRun::attempt(Step step, Run run, std::uint32_t number, bool may_have_run) {
  Link link(step, run, number);
  AttemptFacts facts;
  facts.link = &link;
  facts.recovered = may_have_run;
  {
    const std::lock_guard lock(step->mutex_);
    if (!step->progress_.empty()) {
      facts.last_progress = step->progress_;
    }
  }
  std::string key = step->begun_.terms.idempotency_key;
  if (key.empty()) {
    key.append(run->uid()).append(":").append(std::to_string(step->operation()));
  }
  StepContext context(std::move(key), number, this_task::stop_token(), std::move(facts));
  Ended ended = co_await call(step, run, context);
  // Not in the task of the attempt, which may have been asked to stop.
  run->tenure_->run(end_attempt(step, run, std::move(ended)));
}

Task<StepRun::Ended> StepRun::call(Step step, Run /*run*/, StepContext& context) {
  Ended ended;
  try {
    const boost::json::value value = co_await step->begun_.code->run(context);
    ended.payload = payload_text(value, step->begun_.name);
  } catch (const PermanentFailure&) {
    ended.failure = failure_of(std::current_exception());
    ended.try_again = false;
  } catch (const BadPayload&) {
    ended.failure = failure_of(std::current_exception());
    ended.try_again = false;
  } catch (const std::exception& error) {
    ended.failure = failure_of(std::current_exception());
    const auto retry_if = step->begun_.terms.options.retry.retry_if;
    ended.try_again = retry_if == nullptr || retry_if(error);
  } catch (...) {
    ended.failure = failure_of(std::current_exception());
  }
  co_return ended;
}

/// Decides how it goes on.
Task<void> StepRun::end_attempt(Step step, Run run, Ended ended) {
  Tenure& tenure = *run->tenure_;
  const StoreTime now = co_await tenure.world().store.time();
  const StepOptions& options = step->begun_.terms.options;
  std::optional<StoreTime> due;
  {
    const std::lock_guard lock(step->mutex_);
    if (step->abandoned_) {
      co_return;
    }
    const std::uint32_t attempts = std::exchange(step->current_, 0);
    if (!step->late_.empty()) {
      ended.failure = late_failure(step->late_);
    }
    const bool is_last = options.retry.attempts_max != 0 && attempts >= options.retry.attempts_max;
    if (ended.failure && ended.try_again && !is_last && !step->cancelled_ &&
        !step->may_not_go_on_) {
      due = now + pause_before(options.retry, attempts);
      if (options.timeout > Duration::zero() && *due >= step->began_at_ + options.timeout) {
        due.reset();
      }
    }
    if (!due) {
      // Until the activation that hears of it has come, it is as if it were under way.
      step->current_ = attempts;
      step->tell(run, ended, attempts);
      co_return;
    }
    if (step->due_) {
      step->old_due_ = step->due_;
    }
    step->failed_ = attempts;
    step->failure_ = ended.failure;
    step->due_ = due;
    step->has_row_ = true;
  }
  step->ask_for_row(run);
}

void StepRun::ask_for_row(const Run& run) const {
  Mail mail;
  mail.kind = Mail::Kind::kStepRow;
  mail.event.set_operation(operation());
  static_cast<void>(run->deliver(std::move(mail)));
}

/// With the lock.
void StepRun::tell(const Run& run, const Ended& ended, std::uint32_t attempts) {
  Mail mail;
  mail.event.set_kind(record::RunEvent::STEP_ENDED);
  mail.event.set_operation(operation());
  mail.event.set_attempts(attempts);
  if (ended.failure) {
    *mail.event.mutable_failure() = *ended.failure;
  } else {
    mail.event.set_payload(ended.payload);
  }
  static_cast<void>(run->deliver(std::move(mail)));
}

void StepRun::cancel(const Run& run) {
  std::stop_source stop(std::nostopstate);
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    if (current_ == 0) {
      Ended ended;
      ended.failure = failure_of(std::make_exception_ptr(
          Cancelled("step '" + begun_.name + "' was cancelled between two attempts")));
      current_ = failed_ + 1;
      tell(run, ended, failed_);
      return;
    }
    stop = stop_;
  }
  stop.request_stop();
}

void StepRun::abandon() {
  std::stop_source stop(std::nostopstate);
  {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
    stop = stop_;
  }
  stop.request_stop();
}

// --- Time and progress ---------------------------------------------------------------------------

std::optional<TimePoint> StepRun::next_deadline(std::uint32_t number) const {
  const StepOptions& options = begun_.terms.options;
  std::optional<TimePoint> next;
  const auto consider = [&next](Duration time, TimePoint from) {
    if (time > Duration::zero() && (!next || from + time < *next)) {
      next = from + time;
    }
  };
  const std::lock_guard lock(mutex_);
  if (current_ == number && late_.empty()) {
    consider(options.attempt_timeout, attempt_began_);
    consider(options.heartbeat_timeout, last_heartbeat_);
    consider(options.timeout, first_began_);
  }
  return next;
}

Task<void> StepRun::watch_time(Step step, Run run, std::uint32_t number) {
  Clock& clock = run->tenure_->world().store.clock();
  for (;;) {
    const std::optional<TimePoint> deadline = step->next_deadline(number);
    if (!deadline) {
      co_return;
    }
    const TimePoint now = clock.now();
    if (*deadline <= now) {
      step->stop_late(number, now);
      co_return;
    }
    co_await this_task::sleep_for(*deadline - now);
  }
}

void StepRun::stop_late(std::uint32_t number, TimePoint now) {
  const StepOptions& options = begun_.terms.options;
  std::stop_source stop(std::nostopstate);
  {
    const std::lock_guard lock(mutex_);
    if (current_ != number) {
      return;
    }
    const auto is_over = [now](Duration time, TimePoint from) {
      return time > Duration::zero() && from + time <= now;
    };
    if (is_over(options.timeout, first_began_)) {
      late_ = "step '" + begun_.name + "' took too long, with all its attempts";
      may_not_go_on_ = true;
    } else if (is_over(options.attempt_timeout, attempt_began_)) {
      late_ = "an attempt of step '" + begun_.name + "' took too long";
    } else {
      late_ = "an attempt of step '" + begun_.name + "' gave no sign of life for too long";
    }
    stop = stop_;
  }
  stop.request_stop();
}

void StepRun::heartbeat(const Run& run, std::uint32_t number, std::string progress) {
  {
    const std::lock_guard lock(mutex_);
    if (current_ != number) {
      return;
    }
    last_heartbeat_ = run->tenure_->world().store.clock().now();
    if (progress.empty()) {
      return;
    }
    progress_ = std::move(progress);
    progress_is_new_ = true;
    if (std::exchange(keeps_progress_, true)) {
      return;
    }
  }
  run->tenure_->world().tasks.run(keep_progress(shared_from_this(), run, number));
}

/// Writes down what the step reports, so that the next attempt has it, wherever that is made.
Task<void> StepRun::keep_progress(Step step, Run run, std::uint32_t number) {
  for (;;) {
    {
      const std::lock_guard lock(step->mutex_);
      if (step->current_ != number || step->abandoned_ ||
          !std::exchange(step->progress_is_new_, false)) {
        step->keeps_progress_ = false;
        co_return;
      }
      step->has_row_ = true;
    }
    step->ask_for_row(run);
    co_await this_task::sleep_for(kProgressInterval);
  }
}

StepRun::Change StepRun::take_change() {
  const std::lock_guard lock(mutex_);
  Change change;
  change.old_due = std::exchange(old_due_, std::nullopt);
  // Also if the next attempt has begun: the row and the timer that it names go together.
  change.due = due_;
  record::RunAttempts& row = change.row;
  row.set_format(kRunFormat);
  row.set_failed(failed_);
  if (failure_) {
    *row.mutable_failure() = *failure_;
  }
  row.set_progress(progress_);
  row.set_began_at_ns(ns_of(began_at_));
  if (due_) {
    // Also while the attempt is under way, as its timer stays until that has ended.
    row.set_due_ns(ns_of(*due_));
  }
  return change;
}

// --- How it stands -------------------------------------------------------------------------------

bool StepRun::is_pausing() const {
  const std::lock_guard lock(mutex_);
  return current_ == 0 && due_.has_value();
}

std::vector<StoreTime> StepRun::timers() const {
  const std::lock_guard lock(mutex_);
  std::vector<StoreTime> timers;
  for (const std::optional<StoreTime>& due : {old_due_, due_}) {
    if (due) {
      timers.push_back(*due);
    }
  }
  return timers;
}

bool StepRun::has_row() const {
  const std::lock_guard lock(mutex_);
  return has_row_;
}

OpenStep StepRun::describe() const {
  const std::lock_guard lock(mutex_);
  OpenStep step;
  step.name = begun_.name;
  step.attempts_failed = failed_;
  step.failure = failure_ ? failure_->message() : std::string();
  if (current_ == 0) {
    step.next_at = due_;
  }
  return step;
}

}  // namespace holdfast::detail
