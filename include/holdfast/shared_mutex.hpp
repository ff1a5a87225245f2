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

/// Many readers or one writer, in the order of arrival.
///
/// ```
/// SharedMutex catalogue;
/// const Hold reading = co_await catalogue.lock_shared();
/// const Hold writing = co_await catalogue.lock();
/// ```
///
/// A reader that comes after a waiting writer waits behind it, so a stream of readers cannot starve
/// writers; readers that stand next to each other in line are let in together. A reader must not
/// ask again while it reads: a writer between the two would block both. Otherwise as `Mutex`.
/// Thread-safe.
class SharedMutex {
 public:
  explicit SharedMutex(const SyncOptions& options = {});

  [[nodiscard]] Acquire lock() noexcept { return Acquire(request()); }
  [[nodiscard]] Acquire lock_shared() noexcept { return Acquire(shared_request()); }
  [[nodiscard]] Acquire lock(const WaitOptions& options, std::stop_token stop = {}) {
    return {request(), options, std::move(stop)};
  }
  [[nodiscard]] Acquire lock_shared(const WaitOptions& options, std::stop_token stop = {}) {
    return {shared_request(), options, std::move(stop)};
  }
  [[nodiscard]] std::optional<Hold> try_lock() { return detail::try_acquire(request()); }
  [[nodiscard]] std::optional<Hold> try_lock_shared() {
    return detail::try_acquire(shared_request());
  }

  /// These run `function` while writing or reading: see `Mutex::run_exclusive`.
  template <typename Function>
  [[nodiscard]] auto run_exclusive(Function function, const WaitOptions& options = {},
                                   std::stop_token stop = {}) {
    return detail::Guarded([&] { return lock(options, std::move(stop)); }, std::move(function));
  }
  template <typename Function>
  [[nodiscard]] auto run_shared(Function function, const WaitOptions& options = {},
                                std::stop_token stop = {}) {
    return detail::Guarded([&] { return lock_shared(options, std::move(stop)); },
                           std::move(function));
  }

  /// Held by a writer.
  [[nodiscard]] bool is_locked() const noexcept { return turnstile_->free_units() == 0; }
  [[nodiscard]] std::size_t reader_count() const noexcept;
  [[nodiscard]] std::size_t queue_length() const noexcept { return turnstile_->queue_length(); }
  [[nodiscard]] Contention contention() const;

  /// To write; `shared_request` is to read.
  [[nodiscard]] detail::AcquireRequest request() const noexcept {
    return {&*turnstile_, turnstile_.generation(), detail::Turnstile::kUnitsMax};
  }
  [[nodiscard]] detail::AcquireRequest shared_request() const noexcept {
    return {&*turnstile_, turnstile_.generation()};
  }

 private:
  detail::ProfileOwner profile_;
  detail::TurnstileOwner turnstile_;  // A reader takes one unit of 2^30, a writer takes all.
};

}  // namespace holdfast
