// SPDX-License-Identifier: Apache-2.0
#include <holdfast/keyed_mutex.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include <holdfast/this_task.hpp>

#include "coro/test_world.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::error_text;
using testing::World;

struct KeyVisitors {
  World& world;
  KeyedMutex<std::string>& mutex;
  std::vector<std::string> log{};
  std::map<std::string, Hold> held{};

  Task<void> visit(std::string key, std::string name, WaitOptions options = {}) {
    Hold hold = co_await mutex.lock(key, options);
    log.push_back(name);
    held[name] = std::move(hold);
  }
  testing::EndTasks end_tasks{world};
};

TEST(KeyedMutex, LocksEachKeyByItself) {
  World world;
  KeyedMutex<std::string> mutex;
  KeyVisitors visitors{world, mutex};
  auto a1 = world.start(visitors.visit("a", "a1"));
  auto b1 = world.start(visitors.visit("b", "b1"));
  auto a2 = world.start(visitors.visit("a", "a2"));
  auto a3 = world.start(visitors.visit("a", "a3"));
  EXPECT_THAT(visitors.log, ElementsAre("a1", "b1"));
  EXPECT_TRUE(mutex.is_locked("a"));
  EXPECT_FALSE(mutex.is_locked("c"));
  EXPECT_EQ(mutex.queue_length("a"), 2U);
  EXPECT_EQ(mutex.queue_length("b"), 0U);
  visitors.held.erase("a1");
  world.executor.drain();
  EXPECT_THAT(visitors.log, ElementsAre("a1", "b1", "a2"));
}

TEST(KeyedMutex, AnEntryExistsOnlyWhileSomeoneHoldsOrWaits) {
  World world;
  KeyedMutex<std::string> mutex;
  KeyVisitors visitors{world, mutex};
  EXPECT_EQ(mutex.size(), 0U);
  auto first = world.start(visitors.visit("a", "first"));
  auto second = world.start(visitors.visit("a", "second"));
  auto late = world.start(visitors.visit("a", "late", {.timeout = 1s}));
  EXPECT_EQ(mutex.size(), 1U);
  world.advance(1s);
  EXPECT_THROW(late.get(), TimedOut);
  visitors.held.erase("first");
  EXPECT_EQ(mutex.size(), 1U) << "it has been handed over";
  world.executor.drain();
  visitors.held.erase("second");
  EXPECT_EQ(mutex.size(), 0U);
  {
    auto not_awaited = mutex.lock("b");
  }
  EXPECT_EQ(mutex.size(), 0U);
  auto hold = mutex.try_lock("c");
  EXPECT_FALSE(mutex.try_lock("c"));
  EXPECT_EQ(mutex.size(), 1U);
  hold->release();
  EXPECT_EQ(mutex.size(), 0U);
}

TEST(KeyedMutex, AMillionKeysLeaveNothingBehind) {
  World world;
  KeyedMutex<int> mutex;
  const auto body = [](KeyedMutex<int>& locks) -> Task<void> {
    for (int key = 0; key < 1'000'000; ++key) {
      const Hold hold = co_await locks.lock(key);
    }
  };
  world.run(body(mutex));
  EXPECT_EQ(mutex.size(), 0U);
}

TEST(KeyedMutex, LockAllTakesEveryKeyOnceAndReleasesThemTogether) {
  World world;
  KeyedMutex<std::string> mutex;
  const auto body = [](KeyedMutex<std::string>& locks) -> Task<std::size_t> {
    const std::vector<std::string> keys{"b", "a", "b"};
    const auto holds = co_await locks.lock_all(keys);
    co_return locks.size();
  };
  EXPECT_EQ(world.run(body(mutex)), 2U);
  EXPECT_EQ(mutex.size(), 0U);
}

TEST(KeyedMutex, LockAllInBothOrdersNeverDeadlocks) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    VirtualClock clock;
    SeededExecutor executor(clock, seed);
    KeyedMutex<int> mutex;
    const auto body = [](KeyedMutex<int>& locks, int a, int b) -> Task<void> {
      for (int i = 0; i < 5; ++i) {
        const std::vector<int> keys{a, b};
        const auto holds = co_await locks.lock_all(keys);
        co_await this_task::yield();
      }
    };
    std::vector<Spawned<void>> tasks;
    for (int i = 0; i < 6; ++i) {
      tasks.push_back(spawn(executor, body(mutex, i % 3, (i + 1 + i / 3) % 3)));
    }
    executor.drain();
    for (auto& task : tasks) {
      ASSERT_TRUE(task.ended()) << "seed " << seed;
    }
  }
}

TEST(KeyedMutex, LockAllIsAllOrNothing) {
  World world;
  KeyedMutex<int> mutex;
  auto busy = mutex.try_lock(3);
  const auto body = [](KeyedMutex<int>& locks) -> Task<void> {
    const std::vector<int> keys{1, 2, 3};
    const auto holds = co_await locks.lock_all(keys, {.timeout = 1s});
  };
  auto task = world.start(body(mutex));
  EXPECT_EQ(mutex.size(), 3U);
  world.advance(1s);
  EXPECT_THROW(task.get(), TimedOut);
  EXPECT_EQ(mutex.size(), 1U);
}

TEST(KeyedMutex, RunExclusiveHoldsTheKey) {
  World world;
  KeyedMutex<std::string> mutex;
  const auto body = [](KeyedMutex<std::string>& locks) -> Task<bool> {
    const bool locked = co_await locks.run_exclusive("a key that is too long to be kept inline",
                                                     [&locks] { return locks.size() == 1; });
    co_return locked;
  };
  EXPECT_TRUE(world.run(body(mutex)));
}

TEST(KeyedMutex, DestroyingItEndsAllWaitsAndHoldsMayOutliveIt) {
  World world;
  auto mutex = std::make_unique<KeyedMutex<std::string>>(SyncOptions{.name = "orders"});
  KeyVisitors visitors{world, *mutex};
  auto first = world.start(visitors.visit("a", "first"));
  auto second = world.start(visitors.visit("a", "second"));
  auto unawaited = mutex->lock("a");
  mutex.reset();
  world.executor.drain();
  EXPECT_EQ(error_text<Closed>([&] { second.get(); }),
            "KeyedMutex 'orders' was destroyed while this waited for it");
  EXPECT_EQ(error_text<Closed>([&] { auto hold = unawaited.wait(); }),
            "KeyedMutex 'orders' was destroyed before this operation was awaited");
  visitors.held.clear();
}

TEST(KeyedMutex, ThreadsWaitForKeysToo) {
  KeyedMutex<int> mutex;
  std::vector<int> counters(4, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2'000; ++i) {
        const int key = i % 4;
        const Hold hold = mutex.lock(key).wait();
        ++counters[static_cast<std::size_t>(key)];
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(counters, (std::vector<int>{2'000, 2'000, 2'000, 2'000}));
  EXPECT_EQ(mutex.size(), 0U);
}

}  // namespace
}  // namespace holdfast
