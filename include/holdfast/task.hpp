// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include <holdfast/detail/check.hpp>
#include <holdfast/detail/frame_memory.hpp>
#include <holdfast/detail/task_context.hpp>
#include <holdfast/error.hpp>

// clang can check what a Task refers to, but then refuses every function that returns one without
// being a coroutine: a lambda given to run_exclusive, even std::function<Task<void>()>. By choice.
#if defined(HOLDFAST_CHECK_LIFETIMES) && defined(__clang__)
#define HOLDFAST_COROUTINE_TYPE [[nodiscard, clang::coro_return_type, clang::coro_lifetimebound]]
/// For a function that returns a Task and is no coroutine itself.
#define HOLDFAST_COROUTINE_WRAPPER [[clang::coro_wrapper]]
#else
#define HOLDFAST_COROUTINE_TYPE [[nodiscard]]
#define HOLDFAST_COROUTINE_WRAPPER
#endif

namespace holdfast {

template <typename T>
class Task;

/// How deep tasks may await tasks.
inline constexpr std::uint32_t kTaskDepthMax = 10'000;

namespace detail {

/// What the promises of all our coroutines have in common.
class PromiseBase {
 public:
  static void* operator new(std::size_t size) { return allocate_frame(size); }
  static void operator delete(void* frame, std::size_t size) noexcept { free_frame(frame, size); }

  [[nodiscard]] TaskContext& task_context() const noexcept { return *context_; }
  [[nodiscard]] std::uint32_t depth() const noexcept { return depth_; }

  void set_root(TaskContext& context) noexcept { context_ = &context; }
  void set_parent(const PromiseBase& parent, std::coroutine_handle<> continuation) noexcept {
    context_ = parent.context_;
    depth_ = parent.depth_ + 1;
    continuation_ = continuation;
  }
  [[nodiscard]] std::coroutine_handle<> continuation() const noexcept { return continuation_; }
  /// Whether it awaits nothing but durable operations: see workflow_promise.hpp.
  [[nodiscard]] bool is_workflow() const noexcept { return is_workflow_; }

 protected:
  void mark_as_workflow() noexcept { is_workflow_ = true; }

 private:
  TaskContext* context_ = nullptr;
  std::coroutine_handle<> continuation_;
  std::uint32_t depth_ = 0;
  bool is_workflow_ = false;
};

template <typename Promise>
concept TaskPromise = std::derived_from<Promise, PromiseBase>;

/// A value, an exception, or neither yet. `void` is kept as `std::monostate`.
template <typename T>
class Result {
 public:
  using Value = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

  template <typename U>
  void set_value(U&& value) {
    state_.template emplace<1>(std::forward<U>(value));
  }
  void set_exception(std::exception_ptr error) noexcept {
    state_.template emplace<2>(std::move(error));
  }
  [[nodiscard]] bool failed() const noexcept { return state_.index() == 2; }
  [[nodiscard]] bool has_value() const noexcept { return state_.index() == 1; }
  [[nodiscard]] const std::exception_ptr& exception() const { return std::get<2>(state_); }

  /// The value, moved out, or the exception, thrown.
  Value take_value() {
    if (failed()) {
      // Moved, so that whoever catches it is the last to hold it, not the thread that threw it.
      std::rethrow_exception(std::move(std::get<2>(state_)));
    }
    return std::move(std::get<1>(state_));
  }
  T take() {
    if constexpr (std::is_void_v<T>) {
      static_cast<void>(take_value());
    } else {
      return take_value();
    }
  }

 private:
  std::variant<std::monostate, Value, std::exception_ptr> state_;
};

template <typename T>
class PromiseResult {
 public:
  template <std::convertible_to<T> U>
  void return_value(U&& value) {
    result_.set_value(std::forward<U>(value));
  }
  Result<T>& result() noexcept { return result_; }

 protected:
  Result<T> result_;
};

template <>
class PromiseResult<void> {
 public:
  void return_void() { result_.set_value(std::monostate{}); }
  Result<void>& result() noexcept { return result_; }

 protected:
  Result<void> result_;
};

struct ContinueParent {
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <TaskPromise Promise>
  void await_suspend(std::coroutine_handle<Promise> ended) const noexcept {
    ended.promise().task_context().continue_with(ended.promise().continuation());
  }
  void await_resume() const noexcept {}
};

template <typename T>
class TaskPromiseOf : public PromiseBase, public PromiseResult<T> {
 public:
  HOLDFAST_COROUTINE_WRAPPER Task<T> get_return_object() noexcept;
  [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }
  [[nodiscard]] ContinueParent final_suspend() const noexcept { return {}; }
  void unhandled_exception() noexcept { this->result_.set_exception(std::current_exception()); }

 protected:
  /// The task of a coroutine whose promise is derived from this one.
  template <typename Derived>
  HOLDFAST_COROUTINE_WRAPPER static Task<T> task_of(
      std::coroutine_handle<Derived> coroutine) noexcept;
};

}  // namespace detail

/// A coroutine that starts when it is awaited, and whose end resumes the one who awaits it.
///
/// ```
/// Task<int> answer() { co_return 42; }
/// Task<void> print() {
///   const int value = co_await answer();
///   std::cout << value;
/// }
/// int main() {
///   ThreadPool pool;
///   sync_wait(pool, print());
/// }
/// ```
///
/// A task is awaited once, by a task, or given to `spawn`, `sync_wait`, `all` or `any`. It runs on
/// the executor of the one who awaits it, and is cancelled with it: a wait inside it then throws
/// `Cancelled`. Awaiting costs one frame allocation (the coroutine's) and no stack, so a loop or a
/// chain of any length up to `kTaskDepthMax` is safe with every compiler. It may await what is not
/// ours, too, and then goes on wherever that resumes it, and is not cancelled there.
template <typename T = void>
class HOLDFAST_COROUTINE_TYPE Task {
  static_assert(!std::is_reference_v<T>, "a Task returns a value: return a pointer instead");

 public:
  using promise_type = detail::TaskPromiseOf<T>;

  Task(Task&& other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    Task(std::move(other)).swap(*this);
    return *this;
  }
  ~Task() {
    if (coroutine_) {
      coroutine_.destroy();
    }
  }
  void swap(Task& other) noexcept { std::swap(coroutine_, other.coroutine_); }

  class Awaiter {
   public:
    explicit Awaiter(std::coroutine_handle<promise_type> coroutine) noexcept
        : coroutine_(coroutine) {}
    [[nodiscard]] bool await_ready() const noexcept { return false; }

    template <typename Promise>
    bool await_suspend(std::coroutine_handle<Promise> parent) noexcept {
      static_assert(detail::TaskPromise<Promise>,
                    "a holdfast::Task is awaited by a Task; elsewhere use spawn() or sync_wait(), "
                    "or async_run() of <holdfast/asio.hpp>");
      HOLDFAST_CHECK(coroutine_ && !coroutine_.done(), "a Task was awaited twice or after a move");
      too_deep_ = parent.promise().depth() >= kTaskDepthMax;
      if (!too_deep_) {
        coroutine_.promise().set_parent(parent.promise(), parent);
        parent.promise().task_context().continue_with(coroutine_);
      }
      return !too_deep_;
    }

    T await_resume() {
      if (too_deep_) {
        throw TaskTooDeep("tasks await tasks more than " + std::to_string(kTaskDepthMax) +
                          " deep: is there a recursion without an end?");
      }
      return coroutine_.promise().result().take();
    }

   private:
    std::coroutine_handle<promise_type> coroutine_;
    bool too_deep_ = false;
  };

  Awaiter operator co_await() const noexcept { return Awaiter{coroutine_}; }

  [[nodiscard]] bool is_workflow() const noexcept {
    return coroutine_ && coroutine_.promise().is_workflow();
  }

 private:
  friend promise_type;
  explicit Task(std::coroutine_handle<promise_type> coroutine) noexcept : coroutine_(coroutine) {}

  std::coroutine_handle<promise_type> coroutine_;
};

namespace detail {

template <typename T>
Task<T> TaskPromiseOf<T>::get_return_object() noexcept {
  return Task<T>{std::coroutine_handle<TaskPromiseOf>::from_promise(*this)};
}

template <typename T>
template <typename Derived>
Task<T> TaskPromiseOf<T>::task_of(std::coroutine_handle<Derived> coroutine) noexcept {
  // A promise lies at a fixed distance from its frame, which depends on its alignment alone.
  static_assert(std::derived_from<Derived, TaskPromiseOf> &&
                alignof(Derived) == alignof(TaskPromiseOf));
  const auto base = std::coroutine_handle<TaskPromiseOf>::from_address(coroutine.address());
  HOLDFAST_CHECK(&base.promise() == static_cast<TaskPromiseOf*>(&coroutine.promise()),
                 "the promise of a workflow does not begin with that of a task");
  return Task<T>{base};
}

}  // namespace detail
}  // namespace holdfast
