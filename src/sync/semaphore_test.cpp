// SPDX-License-Identifier: Apache-2.0
#include <holdfast/semaphore.hpp>

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

/// Tasks that take some units, note it, and keep them until told.
struct Takers {
  World& world;
  Semaphore& semaphore;
  std::vector<std::string> log{};
  std::map<std::string, Hold> held{};

  Task<void> take(std::string name, std::int64_t weight, WaitOptions options = {}) {
    Hold hold = co_await semaphore.acquire(weight, options);
    log.push_back(name);
    held[name] = std::move(hold);
  }
  void release(const std::string& name) { held.erase(name); }
  testing::EndTasks end_tasks{world};
};

TEST(Semaphore, LetsInAsManyAsItHasUnits) {
  World world;
  Semaphore semaphore(3);
  Takers takers{world, semaphore};
  auto a = world.start(takers.take("a", 1));
  auto b = world.start(takers.take("b", 2));
  auto c = world.start(takers.take("c", 1));
  EXPECT_THAT(takers.log, ElementsAre("a", "b"));
  EXPECT_EQ(semaphore.available(), 0);
  EXPECT_TRUE(semaphore.is_locked());
  EXPECT_EQ(semaphore.queue_length(), 1U);
  takers.release("b");
  world.executor.drain();
  EXPECT_THAT(takers.log, ElementsAre("a", "b", "c"));
  EXPECT_EQ(semaphore.available(), 1);
}

TEST(Semaphore, RefusesACapacityBelowOneOrBeyondItsRange) {
  EXPECT_EQ(error_text<InvalidArgument>([] { const Semaphore semaphore(0, {.name = "gpus"}); }),
            "Semaphore 'gpus': a capacity of 0 is out of range; give 1 to 1073741824");
  EXPECT_THROW(Semaphore(-1), InvalidArgument);
  EXPECT_THROW(Semaphore(std::int64_t{1} << 31), InvalidArgument);
  Semaphore semaphore(2);
  EXPECT_THROW(semaphore.set_capacity(0), InvalidArgument);
  EXPECT_THROW(semaphore.set_capacity(-3), InvalidArgument);
  EXPECT_EQ(semaphore.capacity(), 2);
}

TEST(Semaphore, RefusesAWeightBelowOneAndOneThatCanNeverBe) {
  World world;
  Semaphore semaphore(2, {.name = "gpus"});
  Takers takers{world, semaphore};
  EXPECT_EQ(error_text<InvalidArgument>([&] { auto op = semaphore.acquire(0); }),
            "Semaphore 'gpus': a weight of 0 means nothing; give at least 1");
  EXPECT_THROW(auto op = semaphore.acquire(-1), InvalidArgument);
  auto task = world.start(takers.take("a", 3));
  EXPECT_TRUE(task.ended()) << "refused at once, without waiting";
  EXPECT_EQ(error_text<Unsatisfiable>([&] { task.get(); }),
            "Semaphore 'gpus' can never give 3 at once: its limit is 2");
  EXPECT_THROW(static_cast<void>(semaphore.try_acquire(3)), Unsatisfiable);
  EXPECT_THROW(static_cast<void>(semaphore.try_acquire(std::int64_t{1} << 40)), Unsatisfiable);
}

TEST(Semaphore, AHeavyOneAtTheHeadHoldsUpThoseBehindIt) {
  World world;
  Semaphore semaphore(3);
  Takers takers{world, semaphore};
  auto a = world.start(takers.take("a", 2));
  auto heavy = world.start(takers.take("heavy", 3));
  auto light = world.start(takers.take("light", 1));
  EXPECT_THAT(takers.log, ElementsAre("a"));
  EXPECT_FALSE(semaphore.try_acquire(1)) << "a try does not slip in either";
  takers.release("a");
  world.executor.drain();
  EXPECT_THAT(takers.log, ElementsAre("a", "heavy"));
  takers.release("heavy");
  world.executor.drain();
  EXPECT_THAT(takers.log, ElementsAre("a", "heavy", "light"));
}

TEST(Semaphore, WhenTheHeavyHeadGivesUpThoseBehindItAreServed) {
  World world;
  Semaphore semaphore(3);
  Takers takers{world, semaphore};
  auto a = world.start(takers.take("a", 2));
  auto heavy = world.start(takers.take("heavy", 3, {.timeout = 1s}));
  auto light = world.start(takers.take("light", 1));
  world.advance(1s);
  EXPECT_THROW(heavy.get(), TimedOut);
  EXPECT_THAT(takers.log, ElementsAre("a", "light"));
}

TEST(Semaphore, BackfillLetsLighterOnesPassSoManyTimesAndNoMore) {
  World world;
  Semaphore semaphore(3, {.overtakes_max = 2});
  Takers takers{world, semaphore};
  auto a = world.start(takers.take("a", 2));
  auto heavy = world.start(takers.take("heavy", 3));
  std::vector<Spawned<void>> lights;
  for (int i = 0; i < 5; ++i) {
    const std::string name = "light" + std::to_string(i);
    lights.push_back(world.start(takers.take(name, 1)));
    takers.release(name);
    world.executor.drain();
  }
  EXPECT_THAT(takers.log, ElementsAre("a", "light0", "light1"));
  takers.release("a");
  world.executor.drain();
  EXPECT_EQ(takers.log[3], "heavy");
  takers.release("heavy");
  world.executor.drain();
  EXPECT_THAT(takers.log,
              ElementsAre("a", "light0", "light1", "heavy", "light2", "light3", "light4"));
}

TEST(Semaphore, BackfillCountsForEveryoneWhoIsPassed) {
  World world;
  Semaphore semaphore(4, {.overtakes_max = 1});
  Takers takers{world, semaphore};
  auto a = world.start(takers.take("a", 3));
  auto first = world.start(takers.take("heavy1", 4));
  auto second = world.start(takers.take("heavy2", 4));
  auto passes = world.start(takers.take("light1", 1));
  EXPECT_THAT(takers.log, ElementsAre("a", "light1"));
  takers.release("light1");
  auto waits = world.start(takers.take("light2", 1));
  takers.release("a");
  world.executor.drain();
  takers.release("heavy1");
  world.executor.drain();
  EXPECT_EQ(takers.log.back(), "heavy2") << "it was passed once already";
  takers.release("heavy2");
  world.executor.drain();
  EXPECT_EQ(takers.log.back(), "light2");
}

TEST(Semaphore, RaisingTheCapacityWakesAllWhoNowFit) {
  World world;
  Semaphore semaphore(1);
  Takers takers{world, semaphore};
  std::vector<Spawned<void>> tasks;
  for (const char* name : {"a", "b", "c", "d"}) {
    tasks.push_back(world.start(takers.take(name, 1)));
  }
  EXPECT_THAT(takers.log, ElementsAre("a"));
  semaphore.set_capacity(3);
  world.executor.drain();
  EXPECT_THAT(takers.log, ElementsAre("a", "b", "c"));
  EXPECT_EQ(semaphore.capacity(), 3);
}

TEST(Semaphore, LoweringTheCapacityRevokesNothingAndWaitsForReleases) {
  World world;
  Semaphore semaphore(3);
  Takers takers{world, semaphore};
  std::vector<Spawned<void>> tasks;
  for (const char* name : {"a", "b", "c", "d"}) {
    tasks.push_back(world.start(takers.take(name, 1)));
  }
  semaphore.set_capacity(1);
  EXPECT_EQ(takers.held.size(), 3U);
  EXPECT_EQ(semaphore.available(), 0);
  takers.release("a");
  takers.release("b");
  world.executor.drain();
  EXPECT_THAT(takers.log, ElementsAre("a", "b", "c")) << "one is still in, and one is the limit";
  EXPECT_EQ(semaphore.available(), 0);
  takers.release("c");
  world.executor.drain();
  EXPECT_THAT(takers.log, ElementsAre("a", "b", "c", "d"));
}

TEST(Semaphore, LoweringAndRaisingWithoutWaitersKeepsCount) {
  Semaphore semaphore(3);
  auto a = semaphore.try_acquire(3);
  semaphore.set_capacity(1);
  EXPECT_FALSE(semaphore.try_acquire());
  a->release();
  EXPECT_EQ(semaphore.available(), 1);
  auto b = semaphore.try_acquire();
  EXPECT_TRUE(b);
  EXPECT_FALSE(semaphore.try_acquire());
  semaphore.set_capacity(2);
  EXPECT_TRUE(semaphore.try_acquire());
}

TEST(Semaphore, LoweringTheCapacityBelowAWaitersWeightEndsItsWait) {
  World world;
  Semaphore semaphore(3, {.name = "gpus"});
  Takers takers{world, semaphore};
  auto a = world.start(takers.take("a", 2));
  auto heavy = world.start(takers.take("heavy", 3));
  auto light = world.start(takers.take("light", 1));
  semaphore.set_capacity(2);
  world.executor.drain();
  EXPECT_EQ(error_text<Unsatisfiable>([&] { heavy.get(); }),
            "Semaphore 'gpus' can never give 3 at once: its limit is 2");
  takers.release("a");
  world.executor.drain();
  EXPECT_THAT(takers.log, ElementsAre("a", "light"));
}

TEST(Semaphore, APriorityNewcomerThatFitsPassesAHeavyHead) {
  World world;
  Semaphore semaphore(3);
  Takers takers{world, semaphore};
  auto a = world.start(takers.take("a", 2));
  auto heavy = world.start(takers.take("heavy", 3));
  auto urgent = world.start(takers.take("urgent", 1, {.priority = 5}));
  EXPECT_THAT(takers.log, ElementsAre("a", "urgent"));
}

TEST(Semaphore, RunExclusiveHoldsItsUnits) {
  World world;
  Semaphore semaphore(3);
  const auto body = [](Semaphore& limit) -> Task<std::int64_t> {
    const auto left = co_await limit.run_exclusive([&limit] { return limit.available(); }, 2);
    co_return left;
  };
  EXPECT_EQ(world.run(body(semaphore)), 1);
  EXPECT_EQ(semaphore.available(), 3);
}

TEST(Semaphore, DestroyingItEndsAllWaits) {
  World world;
  auto semaphore = std::make_unique<Semaphore>(1);
  Takers takers{world, *semaphore};
  auto a = world.start(takers.take("a", 1));
  auto b = world.start(takers.take("b", 1));
  semaphore.reset();
  world.executor.drain();
  EXPECT_EQ(error_text<Closed>([&] { b.get(); }),
            "a Semaphore was destroyed while this waited for it");
}

}  // namespace
}  // namespace holdfast
