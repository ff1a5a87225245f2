// SPDX-License-Identifier: Apache-2.0
#include "step_run.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include <holdfast/error.hpp>
#include <holdfast/run_error.hpp>
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
  Link(StepRun& step, const Run& run, std::uint32_t number) noexcept
      : step_(step), run_(run), number_(number) {}
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  ~Link() = default;

  void heartbeat(std::string progress) override {
    step_.heartbeat(run_, number_, std::move(progress));
  }

 private:
  StepRun& step_;
  const Run& run_;
  const std::uint32_t number_;
};

StepRun::StepRun(BegunStep begun, StoreTime began_at, bool is_limited, bool waits_from_the_start)
    : begun_(std::move(begun)),
      began_at_(began_at),
      is_limited_(is_limited),
      waits_(is_limited),
      has_row_(waits_from_the_start) {}

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
    waits_ = false;
  }
}

void StepRun::begin(const Run& run, Version version) {
  const bool must_be_durable = !begun_.terms.options.side_effect_free;
  begin_attempt(run, {.wait_for = must_be_durable ? version : 0});
}

void StepRun::resume(const Run& run) {
  bool is_unwanted = false;
  bool pauses = false;
  {
    const std::lock_guard lock(mutex_);
    is_unwanted = unwanted_;
    pauses = due_.has_value();
  }
  if (is_unwanted) {
    stop(run);
  } else if (!pauses && !is_limited_) {
    begin_attempt(run, {.may_have_run = true});
  }
}

void StepRun::begin_next(const Run& run) {
  if (is_between_attempts()) {
    begin_attempt(run, {.may_have_run = true});
  }
}

void StepRun::begin_attempt(const Run& run, Start start) {
  RunWorld& world = run->tenure_->world();
  std::stop_token stop;
  {
    const std::lock_guard lock(mutex_);
    if (current_ != 0 || abandoned_) {
      return;
    }
    start.number = current_ = failed_ + 1;
    waits_ = false;
    stopped_by_.reset();
    if (stop_.stop_requested()) {
      stop_ = {};
    }
    stop = stop_.get_token();
    attempt_began_ = last_heartbeat_ = world.store.clock().now();
  }
  if (begun_.code->transacts() && !world.call_step) {
    ask_for_transaction(run, start.number);
  } else {
    BackgroundTasks& where = begun_.code->blocks() ? world.step_tasks : world.tasks;
    where.run(attempt(shared_from_this(), run, start), stop);
  }
  if (has_time_limit()) {
    world.tasks.run(watch_time(shared_from_this(), run, start.number));
  }
}

// --- An attempt ----------------------------------------------------------------------------------

Task<void> StepRun::attempt(Step step, Run run, Start start) {
  std::exception_ptr error;
  if (start.wait_for != 0) {
    try {
      const bool is_durable = co_await run->tenure_->until_durable(start.wait_for);
      if (!is_durable) {
        throw Cancelled("what the step is part of was lost");
      }
    } catch (...) {
      error = std::current_exception();
    }
  }
  Ended ended;
  if (error) {
    ended = step->failed_with(error);
  } else {
    // What it needs is made only now: before, it would have to be kept all through the wait.
    ended = co_await step->call(run, start);
  }
  step->end_attempt(run, std::move(ended), start.number);
}

Task<StepRun::Ended> StepRun::call(const Run& run, Start start) {
  Link link(*this, run, start.number);
  AttemptFacts facts;
  facts.link = &link;
  facts.recovered = start.may_have_run;
  facts.fence = start.fence;
  {
    const std::lock_guard lock(mutex_);
    if (!progress_.empty()) {
      facts.last_progress = progress_;
    }
  }
  StepContext context(begun_.terms.idempotency_key, start.number, this_task::stop_token(),
                      std::move(facts));
  Ended ended;
  try {
    const boost::json::value value = co_await run_code(*run, context);
    ended.payload = payload_text(value, begun_.name);
  } catch (...) {
    ended = failed_with(std::current_exception());
  }
  co_return ended;
}

void StepRun::end_attempt(const Run& run, Ended ended, std::uint32_t number) {
  if (decide(ended)) {
    tell(run, std::move(ended), number);
  } else if (!is_abandoned()) {
    // Not in the task of the attempt, which may have been asked to stop.
    run->tenure_->run(pause(shared_from_this(), run));
  }
}

Task<boost::json::value> StepRun::run_code(const LiveRun& run, StepContext& context) const {
  const CallStep& call_instead = run.tenure_->world().call_step;
  if (!call_instead) {
    return begun_.code->run(context);
  }
  const RunMachine::Facts& facts = run.machine_.facts();
  return call_instead({begun_.name, facts.id, facts.type, facts.input}, *begun_.code, context);
}

StepRun::Ended StepRun::failed_with(const std::exception_ptr& error) const {
  Ended ended;
  ended.failure = failure_of(error);
  try {
    std::rethrow_exception(error);
  } catch (const PermanentFailure&) {
    ended.try_again = false;
  } catch (const BadPayload&) {
    ended.try_again = false;
  } catch (const std::exception& known) {
    const auto retry_if = begun_.terms.options.retry.retry_if;
    ended.try_again = retry_if == nullptr || retry_if(known);
  } catch (...) {
    ended.try_again = true;
  }
  return ended;
}

/// Whether the workflow is to hear of it; otherwise it is tried again, or nobody cares.
bool StepRun::decide(Ended& ended) {
  const Retry& retry = begun_.terms.options.retry;
  const std::lock_guard lock(mutex_);
  if (abandoned_) {
    return false;
  }
  if (stopped_by_) {
    ended.failure = stopped_by_;
  }
  const bool is_last = retry.attempts_max != 0 && current_ >= retry.attempts_max;
  if (!ended.failure || !ended.try_again || is_last || unwanted_ || may_not_go_on_) {
    return true;  // Until the workflow has heard of it, it is as if it were under way.
  }
  failure_ = ended.failure;
  return false;
}

Task<void> StepRun::pause(Step step, Run run) {
  Tenure& tenure = *run->tenure_;
  const StoreTime now = co_await tenure.world().store.time();
  const StepOptions& options = step->begun_.terms.options;
  bool shall_pause = false;
  {
    const std::lock_guard lock(step->mutex_);
    const StoreTime due = now + pause_before(options.retry, step->current_);
    const bool is_too_late =
        options.timeout > Duration::zero() && due >= step->began_at_ + options.timeout;
    shall_pause = !is_too_late && !step->unwanted_;
    if (shall_pause) {
      if (step->due_) {
        step->old_due_ = step->due_;
      }
      step->failed_ = std::exchange(step->current_, 0);
      step->due_ = due;
      step->has_row_ = true;
    }
  }
  if (shall_pause) {
    step->ask_for_row(run);
  } else {
    step->tell(run, Ended{{}, step->failure_}, step->current_);
  }
}

void StepRun::ask_for_row(const Run& run) const {
  Mail mail;
  mail.kind = Mail::Kind::kStepRow;
  mail.event.set_operation(operation());
  static_cast<void>(run->deliver(std::move(mail)));
}

void StepRun::tell(const Run& run, Ended ended, std::uint32_t attempts) const {
  Mail mail;
  mail.event.set_kind(record::RunEvent::STEP_ENDED);
  mail.event.set_operation(operation());
  mail.event.set_attempts(attempts);
  if (ended.failure) {
    *mail.event.mutable_failure() = *std::move(ended.failure);
  } else {
    mail.event.set_payload(std::move(ended.payload));
  }
  run->deliver_here(std::move(mail));
}

void StepRun::set_unwanted() {
  const std::lock_guard lock(mutex_);
  unwanted_ = true;
}

void StepRun::stop(const Run& run) {
  std::stop_source stop(std::nostopstate);
  bool is_under_way = true;
  std::uint32_t attempts = 0;
  {
    const std::lock_guard lock(mutex_);
    is_under_way = current_ != 0;
    attempts = failed_;
    if (!is_under_way) {
      current_ = failed_ + 1;  // As if it were, until the workflow has heard of it.
    }
    stop = stop_;
  }
  if (is_under_way) {
    stop.request_stop();
    return;
  }
  Ended ended;
  ended.failure = failure_of(
      std::make_exception_ptr(Cancelled("step '" + begun_.name + "' is not wanted any more")));
  tell(run, std::move(ended), attempts);
}

bool StepRun::is_abandoned() const {
  const std::lock_guard lock(mutex_);
  return abandoned_;
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

// --- An attempt that is a transaction ------------------------------------------------------------

/// Whoever drives the run makes it, as a row of the journal is part of it.
void StepRun::ask_for_transaction(const Run& run, std::uint32_t number) const {
  Mail mail;
  mail.kind = Mail::Kind::kTransact;
  mail.event.set_operation(operation());
  mail.event.set_attempts(number);
  static_cast<void>(run->deliver(std::move(mail)));
}

void StepRun::check_is_wanted(std::uint32_t attempt, const char* before) const {
  const std::lock_guard lock(mutex_);
  if (current_ != attempt || abandoned_ || unwanted_ || stop_.stop_requested()) {
    throw Cancelled("transaction '" + begun_.name + "' was asked to stop before it " + before +
                    ": nothing of it happened");
  }
}

std::string StepRun::transact(std::uint32_t attempt, Transaction& transaction) const {
  check_is_wanted(attempt, "began");
  const boost::json::value value = begun_.code->transact(transaction);
  std::string payload = payload_text(value, begun_.name);
  check_is_wanted(attempt, "was committed");
  return payload;
}

void StepRun::fail_transaction(const Run& run, std::uint32_t attempt,
                               const std::exception_ptr& error, bool may_try_again) {
  Ended ended = failed_with(error);
  ended.try_again = ended.try_again && may_try_again;
  end_attempt(run, std::move(ended), attempt);
}

// --- Limits --------------------------------------------------------------------------------------

std::optional<StoreTime> StepRun::deadline() const {
  const Duration timeout = begun_.terms.options.timeout;
  return timeout > Duration::zero() ? std::optional(began_at_ + timeout) : std::nullopt;
}

std::uint32_t StepRun::attempt_number() const {
  const std::lock_guard lock(mutex_);
  return current_ != 0 ? current_ : failed_ + 1;
}

bool StepRun::is_between_attempts() const {
  const std::lock_guard lock(mutex_);
  return current_ == 0 && due_.has_value();
}

bool StepRun::waits_for_permit() const {
  const std::lock_guard lock(mutex_);
  return current_ == 0 && waits_;
}

void StepRun::wait_for_permit() {
  const std::lock_guard lock(mutex_);
  waits_ = true;
  has_row_ = true;
  due_.reset();
  old_due_.reset();
}

void StepRun::begin_with_permit(const Run& run, Version fence, Version version, bool may_have_run) {
  const bool must_be_durable = !begun_.terms.options.side_effect_free;
  begin_attempt(
      run,
      {.may_have_run = may_have_run, .wait_for = must_be_durable ? version : 0, .fence = fence});
}

void StepRun::fail_to_begin(const Run& run, const std::exception_ptr& error, bool may_try_again) {
  std::uint32_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    if (current_ != 0 || abandoned_) {
      return;
    }
    number = current_ = failed_ + 1;
    waits_ = false;
    stopped_by_.reset();
  }
  Ended ended = failed_with(error);
  ended.try_again = ended.try_again && may_try_again;
  end_attempt(run, std::move(ended), number);
}

void StepRun::end_waiting(const Run& run) {
  std::uint32_t attempts = 0;
  {
    const std::lock_guard lock(mutex_);
    if (current_ != 0 || !waits_) {
      return;
    }
    attempts = failed_;
    current_ = failed_ + 1;  // As if it were under way, until the workflow has heard of it.
  }
  tell(run, Ended{{}, late_failure(too_long())}, attempts);
}

void StepRun::lose_permit(const std::string& gate) {
  std::stop_source stop(std::nostopstate);
  {
    const std::lock_guard lock(mutex_);
    if (current_ == 0 || stopped_by_) {
      return;
    }
    stopped_by_ = failure_of(std::make_exception_ptr(
        StaleFence("step '" + begun_.name + "' does not have its permit of '" + gate +
                   "' any more: an operator has released it")));
    stop = stop_;
  }
  stop.request_stop();
}

// --- Time and progress ---------------------------------------------------------------------------

bool StepRun::has_time_limit() const noexcept {
  const StepOptions& options = begun_.terms.options;
  return options.attempt_timeout != Duration::zero() ||
         options.heartbeat_timeout != Duration::zero() || options.timeout != Duration::zero();
}

std::string StepRun::too_long() const {
  return "step '" + begun_.name + "' took too long, with all its attempts";
}

std::optional<TimePoint> StepRun::next_deadline(std::uint32_t number) const {
  const StepOptions& options = begun_.terms.options;
  const std::lock_guard lock(mutex_);
  if (current_ != number || stopped_by_) {
    return std::nullopt;
  }
  std::optional<TimePoint> next = all_over_at_;
  const auto consider = [&next](Duration time, TimePoint from) {
    if (time > Duration::zero() && (!next || from + time < *next)) {
      next = from + time;
    }
  };
  consider(options.attempt_timeout, attempt_began_);
  consider(options.heartbeat_timeout, last_heartbeat_);
  return next;
}

Task<void> StepRun::watch_time(Step step, Run run, std::uint32_t number) {
  Store& store = run->tenure_->world().store;
  Clock& clock = store.clock();
  if (const std::optional<StoreTime> over_at = step->deadline()) {
    const StoreTime now = co_await store.time();
    const std::lock_guard lock(step->mutex_);
    step->all_over_at_ = clock.now() + (*over_at - now);
  }
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
    if (current_ != number || stopped_by_) {
      return;
    }
    if (all_over_at_ && *all_over_at_ <= now) {
      stopped_by_ = late_failure(too_long());
      may_not_go_on_ = true;
    } else if (options.attempt_timeout > Duration::zero() &&
               attempt_began_ + options.attempt_timeout <= now) {
      stopped_by_ = late_failure("an attempt of step '" + begun_.name + "' took too long");
    } else {
      stopped_by_ = late_failure("an attempt of step '" + begun_.name +
                                 "' gave no sign of life for too long");
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
  change.pauses = current_ == 0 && due_.has_value();
  change.old_due = std::exchange(old_due_, std::nullopt);
  // Also if the next attempt has begun: the row and the timer that it names go together.
  change.due = due_;
  change.row = row();
  if (due_) {
    // Also while the attempt is under way, as its timer stays until that has ended.
    change.row.set_due_ns(ns_of(*due_));
  }
  return change;
}

record::RunAttempts StepRun::row_while_waiting() const {
  const std::lock_guard lock(mutex_);
  return row();
}

record::RunAttempts StepRun::row() const {
  record::RunAttempts row;
  row.set_format(kRunFormat);
  row.set_failed(failed_);
  if (failure_) {
    *row.mutable_failure() = *failure_;
  }
  row.set_progress(progress_);
  row.set_began_at_ns(ns_of(began_at_));
  return row;
}

// --- How it stands -------------------------------------------------------------------------------

bool StepRun::is_pausing() const {
  const std::lock_guard lock(mutex_);
  return current_ == 0 && (due_.has_value() || waits_);
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

}  // namespace holdfast::detail
