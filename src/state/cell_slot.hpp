// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <holdfast/detail/cell_mutator.hpp>
#include <holdfast/detail/task_context.hpp>
#include <holdfast/hold.hpp>
#include <holdfast/mutex.hpp>
#include <holdfast/state.hpp>
#include <holdfast/stored_cell.hpp>

namespace holdfast::detail {

class CellSlot;

/// What the cells of one `State` share.
class StateCore : public std::enable_shared_from_this<StateCore> {
 public:
  StateCore(Store* store, const StateOptions& options);
  StateCore(const StateCore&) = delete;
  StateCore& operator=(const StateCore&) = delete;
  ~StateCore() = default;

  /// Null: in memory.
  [[nodiscard]] Store* store() const noexcept { return store_; }
  [[nodiscard]] const StateOptions& options() const noexcept { return options_; }

  [[nodiscard]] std::shared_ptr<CellSlot> slot(std::string key);
  [[nodiscard]] std::size_t size() const;
  /// In memory: keeps a slot that has a value, also without handles, or lets it go.
  void keep(const std::shared_ptr<CellSlot>& slot, bool kept);
  /// From now on nothing is kept.
  void close();
  /// A slot has gone.
  void forget(const std::string& key) noexcept;

  /// Unlike that of any other write.
  [[nodiscard]] std::string next_operation();
  /// How long to wait before the next try, after so many.
  [[nodiscard]] Duration pause_after(std::uint32_t attempts);

 private:
  friend class RunningMutation;
  friend class CallerLink;
  friend void refuse_reentry(const CellSlot& slot);

  struct Known {
    std::weak_ptr<CellSlot> slot;
    std::shared_ptr<CellSlot> kept;
  };

  Store* const store_;
  const StateOptions options_;
  const std::string process_;  // What the ids of all operations begin with.

  mutable std::mutex mutex_;
  std::map<std::string, Known, std::less<>> slots_;
  bool closed_ = false;
  std::uint64_t operations_ = 0;
  std::mt19937_64 random_;
  // Update functions that run in a task of their own, with the task that waits for them.
  std::map<const TaskContext*, const TaskContext*> callers_;
};

/// One watch of a cell in memory.
struct MemoryWatcher {
  Mutex gate;
  Hold closed;  // While nothing is new.
};

class CellSlot : public std::enable_shared_from_this<CellSlot> {
 public:
  CellSlot(std::shared_ptr<StateCore> core, std::string key)
      : core_(std::move(core)), key_(std::move(key)) {}
  CellSlot(const CellSlot&) = delete;
  CellSlot& operator=(const CellSlot&) = delete;
  ~CellSlot() { core_->forget(key_); }

  [[nodiscard]] StateCore& core() const noexcept { return *core_; }
  [[nodiscard]] const std::string& key() const noexcept { return key_; }
  /// The line of those who change it.
  [[nodiscard]] Mutex& line() noexcept { return line_; }

  // Of a cell in memory.

  [[nodiscard]] CellValue value() const;
  /// For whoever has the line.
  void put(CellValue value);
  /// What it holds, and how often it was written.
  [[nodiscard]] std::pair<CellValue, std::uint64_t> state() const;
  /// False if it was not written since `seen`; then the gate of `watcher` opens at the next write.
  [[nodiscard]] bool written_since(std::uint64_t seen, MemoryWatcher& watcher);
  void add(const std::shared_ptr<MemoryWatcher>& watcher);

 private:
  friend class RunningMutation;
  friend void refuse_reentry(const CellSlot& slot);

  const std::shared_ptr<StateCore> core_;
  const std::string key_;
  Mutex line_;
  const TaskContext* running_ = nullptr;  // Whose update function runs; by the core's mutex.

  mutable std::mutex mutex_;
  CellValue value_;
  std::uint64_t writes_ = 0;
  std::vector<std::weak_ptr<MemoryWatcher>> watchers_;
};

/// Throws `ReentrantMutation` if the running task is inside an update function of this cell, itself
/// or through the branches and functions that it was started by.
void refuse_reentry(const CellSlot& slot);

/// While it lives, the running task is inside an update function of the cell.
class RunningMutation {
 public:
  explicit RunningMutation(CellSlot& slot);
  RunningMutation(const RunningMutation&) = delete;
  RunningMutation& operator=(const RunningMutation&) = delete;
  ~RunningMutation();

 private:
  CellSlot& slot_;
};

/// Says that `caller` waits for an update function that runs in a task of its own.
class CallerLink {
 public:
  CallerLink(StateCore& core, const TaskContext& caller) noexcept : core_(core), caller_(&caller) {}
  CallerLink(const CallerLink&) = delete;
  CallerLink& operator=(const CallerLink&) = delete;
  ~CallerLink() { cut(); }

  /// The running task is the one that is waited for.
  void join();
  /// Nobody waits any more, or there is nothing more to wait for: whoever knows first says so.
  void cut() noexcept;

 private:
  StateCore& core_;
  const TaskContext* caller_;
  const TaskContext* runner_ = nullptr;
};

/// The two paths.
[[nodiscard]] Task<void> mutate_in_memory(std::shared_ptr<CellSlot> slot,
                                          std::shared_ptr<CellMutator> mutator);
[[nodiscard]] Task<void> mutate_in_store(std::shared_ptr<CellSlot> slot,
                                         std::shared_ptr<CellMutator> mutator);
/// `mutator` null: erases.
[[nodiscard]] Task<CellChange> change_in_store(std::shared_ptr<CellSlot> slot,
                                               std::shared_ptr<CellMutator> mutator,
                                               CellExpectation expected);
[[nodiscard]] Task<CellValue> read_from_store(std::shared_ptr<CellSlot> slot);
[[nodiscard]] Task<bool> erase_in_store(std::shared_ptr<CellSlot> slot);

}  // namespace holdfast::detail
