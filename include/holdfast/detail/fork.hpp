// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <coroutine>
#include <cstddef>
#include <deque>
#include <exception>
#include <optional>
#include <utility>

#include <holdfast/detail/task_context.hpp>
#include <holdfast/task.hpp>

namespace holdfast::detail {

class Fork;

/// The coroutine around one branch; its end is told to the fork once it is suspended for good.
class Branch {
 public:
  struct TellFork {
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <typename Promise>
    void await_suspend(std::coroutine_handle<Promise> ended) const noexcept;
    void await_resume() const noexcept {}
  };

  class promise_type : public PromiseBase {
   public:
    Branch get_return_object() noexcept {
      return Branch{std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }
    [[nodiscard]] TellFork final_suspend() const noexcept { return {}; }
    void return_value(bool failed) noexcept { failed_ = failed; }
    void unhandled_exception() const noexcept { std::terminate(); }

   private:
    friend class Branch;
    friend class Fork;
    friend struct TellFork;
    Fork* fork_ = nullptr;
    std::size_t index_ = 0;
    bool failed_ = false;
  };

  Branch(Branch&& other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
  Branch& operator=(Branch&&) = delete;
  ~Branch() {
    if (coroutine_) {
      coroutine_.destroy();
    }
  }

 private:
  friend class Fork;
  explicit Branch(std::coroutine_handle<promise_type> coroutine) noexcept : coroutine_(coroutine) {}
  std::coroutine_handle<promise_type> coroutine_;
};

/// Starts branches on the executor and resumes its awaiter when every one has ended: nothing is
/// left running behind. The first end that decides the matter asks the other branches to stop.
class Fork final : private Wait {
 public:
  enum class Decision { kFirstFailure, kFirstEnd };

  explicit Fork(Decision decision) noexcept : decision_(decision) {}
  ~Fork() = default;

  void add(Branch branch);
  [[nodiscard]] std::size_t size() const noexcept { return branches_.size(); }

  [[nodiscard]] bool await_ready() const noexcept { return branches_.empty(); }
  template <TaskPromise Promise>
  void await_suspend(std::coroutine_handle<Promise> parent) {
    start(parent.promise().task_context(), parent);
  }
  /// The branch that decided, if one did.
  std::optional<std::size_t> await_resume() noexcept;

 private:
  friend struct Branch::TellFork;
  struct Running {
    explicit Running(Branch started) noexcept : branch(std::move(started)) {}
    Branch branch;
    std::optional<TaskContext> context;
  };
  static constexpr std::size_t kUndecided = static_cast<std::size_t>(-1);

  void start(TaskContext& parent, std::coroutine_handle<> coroutine);
  void cancel() noexcept override;
  void branch_ended(std::size_t index, bool failed) noexcept;

  Decision decision_;
  std::deque<Running> branches_;
  TaskContext* parent_ = nullptr;
  std::coroutine_handle<> coroutine_;
  std::atomic<std::size_t> running_ = 0;
  std::atomic<std::size_t> decided_by_ = kUndecided;
};

template <typename Promise>
void Branch::TellFork::await_suspend(std::coroutine_handle<Promise> ended) const noexcept {
  auto& promise = ended.promise();
  promise.fork_->branch_ended(promise.index_, promise.failed_);
}

}  // namespace holdfast::detail
