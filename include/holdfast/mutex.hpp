// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <stop_token>
#include <utility>

#include <holdfast/acquire.hpp>
#include <holdfast/contention.hpp>
#include <holdfast/detail/guarded.hpp>
#include <holdfast/detail/turnstile.hpp>
#include <holdfast/hold.hpp>
#include <holdfast/sync_options.hpp>

namespace holdfast {

/// One at a time, in the order of arrival.
///
/// ```
/// Mutex mutex;
/// Task<void> append(std::string line) {
///   const Hold hold = co_await mutex.lock();
///   co_await file.write(line);
/// }
/// ```
///
/// A release hands the lock to the first of the highest priority in line; nobody can slip in
/// between. A free lock costs an atomic operation to take and one to release. Not recursive: a task
/// that awaits a lock it holds waits for itself (a `DeadlockDetector` says so). Destroying it ends
/// all waits with `Closed`. Thread-safe.
class Mutex {
 public:
  explicit Mutex(const SyncOptions& options = {});

  /// Waits for the lock: see `Acquire` for how.
  [[nodiscard]] Acquire lock() noexcept { return Acquire(request()); }
  [[nodiscard]] Acquire lock(const WaitOptions& options, std::stop_token stop = {}) {
    return {request(), options, std::move(stop)};
  }
  /// The lock if it is free, at once.
  [[nodiscard]] std::optional<Hold> try_lock() { return detail::try_acquire(request()); }

  /// Runs `function`, which returns a value or a `Task`, while holding the lock, and returns what
  /// it returns. With g++ 12, name the operation if the function captures more than references:
  ///
  /// ```
  /// auto charge = mutex.run_exclusive([order] { return charge_once(order); });
  /// co_await charge;
  /// ```
  template <typename Function>
  [[nodiscard]] auto run_exclusive(Function function, const WaitOptions& options = {},
                                   std::stop_token stop = {}) {
    return detail::Guarded([&] { return lock(options, std::move(stop)); }, std::move(function));
  }

  [[nodiscard]] bool is_locked() const noexcept { return turnstile_->free_units() == 0; }
  [[nodiscard]] std::size_t queue_length() const noexcept { return turnstile_->queue_length(); }
  [[nodiscard]] Contention contention() const;

  [[nodiscard]] detail::AcquireRequest request() const noexcept {
    return {&*turnstile_, turnstile_.generation()};
  }

 private:
  detail::ProfileOwner profile_;
  detail::TurnstileOwner turnstile_;
};

}  // namespace holdfast
