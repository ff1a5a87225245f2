// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <coroutine>
#include <cstdint>

#include <holdfast/detail/task_context.hpp>
#include <holdfast/task.hpp>

#include "base/fetch_ahead.hpp"

namespace holdfast::detail {

/// Tasks to be woken together: their executor is called once for many, not once for each. Wakes
/// them when it goes, at the latest.
class Wakeups {
 public:
  Wakeups() = default;
  Wakeups(const Wakeups&) = delete;
  Wakeups& operator=(const Wakeups&) = delete;
  ~Wakeups() { wake(); }

  void add(TaskContext& context, std::coroutine_handle<> task) noexcept;
  void wake() noexcept;

 private:
  /// The first shall not wait for the last.
  static constexpr int kTogether = 64;

  Executor* executor_ = nullptr;
  WorkList works_;
  int count_ = 0;
};

/// A task's wait for something that any thread completes: awaited once, by one task.
class Completion : private Wait {
 public:
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <TaskPromise Promise>
  bool await_suspend(std::coroutine_handle<Promise> task) {
    return start(task.promise().task_context(), task);
  }
  /// Throws `Cancelled` if a stop was requested before it began.
  void await_resume();

 protected:
  Completion() = default;
  ~Completion() = default;

  /// Begins what ends with `complete`, which may be called in here.
  virtual void begin() = 0;
  /// The task was asked to stop: complete, or do nothing and let it end by itself.
  virtual void stop() noexcept = 0;
  /// After it began: it is about to be completed, and its task may have waited for so long that
  /// nothing of it is in the processor's caches.
  void fetch_task_ahead() const noexcept {
    fetch_ahead(context_);
    fetch_ahead(task_.address());
  }
  /// Once, from any thread. The object may be gone when it returns.
  void complete() noexcept;
  /// The same, leaving it to `wakeups` to wake the task.
  void complete(Wakeups& wakeups) noexcept;

 private:
  enum class Progress : std::uint8_t { kStarting, kSuspended, kComplete };

  bool start(TaskContext& context, std::coroutine_handle<> task);
  void cancel() noexcept final { stop(); }

  TaskContext* context_ = nullptr;
  std::coroutine_handle<> task_;
  std::atomic<Progress> progress_ = Progress::kStarting;
  bool began_ = false;
};

}  // namespace holdfast::detail
