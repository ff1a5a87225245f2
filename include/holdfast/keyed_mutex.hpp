// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include <holdfast/contention.hpp>
#include <holdfast/detail/guarded.hpp>
#include <holdfast/detail/keyed_turnstiles.hpp>
#include <holdfast/detail/limits.hpp>
#include <holdfast/hold.hpp>
#include <holdfast/sync_options.hpp>
#include <holdfast/task.hpp>

namespace holdfast {

/// One at a time per key, in the order of arrival.
///
/// ```
/// KeyedMutex<OrderId> orders;
/// const Hold hold = co_await orders.lock(order.id);  // Other orders are not held up.
/// ```
///
/// There is an entry for a key only while someone holds it or waits for it: no table to sweep, none
/// to fill up. Otherwise as `Mutex`. Thread-safe.
template <typename Key, typename Hash = std::hash<Key>>
class KeyedMutex {
  using Turnstiles = detail::KeyedTurnstiles<Key, Hash>;

 public:
  explicit KeyedMutex(const SyncOptions& options = {})
      : profile_("KeyedMutex", options),
        turnstiles_(std::make_shared<Turnstiles>(
            profile_.get(), [](const Key&) { return typename Turnstiles::Limits{}; }, nullptr)) {}
  KeyedMutex(const KeyedMutex&) = delete;
  KeyedMutex& operator=(const KeyedMutex&) = delete;
  ~KeyedMutex() { turnstiles_->close(); }

  [[nodiscard]] detail::KeyedAcquire<Key, Hash> lock(Key key, const WaitOptions& options = {},
                                                     std::stop_token stop = {}) {
    return {turnstiles_, std::move(key), 0, options, std::move(stop)};
  }
  [[nodiscard]] std::optional<Hold> try_lock(const Key& key) {
    return detail::try_acquire(*turnstiles_, key, 0);
  }

  /// Locks every key, in their order (`<`), so that no two callers can wait for each other; a key
  /// that is there twice is locked once. All or nothing: a failure releases what was locked so far.
  /// With g++ 12 name the list first: it cannot compile a list of strings inside a `co_await`.
  HOLDFAST_COROUTINE_WRAPPER Task<std::vector<Hold>> lock_all(std::vector<Key> keys,
                                                              const WaitOptions& options = {},
                                                              std::stop_token stop = {}) {
    detail::check(options);
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    return lock_in_order(turnstiles_, std::move(keys), options, std::move(stop));
  }

  /// Runs `function` while holding `key`: see `Mutex::run_exclusive`.
  template <typename Function>
  [[nodiscard]] auto run_exclusive(Key key, Function function, const WaitOptions& options = {},
                                   std::stop_token stop = {}) {
    return detail::Guarded([&] { return lock(std::move(key), options, std::move(stop)); },
                           std::move(function));
  }

  [[nodiscard]] bool is_locked(const Key& key) const {
    return turnstiles_->ask(key, [](const auto& one) { return one.free_units() == 0; }, false);
  }
  [[nodiscard]] std::size_t queue_length(const Key& key) const {
    return turnstiles_->ask(
        key, [](const auto& one) { return one.queue_length(); }, std::size_t{0});
  }
  /// How many keys are held or waited for.
  [[nodiscard]] std::size_t size() const noexcept { return turnstiles_->size(); }
  [[nodiscard]] Contention contention() const { return detail::contention_of(*profile_.get()); }

 private:
  static Task<std::vector<Hold>> lock_in_order(std::shared_ptr<Turnstiles> turnstiles,
                                               std::vector<Key> keys, WaitOptions options,
                                               std::stop_token stop) {
    std::vector<Hold> holds;
    holds.reserve(keys.size());
    options = detail::with_deadline(options);
    for (const Key& key : keys) {
      detail::KeyedAcquire<Key, Hash> one(turnstiles, key, 0, options, stop);
      Hold hold = co_await one;
      holds.push_back(std::move(hold));
    }
    co_return holds;
  }

  detail::ProfileOwner profile_;
  std::shared_ptr<Turnstiles> turnstiles_;
};

}  // namespace holdfast
