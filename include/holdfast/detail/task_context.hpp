// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include <holdfast/executor.hpp>

namespace holdfast::detail {

/// What a suspended task waits for, as seen by the one who cancels it.
class Wait {
 public:
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;
  /// Ends the wait if it has not ended, from any thread. The wait stays alive during the call.
  virtual void cancel() noexcept = 0;

 protected:
  Wait() = default;
  ~Wait() = default;
};

/// One logical thread of control: a spawned task with all that it awaits, or a branch of `all` or
/// `any`. It runs or waits, in one place at a time, so one slot is enough to cancel it: a wait
/// costs two atomic operations, not a registered callback.
class TaskContext {
 public:
  /// A task of its own, not yet known to its executor.
  TaskContext(Executor& executor, std::string name);
  /// A branch of `parent`, which waits until the branch has ended. `needed`: it cannot go on
  /// without this one.
  TaskContext(TaskContext& parent, std::size_t index, bool needed);
  TaskContext(const TaskContext&) = delete;
  TaskContext& operator=(const TaskContext&) = delete;
  ~TaskContext();

  /// Enters a task in the executor's list, `owner` being what keeps this context alive; `stop`
  /// cancels it from now on, as does the end of the executor.
  void join_executor(const std::shared_ptr<void>& owner, const std::stop_token& stop);
  /// The last touch of the executor by this task.
  void leave_executor() noexcept;

  [[nodiscard]] Executor& executor() const noexcept { return executor_; }
  [[nodiscard]] Clock& clock() const noexcept { return executor_.clock(); }
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  [[nodiscard]] std::string name() const;
  [[nodiscard]] const TaskContext* parent() const noexcept { return parent_; }
  [[nodiscard]] bool needed_by_parent() const noexcept { return needed_; }

  [[nodiscard]] bool stop_requested() const noexcept {
    return (slot_.load(std::memory_order_acquire) & kStopped) != 0;
  }
  /// The caller keeps this context alive during the call.
  void request_stop() noexcept;
  [[nodiscard]] std::stop_token stop_token();

  /// Before suspending: from now on a stop cancels `wait`. False, and nothing registered, if a stop
  /// was requested already.
  [[nodiscard]] bool begin_wait(Wait& wait) noexcept {
    std::uintptr_t idle = 0;
    return slot_.compare_exchange_strong(idle, reinterpret_cast<std::uintptr_t>(&wait),
                                         std::memory_order_acq_rel);
  }
  /// After resuming: `wait` may go. Waits for a cancel that is under way.
  void end_wait() noexcept {
    std::uintptr_t value = slot_.load(std::memory_order_acquire);
    if ((value & kStopped) == 0 &&
        slot_.compare_exchange_strong(value, 0, std::memory_order_acq_rel)) {
      return;
    }
    end_wait_while_stopping();
  }

  /// Resumes `coroutine` on the executor, later.
  void schedule(std::coroutine_handle<> coroutine) noexcept {
    executor_.post(work_to_resume(coroutine));
  }
  /// The same, for one that goes on with what this thread has in hand.
  void schedule_next(std::coroutine_handle<> coroutine) noexcept {
    executor_.post_next(work_to_resume(coroutine));
  }
  /// The same for who posts it to the executor himself, with others.
  [[nodiscard]] Work& work_to_resume(std::coroutine_handle<> coroutine) noexcept {
    resume_next_ = coroutine;
    return resume_work_;
  }
  /// Hands over to `coroutine` when the running one has suspended: a jump of the trampoline, which
  /// keeps the stack flat whatever the compiler makes of symmetric transfer. If something that is
  /// not ours resumed the running one, there is no trampoline, and the executor goes on with it.
  void continue_with(std::coroutine_handle<> coroutine) noexcept;

  /// The context that runs on this thread, or null.
  [[nodiscard]] static TaskContext* current() noexcept;

 private:
  friend class holdfast::Executor;
  struct Trampoline {
    std::coroutine_handle<> next;
  };
  static constexpr std::uintptr_t kStopped = 1;
  static constexpr std::uintptr_t kCancelling = 2;

  static void resume(Work& work) noexcept;
  // Not inlined: g++ would warn of the pointer to the caller's local, which is meant.
  [[gnu::noinline]] void bounce(Trampoline& trampoline) noexcept;
  void end_wait_while_stopping() noexcept;

  struct ResumeWork : Work {
    TaskContext* context = nullptr;
  };
  struct RequestStop {
    TaskContext* context;
    void operator()() const noexcept { context->request_stop(); }
  };

  // What every wait touches comes first and together.
  Executor& executor_;
  // 0: running. A Wait*: waiting, a stop cancels it. With kStopped: a stop was requested, which
  // stays. With kCancelling: `cancel` of the wait is being called, which must not go away yet.
  std::atomic<std::uintptr_t> slot_ = 0;
  Trampoline* trampoline_ = nullptr;
  std::coroutine_handle<> resume_next_;
  ResumeWork resume_work_;

  TaskContext* parent_ = nullptr;
  std::uint64_t id_;
  std::string name_;
  std::size_t branch_index_ = 0;
  bool needed_ = false;

  std::atomic<std::stop_source*> stop_source_ = nullptr;  // Made when someone asks for a token.
  std::optional<std::stop_callback<RequestStop>> outer_stop_;

  std::weak_ptr<void> owner_;
  TaskContext* previous_task_ = nullptr;  // In the executor's list of tasks.
  TaskContext* next_task_ = nullptr;
};

}  // namespace holdfast::detail
