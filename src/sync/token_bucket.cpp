// SPDX-License-Identifier: Apache-2.0
#include <holdfast/token_bucket.hpp>

#include <algorithm>
#include <string>

#include <holdfast/detail/check.hpp>
#include <holdfast/error.hpp>

namespace holdfast {

namespace {

// Rounded up: a rate that does not divide evenly must not run ahead.
Duration per_token(const Rate& rate) {
  if (rate.count < 1 || rate.burst < 1) {
    throw InvalidArgument("Rate: count is " + std::to_string(rate.count) + " and burst is " +
                          std::to_string(rate.burst) + "; both must be at least 1");
  }
  if (rate.period.count() < rate.count) {
    throw InvalidArgument("Rate: " + std::to_string(rate.count) + " in " +
                          std::to_string(rate.period.count()) +
                          " ns; the period must be at least a nanosecond per token");
  }
  const bool even = rate.period.count() % rate.count == 0;
  const Duration interval{rate.period.count() / rate.count + (even ? 0 : 1)};
  if (interval > Duration::max() / 4 / rate.burst) {
    throw InvalidArgument("Rate: a burst of " + std::to_string(rate.burst) + " at one token per " +
                          std::to_string(interval.count()) + " ns is longer than time itself");
  }
  return interval;
}

}  // namespace

TokenBucket::TokenBucket(const Rate& rate, TimePoint now)
    : burst_(rate.burst), per_token_(per_token(rate)), full_at_(now) {}

std::optional<Duration> TokenBucket::try_take(std::uint32_t count, TimePoint now) noexcept {
  HOLDFAST_CHECK(count >= 1 && count <= burst_, "TokenBucket: the count does not fit the burst");
  const TimePoint full_after = std::max(full_at_, now) + per_token_ * count;
  const TimePoint earliest = full_after - per_token_ * burst_;
  if (earliest > now) {
    return earliest - now;
  }
  full_at_ = full_after;
  return std::nullopt;
}

void TokenBucket::change_rate(const Rate& rate, TimePoint now) {
  const Duration interval = per_token(rate);
  full_at_ = now + interval * std::min(missing(now), rate.burst);
  burst_ = rate.burst;
  per_token_ = interval;
}

std::uint32_t TokenBucket::available(TimePoint now) const noexcept { return burst_ - missing(now); }

std::uint32_t TokenBucket::missing(TimePoint now) const noexcept {
  const Duration time = std::max(full_at_ - now, Duration::zero());
  return static_cast<std::uint32_t>((time + per_token_ - Duration{1}) / per_token_);
}

}  // namespace holdfast
