// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <utility>

#include <holdfast/detail/task_context.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/task.hpp>

namespace holdfast::detail {

/// The coroutine around a task that nobody can stop; its end resumes the one who waits for it.
class ShieldedRoot {
 public:
  struct ResumeOuter {
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <typename Promise>
    void await_suspend(std::coroutine_handle<Promise> ended) const noexcept {
      ended.promise().outer_->schedule(ended.promise().waiting_);
    }
    void await_resume() const noexcept {}
  };

  class promise_type : public PromiseBase {
   public:
    ShieldedRoot get_return_object() noexcept {
      return ShieldedRoot(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }
    [[nodiscard]] ResumeOuter final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() const noexcept { std::terminate(); }

   private:
    friend class ShieldedRoot;
    friend struct ResumeOuter;
    TaskContext* outer_ = nullptr;
    std::coroutine_handle<> waiting_;
  };

  ShieldedRoot(ShieldedRoot&& other) noexcept
      : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
  ShieldedRoot& operator=(ShieldedRoot&&) = delete;
  ~ShieldedRoot() {
    if (coroutine_) {
      coroutine_.destroy();
    }
  }

  void start(TaskContext& outer, TaskContext& own, std::coroutine_handle<> waiting) noexcept {
    promise_type& promise = coroutine_.promise();
    promise.outer_ = &outer;
    promise.waiting_ = waiting;
    promise.set_root(own);
    own.schedule(coroutine_);
  }

 private:
  explicit ShieldedRoot(std::coroutine_handle<promise_type> coroutine) noexcept
      : coroutine_(coroutine) {}
  std::coroutine_handle<promise_type> coroutine_;
};

template <typename T>
ShieldedRoot run_shielded(Task<T> task, Result<T>* result) {
  Capture<T> capture{std::move(task), *result};
  co_await capture;
}

/// Waits for a task that is not stopped with the one who waits.
template <typename T>
class Shield {
 public:
  using DurableOperation = Shield;
  static constexpr bool kMayBeTemporary = true;

  explicit Shield(Task<T> task) : root_(run_shielded<T>(std::move(task), &result_)) {}
  Shield(const Shield&) = delete;
  Shield& operator=(const Shield&) = delete;
  ~Shield() = default;

  class Awaiter {
   public:
    explicit Awaiter(Shield& shield) noexcept : shield_(&shield) {}
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <TaskPromise Promise>
    void await_suspend(std::coroutine_handle<Promise> coroutine) {
      TaskContext& outer = coroutine.promise().task_context();
      shield_->context_.emplace(outer, 0, true);
      shield_->root_.start(outer, *shield_->context_, coroutine);
    }
    T await_resume() { return shield_->result_.take(); }

   private:
    Shield* shield_;
  };

 private:
  Result<T> result_;
  std::optional<TaskContext> context_;
  ShieldedRoot root_;
};

}  // namespace holdfast::detail
