// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <holdfast/error.hpp>
#include <holdfast/executor.hpp>

#include "base/pause_cpu.hpp"
#include "base/spinning_mutex.hpp"

namespace holdfast {

namespace {

/// To wake a thread on an idle core takes tens of microseconds, about as long as a disk or another
/// process takes to answer. So, if the last work came as soon as this, one thread waits for the
/// next one awake.
constexpr Duration kSoon = std::chrono::microseconds(500);

std::size_t checked_count(std::size_t thread_count) {
  if (thread_count == 0) {
    throw InvalidArgument("ThreadPool: thread_count is 0; it must be at least 1");
  }
  return thread_count;
}

}  // namespace

class ThreadPool::Threads {
 public:
  explicit Threads(std::size_t count) {
    threads_.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      threads_.emplace_back([this] { run(); });
    }
  }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  ~Threads() {
    {
      const std::scoped_lock lock(mutex_);
      stopping_ = true;
      has_ready_ = true;
    }
    ready_changed_.notify_all();
    for (auto& thread : threads_) {
      thread.join();
    }
  }

  void post(Work& work) noexcept {
    const std::scoped_lock lock(mutex_);
    const bool taken_by_watcher = watching_ && ready_.empty();
    ready_.push(work);
    has_ready_.store(true, std::memory_order_relaxed);
    if (asleep_ > 0 && !taken_by_watcher) {
      // Under the lock: without it the work may have run, and the pool be gone, by now.
      ready_changed_.notify_one();
    }
  }

  void post_all(detail::WorkList& works) noexcept {
    const std::scoped_lock lock(mutex_);
    ready_.append(works);
    has_ready_.store(true, std::memory_order_relaxed);
    if (asleep_ > 0) {
      ready_changed_.notify_all();
    }
  }

 private:
  using Lock = std::unique_lock<detail::SpinningMutex>;

  void run() noexcept {
    Lock lock(mutex_);
    while (true) {
      while (!ready_.empty()) {
        Work& work = ready_.pop();
        lock.unlock();
        work.run(work);
        lock.lock();
      }
      if (stopping_) {
        return;
      }
      wait_for_work(lock);
    }
  }

  void wait_for_work(Lock& lock) noexcept {
    has_ready_.store(false, std::memory_order_relaxed);
    const TimePoint begin = MonotonicTime::now();
    if (work_comes_soon_ && !watching_) {
      watching_ = true;
      lock.unlock();
      while (!has_ready_.load(std::memory_order_relaxed) && MonotonicTime::now() < begin + kSoon) {
        for (int i = 0; i < 16; ++i) {
          detail::pause_cpu();
        }
        std::this_thread::yield();  // Whoever else wants this core.
      }
      lock.lock();
      watching_ = false;
    }
    ++asleep_;
    ready_changed_.wait(lock, [this] { return stopping_ || !ready_.empty(); });
    --asleep_;
    work_comes_soon_ = several_cores_ && MonotonicTime::now() < begin + kSoon;
  }

  detail::SpinningMutex mutex_;
  std::condition_variable_any ready_changed_;
  detail::WorkList ready_;
  std::size_t asleep_ = 0;
  const bool several_cores_ = std::thread::hardware_concurrency() > 1;
  bool work_comes_soon_ = false;
  bool watching_ = false;
  std::atomic<bool> has_ready_ = false;  // For the thread that watches; others ask `ready_`.
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

ThreadPool::ThreadPool(std::size_t thread_count)
    : own_clock_(std::make_unique<SystemClock>()),
      clock_(*own_clock_),
      threads_(std::make_unique<Threads>(checked_count(thread_count))) {}

ThreadPool::ThreadPool(std::size_t thread_count, Clock& clock)
    : clock_(clock), threads_(std::make_unique<Threads>(checked_count(thread_count))) {}

ThreadPool::~ThreadPool() {
  stop_tasks();
  wait_for_tasks();
}

void ThreadPool::post_all(detail::WorkList& works) noexcept { threads_->post_all(works); }

void ThreadPool::post(Work& work) noexcept { threads_->post(work); }
Clock& ThreadPool::clock() noexcept { return clock_; }

std::size_t ThreadPool::default_thread_count() noexcept {
  return std::max<std::size_t>(1, std::thread::hardware_concurrency());
}

}  // namespace holdfast
