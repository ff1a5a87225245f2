// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>

#include <holdfast/clock.hpp>

namespace holdfast {

/// Time as calendars have it, in UTC.
using WallTime = std::chrono::sys_time<Duration>;

/// The time of day. Unlike a `Clock` it can be set, forward and back: only schedules go by it, as
/// they are made for people. Thread-safe.
class WallClock {
 public:
  WallClock() = default;
  WallClock(const WallClock&) = delete;
  WallClock& operator=(const WallClock&) = delete;
  virtual ~WallClock() = default;

  [[nodiscard]] virtual WallTime now() const noexcept = 0;
};

/// That of the machine.
class SystemWallClock final : public WallClock {
 public:
  [[nodiscard]] WallTime now() const noexcept override { return std::chrono::system_clock::now(); }
};

/// For tests: goes as fast as another clock, from a day of your choice on.
///
/// ```
/// VirtualClock clock;
/// VirtualWallClock calendar(clock, std::chrono::sys_days(2026y / November / 17));
/// clock.advance(26h);                 // November 18, 02:00.
/// calendar.set(calendar.now() - 1h);  // Somebody sets the clock of the machine.
/// ```
class VirtualWallClock final : public WallClock {
 public:
  /// `clock` outlives it.
  explicit VirtualWallClock(const Clock& clock, WallTime now = {}) noexcept : clock_(clock) {
    set(now);
  }

  [[nodiscard]] WallTime now() const noexcept override {
    return WallTime(clock_.now().time_since_epoch() + ahead_.load());
  }
  void set(WallTime now) noexcept {
    ahead_ = now.time_since_epoch() - clock_.now().time_since_epoch();
  }

 private:
  const Clock& clock_;
  std::atomic<Duration> ahead_{};
};

}  // namespace holdfast
