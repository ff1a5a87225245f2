// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include <holdfast/clock.hpp>

namespace holdfast {

/// So many per period, evenly.
///
/// No window of `period` ever sees more than `count + burst - 1` pass: with the default burst of
/// one that is `count`, and there is no moment at which two windows' worth can pass at once.
struct Rate {
  std::uint32_t count = 1;         ///< At least 1.
  Duration period{1'000'000'000};  ///< At least a nanosecond per token.
  std::uint32_t burst = 1;         ///< How many may pass at once after a quiet time; at least 1.
};

/// Decides when a request may pass, by a rate.
///
/// Pure: owns no clock, thread or lock; the caller passes a `now` that does not go back, and
/// serialises the calls. One number is the whole state; O(1), no allocation.
///
/// ```
/// TokenBucket bucket({.count = 100, .period = 1s, .burst = 10}, clock.now());
/// if (auto wait = bucket.try_take(1, clock.now())) { /* refused: try again after *wait */ }
/// ```
class TokenBucket {
 public:
  /// Starts full. An `InvalidArgument` for a rate that means nothing.
  TokenBucket(const Rate& rate, TimePoint now);

  /// Takes `count` tokens; or changes nothing and returns how long to wait for them.
  /// Requires 1 <= `count` <= `burst()`.
  [[nodiscard]] std::optional<Duration> try_take(std::uint32_t count, TimePoint now) noexcept;

  /// Goes on at another rate; as many tokens are missing as before.
  void change_rate(const Rate& rate, TimePoint now);

  /// A full bucket remembers nothing: from here on a new one would behave the same.
  [[nodiscard]] TimePoint full_at() const noexcept { return full_at_; }
  [[nodiscard]] std::uint32_t burst() const noexcept { return burst_; }
  /// Whole tokens in the bucket.
  [[nodiscard]] std::uint32_t available(TimePoint now) const noexcept;

 private:
  [[nodiscard]] std::uint32_t missing(TimePoint now) const noexcept;

  std::uint32_t burst_;
  Duration per_token_;
  TimePoint full_at_;
};

}  // namespace holdfast
