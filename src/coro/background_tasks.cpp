// SPDX-License-Identifier: Apache-2.0
#include "background_tasks.hpp"

namespace holdfast::detail {

namespace {

/// Those that have ended are looked for when there are twice as many as last time.
constexpr std::size_t kPruneMin = 64;

}  // namespace

void BackgroundTasks::run(Task<void> task, const std::stop_token& stop) {
  const std::lock_guard lock(mutex_);
  if (!closed_) {
    keep(spawn(executor_, std::move(task), {}, stop));
  }
}

void BackgroundTasks::run_here(Task<void> task) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) {
      return;
    }
  }
  // Without the lock: the task may begin others.
  Spawned<void> running = spawn_here(executor_, std::move(task));
  if (!running.ended()) {
    const std::lock_guard lock(mutex_);
    keep(std::move(running));
  }
}

/// With the lock.
void BackgroundTasks::keep(Spawned<void> running) {
  // Mostly they end in the order in which they began, and what they had is wanted by the next one.
  for (int i = 0; i < 2 && !running_.empty() && running_.front().ended(); ++i) {
    running_.pop_front();
  }
  if (running_.size() >= prune_at_) {
    running_.remove_if([](const Spawned<void>& one) { return one.ended(); });
    prune_at_ = 2 * running_.size() + kPruneMin;
  }
  if (closed_) {
    running.request_stop();
  }
  running_.push_back(std::move(running));
}

bool BackgroundTasks::is_closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

void BackgroundTasks::close() {
  Running ending;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    ending.swap(running_);
  }
  // Without the lock: what is stopped may come back here.
  for (Spawned<void>& one : ending) {
    one.request_stop();
  }
  const std::lock_guard lock(mutex_);
  running_.splice(running_.end(), ending);
}

Task<void> BackgroundTasks::join() {
  close();
  for (;;) {
    Running ending;
    {
      const std::lock_guard lock(mutex_);
      ending = std::exchange(running_, {});
    }
    if (ending.empty()) {
      co_return;
    }
    for (Spawned<void>& one : ending) {
      try {
        co_await one;
      } catch (const Cancelled&) {
        continue;  // It was asked to.
      }
    }
  }
}

}  // namespace holdfast::detail
