// SPDX-License-Identifier: Apache-2.0
#include <holdfast/mutex.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <holdfast/this_task.hpp>

#include "coro/test_world.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::error_text;
using ::testing::HasSubstr;
using testing::World;

/// Takes the lock, notes its name, and keeps the lock until the gate opens.
struct Visitors {
  World& world;
  Mutex& mutex;
  std::vector<std::string> log{};

  Task<void> visit(std::string name, WaitOptions options = {}, std::stop_token stop = {}) {
    const Hold hold = co_await mutex.lock(options, stop);
    log.push_back(name);
  }
  testing::EndTasks end_tasks{world};
};

TEST(Mutex, IsFreeThenLockedThenFreeAgain) {
  World world;
  Mutex mutex;
  EXPECT_FALSE(mutex.is_locked());
  const auto body = [](Mutex& lock) -> Task<bool> {
    const Hold hold = co_await lock.lock();
    co_return lock.is_locked();
  };
  EXPECT_TRUE(world.run(body(mutex)));
  EXPECT_FALSE(mutex.is_locked());
}

TEST(Mutex, ServesInTheOrderOfArrival) {
  World world;
  Mutex mutex;
  Visitors visitors{world, mutex};
  auto hold = mutex.try_lock();
  std::vector<Spawned<void>> tasks;
  for (const char* name : {"a", "b", "c", "d"}) {
    tasks.push_back(world.start(visitors.visit(name)));
  }
  EXPECT_EQ(mutex.queue_length(), 4U);
  EXPECT_TRUE(visitors.log.empty());
  hold->release();
  world.executor.drain();
  EXPECT_THAT(visitors.log, ElementsAre("a", "b", "c", "d"));
  EXPECT_EQ(mutex.queue_length(), 0U);
  EXPECT_FALSE(mutex.is_locked());
}

TEST(Mutex, ServesHigherPrioritiesFirst) {
  World world;
  Mutex mutex;
  Visitors visitors{world, mutex};
  auto hold = mutex.try_lock();
  std::vector<Spawned<void>> tasks;
  tasks.push_back(world.start(visitors.visit("low", {.priority = -1})));
  tasks.push_back(world.start(visitors.visit("normal")));
  tasks.push_back(world.start(visitors.visit("high", {.priority = 10})));
  tasks.push_back(world.start(visitors.visit("high too", {.priority = 10})));
  hold->release();
  world.executor.drain();
  EXPECT_THAT(visitors.log, ElementsAre("high", "high too", "normal", "low"));
}

TEST(Mutex, ARefusesAPriorityOutOfRange) {
  Mutex mutex;
  EXPECT_EQ(error_text<InvalidArgument>([&] { auto op = mutex.lock({.priority = 101}); }),
            "WaitOptions: a priority of 101 is out of range; give -100 to 100");
  EXPECT_THROW(auto op = mutex.lock({.priority = -101}), InvalidArgument);
}

TEST(Mutex, AReleaseHandsOverSoThatNobodyCanSlipIn) {
  World world;
  Mutex mutex;
  Visitors visitors{world, mutex};
  auto hold = mutex.try_lock();
  auto waiter = world.start(visitors.visit("first in line"));
  hold->release();  // The lock is the waiter's now, although that has not run yet.
  EXPECT_TRUE(mutex.is_locked());
  EXPECT_FALSE(mutex.try_lock());
  auto late = spawn(world.executor, visitors.visit("late"));
  world.executor.drain();
  EXPECT_THAT(visitors.log, ElementsAre("first in line", "late"));
}

TEST(Mutex, DoesNotResumeTheNextInsideTheRelease) {
  World world;
  Mutex mutex;
  Visitors visitors{world, mutex};
  auto hold = mutex.try_lock();
  auto waiter = world.start(visitors.visit("next"));
  hold->release();
  EXPECT_TRUE(visitors.log.empty());
  world.executor.drain();
  EXPECT_THAT(visitors.log, ElementsAre("next"));
}

TEST(Mutex, TryLockTakesItOnlyIfItIsFree) {
  Mutex mutex;
  auto first = mutex.try_lock();
  ASSERT_TRUE(first);
  EXPECT_FALSE(mutex.try_lock());
  first->release();
  EXPECT_TRUE(mutex.try_lock());
}

TEST(Hold, ReleasesAtTheEndOfItsScopeAndWhenItIsOverwritten) {
  Mutex a;
  Mutex b;
  {
    Hold hold = *a.try_lock();
    EXPECT_TRUE(hold);
    hold = *b.try_lock();
    EXPECT_FALSE(a.is_locked());
    EXPECT_TRUE(b.is_locked());
    Hold moved = std::move(hold);
    EXPECT_TRUE(b.is_locked());
    EXPECT_TRUE(moved);
  }
  EXPECT_FALSE(b.is_locked());
}

TEST(Hold, ReleasesWhenAnExceptionPasses) {
  World world;
  Mutex mutex;
  const auto body = [](Mutex& lock) -> Task<void> {
    const Hold hold = co_await lock.lock();
    throw std::runtime_error("in the critical section");
  };
  EXPECT_THROW(world.run(body(mutex)), std::runtime_error);
  EXPECT_FALSE(mutex.is_locked());
}

TEST(HoldDeathTest, ReleasedTwiceIsNamed) {
  Mutex mutex;
  Hold hold = *mutex.try_lock();
  hold.release();
  EXPECT_DEATH(hold.release(), "a Hold was released that holds nothing");
  Hold empty;
  EXPECT_DEATH(empty.release(), "a Hold was released that holds nothing");
}

TEST(Mutex, ATimeOutLeavesTheQueueAndHoldsNothing) {
  World world;
  Mutex mutex({.name = "orders"});
  Visitors visitors{world, mutex};
  auto hold = mutex.try_lock();
  auto late = world.start(visitors.visit("late", {.timeout = 5s}));
  auto patient = world.start(visitors.visit("patient"));
  world.advance(5s - 1ns);
  EXPECT_FALSE(late.ended());
  world.advance(1ns);
  EXPECT_EQ(error_text<TimedOut>([&] { late.get(); }),
            "the deadline passed while waiting for Mutex 'orders'");
  EXPECT_EQ(mutex.queue_length(), 1U);
  hold->release();
  world.executor.drain();
  EXPECT_THAT(visitors.log, ElementsAre("patient"));
  EXPECT_EQ(world.clock.armed_count(), 0U);
}

TEST(Mutex, AGrantBeforeTheTimeOutStandsAndOneAfterItGoesToTheNext) {
  World world;
  Mutex mutex;
  Visitors visitors{world, mutex};
  auto hold = mutex.try_lock();
  auto first = world.start(visitors.visit("first", {.timeout = 1s}));
  auto second = world.start(visitors.visit("second"));
  hold->release();          // Granted, not resumed yet …
  world.clock.advance(2s);  // … when its time is over.
  world.executor.drain();
  first.get();
  EXPECT_THAT(visitors.log, ElementsAre("first", "second"));

  hold = mutex.try_lock();
  auto third = world.start(visitors.visit("third", {.timeout = 1s}));
  auto fourth = world.start(visitors.visit("fourth"));
  world.clock.advance(1s);  // Timed out, not resumed yet …
  hold->release();          // … when the lock comes free.
  world.executor.drain();
  EXPECT_THROW(third.get(), TimedOut);
  EXPECT_THAT(visitors.log, ElementsAre("first", "second", "fourth"));
  EXPECT_FALSE(mutex.is_locked());
}

TEST(Mutex, ADeadlineCountsLikeATimeOutAndTheEarlierWins) {
  World world;
  Mutex mutex;
  Visitors visitors{world, mutex};
  const TimePoint start = world.clock.now();
  auto hold = mutex.try_lock();
  auto a = world.start(visitors.visit("a", {.deadline = start + 2s}));
  auto b = world.start(visitors.visit("b", {.timeout = 1s, .deadline = start + 2s}));
  auto c = world.start(visitors.visit("c", {.timeout = 3s, .deadline = start + 2s}));
  world.advance(1s);
  EXPECT_TRUE(b.ended());
  EXPECT_FALSE(a.ended());
  world.advance(1s);
  EXPECT_TRUE(a.ended());
  EXPECT_TRUE(c.ended());
  for (auto* task : {&a, &b, &c}) {
    EXPECT_THROW(task->get(), TimedOut);
  }
}

TEST(Mutex, AZeroTimeOutTakesAFreeLockAndNeverWaits) {
  World world;
  Mutex mutex;
  Visitors visitors{world, mutex};
  world.run(visitors.visit("free", {.timeout = 0s}));
  auto hold = mutex.try_lock();
  auto task = world.start(visitors.visit("busy", {.timeout = 0s}));
  EXPECT_TRUE(task.ended());
  EXPECT_THROW(task.get(), TimedOut);
  EXPECT_THAT(visitors.log, ElementsAre("free"));
}

TEST(Mutex, ANegativeTimeOutIsRefusedAtTheCall) {
  Mutex mutex;
  EXPECT_EQ(error_text<InvalidArgument>([&] { auto op = mutex.lock({.timeout = -5ns}); }),
            "WaitOptions: a timeout of -5 ns is negative; give zero (do not wait) or more");
}

TEST(Mutex, ATimeOutLongerThanTimeItselfIsForEver) {
  World world;
  Mutex mutex;
  Visitors visitors{world, mutex};
  auto hold = mutex.try_lock();
  auto task = world.start(visitors.visit("a", {.timeout = Duration::max()}));
  world.advance(24h);
  hold->release();
  world.executor.drain();
  EXPECT_THAT(visitors.log, ElementsAre("a"));
}

TEST(Mutex, AStopTokenEndsOneWait) {
  World world;
  Mutex mutex({.name = "orders"});
  Visitors visitors{world, mutex};
  std::stop_source source;
  auto hold = mutex.try_lock();
  auto first = world.start(visitors.visit("first", {}, source.get_token()));
  auto second = world.start(visitors.visit("second"));
  source.request_stop();
  world.executor.drain();
  EXPECT_EQ(error_text<Cancelled>([&] { first.get(); }),
            "asked to stop while waiting for Mutex 'orders'");
  hold->release();
  world.executor.drain();
  EXPECT_THAT(visitors.log, ElementsAre("second"));
}

TEST(Mutex, AStopOfTheTaskEndsItsWait) {
  World world;
  Mutex mutex;
  Visitors visitors{world, mutex};
  auto hold = mutex.try_lock();
  auto task = world.start(visitors.visit("a"));
  task.request_stop();
  world.executor.drain();
  EXPECT_THROW(task.get(), Cancelled);
  EXPECT_EQ(mutex.queue_length(), 0U);
}

TEST(Mutex, OneWhoWasStoppedBeforeDoesNotTakeEvenAFreeLock) {
  World world;
  Mutex mutex({.name = "orders"});
  Visitors visitors{world, mutex};
  std::stop_source source;
  source.request_stop();
  auto by_token = world.start(visitors.visit("a", {}, source.get_token()));
  EXPECT_EQ(error_text<Cancelled>([&] { by_token.get(); }),
            "asked to stop while waiting for Mutex 'orders'");
  auto by_task = world.start(visitors.visit("b"), {}, source.get_token());
  EXPECT_THROW(by_task.get(), Cancelled);
  EXPECT_THROW(auto hold = mutex.lock({}, source.get_token()).wait(), Cancelled);
  EXPECT_TRUE(visitors.log.empty());
  EXPECT_FALSE(mutex.is_locked());
}

TEST(Mutex, RunExclusiveHoldsTheLockAndReturnsTheValue) {
  World world;
  Mutex mutex;
  const auto body = [](Mutex& lock) -> Task<std::string> {
    const std::string prefix = "a text that is too long for the small string buffer: ";
    auto operation = lock.run_exclusive(
        [prefix, &lock] { return prefix + (lock.is_locked() ? "locked" : "not locked"); });
    auto text = co_await operation;
    co_return text;
  };
  EXPECT_THAT(world.run(body(mutex)), HasSubstr(": locked"));
  EXPECT_FALSE(mutex.is_locked());
}

TEST(Mutex, RunExclusiveAwaitsATaskWhileHoldingTheLock) {
  World world;
  Mutex mutex;
  std::vector<std::string> log;
  const auto work = [](std::vector<std::string>& lines, std::string name) -> Task<int> {
    lines.push_back(name + " in");
    co_await this_task::sleep_for(1s);
    lines.push_back(name + " out");
    co_return 1;
  };
  const auto body = [&](std::string name) -> Task<int> {
    auto operation = mutex.run_exclusive([&log, &work, name] { return work(log, name); });
    const int value = co_await operation;
    co_return value;
  };
  auto a = world.start(body("a"));
  auto b = world.start(body("b"));
  world.advance(1s);
  world.advance(1s);
  EXPECT_EQ(a.get() + b.get(), 2);
  EXPECT_THAT(log, ElementsAre("a in", "a out", "b in", "b out"));
}

TEST(Mutex, RunExclusiveReleasesWhenTheFunctionThrows) {
  World world;
  Mutex mutex;
  const auto body = [](Mutex& lock) -> Task<void> {
    co_await lock.run_exclusive([] { throw std::runtime_error("no"); });
  };
  EXPECT_EQ(error_text<std::runtime_error>([&] { world.run(body(mutex)); }), "no");
  EXPECT_FALSE(mutex.is_locked());
  EXPECT_EQ(mutex.run_exclusive([] { return 5; }).wait(), 5);
}

TEST(Mutex, ABlockedThreadGetsTheLockInItsTurn) {
  World world;
  Mutex mutex;
  Visitors visitors{world, mutex};
  auto hold = mutex.try_lock();
  auto before = world.start(visitors.visit("task before"));
  std::thread thread([&] {
    const Hold mine = mutex.lock().wait();
    visitors.log.emplace_back("thread");
  });
  while (mutex.queue_length() < 2) {
    std::this_thread::yield();
  }
  auto after = spawn(world.executor, visitors.visit("task after"));
  world.executor.run_one();
  EXPECT_EQ(mutex.queue_length(), 3U);
  hold->release();
  world.executor.drain();
  thread.join();
  world.executor.drain();
  EXPECT_THAT(visitors.log, ElementsAre("task before", "thread", "task after"));
}

TEST(Mutex, ABlockedThreadTimesOutAndCanBeStopped) {
  Mutex mutex({.name = "orders"});
  auto hold = mutex.try_lock();
  EXPECT_EQ(error_text<TimedOut>([&] { auto mine = mutex.lock({.timeout = 1ms}).wait(); }),
            "the deadline passed while waiting for Mutex 'orders'");
  std::stop_source source;
  auto blocked = std::async(std::launch::async, [&] {
    return error_text<Cancelled>([&] { auto mine = mutex.lock({}, source.get_token()).wait(); });
  });
  while (mutex.queue_length() < 1) {
    std::this_thread::yield();
  }
  source.request_stop();
  EXPECT_EQ(blocked.get(), "asked to stop while waiting for Mutex 'orders'");
  EXPECT_EQ(mutex.queue_length(), 0U);
}

TEST(Mutex, BlockingInsideATaskIsRefused) {
  World world;
  Mutex mutex;
  const auto body = [](Mutex& lock) -> Task<std::string> {
    co_return error_text<WrongContext>([&] { auto hold = lock.lock().wait(); });
  };
  EXPECT_THAT(world.run(body(mutex)), HasSubstr("wait() would block the thread that runs"));
  EXPECT_FALSE(mutex.is_locked());
}

TEST(Mutex, DestroyingItEndsAllWaitsAndHoldsMayOutliveIt) {
  World world;
  auto mutex = std::make_unique<Mutex>(SyncOptions{.name = "orders"});
  Visitors visitors{world, *mutex};
  auto hold = mutex->try_lock();
  auto first = world.start(visitors.visit("first"));
  auto second = world.start(visitors.visit("second", {.timeout = 1h}));
  std::string blocked_text;
  std::thread blocked([&, operation = &*mutex] {
    blocked_text = error_text<Closed>([&] { auto mine = operation->lock().wait(); });
  });
  while (mutex->queue_length() < 3) {
    std::this_thread::yield();
  }
  mutex.reset();
  world.executor.drain();
  blocked.join();
  for (auto* task : {&first, &second}) {
    EXPECT_EQ(error_text<Closed>([&] { task->get(); }),
              "Mutex 'orders' was destroyed while this waited for it");
  }
  EXPECT_EQ(blocked_text, "Mutex 'orders' was destroyed while this waited for it");
  EXPECT_EQ(world.clock.armed_count(), 0U);
  hold->release();
}

TEST(Mutex, AnOperationAwaitedAfterItsLockWasDestroyedEndsWithAnError) {
  World world;
  auto mutex = std::make_unique<Mutex>();
  auto awaited = mutex->lock();
  auto waited = mutex->lock();
  auto with_options = mutex->lock({.timeout = 1h});
  mutex.reset();
  const Mutex next;  // Takes the place of the destroyed one, and must not be taken for it.
  const auto body = [](Acquire& operation) -> Task<void> { const Hold hold = co_await operation; };
  const std::string text = "the lock was destroyed before this operation was awaited";
  EXPECT_EQ(error_text<Closed>([&] { world.run(body(awaited)); }), text);
  EXPECT_EQ(error_text<Closed>([&] { world.run(body(with_options)); }), text);
  EXPECT_EQ(error_text<Closed>([&] { auto hold = waited.wait(); }), text);
  EXPECT_FALSE(next.is_locked());
  EXPECT_EQ(world.clock.armed_count(), 0U);
}

TEST(Mutex, AHoldThatOutlivedItsLockDoesNotReleaseTheNextOne) {
  auto mutex = std::make_unique<Mutex>();
  Hold old = *mutex->try_lock();
  mutex.reset();
  std::vector<std::unique_ptr<Mutex>> others;
  std::vector<Hold> holds;
  for (int i = 0; i < 10; ++i) {
    others.push_back(std::make_unique<Mutex>());
    holds.push_back(*others.back()->try_lock());
  }
  old.release();
  for (const auto& other : others) {
    EXPECT_TRUE(other->is_locked());
  }
}

TEST(Mutex, ABoundedQueueRejectsTheOneTooMany) {
  World world;
  Mutex mutex({.name = "orders", .queue = QueueLimit::reject(1)});
  Visitors visitors{world, mutex};
  auto hold = mutex.try_lock();
  auto waits = world.start(visitors.visit("waits"));
  auto rejected = world.start(visitors.visit("rejected"));
  EXPECT_EQ(error_text<QueueFull>([&] { rejected.get(); }),
            "the queue of Mutex 'orders' is full; try again later");
  hold->release();
  world.executor.drain();
  EXPECT_THAT(visitors.log, ElementsAre("waits"));
}

TEST(Mutex, AQueueOfLengthZeroNeverWaits) {
  World world;
  Mutex mutex({.queue = QueueLimit::reject(0)});
  Visitors visitors{world, mutex};
  world.run(visitors.visit("free"));
  auto hold = mutex.try_lock();
  auto busy = world.start(visitors.visit("busy"));
  EXPECT_THROW(busy.get(), QueueFull);
}

TEST(Mutex, ABoundedQueueCanDropTheOldestOfTheLowestPriority) {
  World world;
  Mutex mutex({.name = "orders", .queue = QueueLimit::drop_oldest(2)});
  Visitors visitors{world, mutex};
  auto hold = mutex.try_lock();
  auto high = world.start(visitors.visit("high", {.priority = 1}));
  auto old = world.start(visitors.visit("old"));
  auto young = world.start(visitors.visit("young"));
  EXPECT_EQ(error_text<Dropped>([&] { old.get(); }),
            "dropped from the full queue of Mutex 'orders' for a newer waiter");
  auto below_all = world.start(visitors.visit("below all", {.priority = -1}));
  EXPECT_THROW(below_all.get(), QueueFull);
  hold->release();
  world.executor.drain();
  EXPECT_THAT(visitors.log, ElementsAre("high", "young"));
}

TEST(Mutex, RefusesOptionsThatMeanNothing) {
  VirtualClock clock;
  EXPECT_THROW(Mutex({.queue = QueueLimit::drop_oldest(0)}), InvalidArgument);
  EXPECT_THROW(Mutex({.held_long = 1s}), InvalidArgument);
  EXPECT_THROW(Mutex({.measure = &clock, .held_long = 1s}), InvalidArgument);
  EXPECT_THROW(
      Mutex({.measure = &clock, .held_long = 0s, .on_held_long = [](const HoldWarning&) {}}),
      InvalidArgument);
}

TEST(Mutex, AThreadThatWillNotWaitDropsNobodyFromAFullQueue) {
  VirtualClock clock;
  ManualExecutor executor(clock);
  Mutex mutex({.queue = QueueLimit::drop_oldest(1)});
  auto held = mutex.try_lock();
  auto waits = spawn(executor, [](Mutex& lock) -> Task<bool> {
    const Hold hold = co_await lock.lock();
    co_return static_cast<bool>(hold);
  }(mutex));
  executor.drain();
  EXPECT_THROW(static_cast<void>(mutex.lock({.timeout = 0s}).wait()), TimedOut);
  EXPECT_EQ(mutex.queue_length(), 1U);
  held->release();
  executor.drain();
  EXPECT_TRUE(waits.get());
}

TEST(MutexDeathTest, AnOperationAwaitedTwiceIsNamed) {
  const auto twice = [](Mutex& mutex) -> Task<void> {
    auto operation = mutex.lock({.timeout = 0s});
    try {
      const Hold hold = co_await operation;
    } catch (const TimedOut&) {
    }
    const Hold hold = co_await operation;
  };
  EXPECT_DEATH(
      {
        World world;
        Mutex mutex;
        auto hold = mutex.try_lock();
        world.run(twice(mutex));
      },
      "an acquisition was awaited twice");
}

}  // namespace
}  // namespace holdfast
