// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace holdfast::detail {

struct Holder;

/// How a wait ended.
enum class Ending : std::uint8_t {
  kNone,
  kGranted,
  kTimedOut,
  kCancelled,
  kClosed,
  kQueueFull,
  kDropped,
  kUnsatisfiable,
};

/// One who wants in. It lives in the memory of the one who waits: queueing allocates nothing. All
/// of it is guarded by the mutex of its turnstile from the moment that it enters.
struct Waiter {
  std::uint32_t weight = 1;
  std::uint32_t tokens = 0;
  int priority = 0;
  Ending ending = Ending::kNone;
  bool queued = false;
  std::uint32_t overtaken = 0;
  /// Called once, without locks, when the wait has ended in the queue; the waiter stays until then.
  void (*wake)(Waiter&) noexcept = nullptr;
  Holder* holder = nullptr;  // Only where holders are watched.
  // Whom `wake` resumes, if that is a task: fetched ahead of its turn in a long queue.
  void* task_context = nullptr;
  void* coroutine = nullptr;

  // What an error tells: set with an ending that is no grant.
  std::shared_ptr<const std::string> what{};
  std::uint32_t limit = 0;

  Waiter* previous = nullptr;
  Waiter* next = nullptr;
  Waiter* level_above = nullptr;  // These two count only for the first waiter of a priority.
  Waiter* level_below = nullptr;
};

/// Waiters by priority, then by arrival.
///
/// One list in order of service; the first waiters of the priorities are linked among themselves,
/// so that finding a newcomer's place costs a step per priority in use, and all else is O(1).
class WaitQueue {
 public:
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] Waiter* first() const noexcept { return first_; }
  /// The one that has waited longest of those with the lowest priority.
  [[nodiscard]] Waiter* oldest_of_lowest() const noexcept { return lowest_level(); }

  void push(Waiter& waiter) noexcept {
    if (last_ != nullptr && last_->priority == waiter.priority) {
      link(waiter, last_, nullptr);
      return;
    }
    Waiter* below = first_;  // The level that the newcomer goes before.
    Waiter* level = nullptr;
    while (below != nullptr && below->priority >= waiter.priority) {
      level = below;
      below = below->level_below;
    }
    Waiter* const after = below != nullptr ? below->previous : last_;
    if (level == nullptr || level->priority != waiter.priority) {
      waiter.level_above = level;
      waiter.level_below = below;
      relink_levels(waiter, &waiter);
    }
    link(waiter, after, below);
  }

  /// Takes out the first, of whom there is one.
  Waiter& pop() noexcept {
    Waiter& waiter = *first_;
    Waiter* const next = waiter.next;
    if (next == nullptr) {
      last_ = nullptr;
    } else {
      next->previous = nullptr;
      next->level_above = nullptr;
      if (next->priority == waiter.priority) {
        next->level_below = waiter.level_below;
        if (next->level_below != nullptr) {
          next->level_below->level_above = next;
        }
      }
    }
    first_ = next;
    waiter.queued = false;
    --size_;
    if (first_ != nullptr) {
      fetch_ahead();
    }
    return waiter;
  }

  void erase(Waiter& waiter) noexcept {
    const bool is_level =
        waiter.previous == nullptr || waiter.previous->priority != waiter.priority;
    if (is_level) {
      Waiter* const next = waiter.next;
      if (next != nullptr && next->priority == waiter.priority) {
        next->level_above = waiter.level_above;
        next->level_below = waiter.level_below;
        relink_levels(waiter, next);
      } else {
        if (waiter.level_above != nullptr) {
          waiter.level_above->level_below = waiter.level_below;
        }
        if (waiter.level_below != nullptr) {
          waiter.level_below->level_above = waiter.level_above;
        }
      }
    }
    (waiter.previous != nullptr ? waiter.previous->next : first_) = waiter.next;
    (waiter.next != nullptr ? waiter.next->previous : last_) = waiter.previous;
    waiter.queued = false;
    --size_;
  }

 private:
  /// A waiter is fetched one turn before its own, and what it points to in its turn, while the one
  /// before it still runs: a hand-off would wait for memory three times in a row otherwise. One
  /// line each: with more, the processor's own look-ahead is lost, and the gain with it.
  void fetch_ahead() const noexcept {
    __builtin_prefetch(first_->task_context);
    __builtin_prefetch(first_->coroutine);
    __builtin_prefetch(first_->next);
  }

  void link(Waiter& waiter, Waiter* after, Waiter* before) noexcept {
    waiter.previous = after;
    waiter.next = before;
    (after != nullptr ? after->next : first_) = &waiter;
    (before != nullptr ? before->previous : last_) = &waiter;
    waiter.queued = true;
    ++size_;
  }

  /// The neighbours of `old_level` get `new_level` instead.
  static void relink_levels(const Waiter& old_level, Waiter* new_level) noexcept {
    if (old_level.level_above != nullptr) {
      old_level.level_above->level_below = new_level;
    }
    if (old_level.level_below != nullptr) {
      old_level.level_below->level_above = new_level;
    }
  }

  [[nodiscard]] Waiter* lowest_level() const noexcept {
    Waiter* level = first_;
    while (level != nullptr && level->level_below != nullptr) {
      level = level->level_below;
    }
    return level;
  }

  Waiter* first_ = nullptr;
  Waiter* last_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace holdfast::detail
