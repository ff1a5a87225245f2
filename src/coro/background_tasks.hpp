// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <list>
#include <mutex>
#include <stop_token>
#include <utility>

#include <holdfast/detail/frame_allocator.hpp>
#include <holdfast/executor.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/task.hpp>

namespace holdfast::detail {

/// Tasks that nobody waits for one by one: they end by themselves, or are stopped together. The
/// tasks see to their own failures. Thread-safe.
class BackgroundTasks {
 public:
  /// `executor` outlives the tasks.
  explicit BackgroundTasks(Executor& executor) noexcept : executor_(executor) {}
  BackgroundTasks(const BackgroundTasks&) = delete;
  BackgroundTasks& operator=(const BackgroundTasks&) = delete;

  /// Does nothing when closed, as the other. `stop` cancels the task, too.
  void run(Task<void> task, const std::stop_token& stop = {});
  /// The same for what hardly ever waits: it begins in this thread, and needs no other if it does
  /// not wait.
  void run_here(Task<void> task);
  /// Asks all to stop; none begins from now on.
  void close();
  [[nodiscard]] bool is_closed() const;
  /// The same, and waits for their ends. Not in one of them.
  [[nodiscard]] Task<void> join();

 private:
  using Running = std::list<Spawned<void>, FrameAllocator<Spawned<void>>>;

  void keep(Spawned<void> running);

  Executor& executor_;
  mutable std::mutex mutex_;
  bool closed_ = false;
  Running running_;
  std::size_t prune_at_ = 0;
};

/// Counts what has to be done before something may end.
class Duties {
 public:
  /// One of them, for as long as it is there.
  class Duty {
   public:
    explicit Duty(Duties& duties) noexcept : duties_(&duties) { ++duties.count_; }
    Duty(Duty&& other) noexcept : duties_(std::exchange(other.duties_, nullptr)) {}
    Duty& operator=(Duty&& other) noexcept {
      std::swap(duties_, other.duties_);
      return *this;
    }
    ~Duty() {
      if (duties_ != nullptr && --duties_->count_ == 0) {
        duties_->count_.notify_all();
      }
    }

   private:
    Duties* duties_;
  };

  /// Blocks until there is none.
  void wait() const noexcept {
    for (std::size_t left = count_; left != 0; left = count_) {
      count_.wait(left);
    }
  }

 private:
  std::atomic<std::size_t> count_ = 0;
};

}  // namespace holdfast::detail
