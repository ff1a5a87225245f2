// SPDX-License-Identifier: Apache-2.0
#include "turn_line.hpp"

#include <algorithm>

namespace holdfast::detail {

namespace {

// `until` may be as far away as numbers go, which is too far for the standard library.
constexpr Duration kLongestWait = std::chrono::minutes(1);

}  // namespace

bool TurnLine::take(TimePoint until) {
  if (!take_among_threads(until)) {
    return false;
  }
  bool taken = false;
  try {
    taken = neighbours_.take_turn(until);
  } catch (...) {
    end_among_threads();
    throw;
  }
  if (!taken) {
    end_among_threads();
  }
  return taken;
}

void TurnLine::end() noexcept {
  neighbours_.end_turn();
  end_among_threads();
}

bool TurnLine::wanted() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (line_.size() > 1) {
      return true;
    }
  }
  return neighbours_.turn_wanted();
}

void TurnLine::interrupt() noexcept {
  {
    const std::lock_guard lock(mutex_);
    interrupted_ = true;
    moved_.notify_all();
  }
  neighbours_.interrupt();
}

bool TurnLine::take_among_threads(TimePoint until) {
  std::unique_lock lock(mutex_);
  const std::uint64_t ticket = ++last_ticket_;
  line_.push_back(ticket);
  for (;;) {
    const TimePoint now = MonotonicTime::now();
    if (line_.front() == ticket && !interrupted_) {
      return true;
    }
    if (interrupted_ || now >= until) {
      std::erase(line_, ticket);
      moved_.notify_all();
      return false;
    }
    moved_.wait_for(lock, std::min(until - now, kLongestWait));
  }
}

void TurnLine::end_among_threads() noexcept {
  const std::lock_guard lock(mutex_);
  line_.pop_front();
  moved_.notify_all();
}

}  // namespace holdfast::detail
