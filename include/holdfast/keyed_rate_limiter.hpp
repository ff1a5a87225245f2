// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include <holdfast/contention.hpp>
#include <holdfast/detail/guarded.hpp>
#include <holdfast/detail/keyed_turnstiles.hpp>
#include <holdfast/detail/limits.hpp>
#include <holdfast/hold.hpp>
#include <holdfast/rate_limiter.hpp>
#include <holdfast/sync_options.hpp>

namespace holdfast {

/// A `RateLimiter` per key, with the same limits for all keys or its own for each.
///
/// ```
/// KeyedRateLimiter<CustomerId> calls(pool.clock(), {.at_once = 2, .rate = {.count = 10}});
/// const Hold call = co_await calls.acquire(customer.id);
/// ```
///
/// A key is remembered while someone holds or waits, and until its spent tokens have come back;
/// then it is forgotten by a timer of its own. Thread-safe.
template <typename Key, typename Hash = std::hash<Key>>
class KeyedRateLimiter {
  using Turnstiles = detail::KeyedTurnstiles<Key, Hash>;

 public:
  /// Called when a key is first seen, or seen again after it was forgotten.
  using LimitsOf = std::function<RateLimits(const Key&)>;

  /// The clock must outlive the limiter. An `InvalidArgument` for limits that mean nothing: here,
  /// or for limits by key when the key is first used.
  KeyedRateLimiter(Clock& clock, const RateLimits& limits, const SyncOptions& options = {})
      : KeyedRateLimiter(clock, LimitsOf([limits](const Key&) { return limits; }), options) {
    static_cast<void>(checked(limits, *profile_.get()));
  }
  KeyedRateLimiter(Clock& clock, LimitsOf limits_of, const SyncOptions& options = {})
      : profile_("KeyedRateLimiter", options),
        turnstiles_(std::make_shared<Turnstiles>(
            profile_.get(),
            [profile = profile_.get(), limits_of = std::move(limits_of)](const Key& key) {
              return checked(limits_of(key), *profile);
            },
            &clock)) {}
  KeyedRateLimiter(const KeyedRateLimiter&) = delete;
  KeyedRateLimiter& operator=(const KeyedRateLimiter&) = delete;
  ~KeyedRateLimiter() { turnstiles_->close(); }

  [[nodiscard]] detail::KeyedAcquire<Key, Hash> acquire(Key key, std::int64_t tokens = 1,
                                                        const WaitOptions& options = {},
                                                        std::stop_token stop = {}) {
    return {turnstiles_, std::move(key), detail::checked_weight(tokens, *profile_.get()), options,
            std::move(stop)};
  }
  [[nodiscard]] std::optional<Hold> try_acquire(const Key& key, std::int64_t tokens = 1) {
    return detail::try_acquire(*turnstiles_, key, detail::checked_weight(tokens, *profile_.get()));
  }
  /// Runs `function` within the limits of `key`: see `Mutex::run_exclusive`.
  template <typename Function>
  [[nodiscard]] auto run(Key key, Function function, const WaitOptions& options = {},
                         std::stop_token stop = {}) {
    return detail::Guarded([&] { return acquire(std::move(key), 1, options, std::move(stop)); },
                           std::move(function));
  }

  [[nodiscard]] std::size_t queue_length(const Key& key) const {
    return turnstiles_->ask(
        key, [](const auto& one) { return one.queue_length(); }, std::size_t{0});
  }
  /// How many keys are remembered.
  [[nodiscard]] std::size_t size() const noexcept { return turnstiles_->size(); }
  [[nodiscard]] Contention contention() const { return detail::contention_of(*profile_.get()); }

 private:
  static typename Turnstiles::Limits checked(const RateLimits& limits,
                                             const detail::TurnstileProfile& profile) {
    static_cast<void>(TokenBucket(limits.rate, TimePoint{}));
    return {detail::checked_capacity(limits.at_once, profile), limits.rate};
  }

  detail::ProfileOwner profile_;
  std::shared_ptr<Turnstiles> turnstiles_;
};

}  // namespace holdfast
