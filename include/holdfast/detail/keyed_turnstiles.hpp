// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include <holdfast/acquire.hpp>
#include <holdfast/clock.hpp>
#include <holdfast/detail/turnstile.hpp>
#include <holdfast/error.hpp>
#include <holdfast/hold.hpp>

namespace holdfast::detail {

/// How a deadlock report shows a key, if it can.
template <typename Key>
std::string part_of(const Key& key) {
  if constexpr (std::is_convertible_v<const Key&, std::string>) {
    return " [" + std::string(key) + "]";
  } else if constexpr (std::is_arithmetic_v<Key>) {
    return " [" + std::to_string(key) + "]";
  } else {
    return {};
  }
}

/// A turnstile per key, which exists while someone holds it or waits for it, or while its bucket of
/// tokens is not full, which must be remembered. Nothing sweeps: the last to leave puts it away, or
/// sets a timer for the moment when its bucket is full.
template <typename Key, typename Hash>
class KeyedTurnstiles final : public Keeper,
                              public std::enable_shared_from_this<KeyedTurnstiles<Key, Hash>> {
 public:
  struct Limits {
    std::uint32_t capacity = 1;
    std::optional<Rate> rate{};
  };
  /// Throws for limits that mean nothing, before an entry is made for the key.
  using LimitsOf = std::function<Limits(const Key&)>;

  KeyedTurnstiles(std::shared_ptr<TurnstileProfile> profile, LimitsOf limits_of, Clock* clock)
      : profile_(std::move(profile)), limits_of_(std::move(limits_of)), clock_(clock) {}

  /// The request for `key`, whose turnstile stays until `left` is called for each `enter`: by the
  /// hold when it is released, by the caller when no hold comes of it. Null once closed.
  struct Visit {
    AcquireRequest request;
    void* entry;
  };
  std::optional<Visit> enter(const Key& key, std::uint32_t tokens) {
    const std::scoped_lock lock(mutex_);
    if (closed_) {
      return std::nullopt;
    }
    const auto found = entries_.find(key);
    auto& node = found != entries_.end() ? *found : add(key);
    ++node.second.visits;
    auto& owner = node.second.turnstile;
    return Visit{{&*owner, owner.generation(), 1, tokens}, &node};
  }

  void left(void* entry) noexcept override {
    const auto self = this->shared_from_this();  // The last entry may be all that keeps this alive.
    const std::scoped_lock lock(mutex_);
    if (closed_) {
      return;
    }
    auto& node = *static_cast<Node*>(entry);
    --node.second.visits;
    put_away_if_idle(node);
  }

  void close() noexcept {
    std::unordered_map<Key, Entry, Hash> entries;
    {
      const std::scoped_lock lock(mutex_);
      closed_ = true;
      entries.swap(entries_);
    }
    for (auto& [key, entry] : entries) {
      if (clock_ != nullptr) {
        clock_->disarm(entry.full);
      }
    }
  }

  [[nodiscard]] std::size_t size() const noexcept {
    const std::scoped_lock lock(mutex_);
    return entries_.size();
  }

  /// What `ask` says of the turnstile of `key`, or `otherwise` if there is none.
  template <typename Ask, typename Answer>
  [[nodiscard]] Answer ask(const Key& key, const Ask& ask_it, Answer otherwise) const {
    const std::scoped_lock lock(mutex_);
    const auto found = entries_.find(key);
    return found == entries_.end() ? otherwise : ask_it(*found->second.turnstile);
  }

  [[nodiscard]] const TurnstileProfile& profile() const noexcept { return *profile_; }

 private:
  struct Entry;
  using Node = std::pair<const Key, Entry>;
  struct FullAlarm : Timer {
    FullAlarm() noexcept
        : Timer([](Timer& timer) noexcept {
            auto& alarm = static_cast<FullAlarm&>(timer);
            alarm.turnstiles->bucket_filled(*alarm.node);
          }) {}
    KeyedTurnstiles* turnstiles = nullptr;
    Node* node = nullptr;
  };
  struct Entry {
    Entry(std::uint32_t capacity, std::shared_ptr<TurnstileProfile> profile,
          const std::string& part)
        : turnstile(capacity, std::move(profile), part) {}
    TurnstileOwner turnstile;
    std::size_t visits = 0;
    FullAlarm full;
    bool full_armed = false;
  };

  Node& add(const Key& key) {
    const Limits limits = limits_of_(key);
    const std::string part = profile_->graph != nullptr ? part_of(key) : std::string{};
    auto& node = *entries_
                      .emplace(std::piecewise_construct, std::forward_as_tuple(key),
                               std::forward_as_tuple(limits.capacity, profile_, part))
                      .first;
    node.second.full.turnstiles = this;
    node.second.full.node = &node;
    if (limits.rate) {
      node.second.turnstile->set_rate(*limits.rate, *clock_);
    }
    node.second.turnstile->set_keeper(this->shared_from_this(), &node);
    return node;
  }

  void put_away_if_idle(Node& node) noexcept {
    Entry& entry = node.second;
    if (entry.visits > 0 || entry.full_armed) {
      return;
    }
    const auto bucket = entry.turnstile->bucket();
    if (bucket && bucket->full_at() > clock_->now()) {
      entry.full_armed = true;
      clock_->arm(entry.full, bucket->full_at());
      return;
    }
    entries_.erase(entries_.find(node.first));
  }

  void bucket_filled(Node& node) noexcept {
    const std::scoped_lock lock(mutex_);
    if (!closed_) {
      node.second.full_armed = false;
      put_away_if_idle(node);
    }
  }

  mutable std::mutex mutex_;
  const std::shared_ptr<TurnstileProfile> profile_;
  const LimitsOf limits_of_;
  Clock* const clock_;
  std::unordered_map<Key, Entry, Hash> entries_;
  bool closed_ = false;
};

/// What is asked of the turnstile of which key.
template <typename Key, typename Hash>
struct KeyedRequest {
  std::shared_ptr<KeyedTurnstiles<Key, Hash>> turnstiles;
  Key key;
  std::uint32_t tokens;

  /// As `KeyedTurnstiles::enter`; throws `Closed`.
  [[nodiscard]] typename KeyedTurnstiles<Key, Hash>::Visit enter() const {
    auto visit = turnstiles->enter(key, tokens);
    if (!visit) {
      throw Closed(*turnstiles->profile().what +
                   " was destroyed before this operation was awaited");
    }
    return *visit;
  }
};

/// An acquisition by key: as `Acquire`, for the turnstile that it finds or makes when it starts.
template <typename Key, typename Hash>
class [[nodiscard]] KeyedAcquire {
 public:
  KeyedAcquire(std::shared_ptr<KeyedTurnstiles<Key, Hash>> turnstiles, Key key,
               std::uint32_t tokens, const WaitOptions& options, std::stop_token stop)
      : request_{std::move(turnstiles), std::move(key), tokens},
        options_(options),
        stop_(std::move(stop)) {
    check(options_);
  }
  KeyedAcquire(const KeyedAcquire&) = delete;
  KeyedAcquire& operator=(const KeyedAcquire&) = delete;
  ~KeyedAcquire() = default;

  [[nodiscard]] Hold wait() {
    enter();
    return leave_if_it_throws([this] { return acquire_->wait(); });
  }

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <typename Promise>
  bool await_suspend(std::coroutine_handle<Promise> task) {
    try {
      enter();
    } catch (...) {
      refusal_ = std::current_exception();
      return false;
    }
    return acquire_->await_suspend(task);
  }
  Hold await_resume() {
    if (refusal_ != nullptr) {
      std::rethrow_exception(refusal_);
    }
    return leave_if_it_throws([this] { return acquire_->await_resume(); });
  }

  [[nodiscard]] const KeyedRequest<Key, Hash>& request() const noexcept { return request_; }
  [[nodiscard]] const WaitOptions& options() const noexcept { return options_; }
  [[nodiscard]] const std::stop_token& stop() const noexcept { return stop_; }

 private:
  void enter() {
    HOLDFAST_CHECK(!acquire_, "an acquisition was awaited twice");
    const auto visit = request_.enter();
    entry_ = visit.entry;
    acquire_.emplace(visit.request, options_, stop_);
  }

  template <typename Wait>
  Hold leave_if_it_throws(const Wait& wait) {
    try {
      return wait();
    } catch (...) {
      request_.turnstiles->left(entry_);
      throw;
    }
  }

  KeyedRequest<Key, Hash> request_;
  WaitOptions options_;
  std::stop_token stop_;
  void* entry_ = nullptr;
  std::exception_ptr refusal_;
  std::optional<Acquire> acquire_;
};

/// The hold for `key`, at once or never.
template <typename Key, typename Hash>
std::optional<Hold> try_acquire(KeyedTurnstiles<Key, Hash>& turnstiles, const Key& key,
                                std::uint32_t tokens) {
  const auto visit = turnstiles.enter(key, tokens);
  HOLDFAST_CHECK(visit, "a lock was tried that has been destroyed");
  std::optional<Hold> hold;
  try {
    hold = try_acquire(visit->request);
  } catch (...) {
    turnstiles.left(visit->entry);
    throw;
  }
  if (!hold) {
    turnstiles.left(visit->entry);
  }
  return hold;
}

}  // namespace holdfast::detail
