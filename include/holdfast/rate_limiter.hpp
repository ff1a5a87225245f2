// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <utility>

#include <holdfast/acquire.hpp>
#include <holdfast/contention.hpp>
#include <holdfast/detail/guarded.hpp>
#include <holdfast/detail/turnstile.hpp>
#include <holdfast/hold.hpp>
#include <holdfast/sync_options.hpp>
#include <holdfast/token_bucket.hpp>

namespace holdfast {

/// As many at once as like.
inline constexpr std::int64_t kUnlimited = detail::Turnstile::kUnitsMax;

struct RateLimits {
  std::int64_t at_once = kUnlimited;  ///< How many may hold at the same time; at least 1.
  Rate rate{};                        ///< How many may start per period.
};

/// So many at once, and so many per period, in the order of arrival.
///
/// ```
/// RateLimiter api(pool.clock(), {.at_once = 10, .rate = {.count = 100, .period = 1s}});
/// const Hold call = co_await api.acquire();
/// ```
///
/// A token is spent only when the slot is there, too: who waits, gives up or is refused spends
/// none. Nothing polls: a timer is set for the moment when the next token is due. For a queue of
/// bounded length see `SyncOptions::queue`. Otherwise as `Semaphore`. Thread-safe.
class RateLimiter {
 public:
  /// The clock must outlive the limiter. An `InvalidArgument` for limits that mean nothing.
  RateLimiter(Clock& clock, const RateLimits& limits, const SyncOptions& options = {});

  /// Waits for a slot and `tokens` tokens. Fewer than one is an `InvalidArgument`; more than the
  /// burst ends with `Unsatisfiable` at once.
  [[nodiscard]] Acquire acquire(std::int64_t tokens = 1, const WaitOptions& options = {},
                                std::stop_token stop = {}) {
    return {request(tokens), options, std::move(stop)};
  }
  [[nodiscard]] std::optional<Hold> try_acquire(std::int64_t tokens = 1) {
    return detail::try_acquire(request(tokens));
  }
  /// Runs `function` within the limits: see `Mutex::run_exclusive`.
  template <typename Function>
  [[nodiscard]] auto run(Function function, std::int64_t tokens = 1,
                         const WaitOptions& options = {}, std::stop_token stop = {}) {
    return detail::Guarded([&] { return acquire(tokens, options, std::move(stop)); },
                           std::move(function));
  }

  /// Takes effect at once, for those who wait as well. Spent tokens stay spent.
  void set_limits(const RateLimits& limits);

  /// Free slots.
  [[nodiscard]] std::int64_t available() const noexcept { return turnstile_->free_units(); }
  [[nodiscard]] std::int64_t available_tokens() const noexcept;
  [[nodiscard]] std::size_t queue_length() const noexcept { return turnstile_->queue_length(); }
  [[nodiscard]] Contention contention() const;

  [[nodiscard]] detail::AcquireRequest request(std::int64_t tokens = 1) const;

 private:
  Clock& clock_;
  detail::ProfileOwner profile_;
  detail::TurnstileOwner turnstile_;
};

}  // namespace holdfast
