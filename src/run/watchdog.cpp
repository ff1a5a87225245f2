// SPDX-License-Identifier: Apache-2.0
#include "watchdog.hpp"

#include <utility>
#include <vector>

namespace holdfast::detail {

namespace {

/// It is looked at twice in the time that an activation may take, so one that is seen so often has
/// taken that long.
constexpr int kLooksInTime = 2;
constexpr int kLooksTooMany = kLooksInTime + 1;

}  // namespace

Watchdog::Watched::Watched(Watchdog& watchdog, const RunMachine::Facts& facts)
    : watchdog_(watchdog), facts_(facts) {
  watchdog_.add(*this);
}

void Watchdog::add(Watched& watched) {
  const std::lock_guard lock(mutex_);
  watched.next_ = first_;
  if (first_ != nullptr) {
    first_->previous_ = &watched;
  }
  first_ = &watched;
}

Watchdog::Watched::~Watched() {
  const std::lock_guard lock(watchdog_.mutex_);
  (previous_ == nullptr ? watchdog_.first_ : previous_->next_) = next_;
  if (next_ != nullptr) {
    next_->previous_ = previous_;
  }
}

void Watchdog::begin(std::chrono::nanoseconds time, std::function<void(const std::string&)> warn) {
  warn_ = std::move(warn);
  thread_.emplace([this, time](const std::stop_token& stop) { watch(stop, time); });
}

void Watchdog::end() { thread_.reset(); }

void Watchdog::watch(const std::stop_token& stop, std::chrono::nanoseconds time) {
  std::unique_lock lock(mutex_);
  while (!ending_.wait_for(lock, stop, time / kLooksInTime,
                           [&stop] { return stop.stop_requested(); })) {
    std::vector<std::string> texts;
    for (Watched* one = first_; one != nullptr; one = one->next_) {
      if (++one->looks_ == kLooksTooMany) {
        texts.push_back("workflow '" + one->facts_.type + "' (run '" + one->facts_.id +
                        "') does not come to a wait: it blocks a thread that other runs need. What "
                        "takes long belongs into a step");
      }
    }
    lock.unlock();
    for (const std::string& text : texts) {
      warn_(text);
    }
    lock.lock();
  }
}

}  // namespace holdfast::detail
