// SPDX-License-Identifier: Apache-2.0
#include <holdfast/acquire.hpp>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <string>

#include <holdfast/error.hpp>
#include <holdfast/spawn.hpp>

namespace holdfast {

namespace detail {

void refuse(const WaitOptions& options) {
  if (options.timeout && *options.timeout < Duration::zero()) {
    throw InvalidArgument("WaitOptions: a timeout of " + std::to_string(options.timeout->count()) +
                          " ns is negative; give zero (do not wait) or more");
  }
  throw InvalidArgument("WaitOptions: a priority of " + std::to_string(options.priority) +
                        " is out of range; give " + std::to_string(kPriorityMin) + " to " +
                        std::to_string(kPriorityMax));
}

std::optional<TimePoint> deadline_of(const WaitOptions& options, TimePoint now) {
  std::optional<TimePoint> deadline = options.deadline;
  if (options.timeout) {
    const bool endless = *options.timeout > TimePoint::max() - now;
    const TimePoint after = endless ? TimePoint::max() : now + *options.timeout;
    deadline = std::min(deadline.value_or(after), after);
  }
  return deadline;
}

WaitOptions with_deadline(const WaitOptions& options) {
  if (!options.timeout) {
    return options;
  }
  const auto* const task = TaskContext::current();
  const TimePoint now = task != nullptr ? task->clock().now() : MonotonicTime::now();
  return {.timeout = {}, .deadline = deadline_of(options, now), .priority = options.priority};
}

std::optional<Hold> try_acquire(const AcquireRequest& request) {
  if (request.turnstile->enter_if_free(request.generation, request.weight)) {
    return Hold(*request.turnstile, request.weight, nullptr);
  }
  Waiter waiter;
  waiter.weight = request.weight;
  waiter.tokens = request.tokens;
  const TaskContext* const task = TaskContext::current();
  request.turnstile->enter(waiter, request.generation, Turnstile::Patience::kTry,
                           {.task = task, .is_thread = task == nullptr});
  if (waiter.ending == Ending::kGranted) {
    return Hold(*request.turnstile, request.weight, waiter.holder);
  }
  if (waiter.ending != Ending::kNone) {
    throw_ending(waiter);
  }
  return std::nullopt;
}

void throw_ending(const Waiter& waiter) {
  const std::string what = waiter.what != nullptr ? *waiter.what : "the lock";
  switch (waiter.ending) {
    case Ending::kTimedOut:
      throw TimedOut("the deadline passed while waiting for " + what);
    case Ending::kCancelled:
      throw Cancelled("asked to stop while waiting for " + what);
    case Ending::kClosed:
      if (waiter.what == nullptr) {
        throw Closed("the lock was destroyed before this operation was awaited");
      }
      throw Closed(what + " was destroyed while this waited for it");
    case Ending::kQueueFull:
      throw QueueFull("the queue of " + what + " is full; try again later");
    case Ending::kDropped:
      throw Dropped("dropped from the full queue of " + what + " for a newer waiter");
    case Ending::kUnsatisfiable:
      throw Unsatisfiable(what + " can never give " +
                          std::to_string(std::max(waiter.weight, waiter.tokens)) +
                          " at once: its limit is " + std::to_string(waiter.limit));
    case Ending::kNone:
    case Ending::kGranted:
      break;
  }
  check_failed("ending", "a wait ended without an ending", __FILE__, __LINE__);
}

}  // namespace detail

using detail::Ending;
using detail::Turnstile;

Acquire::Waiting::Waiting(const detail::AcquireRequest& request, int its_priority,
                          detail::TaskContext& its_context,
                          std::coroutine_handle<> its_task) noexcept
    : turnstile(*request.turnstile) {
  task_context = &its_context;
  coroutine = its_task.address();
  weight = request.weight;
  tokens = request.tokens;
  priority = its_priority;
  wake = [](detail::Waiter& waiter) noexcept {
    auto& waiting = static_cast<Waiting&>(waiter);
    waiting.context().schedule(std::coroutine_handle<>::from_address(waiting.coroutine));
  };
}

Acquire::Waiting::~Waiting() {
  HOLDFAST_CHECK(!queued,
                 "a coroutine was destroyed while it waited for a lock: let it end by "
                 "requesting a stop");
}

void Acquire::Waiting::cancel() noexcept { turnstile.abandon(*this, Ending::kCancelled); }

Acquire::Alarm::Alarm(Waiting& owner) noexcept
    : Timer([](Timer& timer) noexcept {
        Waiting& late = static_cast<Alarm&>(timer).waiting;
        late.turnstile.abandon(late, Ending::kTimedOut);
      }),
      waiting(owner) {}

// Whatever can end the wait is set up before the waiter is published by `enter`; after that another
// thread may have resumed the task, and nothing here is touched.
bool Acquire::start(detail::TaskContext& context, std::coroutine_handle<> task) {
  Waiting& waiting = waiting_.emplace(request_, options_.priority, context, task);
  if (!context.begin_wait(waiting)) {
    waiting.ending = Ending::kCancelled;
    return false;
  }
  try {
    auto patience = Turnstile::Patience::kWait;
    if (options_.timeout || options_.deadline) {
      const TimePoint now = context.clock().now();
      const auto deadline = detail::deadline_of(options_, now);
      if (*deadline <= now) {
        patience = Turnstile::Patience::kDeadlinePassed;
      } else {
        auto& alarm = waiting.bounds.emplace().alarm.emplace(waiting);
        context.clock().arm(alarm, *deadline);
      }
    }
    if (stop_.stop_possible()) {
      auto& bounds = waiting.bounds ? *waiting.bounds : waiting.bounds.emplace();
      bounds.on_stop.emplace(stop_, OnStop{&waiting});
    }
    return request_.turnstile->enter(waiting, request_.generation, patience,
                                     {.task = &context, .is_thread = false});
  } catch (...) {
    waiting.refusal = std::current_exception();
    return false;
  }
}

detail::Holder* Acquire::finish() {
  waiting_->context().end_wait();
  if (waiting_->bounds) {
    if (waiting_->bounds->alarm) {
      waiting_->context().clock().disarm(*waiting_->bounds->alarm);
    }
    waiting_->bounds->on_stop.reset();
  }
  if (waiting_->refusal != nullptr) {
    std::rethrow_exception(waiting_->refusal);
  }
  if (waiting_->ending != Ending::kGranted) {
    detail::throw_ending(*waiting_);
  }
  return waiting_->holder;
}

/// Where a plain thread waits.
class Acquire::Parking {
 public:
  void leave() noexcept {
    const std::scoped_lock lock(mutex_);
    left_ = true;
    left_changed_.notify_one();  // Under the lock: afterwards this may be gone.
  }

  void wait() {
    std::unique_lock lock(mutex_);
    left_changed_.wait(lock, [this] { return left_; });
  }

  bool wait_until(TimePoint deadline) {
    std::unique_lock lock(mutex_);
    while (!left_) {
      const Duration rest = deadline - MonotonicTime::now();
      if (rest <= Duration::zero()) {
        return false;
      }
      left_changed_.wait_for(lock, std::min<Duration>(rest, std::chrono::hours(24)));
    }
    return true;
  }

 private:
  std::mutex mutex_;
  std::condition_variable left_changed_;
  bool left_ = false;
};

Hold Acquire::wait() {
  detail::refuse_inside_task("wait()");
  if (stop_.stop_requested()) {
    detail::Waiter cancelled;
    cancelled.ending = Ending::kCancelled;
    detail::throw_ending(cancelled);
  }
  if (request_.turnstile->enter_if_free(request_.generation, request_.weight)) {
    return {*request_.turnstile, request_.weight, nullptr};
  }
  struct ParkedThread : detail::Waiter {
    Parking parking;
  } parked;
  parked.weight = request_.weight;
  parked.tokens = request_.tokens;
  parked.priority = options_.priority;
  parked.wake = [](detail::Waiter& waiter) noexcept {
    static_cast<ParkedThread&>(waiter).parking.leave();
  };
  const auto cancel_parked = [&] { request_.turnstile->abandon(parked, Ending::kCancelled); };
  const std::stop_callback on_stop(stop_, cancel_parked);
  const TimePoint now = MonotonicTime::now();
  const auto deadline = detail::deadline_of(options_, now);
  const auto patience = deadline && *deadline <= now ? Turnstile::Patience::kDeadlinePassed
                                                     : Turnstile::Patience::kWait;
  if (request_.turnstile->enter(parked, request_.generation, patience,
                                {.task = nullptr, .is_thread = true})) {
    if (deadline && !parked.parking.wait_until(*deadline)) {
      request_.turnstile->abandon(parked, Ending::kTimedOut);
    }
    parked.parking.wait();
  }
  if (parked.ending != Ending::kGranted) {
    detail::throw_ending(parked);
  }
  return {*request_.turnstile, request_.weight, parked.holder};
}

}  // namespace holdfast
