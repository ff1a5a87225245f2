// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <coroutine>
#include <cstddef>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include <holdfast/detail/frame_allocator.hpp>
#include <holdfast/detail/task_context.hpp>
#include <holdfast/task.hpp>

namespace holdfast {

/// How to start a task. Trivially destructible on purpose, as `WaitOptions`: what is written in
/// braces inside a `co_await` is safe with g++ 12.
struct SpawnOptions {
  std::string_view name{};  ///< Shown in errors, warnings and deadlock reports. It is copied.
};

namespace detail {

/// A spawned task as those see it who wait for its end.
class SpawnState {
 public:
  SpawnState(Executor& executor, std::string name) : context_(executor, std::move(name)) {}
  SpawnState(const SpawnState&) = delete;
  SpawnState& operator=(const SpawnState&) = delete;

  [[nodiscard]] TaskContext& context() noexcept { return context_; }
  [[nodiscard]] bool ended() const noexcept { return ended_.load(std::memory_order_acquire); }
  void wait();

  enum class Join { kWillResume, kEnded, kLeft };
  /// Resumes `joiner` at the end, unless that came first, or a `leave`. One joiner at a time.
  Join join(TaskContext& joiner, std::coroutine_handle<> coroutine) noexcept;
  /// The joiner no longer waits, and is resumed.
  void leave() noexcept;

  void end() noexcept;
  /// Nobody can see the result any more: a failure from here on is fatal.
  void detach() noexcept;

 protected:
  ~SpawnState() = default;
  /// What the task failed with, if it failed with anything but a cancellation.
  [[nodiscard]] virtual std::exception_ptr failure() const noexcept = 0;

 private:
  void die_if_failed() noexcept;

  TaskContext context_;
  mutable std::mutex mutex_;
  std::condition_variable ended_changed_;
  std::atomic<bool> ended_ = false;  // Changes under the lock.
  bool detached_ = false;
  bool left_ = false;
  TaskContext* joiner_ = nullptr;
  std::coroutine_handle<> joiner_coroutine_;
};

template <typename T>
class SpawnStateOf final : public SpawnState {
 public:
  using SpawnState::SpawnState;
  Result<T> result;

 protected:
  [[nodiscard]] std::exception_ptr failure() const noexcept override {
    return result.failed() ? result.exception() : nullptr;
  }
};

/// It comes and goes with the task, as frames do.
template <typename T>
std::shared_ptr<SpawnStateOf<T>> make_spawn_state(Executor& executor, std::string name) {
  return std::allocate_shared<SpawnStateOf<T>>(FrameAllocator<SpawnStateOf<T>>(), executor,
                                               std::move(name));
}

/// The coroutine around a spawned task: keeps what it needs alive, and tells of its end.
class Root {
 public:
  class promise_type : public PromiseBase {
   public:
    Root get_return_object() noexcept {
      return Root{std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }
    [[nodiscard]] std::suspend_never final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() const noexcept { std::terminate(); }
  };

  static void start(Root root, TaskContext& context) noexcept {
    root.coroutine_.promise().set_root(context);
    context.schedule_next(root.coroutine_);
  }
  /// In this thread, until it waits for something.
  static void start_here(Root root, TaskContext& context) noexcept {
    root.coroutine_.promise().set_root(context);
    Work& work = context.work_to_resume(root.coroutine_);
    work.run(work);
  }

 private:
  explicit Root(std::coroutine_handle<promise_type> coroutine) noexcept : coroutine_(coroutine) {}
  std::coroutine_handle<promise_type> coroutine_;
};

/// Runs `task` to its end into `result`.
template <typename T>
struct Capture {
  Task<T> task;
  Result<T>& result;

  typename Task<T>::Awaiter inner = task.operator co_await();
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <TaskPromise Promise>
  bool await_suspend(std::coroutine_handle<Promise> parent) noexcept {
    return inner.await_suspend(parent);
  }
  void await_resume() noexcept {
    try {
      if constexpr (std::is_void_v<T>) {
        inner.await_resume();
        result.set_value(std::monostate{});
      } else {
        result.set_value(inner.await_resume());
      }
    } catch (...) {
      result.set_exception(std::current_exception());
    }
  }
};

template <typename T>
Root run_root(std::shared_ptr<SpawnStateOf<T>> state, Task<T> task) {
  {
    Capture<T> capture{std::move(task), state->result};
    co_await capture;
  }
  state->end();
}

/// A thread that runs tasks must not be blocked by one of them.
void refuse_inside_task(const char* function);

}  // namespace detail

/// A task that runs by itself. Await it, or `get()` it from a plain thread, once, for its result.
///
/// ```
/// auto download = spawn(pool, fetch(url), {.name = "download"});
/// const Page page = co_await download;
/// ```
///
/// Dropping the handle lets the task go on alone. A failure that nobody can see any more, other
/// than a cancellation, ends the program with its text, as with `std::thread`.
template <typename T>
class [[nodiscard]] Spawned final : private detail::Wait {
 public:
  explicit Spawned(std::shared_ptr<detail::SpawnStateOf<T>> state) noexcept
      : state_(std::move(state)) {}
  Spawned(Spawned&& other) noexcept : state_(std::move(other.state_)) {}
  Spawned& operator=(Spawned&&) = delete;
  ~Spawned() {
    if (state_ != nullptr) {
      state_->detach();
    }
  }

  [[nodiscard]] bool ended() const noexcept { return state_->ended(); }
  /// Asks the task to stop; its waits throw `Cancelled`. Thread-safe.
  void request_stop() noexcept { state_->context().request_stop(); }

  /// Blocks until the end: on an executor that is driven by hand, somebody else must drive it, or
  /// the task must have ended. Inside a task it throws `WrongContext`.
  T get() {
    HOLDFAST_CHECK(state_ != nullptr, "a spawned task was awaited twice");
    state_->wait();
    return std::exchange(state_, nullptr)->result.take();
  }

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <typename Promise>
  bool await_suspend(std::coroutine_handle<Promise> parent) {
    static_assert(detail::TaskPromise<Promise>,
                  "a spawned task is awaited by a holdfast::Task; elsewhere use get(), or start it "
                  "with async_run() of <holdfast/asio.hpp>");
    HOLDFAST_CHECK(state_ != nullptr, "a spawned task was awaited twice");
    joiner_ = &parent.promise().task_context();
    if (!joiner_->begin_wait(*this)) {
      return false;
    }
    return state_->join(*joiner_, parent) == detail::SpawnState::Join::kWillResume;
  }
  /// A joiner that is cancelled stops waiting; the task goes on.
  T await_resume() {
    joiner_->end_wait();
    if (!state_->ended()) {
      throw Cancelled("'" + joiner_->name() + "' was asked to stop while it waited for '" +
                      state_->context().name() + "'");
    }
    return std::exchange(state_, nullptr)->result.take();
  }

 private:
  void cancel() noexcept override { state_->leave(); }

  std::shared_ptr<detail::SpawnStateOf<T>> state_;
  detail::TaskContext* joiner_ = nullptr;
};

/// Starts `task` on `executor` and returns at once. `stop` cancels the task, too.
template <typename T>
Spawned<T> spawn(Executor& executor, Task<T> task, const SpawnOptions& options = {},
                 const std::stop_token& stop = {}) {
  auto state = detail::make_spawn_state<T>(executor, std::string(options.name));
  auto root = detail::run_root<T>(state, std::move(task));
  state->context().join_executor(state, stop);
  detail::Root::start(root, state->context());
  return Spawned<T>(std::move(state));
}

namespace detail {

/// The same, but it runs in this thread until it waits for something, and on `executor` only then:
/// for what hardly ever has to wait, and would otherwise cost a change of threads.
template <typename T>
Spawned<T> spawn_here(Executor& executor, Task<T> task) {
  auto state = make_spawn_state<T>(executor, {});
  auto root = run_root<T>(state, std::move(task));
  state->context().join_executor(state, {});
  Root::start_here(root, state->context());
  return Spawned<T>(std::move(state));
}

}  // namespace detail

/// Runs `task` on `executor` and blocks this thread until its end. An executor that is driven by
/// hand is driven here. Inside a task it throws `WrongContext`.
template <typename T>
T sync_wait(Executor& executor, Task<T> task, const SpawnOptions& options = {},
            const std::stop_token& stop = {}) {
  detail::refuse_inside_task("sync_wait");
  auto running = spawn(executor, std::move(task), options, stop);
  executor.drive_until([&running] { return running.ended(); });
  return running.get();
}

}  // namespace holdfast
