// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>

#include <holdfast/clock.hpp>

namespace holdfast::detail {

/// A pairing heap of timers, ordered by time and then by arming. It links the timers themselves, so
/// that arming needs no memory, and merging is iterative, so that a million of them need no stack.
class TimerHeap {
 public:
  void insert(Timer& timer) noexcept;
  void remove(Timer& timer) noexcept;
  [[nodiscard]] Timer* first() const noexcept { return root_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  static bool before(const Timer& a, const Timer& b) noexcept;
  static Timer* merge(Timer* a, Timer* b) noexcept;
  static Timer* merge_siblings(Timer* first) noexcept;

  Timer* root_ = nullptr;
  std::size_t size_ = 0;
  std::uint64_t next_sequence_ = 0;
};

/// The part that real and virtual time share: a heap with a lock, and the rule that `disarm` waits
/// for a callback that is running.
class TimerQueue {
 public:
  TimerQueue() = default;
  TimerQueue(const TimerQueue&) = delete;
  TimerQueue& operator=(const TimerQueue&) = delete;
  ~TimerQueue();

  /// True if `timer` is now the first.
  bool arm(Timer& timer, TimePoint at);
  void disarm(Timer& timer) noexcept;
  bool try_disarm(Timer& timer) noexcept;

  /// Fires the first timer if it is due at `now`; its time, or nothing.
  std::optional<TimePoint> fire_next(TimePoint now) noexcept;
  [[nodiscard]] std::optional<TimePoint> next_due() const noexcept;
  [[nodiscard]] std::size_t size() const noexcept;

  /// What a virtual clock shows: at least the time of the timer being fired.
  [[nodiscard]] TimePoint virtual_now() const noexcept;
  void set_virtual_now(TimePoint now) noexcept;

 private:
  mutable std::mutex mutex_;
  std::condition_variable fired_;
  TimerHeap heap_;
  Timer* firing_ = nullptr;
  std::thread::id firing_thread_;
  TimePoint virtual_now_{};
};

}  // namespace holdfast::detail
