// SPDX-License-Identifier: Apache-2.0
#include <holdfast/rate_limiter.hpp>

#include <holdfast/detail/limits.hpp>

namespace holdfast {

RateLimiter::RateLimiter(Clock& clock, const RateLimits& limits, const SyncOptions& options)
    : clock_(clock),
      profile_("RateLimiter", options),
      turnstile_(detail::checked_capacity(limits.at_once, *profile_.get()), profile_.get()) {
  turnstile_->set_rate(limits.rate, clock_);
}

void RateLimiter::set_limits(const RateLimits& limits) {
  const auto capacity = detail::checked_capacity(limits.at_once, *profile_.get());
  turnstile_->set_rate(limits.rate, clock_);
  turnstile_->set_capacity(capacity);
}

std::int64_t RateLimiter::available_tokens() const noexcept {
  return turnstile_->bucket()->available(clock_.now());
}

detail::AcquireRequest RateLimiter::request(std::int64_t tokens) const {
  return {&*turnstile_, turnstile_.generation(), 1,
          detail::checked_weight(tokens, *profile_.get())};
}

Contention RateLimiter::contention() const { return detail::contention_of(*profile_.get()); }

}  // namespace holdfast
