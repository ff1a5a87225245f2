// SPDX-License-Identifier: Apache-2.0
#include "arrival.hpp"

#include <utility>

#include <holdfast/error.hpp>
#include <holdfast/this_task.hpp>

namespace holdfast::detail {

Arrival::Alarm::Alarm(Arrival& owner) noexcept
    : Timer(
          [](Timer& timer) noexcept { static_cast<Alarm&>(timer).arrival.end(State::kTimedOut); }),
      arrival(owner) {}

void Arrival::comes_soon() const noexcept {
  if (state_.load() == State::kAwaited) {
    fetch_task_ahead();
  }
}

void Arrival::let_in(Grant grant) noexcept {
  grant_ = std::move(grant);
  end(State::kLetIn);
}

void Arrival::fail(std::exception_ptr error) noexcept {
  error_ = std::move(error);
  end(State::kFailed);
}

void Arrival::begin() {
  if (give_up_at_) {
    Clock& clock = this_task::clock();
    if (*give_up_at_ <= clock.now()) {
      end(State::kTimedOut);
    } else {
      clock.arm(alarm_.emplace(*this), *give_up_at_);
    }
  }
  State expected = State::kNotAwaited;
  if (!state_.compare_exchange_strong(expected, State::kAwaited)) {
    complete();
  }
}

void Arrival::stop() noexcept { end(State::kCancelled); }

/// Whoever ends it before it is awaited leaves it to the task to go on.
void Arrival::end(State how) noexcept {
  State state = state_.load();
  do {
    if (state != State::kNotAwaited && state != State::kAwaited) {
      return;
    }
  } while (!state_.compare_exchange_weak(state, how));
  if (state == State::kAwaited) {
    complete();
  }
}

Arrival::Grant Arrival::await_resume() {
  Completion::await_resume();
  if (alarm_) {
    this_task::clock().disarm(*alarm_);
  }
  switch (state_.load()) {
    case State::kFailed:
      std::rethrow_exception(error_);
    case State::kTimedOut:
      throw TimedOut("'" + gate_ + "': the deadline passed while this waited");
    case State::kCancelled:
      throw Cancelled("'" + gate_ + "': asked to stop while this waited");
    default:
      return std::move(grant_);
  }
}

}  // namespace holdfast::detail
