// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <coroutine>
#include <optional>
#include <stop_token>
#include <string>

#include <holdfast/clock.hpp>
#include <holdfast/detail/task_context.hpp>
#include <holdfast/task.hpp>

/// What a task can ask and do about itself.
///
/// ```
/// while (!this_task::stop_requested()) {
///   sample();
///   co_await this_task::sleep_for(1s);
/// }
/// ```
namespace holdfast::this_task {

/// These throw `WrongContext` outside a task.
[[nodiscard]] Executor& executor();
[[nodiscard]] Clock& clock();
[[nodiscard]] std::string name();
[[nodiscard]] bool stop_requested();
/// For callbacks, and for functions that take a token.
[[nodiscard]] std::stop_token stop_token();
/// Throws `Cancelled` if a stop was requested.
void check_stop();

/// Lets other tasks of the executor run first.
class [[nodiscard]] Yield {
 public:
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <typename Promise>
  void await_suspend(std::coroutine_handle<Promise> task) const noexcept {
    static_assert(detail::TaskPromise<Promise>,
                  "this_task::yield() is for a holdfast::Task: await it in one");
    task.promise().task_context().schedule(task);
  }
  void await_resume() const noexcept {}
};
[[nodiscard]] inline Yield yield() noexcept { return {}; }

/// A wait for a moment of the task's clock. Throws `Cancelled` when stopped.
class [[nodiscard]] Sleep final : private detail::Wait {
 public:
  explicit Sleep(TimePoint until) noexcept : until_(until) {}
  explicit Sleep(Duration duration) noexcept : duration_(duration) {}
  ~Sleep() = default;

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <typename Promise>
  bool await_suspend(std::coroutine_handle<Promise> task) {
    static_assert(detail::TaskPromise<Promise>,
                  "this_task::sleep_for() is for a holdfast::Task: await it in one");
    return start(task.promise().task_context(), task);
  }
  void await_resume();

 private:
  struct Alarm : Timer {
    explicit Alarm(Sleep& owner) noexcept;
    Sleep& sleep;
  };
  enum class State { kStarting, kSuspended, kEnded };

  bool start(detail::TaskContext& context, std::coroutine_handle<> task);
  void cancel() noexcept override;
  void end() noexcept;

  std::optional<Duration> duration_;
  TimePoint until_{};
  detail::TaskContext* context_ = nullptr;
  std::coroutine_handle<> task_;
  std::optional<Alarm> alarm_;
  std::atomic<State> state_ = State::kStarting;
  std::atomic<bool> cancelled_ = false;
};

/// A negative duration is an `InvalidArgument`.
[[nodiscard]] Sleep sleep_for(Duration duration);
[[nodiscard]] inline Sleep sleep_until(TimePoint until) { return Sleep(until); }

}  // namespace holdfast::this_task
