// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <holdfast/executor.hpp>

#include "drive_by_hand.hpp"

namespace holdfast {

SeededExecutor::SeededExecutor(Clock& clock, std::uint64_t seed) : clock_(clock), random_(seed) {}

SeededExecutor::~SeededExecutor() {
  stop_tasks();
  drain();
  check_no_tasks();
}

void SeededExecutor::post(Work& work) noexcept {
  const std::scoped_lock lock(mutex_);
  ready_.push_back(&work);
  posted_.notify_one();  // Under the lock: as soon as the work has run, this may be gone.
}

bool SeededExecutor::run_one() {
  Work* work = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    if (ready_.empty()) {
      return false;
    }
    std::swap(ready_[random_() % ready_.size()], ready_.back());
    work = ready_.back();
    ready_.pop_back();
  }
  work->run(*work);
  return true;
}

std::size_t SeededExecutor::drain() {
  std::size_t count = 0;
  while (run_one()) {
    ++count;
  }
  return count;
}

void SeededExecutor::drive_until(const std::function<bool()>& done) {
  detail::drive_by_hand(*this, done, [this] {
    std::unique_lock lock(mutex_);
    posted_.wait(lock, [this] { return !ready_.empty(); });
  });
}

}  // namespace holdfast
