// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace holdfast {

using Duration = std::chrono::nanoseconds;

/// Time since some fixed moment in the past. It never goes back and goes on during suspend.
struct MonotonicTime {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<MonotonicTime>;
  static constexpr bool is_steady = true;

  [[nodiscard]] static time_point now() noexcept;
};

using TimePoint = MonotonicTime::time_point;

namespace detail {
class TimerHeap;
class TimerQueue;
}  // namespace detail

/// A one-shot alarm, owned by whoever waits for it: arming allocates nothing.
///
/// Disarm it before it is destroyed. The callback runs on the clock's thread (a virtual clock's: on
/// the thread that advances it), outside all locks of the clock, and may arm the timer again.
class Timer {
 public:
  using Callback = void (*)(Timer&) noexcept;

  explicit Timer(Callback callback) noexcept : callback_(callback) {}
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer();

 private:
  friend class detail::TimerHeap;
  friend class detail::TimerQueue;

  Callback callback_;
  TimePoint at_{};
  std::uint64_t sequence_ = 0;  // Equal times fire in the order of arming.
  Timer* child_ = nullptr;
  Timer* sibling_ = nullptr;
  Timer* previous_ = nullptr;  // The left sibling, or the parent of a first child.
  bool armed_ = false;
};

/// Where all time comes from: real, or advanced by hand in a test. Thread-safe.
class Clock {
 public:
  Clock() = default;
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  virtual ~Clock() = default;

  [[nodiscard]] virtual TimePoint now() const noexcept = 0;

  /// Fires `timer` once, at `at` or as soon as possible after it; never before. O(1).
  virtual void arm(Timer& timer, TimePoint at) = 0;

  /// After this the callback is not running and will not run. O(log n) amortised.
  /// Waits for a callback that runs on another thread: hold no lock that the callback takes.
  virtual void disarm(Timer& timer) noexcept = 0;

  /// The same without waiting: false if the timer is not armed, so that its callback may be
  /// running.
  virtual bool try_disarm(Timer& timer) noexcept = 0;
};

/// Real time, with a thread of its own that starts with the first timer.
class SystemClock final : public Clock {
 public:
  SystemClock();
  ~SystemClock() override;

  [[nodiscard]] TimePoint now() const noexcept override { return MonotonicTime::now(); }
  void arm(Timer& timer, TimePoint at) override;
  void disarm(Timer& timer) noexcept override;
  bool try_disarm(Timer& timer) noexcept override;

 private:
  class Thread;
  std::unique_ptr<Thread> thread_;
};

/// Time that stands still until a test moves it.
///
/// ```
/// VirtualClock clock;
/// ManualExecutor executor(clock);
/// auto task = spawn(executor, remind_me_in(24h));
/// executor.drain();
/// clock.advance(24h);  // A day passes at once.
/// executor.drain();
/// ```
class VirtualClock final : public Clock {
 public:
  VirtualClock();
  ~VirtualClock() override;

  [[nodiscard]] TimePoint now() const noexcept override;
  void arm(Timer& timer, TimePoint at) override;
  void disarm(Timer& timer) noexcept override;
  bool try_disarm(Timer& timer) noexcept override;

  // These two are for one thread at a time.

  /// Moves time forward and fires what falls due, in order, each at its own moment.
  void advance(Duration by);

  /// Jumps to the next timer and fires all that are due then. False if none is armed.
  bool advance_to_next();

  [[nodiscard]] std::size_t armed_count() const noexcept;
  /// When the next timer is due.
  [[nodiscard]] std::optional<TimePoint> next_due() const noexcept;

 private:
  std::unique_ptr<detail::TimerQueue> queue_;
};

}  // namespace holdfast
