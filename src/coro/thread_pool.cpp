// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <holdfast/error.hpp>
#include <holdfast/executor.hpp>

namespace holdfast {

namespace {

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
    }
    ready_changed_.notify_all();
    for (auto& thread : threads_) {
      thread.join();
    }
  }

  void post(Work& work) noexcept {
    const std::scoped_lock lock(mutex_);
    ready_.push(work);
    if (idle_ > 0) {
      // Under the lock: without it the work may have run, and the pool be gone, by now.
      ready_changed_.notify_one();
    }
  }

  void post_all(detail::WorkList& works) noexcept {
    const std::scoped_lock lock(mutex_);
    ready_.append(works);
    if (idle_ > 0) {
      ready_changed_.notify_all();
    }
  }

 private:
  void run() noexcept {
    std::unique_lock lock(mutex_);
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
      ++idle_;
      ready_changed_.wait(lock, [this] { return stopping_ || !ready_.empty(); });
      --idle_;
    }
  }

  std::mutex mutex_;
  std::condition_variable ready_changed_;
  detail::WorkList ready_;
  std::size_t idle_ = 0;
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
