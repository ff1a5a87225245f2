// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <holdfast/clock.hpp>
#include <holdfast/executor.hpp>
#include <holdfast/gate_inspection.hpp>
#include <holdfast/gates.hpp>
#include <holdfast/memory_store.hpp>
#include <holdfast/session.hpp>
#include <holdfast/spawn.hpp>

namespace holdfast {

inline constexpr Duration kTtl = std::chrono::seconds(30);

/// A process: a store object on the disk, a session, its gates. All its tasks run on an executor of
/// its own, so that it can be stopped.
struct Process {
  Process(Clock& clock, const std::shared_ptr<MemoryDisk>& disk, std::uint64_t seed)
      : executor(clock),
        store(open_memory_store(disk)),
        session(sync_wait(
            executor,
            Session::open(*store,
                          {.ttl = kTtl, .name = "worker", .executor = &executor, .seed = seed}))),
        gates(std::in_place, *session, &executor) {}
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    gates.reset();
    session.reset();
    executor.drain();
  }

  ManualExecutor executor;
  bool stopped = false;
  std::unique_ptr<Store> store;
  std::unique_ptr<Session> session;
  std::optional<Gates> gates;
};

class GateProcesses : public ::testing::Test {
 protected:
  Process& process(std::uint64_t seed) {
    Process& made = processes_.emplace_back(clock_, disk_, seed);
    settle();
    return made;
  }
  /// Everything runs as far as it goes without time passing.
  void settle() {
    for (bool again = true; again;) {
      again = false;
      for (Process& one : processes_) {
        again = (!one.stopped && one.executor.drain() > 0) || again;
      }
    }
  }
  void advance(Duration by) {
    const TimePoint target = clock_.now() + by;
    while (clock_.next_due().value_or(TimePoint::max()) <= target) {
      clock_.advance_to_next();
      settle();
    }
    clock_.advance(target - clock_.now());
    settle();
  }
  template <typename T>
  Spawned<T> start(Process& in, Task<T> task) {
    auto running = spawn(in.executor, std::move(task));
    settle();
    return running;
  }
  template <typename T>
  T run(Process& in, Task<T> task) {
    auto running = start(in, std::move(task));
    EXPECT_TRUE(running.ended()) << "it waits";
    return running.get();
  }
  DurableHold acquire(Process& in, const char* name, const AcquireOptions& options = {}) {
    return run(in, in.gates->mutex(name).acquire(options));
  }
  Spawned<DurableHold> ask(Process& in, const char* name, const AcquireOptions& options = {}) {
    return start(in, in.gates->mutex(name).acquire(options));
  }
  bool release(Process& in, DurableHold& hold) { return run(in, hold.release()); }
  GateInfo inspect(const std::string& name) {
    auto info = sync_wait(observer_, inspect_gate(*store_, name));
    return info.value_or(GateInfo{});
  }
  CommitOutcome commit(Batch batch) {
    return sync_wait(observer_, store_->commit(std::move(batch)));
  }

  VirtualClock clock_;
  ManualExecutor observer_{clock_};
  std::shared_ptr<MemoryDisk> disk_ = std::make_shared<MemoryDisk>(clock_);
  std::unique_ptr<Store> store_ = open_memory_store(disk_);
  std::deque<Process> processes_;
};

}  // namespace holdfast
