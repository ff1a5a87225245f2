// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <coroutine>
#include <cstdint>
#include <exception>
#include <optional>
#include <stop_token>
#include <utility>

#include <holdfast/detail/task_context.hpp>
#include <holdfast/detail/turnstile.hpp>
#include <holdfast/hold.hpp>
#include <holdfast/sync_options.hpp>
#include <holdfast/task.hpp>

namespace holdfast {

namespace detail {

/// What is asked of which turnstile.
struct AcquireRequest {
  Turnstile* turnstile;
  std::uint32_t generation;
  std::uint32_t weight = 1;
  std::uint32_t tokens = 0;
};

/// Throws the `InvalidArgument` that says what is wrong with these.
[[noreturn]] void refuse(const WaitOptions& options);

/// An `InvalidArgument` for a negative time-out or a priority out of range.
inline void check(const WaitOptions& options) {
  const bool negative = options.timeout && *options.timeout < Duration::zero();
  if (negative || options.priority < kPriorityMin || options.priority > kPriorityMax) {
    refuse(options);
  }
}

/// The hold, at once or never.
[[nodiscard]] std::optional<Hold> try_acquire(const AcquireRequest& request);

/// Throws what a wait that ended without a grant ends with.
[[noreturn]] void throw_ending(const Waiter& waiter);

/// When to give up, by `now`.
[[nodiscard]] std::optional<TimePoint> deadline_of(const WaitOptions& options, TimePoint now);

/// The same options with a deadline instead of a time-out, for several waits in a row: by the clock
/// of the running task, or real time outside of one.
[[nodiscard]] WaitOptions with_deadline(const WaitOptions& options);

}  // namespace detail

/// What `request()` of a lock returns, to be given to `lock_all`: nothing has been asked for yet.
using AcquireRequest = detail::AcquireRequest;

/// An acquisition that has not started: what `lock()` and `acquire()` return. Three ways in:
///
/// ```
/// Hold hold = co_await mutex.lock();                              // In a Task.
/// Hold hold = mutex.lock().wait();                                // In a plain thread.
/// async_wait(mutex.lock(), boost::asio::use_awaitable);           // In <holdfast/asio.hpp>.
/// ```
///
/// Each is for one acquisition. All of them queue alike. Whoever wins the race between a grant and
/// a time-out or a stop, there is one outcome: a `Hold`, or an exception (`TimedOut`, `Cancelled`,
/// `Closed`, `QueueFull`, `Dropped`, `Unsatisfiable`, `DeadlockError`) with nothing held. Waiting
/// allocates nothing.
class [[nodiscard]] Acquire final {
 public:
  explicit Acquire(const detail::AcquireRequest& request) noexcept : request_(request) {}
  Acquire(const detail::AcquireRequest& request, const WaitOptions& options, std::stop_token stop)
      : request_(request), options_(options), stop_(std::move(stop)) {
    detail::check(options_);
  }
  Acquire(const Acquire&) = delete;
  Acquire& operator=(const Acquire&) = delete;
  ~Acquire() = default;

  /// Blocks this thread. Inside a task it throws `WrongContext`: it would block the executor.
  [[nodiscard]] Hold wait();

  [[nodiscard]] bool await_ready() const noexcept { return false; }

  template <typename Promise>
  bool await_suspend(std::coroutine_handle<Promise> task) {
    static_assert(
        detail::TaskPromise<Promise>,
        "a lock is awaited in a holdfast::Task; in a plain thread write lock().wait(), in "
        "an Asio coroutine async_wait(lock(), token) of <holdfast/asio.hpp>");
    HOLDFAST_CHECK(!waiting_, "an acquisition was awaited twice");
    detail::TaskContext& context = task.promise().task_context();
    if (!context.stop_requested() && !stop_.stop_requested() &&
        request_.turnstile->enter_if_free(request_.generation, request_.weight)) {
      return false;
    }
    return start(context, task);
  }

  Hold await_resume() {
    return {*request_.turnstile, request_.weight, waiting_ ? finish() : nullptr};
  }

  [[nodiscard]] const detail::AcquireRequest& request() const noexcept { return request_; }
  [[nodiscard]] const WaitOptions& options() const noexcept { return options_; }
  [[nodiscard]] const std::stop_token& stop() const noexcept { return stop_; }

 private:
  class Parking;
  struct Waiting;
  struct Alarm : Timer {
    explicit Alarm(Waiting& owner) noexcept;
    Waiting& waiting;
  };
  struct OnStop {
    Waiting* waiting;
    void operator()() const noexcept { waiting->cancel(); }
  };
  /// What can end a wait early.
  struct Bounds {
    std::optional<Alarm> alarm;
    std::optional<std::stop_callback<OnStop>> on_stop;
  };
  struct HasBounds {
    std::optional<Bounds> bounds;
  };
  /// What it takes to wait in a task: made only when the lock is not free. What is rarely used
  /// comes first, so that a hand-off in a long queue fetches few cache lines.
  struct Waiting final : HasBounds, detail::Waiter, detail::Wait {
    Waiting(const detail::AcquireRequest& request, int its_priority,
            detail::TaskContext& its_context, std::coroutine_handle<> its_task) noexcept;
    ~Waiting();
    void cancel() noexcept override;
    [[nodiscard]] detail::TaskContext& context() const noexcept {
      return *static_cast<detail::TaskContext*>(task_context);
    }

    detail::Turnstile& turnstile;
    std::exception_ptr refusal;
  };

  bool start(detail::TaskContext& context, std::coroutine_handle<> task);
  detail::Holder* finish();

  detail::AcquireRequest request_;
  WaitOptions options_{};
  std::stop_token stop_{};
  std::optional<Waiting> waiting_;
};

}  // namespace holdfast
