// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

#include <holdfast/clock.hpp>
#include <holdfast/executor.hpp>

namespace holdfast::testing {

/// Runs the tasks of a test and the thread of a store by turns, so that a seed makes the same run
/// each time: tasks run while that thread pauses or rests, and it goes on when no task can.
///
/// The thread pauses where a store asks its `Neighbours`, see `Alone`. Without a `drive_until` in
/// progress nothing pauses.
class Stage final : public Executor {
 public:
  Stage() = default;
  ~Stage() override { check_no_tasks(); }

  void post(Work& work) noexcept override {
    const std::lock_guard lock(mutex_);
    ready_.push(work);
    changed_.notify_all();
  }
  [[nodiscard]] Clock& clock() noexcept override { return clock_; }

  void drive_until(const std::function<bool()>& done) override {
    set_driving(true);
    while (!done()) {
      Work& work = next();
      work.run(work);
    }
    set_driving(false);
  }

  // By the store's thread.

  void pause() noexcept {
    std::unique_lock lock(mutex_);
    thread_ = Thread::kPaused;
    changed_.notify_all();
    changed_.wait(lock, [this] { return thread_ == Thread::kRuns || !driving_; });
    thread_ = Thread::kRuns;
  }
  void rest() noexcept {
    const std::lock_guard lock(mutex_);
    thread_ = Thread::kRests;
    changed_.notify_all();
  }

 private:
  enum class Thread : std::uint8_t { kRests, kPaused, kRuns };

  Work& next() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] {
        return thread_ == Thread::kPaused || (thread_ == Thread::kRests && !ready_.empty());
      });
      if (!ready_.empty()) {
        return ready_.pop();
      }
      thread_ = Thread::kRuns;
      changed_.notify_all();
    }
  }

  void set_driving(bool driving) {
    const std::lock_guard lock(mutex_);
    driving_ = driving;
    changed_.notify_all();
  }

  VirtualClock clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  detail::WorkList ready_;
  Thread thread_ = Thread::kRests;
  bool driving_ = false;
};

}  // namespace holdfast::testing
