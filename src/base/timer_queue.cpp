// SPDX-License-Identifier: Apache-2.0
#include "timer_queue.hpp"

#include <algorithm>
#include <utility>

#include <holdfast/detail/check.hpp>

namespace holdfast {

Timer::~Timer() {
  HOLDFAST_CHECK(!armed_, "a Timer was destroyed while armed: call Clock::disarm() first");
}

namespace detail {

bool TimerHeap::before(const Timer& a, const Timer& b) noexcept {
  return a.at_ != b.at_ ? a.at_ < b.at_ : a.sequence_ < b.sequence_;
}

Timer* TimerHeap::merge(Timer* a, Timer* b) noexcept {
  if (a == nullptr || b == nullptr) {
    return a != nullptr ? a : b;
  }
  if (before(*b, *a)) {
    std::swap(a, b);
  }
  b->previous_ = a;
  b->sibling_ = a->child_;
  if (b->sibling_ != nullptr) {
    b->sibling_->previous_ = b;
  }
  a->child_ = b;
  return a;
}

Timer* TimerHeap::merge_siblings(Timer* first) noexcept {
  Timer* pairs = nullptr;  // Merged pairs, last one first.
  while (first != nullptr) {
    Timer* a = first;
    Timer* b = a->sibling_;
    first = b != nullptr ? b->sibling_ : nullptr;
    for (Timer* one : {a, b}) {
      if (one != nullptr) {
        one->sibling_ = nullptr;
        one->previous_ = nullptr;
      }
    }
    Timer* pair = merge(a, b);
    pair->sibling_ = pairs;
    pairs = pair;
  }
  Timer* root = nullptr;
  while (pairs != nullptr) {
    Timer* rest = std::exchange(pairs->sibling_, nullptr);
    root = merge(root, pairs);
    pairs = rest;
  }
  return root;
}

void TimerHeap::insert(Timer& timer) noexcept {
  timer.sequence_ = next_sequence_++;
  timer.child_ = timer.sibling_ = timer.previous_ = nullptr;
  timer.armed_ = true;
  root_ = merge(root_, &timer);
  ++size_;
}

void TimerHeap::remove(Timer& timer) noexcept {
  if (&timer == root_) {
    root_ = merge_siblings(timer.child_);
  } else {
    if (timer.previous_->child_ == &timer) {
      timer.previous_->child_ = timer.sibling_;
    } else {
      timer.previous_->sibling_ = timer.sibling_;
    }
    if (timer.sibling_ != nullptr) {
      timer.sibling_->previous_ = timer.previous_;
    }
    root_ = merge(root_, merge_siblings(timer.child_));
  }
  timer.armed_ = false;
  --size_;
}

TimerQueue::~TimerQueue() {
  HOLDFAST_CHECK(heap_.size() == 0, "a Clock was destroyed while timers were armed on it");
}

bool TimerQueue::arm(Timer& timer, TimePoint at) {
  const std::scoped_lock lock(mutex_);
  HOLDFAST_CHECK(!timer.armed_, "a Timer was armed twice: disarm it first");
  timer.at_ = at;
  heap_.insert(timer);
  return heap_.first() == &timer;
}

void TimerQueue::disarm(Timer& timer) noexcept {
  std::unique_lock lock(mutex_);
  const bool on_firing_thread = firing_thread_ == std::this_thread::get_id();
  fired_.wait(lock, [&] { return firing_ != &timer || on_firing_thread; });
  if (timer.armed_) {
    heap_.remove(timer);
  }
}

bool TimerQueue::try_disarm(Timer& timer) noexcept {
  const std::scoped_lock lock(mutex_);
  const bool armed = timer.armed_;
  if (armed) {
    heap_.remove(timer);
  }
  return armed;
}

std::optional<TimePoint> TimerQueue::fire_next(TimePoint now) noexcept {
  std::unique_lock lock(mutex_);
  Timer* timer = heap_.first();
  if (timer == nullptr || timer->at_ > now) {
    return std::nullopt;
  }
  const TimePoint at = timer->at_;
  virtual_now_ = std::max(virtual_now_, at);
  heap_.remove(*timer);
  firing_ = timer;
  firing_thread_ = std::this_thread::get_id();
  lock.unlock();
  timer->callback_(*timer);
  lock.lock();
  firing_ = nullptr;
  firing_thread_ = {};
  fired_.notify_all();
  return at;
}

std::optional<TimePoint> TimerQueue::next_due() const noexcept {
  const std::scoped_lock lock(mutex_);
  return heap_.first() == nullptr ? std::nullopt : std::optional(heap_.first()->at_);
}

std::size_t TimerQueue::size() const noexcept {
  const std::scoped_lock lock(mutex_);
  return heap_.size();
}

TimePoint TimerQueue::virtual_now() const noexcept {
  const std::scoped_lock lock(mutex_);
  return virtual_now_;
}

void TimerQueue::set_virtual_now(TimePoint now) noexcept {
  const std::scoped_lock lock(mutex_);
  virtual_now_ = std::max(virtual_now_, now);
}

}  // namespace detail
}  // namespace holdfast
