// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include <holdfast/detail/task_context.hpp>

namespace holdfast::detail {

/// The number by which a task is known as an actor, and those of the tasks that cannot go on before
/// it has ended, if it is a branch of theirs. None outside a task.
[[nodiscard]] inline std::vector<std::uint64_t> current_actors() {
  std::vector<std::uint64_t> ids;
  const TaskContext* task = TaskContext::current();
  while (task != nullptr) {
    ids.push_back(task->id());
    task = task->needed_by_parent() ? task->parent() : nullptr;
  }
  return ids;
}

/// How many durable locks each task of this process holds: only who holds one can be part of a
/// deadlock. It takes the one who acquired for the one who holds. Thread-safe.
class HoldCounts {
 public:
  void add(std::uint64_t actor) {
    const std::lock_guard lock(mutex_);
    ++counts_[actor];
  }
  void remove(std::uint64_t actor) {
    const std::lock_guard lock(mutex_);
    if (const auto found = counts_.find(actor); found != counts_.end() && --found->second == 0) {
      counts_.erase(found);
    }
  }
  [[nodiscard]] bool any_of(std::span<const std::uint64_t> actors) const {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(actors, [&](std::uint64_t one) { return counts_.contains(one); });
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::uint64_t> counts_;
};

}  // namespace holdfast::detail
