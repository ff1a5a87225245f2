// SPDX-License-Identifier: Apache-2.0
#include <holdfast/lock_all.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include <holdfast/mutex.hpp>
#include <holdfast/rate_limiter.hpp>
#include <holdfast/semaphore.hpp>
#include <holdfast/shared_mutex.hpp>
#include <holdfast/this_task.hpp>

#include "coro/test_world.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using testing::error_text;
using testing::World;

TEST(LockAll, TakesEveryLockAndGivesTheHoldsInTheOrderOfTheArguments) {
  World world;
  Mutex a;
  Mutex b;
  const auto body = [](Mutex& first, Mutex& second) -> Task<void> {
    auto [second_hold, first_hold] = co_await lock_all(second, first);
    EXPECT_TRUE(first.is_locked() && second.is_locked());
    second_hold.release();
    EXPECT_TRUE(first.is_locked() && !second.is_locked());
  };
  world.run(body(a, b));
  EXPECT_FALSE(a.is_locked());
}

TEST(LockAll, MixesKindsWeightsAndReaders) {
  World world;
  Mutex mutex;
  Semaphore semaphore(5);
  SharedMutex shared;
  RateLimiter limiter(world.clock, {.at_once = 1});
  const auto body = [&]() -> Task<void> {
    const auto holds =
        co_await lock_all(mutex, semaphore.request(3), shared.shared_request(), limiter.request());
    EXPECT_EQ(semaphore.available(), 2);
    EXPECT_EQ(shared.reader_count(), 1U);
    EXPECT_EQ(limiter.available(), 0);
  };
  world.run(body());
  EXPECT_EQ(semaphore.available(), 5);
  EXPECT_EQ(shared.reader_count(), 0U);
}

TEST(LockAll, IsAllOrNothingWithOneTimeOutForAll) {
  World world;
  Mutex a;
  Mutex b;
  auto busy_a = a.try_lock();
  auto busy_b = b.try_lock();
  const auto body = [](Mutex& first, Mutex& second) -> Task<void> {
    const auto holds = co_await lock_all(WaitOptions{.timeout = 3s}, {}, first, second);
  };
  auto task = world.start(body(a, b));
  world.advance(2s);
  busy_a->release();
  world.executor.drain();
  EXPECT_EQ(b.queue_length(), 1U) << "it has a, and waits for b";
  world.advance(1s);
  EXPECT_THROW(task.get(), TimedOut);
  EXPECT_FALSE(a.is_locked());
  EXPECT_EQ(b.queue_length(), 0U);
}

TEST(LockAll, AStopReleasesWhatWasTaken) {
  World world;
  Mutex a;
  Mutex b;
  auto busy = b.try_lock();
  const auto body = [](Mutex& first, Mutex& second) -> Task<void> {
    const auto holds = co_await lock_all(first, second);
  };
  auto task = world.start(body(a, b));
  EXPECT_TRUE(a.is_locked());
  task.request_stop();
  world.executor.drain();
  EXPECT_THROW(task.get(), Cancelled);
  EXPECT_FALSE(a.is_locked());
}

TEST(LockAll, OppositeOrdersNeverDeadlockWhateverTheInterleaving) {
  for (std::uint64_t seed = 0; seed < 1'000; ++seed) {
    VirtualClock clock;
    SeededExecutor executor(clock, seed);
    Mutex a;
    Mutex b;
    const auto body = [](Mutex& first, Mutex& second) -> Task<void> {
      for (int i = 0; i < 5; ++i) {
        const auto holds = co_await lock_all(first, second);
        co_await this_task::yield();
      }
    };
    auto one = spawn(executor, body(a, b));
    auto two = spawn(executor, body(b, a));
    executor.drain();
    ASSERT_TRUE(one.ended() && two.ended()) << "seed " << seed;
  }
}

TEST(LockAll, TheSameLockTwiceIsRefusedAtTheCall) {
  Mutex a;
  Mutex b;
  EXPECT_EQ(error_text<InvalidArgument>([&] { auto op = lock_all(a, b, a); }),
            "lock_all: arguments 1 and 3 are the same lock, which would wait for itself; give it "
            "once");
  EXPECT_FALSE(a.is_locked());
}

TEST(LockAll, ThreadsUseItToo) {
  Mutex a;
  Mutex b;
  int counter = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 1'000; ++i) {
        const auto holds = t % 2 == 0 ? lock_all(a, b).wait() : lock_all(b, a).wait();
        ++counter;
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(counter, 4'000);
}

TEST(LockAll, TakesAListThatIsKnownAtRunTime) {
  World world;
  std::vector<std::unique_ptr<Mutex>> mutexes;
  std::vector<AcquireRequest> requests;
  for (int i = 0; i < 5; ++i) {
    mutexes.push_back(std::make_unique<Mutex>());
    requests.insert(requests.begin(), mutexes.back()->request());
  }
  const auto body = [&](const auto& list) -> Task<void> {
    auto holds = co_await lock_all(list);
    holds.front().release();
    EXPECT_FALSE(mutexes.back()->is_locked()) << "in the order of the list";
    EXPECT_TRUE(mutexes.front()->is_locked());
  };
  world.run(body(requests));
  EXPECT_FALSE(mutexes.front()->is_locked());
  requests.push_back(requests.front());
  EXPECT_THROW(world.run(body(requests)), InvalidArgument);
  EXPECT_TRUE(world.run(lock_all(std::vector<AcquireRequest>{})).empty());
}

}  // namespace
}  // namespace holdfast
