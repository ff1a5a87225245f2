// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <holdfast/engine.hpp>
#include <holdfast/memory_store.hpp>
#include <holdfast/spawn.hpp>

#include "meddled_store.hpp"

/// Engines in processes of one thread each, on one disk and virtual time.
namespace holdfast::testing_runs {

using namespace std::chrono_literals;

/// One process, which can end in the middle.
class Process {
 public:
  Process(Clock& clock, const std::shared_ptr<MemoryDisk>& disk, std::uint64_t seed,
          const std::function<void(Engine&)>& add_workflows, EngineOptions options)
      : executor(clock), store(std::make_unique<MeddledStore>(disk)) {
    const SessionOptions in_30_s{.ttl = 30s, .executor = &executor, .seed = seed};
    session = sync_wait(executor, Session::open(*store, in_30_s));
    options.executor = &executor;
    options.watchdog_time = 0s;
    options.warn = [](const std::string& /*text*/) {};
    options.seed = seed;
    engine.emplace(*session, options);
    add_workflows(*engine);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() { kill(); }

  /// As kill -9: nothing is written any more.
  void kill() {
    engine.reset();
    session.reset();
    executor.drain();
  }

  ManualExecutor executor;
  std::unique_ptr<MeddledStore> store;
  std::unique_ptr<Session> session;
  std::optional<Engine> engine;
};

class EngineWorld : public ::testing::Test {
 protected:
  /// What every process knows.
  virtual void add_workflows(Engine& engine) = 0;

  Process& process(std::string_view queue = "default") {
    Process& made = client(queue);
    run(made, made.engine->begin());
    return made;
  }
  /// One that drives nothing.
  Process& client(std::string_view queue = "default") {
    options_.queue = queue;
    return processes_.emplace_back(
        clock_, disk_, ++seed_, [this](Engine& engine) { add_workflows(engine); }, options_);
  }
  void kill(Process& process) {
    settle();
    process.kill();
  }

  /// Until nobody can do anything at this moment.
  void settle() {
    for (bool again = true; again;) {
      again = false;
      for (Process& one : processes_) {
        again = one.executor.drain() > 0 || again;
      }
    }
  }
  void advance(Duration by) {
    const TimePoint target = clock_.now() + by;
    settle();
    while (clock_.next_due().value_or(TimePoint::max()) <= target) {
      clock_.advance_to_next();
      settle();
    }
    clock_.advance(target - clock_.now());
    settle();
  }
  template <typename T>
  T run(Process& in, Task<T> task) {
    auto running = spawn(in.executor, std::move(task));
    settle();
    if (!running.ended()) {
      ADD_FAILURE() << "it waits";
      throw std::logic_error("it waits");
    }
    return running.get();
  }
  /// What another process does while a task of one is under way: see `before_commit`.
  template <typename T>
  static T run_in_between(Process& in, Task<T> task) {
    std::optional<T> result;
    auto running = spawn(in.executor, keep(std::move(task), result));
    in.executor.drain();
    return std::move(result).value();
  }
  /// How it ended is looked at later.
  template <typename T>
  Spawned<T> begin(Process& in, Task<T> task) {
    auto running = spawn(in.executor, std::move(task));
    settle();
    return running;
  }

  template <typename T>
  static Task<void> keep(Task<T> task, std::optional<T>& result) {
    result.emplace(co_await task);
  }

  EngineOptions options_;  // Of processes that are made from here on.
  VirtualClock clock_;
  std::shared_ptr<MemoryDisk> disk_ = std::make_shared<MemoryDisk>(clock_);
  std::deque<Process> processes_;
  std::uint64_t seed_ = 0;
};

}  // namespace holdfast::testing_runs
