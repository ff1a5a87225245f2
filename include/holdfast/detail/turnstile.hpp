// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/clock.hpp>
#include <holdfast/detail/slim_lock.hpp>
#include <holdfast/detail/wait_queue.hpp>
#include <holdfast/sync_options.hpp>
#include <holdfast/token_bucket.hpp>

namespace holdfast {
struct LockOrderInversion;
}

namespace holdfast::detail {

class ContentionRecorder;
class WaitGraph;
class TaskContext;

/// Who acquires: a task, a plain thread, or somebody unknown, who is never part of a deadlock.
struct Owner {
  const TaskContext* task = nullptr;
  bool is_thread = false;
};

/// Told when a turnstile that it lent out has been left, so that it can be put away.
class Keeper {
 public:
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;
  virtual void left(void* entry) noexcept = 0;

 protected:
  Keeper() = default;
  ~Keeper() = default;
};

/// What one or many turnstiles are made by. An `InvalidArgument` for options that mean nothing.
struct TurnstileProfile {
  TurnstileProfile(const char* kind, const SyncOptions& options);
  ~TurnstileProfile();
  TurnstileProfile(const TurnstileProfile&) = delete;
  TurnstileProfile& operator=(const TurnstileProfile&) = delete;

  std::shared_ptr<const std::string> what;  ///< For example: Mutex 'orders'.
  QueueLimit queue;
  std::uint32_t overtakes_max;
  WaitGraph* graph;                              ///< Null where nobody looks for deadlocks.
  std::unique_ptr<ContentionRecorder> recorder;  ///< Null where contention is not measured.
};

/// Keeps a profile in use: after this has gone no clock is touched, even by late holders.
class ProfileOwner {
 public:
  ProfileOwner(const char* kind, const SyncOptions& options)
      : profile_(std::make_shared<TurnstileProfile>(kind, options)) {}
  ProfileOwner(const ProfileOwner&) = delete;
  ProfileOwner& operator=(const ProfileOwner&) = delete;
  ~ProfileOwner();

  [[nodiscard]] const std::shared_ptr<TurnstileProfile>& get() const noexcept { return profile_; }

 private:
  std::shared_ptr<TurnstileProfile> profile_;
};

/// Units, those who hold some, and the ordered queue of those who wait: the one algorithm behind
/// every lock and limit of this library.
///
/// The word and who may change it:
///
///   | managed bit | meaning                      | who changes the free units                    |
///   |-------------|------------------------------|-----------------------------------------------|
///   | clear       | nobody waits, nobody watches | anyone, by compare-and-swap                   |
///   | set         | someone waits or watches     | whoever holds the mutex, by plain stores      |
///
/// Only a holder of the mutex sets or clears the bit. A release gives its units to the waiters that
/// now fit before anyone else can take them (no barging), and wakes them after the mutex is free.
///
/// The memory of a turnstile is never returned, only used for the next one under another
/// generation. So an operation that was made before its lock was destroyed finds out, and a hold
/// may outlive its lock, at no cost to either.
class Turnstile {
 public:
  static constexpr std::uint32_t kUnitsMax = 1U << 30;

  /// `part` tells it from others of the same profile in deadlock reports.
  [[nodiscard]] static Turnstile& make(std::uint32_t capacity,
                                       std::shared_ptr<TurnstileProfile> profile,
                                       const std::string& part);
  /// Ends all waits; holders may still leave.
  void close() noexcept;

  [[nodiscard]] std::uint32_t generation() const noexcept {
    return static_cast<std::uint32_t>(word_.load(std::memory_order_relaxed) >> kGenerationShift);
  }

  /// Takes `weight` units if that needs neither waiting nor watching.
  [[nodiscard]] bool enter_if_free(std::uint32_t generation, std::uint32_t weight) noexcept {
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    while ((word >> kFreeBits) == (std::uint64_t{generation} << 1) &&
           static_cast<std::uint32_t>(word) >= weight) {
      if (word_.compare_exchange_weak(word, word - weight, std::memory_order_acquire,
                                      std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

  enum class Patience { kWait, kTry, kDeadlinePassed };
  /// Grants at once, or queues, or ends the waiter with another ending; true if it was queued.
  /// Only with `kWait` is anyone queued; with `kTry` one who would have to wait ends with `kNone`.
  /// Throws `DeadlockError`.
  bool enter(Waiter& waiter, std::uint32_t generation, Patience patience, Owner owner);

  /// Ends the wait for this reason, if it has not ended. Any thread.
  void abandon(Waiter& waiter, Ending why) noexcept;

  void leave(std::uint32_t weight, Holder* holder) noexcept {
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    while ((word & kManaged) == 0) {
      if (word_.compare_exchange_weak(word, word + weight, std::memory_order_release,
                                      std::memory_order_relaxed)) {
        return;
      }
    }
    leave_managed(weight, holder);
  }

  void set_capacity(std::uint32_t capacity) noexcept;
  void set_rate(const Rate& rate, Clock& clock);
  void set_keeper(std::shared_ptr<Keeper> keeper, void* entry) noexcept;

  [[nodiscard]] std::uint32_t capacity() const noexcept;
  [[nodiscard]] std::uint32_t free_units() const noexcept;
  [[nodiscard]] std::size_t queue_length() const noexcept;
  [[nodiscard]] std::optional<TokenBucket> bucket() const noexcept;
  /// Unique among all turnstiles ever made: the canonical order of locks.
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  [[nodiscard]] const TurnstileProfile& profile() const noexcept { return *profile_; }

 private:
  friend class TurnstilePool;
  class Section;
  struct WakeList;
  struct TokenAlarm : Timer {
    explicit TokenAlarm(Turnstile& owner) noexcept;
    Turnstile& turnstile;
  };

  static constexpr int kFreeBits = 32;
  static constexpr int kGenerationShift = 33;
  static constexpr std::uint64_t kManaged = std::uint64_t{1} << kFreeBits;

  Turnstile() = default;
  ~Turnstile() = default;

  bool enter_any(Waiter& waiter, std::uint32_t generation, Patience patience, Owner owner);
  bool enter_open(Waiter& waiter, Patience patience, const Owner& owner, WakeList& woken,
                  std::vector<LockOrderInversion>& inversions);
  void leave_managed(std::uint32_t weight, Holder* holder) noexcept;
  void leave_any(std::uint32_t weight, Holder* holder) noexcept;
  void note_kind() noexcept;
  /// Lets `waiter` in if it need not wait.
  [[nodiscard]] bool grant_at_once(Waiter& waiter) noexcept;
  [[nodiscard]] bool admit(Waiter& waiter) noexcept;
  void grant(Waiter& waiter) noexcept;
  void end(Waiter& waiter, Ending why) noexcept;
  [[nodiscard]] bool satisfiable(const Waiter& waiter) const noexcept;
  void end_unsatisfiable(WakeList& woken) noexcept;
  [[nodiscard]] bool has_room_for(const Waiter& waiter) const noexcept;
  void drop_oldest(WakeList& woken) noexcept;
  void serve(WakeList& woken) noexcept;
  bool serve_one_behind(Waiter& blocked, WakeList& woken) noexcept;
  void wait_for_tokens(TimePoint until) noexcept;
  void tokens_came() noexcept;
  void forget(Waiter& waiter) noexcept;

  std::atomic<std::uint64_t> word_ = 0;
  mutable SlimLock mutex_;
  WaitQueue queue_;
  std::int64_t free_ = 0;  // Counts only inside a Section; else the word does.
  std::uint32_t capacity_ = 0;
  bool closed_ = true;
  bool watched_ = false;  // Every step goes through the mutex.
  // Open, and there is nothing but units, and no limit to the queue. Read outside of a Section it
  // says only which way is worth trying.
  std::atomic<bool> plain_ = false;
  std::uint64_t id_ = 0;
  std::shared_ptr<TurnstileProfile> profile_;

  std::optional<TokenBucket> bucket_;
  Clock* token_clock_ = nullptr;
  std::optional<TokenAlarm> token_alarm_;
  std::optional<TimePoint> token_alarm_at_;

  std::shared_ptr<Keeper> keeper_;
  void* keeper_entry_ = nullptr;
  Turnstile* next_unused_ = nullptr;
};

/// Owns a turnstile for as long as its lock exists.
class TurnstileOwner {
 public:
  TurnstileOwner(std::uint32_t capacity, std::shared_ptr<TurnstileProfile> profile,
                 const std::string& part = {})
      : turnstile_(Turnstile::make(capacity, std::move(profile), part)),
        generation_(turnstile_.generation()) {}
  TurnstileOwner(const TurnstileOwner&) = delete;
  TurnstileOwner& operator=(const TurnstileOwner&) = delete;
  ~TurnstileOwner() { turnstile_.close(); }

  Turnstile& operator*() const noexcept { return turnstile_; }
  Turnstile* operator->() const noexcept { return &turnstile_; }
  [[nodiscard]] std::uint32_t generation() const noexcept { return generation_; }

 private:
  Turnstile& turnstile_;
  std::uint32_t generation_;
};

}  // namespace holdfast::detail
