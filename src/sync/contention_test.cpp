// SPDX-License-Identifier: Apache-2.0
#include <holdfast/contention.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <holdfast/keyed_mutex.hpp>
#include <holdfast/mutex.hpp>
#include <holdfast/semaphore.hpp>
#include <holdfast/this_task.hpp>

#include "coro/test_world.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::error_text;
using testing::World;

Task<void> hold_for(Mutex& mutex, Duration duration, WaitOptions options = {}) {
  const Hold hold = co_await mutex.lock(options);
  co_await this_task::sleep_for(duration);
}

TEST(Contention, CountsAcquisitionsWaitsHoldsAndTheirTimes) {
  World world;
  Mutex mutex({.name = "orders", .measure = &world.clock});
  auto first = world.start(hold_for(mutex, 3s), {.name = "first"});
  auto second = world.start(hold_for(mutex, 1s), {.name = "second"});
  auto now = mutex.contention();
  EXPECT_EQ(now.acquisitions, 1U);
  EXPECT_EQ(now.waits, 1U);
  world.advance(2s);
  now = mutex.contention();
  EXPECT_EQ(now.longest_current.holder, "first");
  EXPECT_EQ(now.longest_current.held, 2s);
  EXPECT_EQ(now.longest.holder, "");
  world.advance(1s);
  world.advance(1s);
  now = mutex.contention();
  EXPECT_EQ(now.acquisitions, 2U);
  EXPECT_EQ(now.waits, 1U);
  EXPECT_EQ(now.wait.count(), 1U);
  EXPECT_EQ(now.wait.max(), 3s);
  EXPECT_EQ(now.hold.count(), 2U);
  EXPECT_EQ(now.hold.total(), 4s);
  EXPECT_EQ(now.longest.holder, "first");
  EXPECT_EQ(now.longest.held, 3s);
  EXPECT_EQ(now.longest_current.holder, "");
}

TEST(Contention, CountsThoseWhoGaveUpByTheirReason) {
  World world;
  Mutex mutex({.queue = QueueLimit::reject(2), .measure = &world.clock});
  auto hold = mutex.try_lock();
  auto late = world.start(hold_for(mutex, 0s, {.timeout = 1s}));
  auto stopped = world.start(hold_for(mutex, 0s));
  auto rejected = world.start(hold_for(mutex, 0s));
  stopped.request_stop();
  world.advance(1s);
  const auto now = mutex.contention();
  EXPECT_EQ(now.acquisitions, 1U);
  EXPECT_EQ(now.waits, 2U);
  EXPECT_EQ(now.timeouts, 1U);
  EXPECT_EQ(now.cancellations, 1U);
  EXPECT_EQ(now.overflows, 1U);
  EXPECT_FALSE(mutex.try_lock());
  EXPECT_EQ(mutex.contention().acquisitions, 1U);
  EXPECT_THROW(late.get(), TimedOut);
  EXPECT_THROW(stopped.get(), Cancelled);
  EXPECT_THROW(rejected.get(), QueueFull);
}

TEST(Contention, WarnsOfAHoldThatLastsTooLongWhileItLasts) {
  World world;
  std::vector<std::string> warnings;
  Mutex mutex({.name = "orders",
               .measure = &world.clock,
               .held_long = 5s,
               .on_held_long = [&](const HoldWarning& warning) {
                 warnings.push_back(warning.holder + " holds " + warning.what + " for " +
                                    std::to_string(warning.held / 1s) + " s");
               }});
  auto quick = world.start(hold_for(mutex, 4s), {.name = "quick"});
  auto slow = world.start(hold_for(mutex, 20s), {.name = "slow"});
  world.advance(4s);
  world.advance(4s);
  EXPECT_TRUE(warnings.empty());
  world.advance(1s);
  EXPECT_THAT(warnings, ElementsAre("slow holds Mutex 'orders' for 5 s"));
  world.advance(1h);
  EXPECT_EQ(warnings.size(), 1U) << "once for each hold";
  EXPECT_TRUE(slow.ended());
}

TEST(Contention, WarnsOfEachOfManyHolders) {
  World world;
  std::vector<std::string> warned;
  Semaphore semaphore(
      3, {.measure = &world.clock,
          .held_long = 2s,
          .on_held_long = [&](const HoldWarning& warning) { warned.push_back(warning.holder); }});
  const auto body = [](Semaphore& limit) -> Task<void> {
    const Hold hold = co_await limit.acquire();
    co_await this_task::sleep_for(1h);
  };
  auto a = world.start(body(semaphore), {.name = "a"});
  world.advance(1s);
  auto b = world.start(body(semaphore), {.name = "b"});
  world.advance(1s);
  EXPECT_THAT(warned, ElementsAre("a"));
  world.advance(1s);
  EXPECT_THAT(warned, ElementsAre("a", "b"));
  world.advance(1h);
}

TEST(Contention, AKeyedLockCountsAllItsKeysTogether) {
  World world;
  KeyedMutex<int> mutex({.measure = &world.clock});
  for (int key = 0; key < 10; ++key) {
    auto hold = mutex.try_lock(key);
    world.advance(1s);
  }
  EXPECT_EQ(mutex.contention().acquisitions, 10U);
  EXPECT_EQ(mutex.contention().hold.total(), 10s);
}

TEST(Contention, NotMeasuredIsAnErrorThatSaysHow) {
  Mutex mutex({.name = "orders"});
  EXPECT_EQ(error_text<InvalidArgument>([&] { static_cast<void>(mutex.contention()); }),
            "Mutex 'orders': contention is not measured; give SyncOptions::measure a clock");
}

TEST(Contention, LateHoldersOfADestroyedLockTouchNoClock) {
  auto clock = std::make_unique<VirtualClock>();
  auto mutex = std::make_unique<KeyedMutex<int>>(
      SyncOptions{.measure = clock.get(), .held_long = 1s, .on_held_long = [](const auto&) {}});
  auto a = mutex->try_lock(1);
  auto b = mutex->try_lock(2);
  mutex.reset();
  EXPECT_EQ(clock->armed_count(), 0U);
  clock.reset();
  a->release();
  b->release();
}

}  // namespace
}  // namespace holdfast
