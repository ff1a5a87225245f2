// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <holdfast/deadlock.hpp>

#include "owner.hpp"

namespace holdfast::detail {

/// Who holds what and who waits for what, among all locks that share a detector.
///
/// Called by turnstiles under their own mutexes, so it never calls back into them.
class WaitGraph {
 public:
  explicit WaitGraph(DeadlockDetectorOptions options) : options_(std::move(options)) {}

  void lock_made(std::uint64_t lock, const std::string& what, std::uint32_t capacity);
  void lock_gone(std::uint64_t lock) noexcept;
  void capacity_changed(std::uint64_t lock, std::uint32_t capacity) noexcept;

  /// Before a lock is taken in a way that may wait: remembers the order, and returns the inversions
  /// that are new, to be given to `report` when no lock is held.
  [[nodiscard]] std::vector<LockOrderInversion> wants(const Holder& holder);
  void report(const std::vector<LockOrderInversion>& inversions) const;
  /// Throws `DeadlockError`, and remembers nothing, if the wait could never end.
  void start_wait(const Holder& holder, int priority);
  void stop_wait(const Holder& holder) noexcept;
  void granted(const Holder& holder);
  void released(const Holder& holder) noexcept;

  [[nodiscard]] std::vector<LockOrderInversion> inversions() const;

 private:
  static constexpr std::size_t kOrdersMax = 1'000'000;

  struct Waiting {
    const Holder* holder;
    int priority;
  };
  struct Lock {
    std::string what;
    std::uint32_t capacity = 0;
    std::vector<const Holder*> holders;
    std::vector<Waiting> waiters;                         // In the order of service.
    std::unordered_set<std::uint64_t> wanted_while_held;  // Locks.
  };
  struct OwnerState {
    std::string name;
    std::vector<std::uint64_t> holds;  // Locks.
    const Holder* waits = nullptr;
    std::vector<std::uint64_t> waiting_branches;  // Owners that this one needs and that wait.
    [[nodiscard]] bool unused() const noexcept {
      return holds.empty() && waits == nullptr && waiting_branches.empty();
    }
  };
  /// Why an owner cannot go on: the next owner, and what stands between them.
  struct Obstacle {
    std::uint64_t owner;
    std::string what;
  };

  [[nodiscard]] std::unordered_set<std::uint64_t> dependencies_of(std::uint64_t owner) const;
  [[nodiscard]] std::vector<Obstacle> obstacles(std::uint64_t owner) const;
  [[nodiscard]] bool can_go_on(std::uint64_t owner,
                               const std::unordered_set<std::uint64_t>& stuck) const;
  [[nodiscard]] std::unordered_set<std::uint64_t> stuck_with(std::uint64_t owner) const;
  [[nodiscard]] std::vector<DeadlockStep> cycle_through(
      std::uint64_t owner, const std::unordered_set<std::uint64_t>& stuck) const;
  [[nodiscard]] std::vector<std::uint64_t> order_path(std::uint64_t from, std::uint64_t to) const;

  OwnerState& owner_of(const Holder& holder);
  void drop_if_unused(std::uint64_t owner) noexcept;
  void remove_wait(const Holder& holder) noexcept;

  DeadlockDetectorOptions options_;
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, Lock> locks_;
  std::unordered_map<std::uint64_t, OwnerState> owners_;
  std::size_t order_count_ = 0;
  std::set<std::pair<std::uint64_t, std::uint64_t>> reported_;
  std::vector<LockOrderInversion> inversions_;
};

}  // namespace holdfast::detail
