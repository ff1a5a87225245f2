// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <holdfast/clock.hpp>

namespace holdfast {

class DeadlockDetector;

/// The range of `WaitOptions::priority`.
inline constexpr int kPriorityMin = -100;
inline constexpr int kPriorityMax = 100;

/// How to wait. Trivially destructible on purpose: `co_await mutex.lock({.timeout = 5s})` is safe
/// with g++ 12, which destroys the members of a braced argument twice.
struct WaitOptions {
  std::optional<Duration> timeout{};    ///< Zero: only if it need not wait. Negative is refused.
  std::optional<TimePoint> deadline{};  ///< With `timeout` too, the earlier one counts.
  int priority = 0;                     ///< Higher is served first; equal ones in order of arrival.
};

/// How long a queue may get, and what happens to the one too many.
class QueueLimit {
 public:
  enum class Overflow : std::uint8_t { kWait, kReject, kDropOldest };

  /// Everyone waits.
  constexpr QueueLimit() = default;
  /// With `length_max` waiting, a newcomer gets `QueueFull`. Zero: nobody ever waits.
  [[nodiscard]] static constexpr QueueLimit reject(std::size_t length_max) noexcept {
    return {Overflow::kReject, length_max};
  }
  /// With `length_max` waiting, the one of the lowest priority who waits longest gets `Dropped`, so
  /// that the newcomer can wait; a newcomer below them all gets `QueueFull`. At least 1.
  [[nodiscard]] static constexpr QueueLimit drop_oldest(std::size_t length_max) noexcept {
    return {Overflow::kDropOldest, length_max};
  }

  [[nodiscard]] constexpr Overflow overflow() const noexcept { return overflow_; }
  [[nodiscard]] constexpr std::size_t length_max() const noexcept { return length_max_; }

 private:
  constexpr QueueLimit(Overflow overflow, std::size_t length_max) noexcept
      : overflow_(overflow), length_max_(length_max) {}

  Overflow overflow_ = Overflow::kWait;
  std::size_t length_max_ = static_cast<std::size_t>(-1);
};

/// Somebody holds something for longer than was thought proper.
struct HoldWarning {
  std::string what;    ///< For example: Mutex 'orders'.
  std::string holder;  ///< The name of a task or thread.
  Duration held;
};

/// What locks and limits can be given when they are made. All of it is optional; whatever is left
/// out costs nothing.
struct SyncOptions {
  std::string name{};  ///< Shown in errors, warnings and deadlock reports.
  QueueLimit queue{};
  /// How many later waiters may pass one whose weight does not fit yet. Zero is strict order.
  std::uint32_t overtakes_max = 0;
  /// Finds deadlocks among all locks that share it. It must outlive them.
  DeadlockDetector* detector = nullptr;
  /// Measures contention, by this clock, which must outlive the lock. A measured lock reads the
  /// clock twice per hold, and each acquisition allocates.
  Clock* measure = nullptr;
  /// With `measure`: calls `on_held_long`, on the clock's thread, for a hold that lasts so long.
  std::optional<Duration> held_long{};
  std::function<void(const HoldWarning&)> on_held_long{};
};

}  // namespace holdfast
