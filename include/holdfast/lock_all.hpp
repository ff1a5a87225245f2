// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

#include <holdfast/acquire.hpp>
#include <holdfast/detail/owned_task.hpp>
#include <holdfast/hold.hpp>
#include <holdfast/task.hpp>

namespace holdfast {

namespace detail {

/// The order in which to take them: by the age of the locks, which is the same for everyone. An
/// `InvalidArgument` if one is there twice.
[[nodiscard]] std::vector<std::size_t> canonical_order(std::span<const AcquireRequest> requests);

template <typename Lock>
concept HasRequest = requires(const Lock& lock) {
  { lock.request() } -> std::same_as<AcquireRequest>;
};
template <typename Lock>
concept Acquirable = HasRequest<Lock> || std::same_as<Lock, AcquireRequest>;

template <Acquirable Lock>
[[nodiscard]] AcquireRequest request_of(const Lock& lock) {
  if constexpr (HasRequest<Lock>) {
    return lock.request();
  } else {
    return lock;
  }
}

}  // namespace detail

/// The acquisition of several locks: what `lock_all` returns. Await it once, or `wait()`.
template <std::size_t kCount>
class [[nodiscard]] LockAll {
 public:
  using Holds = std::array<Hold, kCount>;

  LockAll(const std::array<detail::AcquireRequest, kCount>& requests, const WaitOptions& options,
          std::stop_token stop)
      : requests_(requests),
        order_(detail::canonical_order(requests_)),
        options_(options),
        stop_(std::move(stop)) {
    detail::check(options_);
  }

  /// Blocks this thread, as `Acquire::wait`.
  [[nodiscard]] Holds wait() {
    Holds holds;
    const WaitOptions options = detail::with_deadline(options_);
    for (const std::size_t i : order_) {
      holds[i] = Acquire(requests_[i], options, stop_).wait();
    }
    return holds;
  }

  detail::OwnedTask<Holds> operator co_await() {
    return detail::OwnedTask<Holds>(take_in_order(*this));
  }

  /// For other ways of waiting: what to take, in which order.
  [[nodiscard]] const std::array<detail::AcquireRequest, kCount>& requests() const noexcept {
    return requests_;
  }
  [[nodiscard]] const std::vector<std::size_t>& order() const noexcept { return order_; }
  [[nodiscard]] const WaitOptions& options() const noexcept { return options_; }
  [[nodiscard]] const std::stop_token& stop() const noexcept { return stop_; }

 private:
  static Task<Holds> take_in_order(LockAll& all) {
    Holds holds;
    const WaitOptions options = detail::with_deadline(all.options_);
    for (const std::size_t i : all.order_) {
      Acquire one(all.requests_[i], options, all.stop_);
      Hold hold = co_await one;
      holds[i] = std::move(hold);
    }
    co_return holds;
  }

  std::array<detail::AcquireRequest, kCount> requests_;
  std::vector<std::size_t> order_;
  WaitOptions options_;
  std::stop_token stop_;
};

/// Takes several locks, all or nothing: a time-out, which is for all of them together, a stop or a
/// failure releases what was taken so far. Whatever the order of the arguments, they are taken in
/// one order for all callers, so that no two `lock_all` can wait for each other. The holds come in
/// the order of the arguments. The same lock twice is an `InvalidArgument`.
///
/// ```
/// auto [from_hold, to_hold] = co_await lock_all(from.mutex, to.mutex);
/// ```
///
/// An argument is a `Mutex`, a `Semaphore` (one unit), a `SharedMutex` (to write), a `RateLimiter`,
/// or a request of one: `semaphore.request(3)`, `shared_mutex.shared_request()`.
template <detail::Acquirable... Locks>
  requires(sizeof...(Locks) > 0)
[[nodiscard]] LockAll<sizeof...(Locks)> lock_all(const Locks&... locks) {
  return {{detail::request_of(locks)...}, WaitOptions{}, {}};
}

/// The same with options.
template <detail::Acquirable... Locks>
  requires(sizeof...(Locks) > 0)
[[nodiscard]] LockAll<sizeof...(Locks)> lock_all(const WaitOptions& options, std::stop_token stop,
                                                 const Locks&... locks) {
  return {{detail::request_of(locks)...}, options, std::move(stop)};
}

/// The same for a list that is known only at run time; the holds come in its order.
///
/// ```
/// std::vector<AcquireRequest> requests;
/// for (const Account* account : accounts) { requests.push_back(account->mutex.request()); }
/// const std::vector<Hold> holds = co_await lock_all(requests);
/// ```
[[nodiscard]] Task<std::vector<Hold>> lock_all(std::vector<AcquireRequest> requests,
                                               WaitOptions options = {}, std::stop_token stop = {});

}  // namespace holdfast
