// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <utility>

#include <holdfast/executor.hpp>

#include "drive_by_hand.hpp"

namespace holdfast {

namespace {

// Work that is posted by the thread that drains needs no atomics.
thread_local const ManualExecutor* draining = nullptr;

class DrainingScope {
 public:
  explicit DrainingScope(const ManualExecutor& executor) noexcept
      : outer_(std::exchange(draining, &executor)) {}
  DrainingScope(const DrainingScope&) = delete;
  DrainingScope& operator=(const DrainingScope&) = delete;
  ~DrainingScope() { draining = outer_; }

 private:
  const ManualExecutor* outer_;
};

}  // namespace

/// What others posted: a stack, taken whole and reversed.
class ManualExecutor::Inbox {
 public:
  void push(Work& work) noexcept {
    Work* below = top_.load(std::memory_order_relaxed);
    do {
      work.next = below;
    } while (!top_.compare_exchange_weak(below, &work, std::memory_order_release,
                                         std::memory_order_relaxed));
    if (below == nullptr) {
      top_.notify_one();
    }
  }

  void move_to(detail::WorkList& list) noexcept {
    if (top_.load(std::memory_order_relaxed) == nullptr) {
      return;
    }
    Work* newest = top_.exchange(nullptr, std::memory_order_acquire);
    Work* oldest = nullptr;
    while (newest != nullptr) {
      oldest = std::exchange(newest, std::exchange(newest->next, oldest));
    }
    while (oldest != nullptr) {
      list.push(*std::exchange(oldest, oldest->next));
    }
  }

  void wait() noexcept { top_.wait(nullptr, std::memory_order_acquire); }

 private:
  std::atomic<Work*> top_ = nullptr;
};

ManualExecutor::ManualExecutor(Clock& clock) : clock_(clock), inbox_(std::make_unique<Inbox>()) {}

ManualExecutor::~ManualExecutor() {
  stop_tasks();
  drain();
  check_no_tasks();
}

void ManualExecutor::post(Work& work) noexcept {
  if (draining == this) {
    ready_.push(work);
  } else {
    inbox_->push(work);
  }
}

bool ManualExecutor::run_one() {
  const DrainingScope scope(*this);
  return run_next();
}

std::size_t ManualExecutor::drain() {
  const DrainingScope scope(*this);
  std::size_t count = 0;
  while (run_next()) {
    ++count;
  }
  return count;
}

bool ManualExecutor::run_next() {
  inbox_->move_to(ready_);
  if (ready_.empty()) {
    return false;
  }
  Work& work = ready_.pop();
  work.run(work);
  return true;
}

void ManualExecutor::drive_until(const std::function<bool()>& done) {
  detail::drive_by_hand(*this, done, [this] { inbox_->wait(); });
}

}  // namespace holdfast
