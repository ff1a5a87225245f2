// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include <holdfast/clock.hpp>

namespace holdfast {

/// A piece of work that an executor runs once. Its owner provides the memory: posting allocates
/// nothing and cannot fail.
struct Work {
  void (*run)(Work&) noexcept = nullptr;
  Work* next = nullptr;
  std::uint32_t ran_in = 0;  ///< The thread of a pool that ran it last; 0: none.
};

namespace detail {
class TaskContext;

/// First in, first out, by the links in the work itself.
class WorkList {
 public:
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  void push(Work& work) noexcept {
    work.next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = &work;
    last_ = &work;
  }
  Work& pop() noexcept {
    Work& work = *first_;
    first_ = work.next;
    return work;
  }
  /// Takes all of `other`, which is empty then.
  void append(WorkList& other) noexcept {
    if (other.first_ != nullptr) {
      (first_ == nullptr ? first_ : last_->next) = other.first_;
      last_ = other.last_;
      other.first_ = nullptr;
    }
  }

 private:
  Work* first_ = nullptr;
  Work* last_ = nullptr;
};
}  // namespace detail

/// Where tasks run, and whose clock they live by.
///
/// An executor ends its tasks before it goes: its destructor asks each that still runs to stop and
/// runs them to their ends, so no task outlives its executor. `post` is thread-safe.
class Executor {
 public:
  Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  virtual ~Executor();

  virtual void post(Work& work) noexcept = 0;
  /// The same for work that goes on with what this thread has in hand: an executor may run it ahead
  /// of what was posted before, but keeps nothing waiting for ever.
  virtual void post_next(Work& work) noexcept { post(work); }
  /// The same for many at once, in their order.
  virtual void post_all(detail::WorkList& works) noexcept;
  [[nodiscard]] virtual Clock& clock() noexcept = 0;

  /// Runs work on this thread until `done()`, if this executor is driven by hand; the others return
  /// at once. Virtual time is skipped to the next timer whenever nothing is ready; with no timer
  /// left nothing can ever happen, which is a `WrongContext` error.
  virtual void drive_until(const std::function<bool()>& done);

  /// Tasks that were spawned here and have not ended.
  [[nodiscard]] std::size_t task_count() const noexcept;

 protected:
  /// For one that no task is spawned on, and that comes and goes often: it needs no list of them.
  struct SpawnsNothing {};
  explicit Executor(SpawnsNothing /*tag*/) noexcept;

  /// For destructors of executors: asks every task to stop, those still to come included.
  void stop_tasks() noexcept;
  /// For destructors of executors with threads: returns when no task is left.
  void wait_for_tasks() noexcept;
  /// For destructors that can run no more work: aborts, naming a task, if one is left.
  void check_no_tasks() noexcept;

 private:
  /// The first task of an idle executor has come, the last one has ended. Called under a lock:
  /// spawn nothing.
  virtual void tasks_began() noexcept {}
  virtual void tasks_ended() noexcept {}

  friend class detail::TaskContext;
  class Tasks;
  std::unique_ptr<Tasks> tasks_;
};

/// So many threads, each with a queue, that help each other. While work comes every half a
/// millisecond or sooner, one of the idle threads waits for it awake, as to be woken would take
/// longer.
///
/// ```
/// holdfast::ThreadPool pool(4);
/// auto total = holdfast::sync_wait(pool, count_everything());
/// ```
class ThreadPool final : public Executor {
 public:
  /// With a clock of its own. `thread_count` must be at least 1.
  explicit ThreadPool(std::size_t thread_count = default_thread_count());
  ThreadPool(std::size_t thread_count, Clock& clock);
  ~ThreadPool() override;

  void post(Work& work) noexcept override;
  void post_next(Work& work) noexcept override;
  void post_all(detail::WorkList& works) noexcept override;
  [[nodiscard]] Clock& clock() noexcept override;

  [[nodiscard]] static std::size_t default_thread_count() noexcept;

 private:
  class Threads;
  std::unique_ptr<SystemClock> own_clock_;
  Clock& clock_;
  std::unique_ptr<Threads> threads_;
};

/// Runs nothing by itself: a test, or a program with a loop of its own, drains it. Work runs in the
/// order in which it was posted, on the thread that drains.
class ManualExecutor final : public Executor {
 public:
  explicit ManualExecutor(Clock& clock);
  ~ManualExecutor() override;

  void post(Work& work) noexcept override;
  [[nodiscard]] Clock& clock() noexcept override { return clock_; }
  void drive_until(const std::function<bool()>& done) override;

  /// Runs one piece of work; false if there is none.
  bool run_one();
  /// Runs until nothing is ready; how many pieces that were.
  std::size_t drain();

 private:
  class Inbox;
  bool run_next();
  Clock& clock_;
  detail::WorkList ready_;
  std::unique_ptr<Inbox> inbox_;
};

/// A manual executor that picks the next piece of work at random, the same way for the same seed:
/// thousands of seeds try thousands of interleavings, and a failure is replayed by its number.
class SeededExecutor final : public Executor {
 public:
  SeededExecutor(Clock& clock, std::uint64_t seed);
  ~SeededExecutor() override;

  void post(Work& work) noexcept override;
  [[nodiscard]] Clock& clock() noexcept override { return clock_; }
  void drive_until(const std::function<bool()>& done) override;

  bool run_one();
  std::size_t drain();

 private:
  Clock& clock_;
  std::mt19937_64 random_;
  std::mutex mutex_;
  std::condition_variable posted_;
  std::vector<Work*> ready_;
};

}  // namespace holdfast
