// SPDX-License-Identifier: Apache-2.0
#include <holdfast/deadlock.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include <holdfast/all_any.hpp>
#include <holdfast/keyed_mutex.hpp>
#include <holdfast/lock_all.hpp>
#include <holdfast/mutex.hpp>
#include <holdfast/semaphore.hpp>
#include <holdfast/shared_mutex.hpp>
#include <holdfast/this_task.hpp>

#include "coro/test_world.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::error_text;
using ::testing::HasSubstr;
using testing::World;

Task<void> lock_both(Mutex& first, Mutex& second) {
  const Hold one = co_await first.lock();
  co_await this_task::yield();
  const Hold two = co_await second.lock();
}

struct Watched {
  DeadlockDetector detector;
  Mutex a{{.name = "a", .detector = &detector}};
  Mutex b{{.name = "b", .detector = &detector}};
  Mutex c{{.name = "c", .detector = &detector}};
};

TEST(DeadlockDetector, NamesTheCycleOfTwoAndLetsTheOtherGoOn) {
  World world;
  Watched w;
  auto one = spawn(world.executor, lock_both(w.a, w.b), {.name = "one"});
  auto two = spawn(world.executor, lock_both(w.b, w.a), {.name = "two"});
  world.executor.drain();
  try {
    two.get();
    FAIL() << "no deadlock found";
  } catch (const DeadlockError& error) {
    EXPECT_STREQ(error.what(),
                 "deadlock: 'two' waits for Mutex 'a', held by 'one', which waits for Mutex 'b', "
                 "held by 'two'");
    ASSERT_EQ(error.cycle().size(), 2U);
    EXPECT_EQ(error.cycle()[0].owner, "two");
    EXPECT_EQ(error.cycle()[0].waits_for, "Mutex 'a'");
    EXPECT_EQ(error.cycle()[0].held_by, "one");
    EXPECT_EQ(error.code(), ErrorCode::kDeadlock);
    EXPECT_EQ(error.remedy(), Remedy::kStartOver);
  }
  EXPECT_TRUE(one.ended());
  one.get();
  EXPECT_FALSE(w.a.is_locked() || w.b.is_locked());
}

TEST(DeadlockDetector, NamesACycleOfThree) {
  World world;
  Watched w;
  auto one = spawn(world.executor, lock_both(w.a, w.b), {.name = "one"});
  auto two = spawn(world.executor, lock_both(w.b, w.c), {.name = "two"});
  auto three = spawn(world.executor, lock_both(w.c, w.a), {.name = "three"});
  world.executor.drain();
  EXPECT_EQ(error_text<DeadlockError>([&] { three.get(); }),
            "deadlock: 'three' waits for Mutex 'a', held by 'one', which waits for Mutex 'b', held "
            "by 'two', which waits for Mutex 'c', held by 'three'");
  EXPECT_TRUE(one.ended() && two.ended());
}

TEST(DeadlockDetector, NamesATaskThatWaitsForItself) {
  World world;
  Watched w;
  auto task = world.start(lock_both(w.a, w.a), {.name = "loop"});
  EXPECT_EQ(error_text<DeadlockError>([&] { task.get(); }),
            "deadlock: 'loop' waits for Mutex 'a', held by 'loop'");
}

TEST(DeadlockDetector, FindsNoneWhereThereIsNone) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    VirtualClock clock;
    SeededExecutor executor(clock, seed);
    Watched w;
    std::vector<Spawned<void>> tasks;
    for (int i = 0; i < 8; ++i) {
      tasks.push_back(spawn(executor, lock_both(i % 2 == 0 ? w.a : w.b, w.c)));
    }
    executor.drain();
    for (auto& task : tasks) {
      ASSERT_NO_THROW(task.get()) << "seed " << seed;
    }
    ASSERT_TRUE(w.detector.inversions().empty()) << "seed " << seed;
  }
}

TEST(DeadlockDetector, OfAllInterleavingsOfADeadlockProneProgramNoneHangs) {
  int deadlocks = 0;
  for (std::uint64_t seed = 0; seed < 1'000; ++seed) {
    VirtualClock clock;
    SeededExecutor executor(clock, seed);
    Watched w;
    auto one = spawn(executor, lock_both(w.a, w.b));
    auto two = spawn(executor, lock_both(w.b, w.c));
    auto three = spawn(executor, lock_both(w.c, w.a));
    executor.drain();
    for (auto* task : {&one, &two, &three}) {
      ASSERT_TRUE(task->ended()) << "seed " << seed << " hangs";
      try {
        task->get();
      } catch (const DeadlockError&) {
        ++deadlocks;
      }
    }
  }
  EXPECT_GT(deadlocks, 0) << "or this test shows nothing";
}

TEST(DeadlockDetector, ASemaphoreIsADeadlockOnlyIfNoHolderCanGoOn) {
  World world;
  DeadlockDetector detector;
  Semaphore semaphore(2, {.name = "s", .detector = &detector});
  auto outsider = semaphore.try_acquire();  // A thread, which can go on.
  const auto take_two = [](Semaphore& limit) -> Task<void> {
    const Hold one = co_await limit.acquire();
    const Hold two = co_await limit.acquire();
  };
  auto waits = world.start(take_two(semaphore), {.name = "greedy"});
  EXPECT_FALSE(waits.ended()) << "the outsider may release";
  outsider->release();
  world.executor.drain();
  waits.get();
  auto first = spawn(world.executor, take_two(semaphore), {.name = "first"});
  auto second = spawn(world.executor, take_two(semaphore), {.name = "second"});
  world.executor.drain();
  EXPECT_NO_THROW(first.get()) << "alone it could take both";
  EXPECT_NO_THROW(second.get());
}

TEST(DeadlockDetector, WeightsCount) {
  World world;
  DeadlockDetector detector;
  Semaphore semaphore(3, {.name = "s", .detector = &detector});
  const auto grow = [](Semaphore& limit, int more) -> Task<void> {
    const Hold one = co_await limit.acquire();
    co_await this_task::yield();
    const Hold rest = co_await limit.acquire(more);
  };
  auto light = spawn(world.executor, grow(semaphore, 1), {.name = "light"});
  auto heavy = spawn(world.executor, grow(semaphore, 2), {.name = "heavy"});
  world.executor.drain();
  EXPECT_NO_THROW(light.get());
  EXPECT_NO_THROW(heavy.get()) << "two of three were enough once the other had ended";
  auto one = spawn(world.executor, grow(semaphore, 2), {.name = "one"});
  auto two = spawn(world.executor, grow(semaphore, 2), {.name = "two"});
  world.executor.drain();
  EXPECT_EQ(error_text<DeadlockError>([&] { two.get(); }),
            "deadlock: 'two' waits for Semaphore 's', held by 'one', which waits for Semaphore "
            "'s', held by 'two'");
  EXPECT_NO_THROW(one.get());
}

TEST(DeadlockDetector, AReaderThatAsksAgainBehindAWriterIsFound) {
  World world;
  DeadlockDetector detector;
  SharedMutex mutex({.name = "catalogue", .detector = &detector});
  const auto read_twice = [](SharedMutex& lock) -> Task<void> {
    const Hold one = co_await lock.lock_shared();
    co_await this_task::yield();
    const Hold two = co_await lock.lock_shared();
  };
  const auto write = [](SharedMutex& lock) -> Task<void> {
    const Hold hold = co_await lock.lock();
  };
  auto reader = spawn(world.executor, read_twice(mutex), {.name = "reader"});
  auto writer = spawn(world.executor, write(mutex), {.name = "writer"});
  world.executor.drain();
  EXPECT_THAT(error_text<DeadlockError>([&] { reader.get(); }),
              HasSubstr("'reader' waits for SharedMutex 'catalogue', held by 'reader'"));
  EXPECT_NO_THROW(writer.get());
}

TEST(DeadlockDetector, AParentThatHoldsWhatItsBranchWaitsForIsFound) {
  World world;
  Watched w;
  const auto branch = [](Mutex& lock) -> Task<void> { const Hold hold = co_await lock.lock(); };
  const auto parent = [&branch](Mutex& lock) -> Task<void> {
    const Hold hold = co_await lock.lock();
    co_await all(branch(lock), branch(lock));
  };
  auto task = world.start(parent(w.a), {.name = "parent"});
  EXPECT_EQ(
      error_text<DeadlockError>([&] { task.get(); }),
      "deadlock: 'parent/0' waits for Mutex 'a', held by 'parent', which waits for its branch "
      "'parent/0'");
}

TEST(DeadlockDetector, AnAnyThatCanEndOtherwiseIsNoDeadlock) {
  World world;
  Watched w;
  const auto branch = [](Mutex& lock) -> Task<void> { const Hold hold = co_await lock.lock(); };
  const auto nap = []() -> Task<void> { co_await this_task::sleep_for(1s); };
  const auto parent = [&](Mutex& lock) -> Task<void> {
    const Hold hold = co_await lock.lock();
    co_await any(branch(lock), nap());
  };
  EXPECT_NO_THROW(world.run(parent(w.a)));
}

TEST(DeadlockDetector, FindsDeadlocksBetweenThreadsAndTasks) {
  World world;
  Watched w;
  auto mine = w.b.try_lock();  // This thread holds b.
  auto task = world.start(lock_both(w.a, w.b), {.name = "task"});
  EXPECT_THAT(error_text<DeadlockError>([&] { auto hold = w.a.lock().wait(); }),
              HasSubstr("waits for Mutex 'a', held by 'task', which waits for Mutex 'b', held by "
                        "'thread "));
  mine->release();
  world.executor.drain();
  task.get();
}

TEST(DeadlockDetector, AKeyedLockNamesItsKey) {
  World world;
  DeadlockDetector detector;
  KeyedMutex<std::string> accounts({.name = "accounts", .detector = &detector});
  const auto lock_keys = [](KeyedMutex<std::string>& locks, std::string x,
                            std::string y) -> Task<void> {
    const Hold one = co_await locks.lock(x);
    co_await this_task::yield();
    const Hold two = co_await locks.lock(y);
  };
  auto one = spawn(world.executor, lock_keys(accounts, "A", "B"), {.name = "one"});
  auto two = spawn(world.executor, lock_keys(accounts, "B", "A"), {.name = "two"});
  world.executor.drain();
  EXPECT_THAT(error_text<DeadlockError>([&] { two.get(); }),
              HasSubstr("KeyedMutex 'accounts' [A], held by 'one'"));
  one.get();
}

TEST(DeadlockDetector, TellsOfAnInversionThatHasNotHurtYet) {
  World world;
  std::vector<std::string> reported;
  DeadlockDetector detector({.on_inversion = [&](const LockOrderInversion& inversion) {
    reported.push_back(inversion.text());
  }});
  Mutex a({.name = "a", .detector = &detector});
  Mutex b({.name = "b", .detector = &detector});
  Mutex c({.name = "c", .detector = &detector});
  auto one = world.start(lock_both(a, b), {.name = "one"});
  auto two = world.start(lock_both(b, c), {.name = "two"});
  EXPECT_TRUE(reported.empty());
  auto three = world.start(lock_both(c, a), {.name = "three"});
  EXPECT_THAT(reported, ElementsAre("lock order: 'three' holds Mutex 'c' and asks for Mutex 'a'; "
                                    "before, the order was Mutex 'a', then Mutex 'b', then Mutex "
                                    "'c'"));
  auto again = world.start(lock_both(c, a), {.name = "four"});
  EXPECT_EQ(reported.size(), 1U) << "once for each pair";
  EXPECT_EQ(detector.inversions().size(), 1U);
  EXPECT_EQ(detector.inversions()[0].held, "Mutex 'c'");
  EXPECT_EQ(detector.inversions()[0].wanted, "Mutex 'a'");
}

TEST(DeadlockDetector, LockAllHasOneOrderAndATryHasNone) {
  World world;
  Watched w;
  const auto both_ways = [](Watched& locks) -> Task<void> {
    {
      const auto holds = co_await lock_all(locks.a, locks.b);
    }
    {
      const auto holds = co_await lock_all(locks.b, locks.a);
    }
    const Hold b = co_await locks.b.lock();
    const auto a = locks.a.try_lock();
  };
  world.run(both_ways(w));
  EXPECT_TRUE(w.detector.inversions().empty());
}

TEST(DeadlockDetector, ForgetsLocksThatAreGone) {
  World world;
  DeadlockDetector detector;
  auto a = std::make_unique<Mutex>(SyncOptions{.name = "a", .detector = &detector});
  Mutex b({.name = "b", .detector = &detector});
  auto one = world.start(lock_both(*a, b));
  auto outlives = a->try_lock();
  a.reset();
  Mutex next({.name = "next", .detector = &detector});
  auto two = world.start(lock_both(b, next));
  EXPECT_TRUE(detector.inversions().empty());
  outlives->release();
}

TEST(DeadlockDetector, AWaiterThatGaveUpIsNoLongerPartOfIt) {
  World world;
  Watched w;
  const auto patient = [](Mutex& first, Mutex& second) -> Task<void> {
    const Hold one = co_await first.lock();
    try {
      const Hold two = co_await second.lock({.timeout = 1s});
    } catch (const TimedOut&) {
    }
    co_await this_task::sleep_for(1h);
  };
  auto holder = w.b.try_lock();
  auto task = world.start(patient(w.a, w.b));
  world.advance(1s);
  EXPECT_EQ(error_text<TimedOut>([&] { auto hold = w.a.lock({.timeout = 0s}).wait(); }),
            "the deadline passed while waiting for Mutex 'a'");
  world.advance(1h);
}

}  // namespace
}  // namespace holdfast
