// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
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

/// So many in a row go ahead of those that came first.
constexpr int kAheadMax = 8;

std::size_t checked_count(std::size_t thread_count) {
  if (thread_count == 0) {
    throw InvalidArgument("ThreadPool: thread_count is 0; it must be at least 1");
  }
  return thread_count;
}

}  // namespace

/// Each thread has a line of its own, and helps the others only when that is empty: what a task
/// works with is in the caches of the processor that ran it last, and to fetch it from there would
/// take longer than most of what tasks do. For the same reason what a task has led to goes ahead.
class ThreadPool::Threads {
 public:
  explicit Threads(std::size_t count) : lines_(count) {
    threads_.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      threads_.emplace_back([this, i] { run(i); });
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
    for (Line& line : lines_) {
      line.changed.notify_one();
    }
    for (auto& thread : threads_) {
      thread.join();
    }
  }

  void post(Work& work) noexcept {
    const std::scoped_lock lock(mutex_);
    push(work);
    wake_for_ready();
  }

  void post_next(Work& work) noexcept {
    const std::scoped_lock lock(mutex_);
    Line& line = line_of(work);
    const bool is_own = own_line.pool == this && &line == &lines_[own_line.index];
    Work* const behind = is_own ? std::exchange(line.next, &work) : &work;
    if (behind != nullptr) {
      line.ready.push(*behind);
    }
    ++ready_count_;
    wake_for_ready();
  }

  void post_all(detail::WorkList& works) noexcept {
    const std::scoped_lock lock(mutex_);
    while (!works.empty()) {
      push(works.pop());
    }
    wake_for_ready();
  }

 private:
  using Lock = std::unique_lock<detail::SpinningMutex>;

  /// What one thread has to do.
  struct Line {
    detail::WorkList ready;
    Work* next = nullptr;  // Ahead of those, for what it needs is in the caches.
    int taken_ahead = 0;   // In a row.
    std::condition_variable_any changed;
    bool is_asleep = false;  // And was not woken yet.
  };

  // All of this with the lock held.

  void push(Work& work) noexcept {
    line_of(work).ready.push(work);
    ++ready_count_;
  }

  Line& line_of(const Work& work) noexcept {
    if (work.ran_in != 0) {
      return lines_[(work.ran_in - 1) % lines_.size()];
    }
    if (own_line.pool == this) {
      return lines_[own_line.index];
    }
    next_line_ = (next_line_ + 1) % lines_.size();
    return lines_[next_line_];
  }

  /// Under the lock: without it the work may have run, and the pool be gone, by now.
  void wake_for_ready() noexcept {
    has_ready_.store(true, std::memory_order_relaxed);
    std::size_t wanted = ready_count_ - std::min<std::size_t>(ready_count_, watching_ ? 1 : 0);
    for (const bool for_others : {false, true}) {
      for (std::size_t i = 0; i < lines_.size() && asleep_ > 0 && wanted > 0; ++i) {
        if (lines_[i].is_asleep &&
            (for_others || !lines_[i].ready.empty() || lines_[i].next != nullptr)) {
          wake(lines_[i]);
          --wanted;
        }
      }
    }
  }

  void wake(Line& line) noexcept {
    line.is_asleep = false;
    --asleep_;
    line.changed.notify_one();
  }

  /// Null: there is nothing to do.
  Work* take(std::size_t index) noexcept {
    for (std::size_t i = 0; i < lines_.size() && ready_count_ > 0; ++i) {
      if (Work* const work = take_from(lines_[(index + i) % lines_.size()])) {
        --ready_count_;
        return work;
      }
    }
    return nullptr;
  }

  static Work* take_from(Line& line) noexcept {
    if (line.next != nullptr && line.taken_ahead < kAheadMax) {
      ++line.taken_ahead;
      return std::exchange(line.next, nullptr);
    }
    if (line.next != nullptr) {
      line.ready.push(*std::exchange(line.next, nullptr));
    }
    line.taken_ahead = 0;
    return line.ready.empty() ? nullptr : &line.ready.pop();
  }

  void run(std::size_t index) noexcept {
    own_line = {this, index};
    Lock lock(mutex_);
    while (true) {
      while (Work* const work = take(index)) {
        lock.unlock();
        work->ran_in = static_cast<std::uint32_t>(index + 1);
        work->run(*work);
        lock.lock();
      }
      if (stopping_) {
        return;
      }
      wait_for_work(lock, lines_[index]);
    }
  }

  void wait_for_work(Lock& lock, Line& line) noexcept {
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
    if (!stopping_ && ready_count_ == 0) {
      line.is_asleep = true;
      ++asleep_;
      line.changed.wait(lock, [&] { return stopping_ || !line.is_asleep; });
    }
    work_comes_soon_ = several_cores_ && MonotonicTime::now() < begin + kSoon;
  }

  /// Of the thread that asks.
  struct OwnLine {
    const Threads* pool = nullptr;
    std::size_t index = 0;
  };
  static thread_local OwnLine own_line;

  detail::SpinningMutex mutex_;
  std::vector<Line> lines_;
  std::size_t ready_count_ = 0;
  std::size_t next_line_ = 0;
  std::size_t asleep_ = 0;
  const bool several_cores_ = std::thread::hardware_concurrency() > 1;
  bool work_comes_soon_ = false;
  bool watching_ = false;
  std::atomic<bool> has_ready_ = false;  // For the thread that watches; others ask the count.
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

thread_local ThreadPool::Threads::OwnLine ThreadPool::Threads::own_line;

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
void ThreadPool::post_next(Work& work) noexcept { threads_->post_next(work); }
Clock& ThreadPool::clock() noexcept { return clock_; }

std::size_t ThreadPool::default_thread_count() noexcept {
  return std::max<std::size_t>(1, std::thread::hardware_concurrency());
}

}  // namespace holdfast
