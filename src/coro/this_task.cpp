// SPDX-License-Identifier: Apache-2.0
#include <holdfast/this_task.hpp>

#include <holdfast/error.hpp>

namespace holdfast::this_task {

namespace {

detail::TaskContext& current() {
  auto* context = detail::TaskContext::current();
  if (context == nullptr) {
    throw WrongContext("a function of holdfast::this_task was called outside a task");
  }
  return *context;
}

Duration checked(Duration duration) {
  if (duration < Duration::zero()) {
    throw InvalidArgument("sleep_for: " + std::to_string(duration.count()) +
                          " ns is negative; give zero or more");
  }
  return duration;
}

}  // namespace

Executor& executor() { return current().executor(); }
Clock& clock() { return current().clock(); }
std::string name() { return current().name(); }
bool stop_requested() { return current().stop_requested(); }
std::stop_token stop_token() { return current().stop_token(); }

void check_stop() {
  if (stop_requested()) {
    throw Cancelled("'" + name() + "' was asked to stop");
  }
}

Sleep sleep_for(Duration duration) { return Sleep(checked(duration)); }

Sleep::Alarm::Alarm(Sleep& owner) noexcept
    : Timer([](Timer& timer) noexcept { static_cast<Alarm&>(timer).sleep.end(); }), sleep(owner) {}

bool Sleep::start(detail::TaskContext& context, std::coroutine_handle<> task) {
  context_ = &context;
  task_ = task;
  state_ = State::kStarting;
  cancelled_ = false;
  if (!context.begin_wait(*this)) {
    cancelled_ = true;
    return false;
  }
  if (duration_) {
    const TimePoint now = context.clock().now();
    until_ = *duration_ > TimePoint::max() - now ? TimePoint::max() : now + *duration_;
  }
  alarm_.emplace(*this);
  context.clock().arm(*alarm_, until_);
  // An end that came before this saw kStarting and left the resuming to us.
  State starting = State::kStarting;
  return state_.compare_exchange_strong(starting, State::kSuspended);
}

void Sleep::end() noexcept {
  if (state_.exchange(State::kEnded) == State::kSuspended) {
    context_->schedule(task_);
  }
}

void Sleep::cancel() noexcept {
  cancelled_ = true;
  end();
}

void Sleep::await_resume() {
  context_->end_wait();
  if (alarm_) {
    context_->clock().disarm(*alarm_);
  }
  if (cancelled_) {
    throw Cancelled("'" + context_->name() + "' was asked to stop while it slept");
  }
}

}  // namespace holdfast::this_task
