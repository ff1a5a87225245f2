// SPDX-License-Identifier: Apache-2.0
// Many interleavings of tasks and faults, each from its seed.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <holdfast/all_any.hpp>
#include <holdfast/executor.hpp>
#include <holdfast/memory_store.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/state.hpp>
#include <holdfast/this_task.hpp>

namespace holdfast {
namespace {

using namespace std::chrono_literals;

constexpr int kTasks = 6;
constexpr int kTimes = 4;

/// How increments ended.
struct Tally {
  int sure = 0;
  int unknown = 0;
};

Task<void> add_one(Cell<int> cell, bool later, Tally& tally) {
  try {
    if (later) {
      co_await cell.update([](int n) -> Task<int> {
        co_await this_task::yield();
        co_return n + 1;
      });
    } else {
      co_await cell.update([](int n) { return n + 1; });
    }
    ++tally.sure;
  } catch (const OutcomeUnknown&) {
    ++tally.unknown;
  }
}

Task<void> add_often(const State& state, Tally& tally) {
  for (int i = 0; i < kTimes; ++i) {
    Task<void> adding = add_one(state.global().cell<int>("n"), i % 2 == 1, tally);
    co_await adding;
  }
}

/// Adds from many tasks of two states on one disk; what is there afterwards.
struct TwoProcesses {
  explicit TwoProcesses(std::uint64_t seed)
      : executor(clock, seed),
        disk(std::make_shared<MemoryDisk>(clock)),
        stores{open_memory_store(disk), open_memory_store(disk)},
        first(*stores[0], {.seed = seed}),
        second(*stores[1], {.seed = seed + 1}) {
    sync_wait(executor, first.global().cell<int>("n").set(0));
  }

  Tally add() {
    std::vector<Task<void>> tasks;
    Tally tally;
    for (int i = 0; i < kTasks; ++i) {
      tasks.push_back(add_often(i % 2 == 0 ? first : second, tally));
    }
    sync_wait(executor, all(std::move(tasks)));
    return tally;
  }
  int value() { return sync_wait(executor, first.global().cell<int>("n").get()); }

  VirtualClock clock;
  SeededExecutor executor;
  std::shared_ptr<MemoryDisk> disk;
  std::array<std::unique_ptr<Store>, 2> stores;
  State first;
  State second;
};

TEST(CellRaces, TwoProcessesLoseNoChange) {
  for (std::uint64_t seed = 0; seed < 2'000; ++seed) {
    TwoProcesses world(seed);
    world.disk->set_faults({.seed = seed,
                            .conflict_chance = seed % 3 == 0 ? 0.3 : 0.0,
                            .sync_delay_max = seed % 2 == 0 ? 5ms : 0ms});
    EXPECT_EQ(world.add().sure, kTasks * kTimes) << "seed " << seed;
    ASSERT_EQ(world.value(), kTasks * kTimes) << "seed " << seed;
  }
}

TEST(CellRaces, ALostAnswerIsNeverAppliedTwiceNorTakenForAnother) {
  int unknown = 0;
  for (std::uint64_t seed = 0; seed < 2'000; ++seed) {
    TwoProcesses world(seed);
    world.disk->set_faults({.seed = seed, .conflict_chance = 0.1, .unknown_chance = 0.1});
    const Tally tally = world.add();
    world.disk->set_faults({});
    unknown += tally.unknown;
    ASSERT_EQ(tally.sure + tally.unknown, kTasks * kTimes) << "seed " << seed;
    ASSERT_GE(world.value(), tally.sure) << "seed " << seed;
    ASSERT_LE(world.value(), tally.sure + tally.unknown) << "seed " << seed;
  }
  EXPECT_LT(unknown, 2'000 * kTasks * kTimes / 50) << "most are found again";
}

TEST(CellRaces, InMemoryNothingIsLostNorTornBetweenTimeOutsAndStops) {
  for (std::uint64_t seed = 0; seed < 2'000; ++seed) {
    VirtualClock clock;
    SeededExecutor executor(clock, seed);
    State state({.mutation_timeout = 10ms});
    int committed = 0;  // Counted by the functions that run to their ends.
    std::vector<Spawned<int>> changes;
    changes.reserve(kTasks);
    for (int i = 0; i < kTasks; ++i) {
      auto change = state.global().cell<int>("n").update([&committed, i](int n) -> Task<int> {
        co_await this_task::sleep_for(1ms * i);
        ++committed;
        co_return n + 1;
      });
      changes.push_back(spawn(executor, change.task()));
    }
    changes[seed % kTasks].request_stop();
    int sure = 0;
    for (Spawned<int>& change : changes) {
      executor.drive_until([&change] { return change.ended(); });
      try {
        static_cast<void>(change.get());
        ++sure;
      } catch (const MutationTimeout&) {
      } catch (const Cancelled&) {
      }
    }
    executor.drive_until([&executor] { return executor.task_count() == 0; });
    const int value = sync_wait(executor, state.global().cell<int>("n").get());
    ASSERT_EQ(value, committed) << "seed " << seed;
    ASSERT_GE(value, sure) << "seed " << seed;
  }
}

TEST(CellRaces, OnRealThreadsNoChangeIsLost) {
  constexpr int kManyTasks = 64;
  constexpr int kManyTimes = 50;
  const auto store = open_memory_store();
  const State in_store(*store);
  const State in_memory;
  ThreadPool pool(4);
  for (const State* state : {&in_store, &in_memory}) {
    std::vector<Task<void>> tasks;
    std::vector<Tally> tallies(kManyTasks);
    for (Tally& tally : tallies) {
      tasks.push_back([](const State& its_state, Tally& its_tally) -> Task<void> {
        for (int i = 0; i < kManyTimes; ++i) {
          Task<void> adding = add_one(its_state.global().cell<int>("n"), i % 2 == 1, its_tally);
          co_await adding;
        }
      }(*state, tally));
    }
    sync_wait(pool, all(std::move(tasks)));
    EXPECT_EQ(sync_wait(pool, state->global().cell<int>("n").get()), kManyTasks * kManyTimes);
  }
}

Task<void> follow(Cell<int> cell, int last) {
  CellWatch<int> watch = cell.watch();
  int before = 0;
  while (before < last) {
    const std::optional<int> now = co_await watch.next();
    EXPECT_GE(now.value_or(0), before) << "never back";
    before = now.value_or(0);
  }
}

Task<void> count_to(Cell<int> cell, int last) {
  for (int i = 1; i <= last; ++i) {
    co_await cell.set(i);
  }
}

TEST(CellRaces, OnRealThreadsEveryWatchSeesTheLastWrite) {
  constexpr int kLast = 2'000;
  const auto store = open_memory_store();
  const State in_store(*store);
  const State in_memory;
  ThreadPool pool(4);
  for (const State* state : {&in_store, &in_memory}) {
    std::vector<Task<void>> tasks;
    for (int i = 0; i < 3; ++i) {
      tasks.push_back(follow(state->global().cell<int>("n"), kLast));
    }
    tasks.push_back(count_to(state->global().cell<int>("n"), kLast));
    sync_wait(pool, all(std::move(tasks)));
  }
}

}  // namespace
}  // namespace holdfast
