// SPDX-License-Identifier: Apache-2.0
#include "owner.hpp"

#include <unistd.h>

#include <holdfast/detail/task_context.hpp>

namespace holdfast::detail {

namespace {

// Threads are told apart from tasks, whose numbers count up from one.
constexpr std::uint64_t kThreadBit = std::uint64_t{1} << 63;

std::uint64_t id_of(const Owner& owner) {
  if (owner.task != nullptr) {
    return owner.task->id();
  }
  return owner.is_thread ? kThreadBit | static_cast<std::uint64_t>(gettid()) : 0;
}

std::string name_of(const Owner& owner) {
  if (owner.task != nullptr) {
    return owner.task->name();
  }
  return owner.is_thread ? "thread " + std::to_string(gettid()) : "unknown";
}

}  // namespace

OwnerRecord::OwnerRecord(const Owner& owner) : id(id_of(owner)), name(name_of(owner)) {
  const TaskContext* task = owner.task;
  while (task != nullptr && task->parent() != nullptr && task->needed_by_parent()) {
    task = task->parent();
    waiting_ancestors.push_back({task->id(), task->name()});
  }
}

}  // namespace holdfast::detail
