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
#include <holdfast/detail/limits.hpp>
#include <holdfast/detail/turnstile.hpp>
#include <holdfast/hold.hpp>
#include <holdfast/sync_options.hpp>

namespace holdfast {

/// So many units at a time, in the order of arrival, however many each takes.
///
/// ```
/// Semaphore connections(10);
/// const Hold connection = co_await connections.acquire();
/// ```
///
/// Whoever needs more units than are free waits, and all who come later wait behind it: nobody
/// starves. `SyncOptions::overtakes_max` lets lighter ones pass it, so many times and no more.
/// The capacity may change at any time; lowering it takes nothing from those who hold.
/// Otherwise as `Mutex`. Thread-safe.
class Semaphore {
 public:
  /// 1 to 2^30 units, or an `InvalidArgument`.
  explicit Semaphore(std::int64_t capacity, const SyncOptions& options = {});

  /// Waits for `weight` units. A weight below one is an `InvalidArgument`; one above the capacity
  /// ends with `Unsatisfiable` at once, also later, if the capacity falls below it during the wait.
  [[nodiscard]] Acquire acquire(std::int64_t weight = 1) { return Acquire(request(weight)); }
  [[nodiscard]] Acquire acquire(std::int64_t weight, const WaitOptions& options,
                                std::stop_token stop = {}) {
    return {request(weight), options, std::move(stop)};
  }
  [[nodiscard]] std::optional<Hold> try_acquire(std::int64_t weight = 1) {
    return detail::try_acquire(request(weight));
  }

  /// Runs `function` while holding one unit: see `Mutex::run_exclusive`.
  template <typename Function>
  [[nodiscard]] auto run_exclusive(Function function, std::int64_t weight = 1,
                                   const WaitOptions& options = {}, std::stop_token stop = {}) {
    return detail::Guarded([&] { return acquire(weight, options, std::move(stop)); },
                           std::move(function));
  }

  /// All who now fit are granted at once. A capacity below one is an `InvalidArgument`.
  void set_capacity(std::int64_t capacity);

  [[nodiscard]] std::int64_t capacity() const noexcept { return turnstile_->capacity(); }
  /// Free units; none, too, while more are held than a lowered capacity allows.
  [[nodiscard]] std::int64_t available() const noexcept { return turnstile_->free_units(); }
  [[nodiscard]] bool is_locked() const noexcept { return available() == 0; }
  [[nodiscard]] std::size_t queue_length() const noexcept { return turnstile_->queue_length(); }
  [[nodiscard]] Contention contention() const;

  [[nodiscard]] detail::AcquireRequest request(std::int64_t weight = 1) const {
    return {&*turnstile_, turnstile_.generation(), detail::checked_weight(weight, *profile_.get())};
  }

 private:
  detail::ProfileOwner profile_;
  detail::TurnstileOwner turnstile_;
};

}  // namespace holdfast
