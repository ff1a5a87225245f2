// SPDX-License-Identifier: Apache-2.0
#include <holdfast/rate_limiter.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include <holdfast/keyed_rate_limiter.hpp>
#include <holdfast/this_task.hpp>

#include "coro/test_world.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::error_text;
using testing::World;

/// Tasks that enter, note when, and stay until told.
struct Callers {
  World& world;
  RateLimiter& limiter;
  std::vector<std::string> log{};
  std::map<std::string, Hold> held{};

  Task<void> call(std::string name, WaitOptions options = {}, std::int64_t tokens = 1) {
    Hold hold = co_await limiter.acquire(tokens, options);
    const auto ms = world.clock.now().time_since_epoch() / 1ms;
    log.push_back(name + "@" + std::to_string(ms));
    held[name] = std::move(hold);
  }
  testing::EndTasks end_tasks{world};
};

TEST(RateLimiter, SpacesStartsEvenlyByDefault) {
  World world;
  RateLimiter limiter(world.clock, {.rate = {.count = 10, .period = 1s}});
  Callers callers{world, limiter};
  std::vector<Spawned<void>> tasks;
  for (const char* name : {"a", "b", "c"}) {
    tasks.push_back(world.start(callers.call(name)));
  }
  EXPECT_THAT(callers.log, ElementsAre("a@0"));
  world.advance(1s);
  EXPECT_THAT(callers.log, ElementsAre("a@0", "b@100", "c@200"));
}

TEST(RateLimiter, LetsABurstInAtOnceAndThenGoesOnEvenly) {
  World world;
  RateLimiter limiter(world.clock, {.rate = {.count = 10, .period = 1s, .burst = 3}});
  Callers callers{world, limiter};
  EXPECT_EQ(limiter.available_tokens(), 3);
  std::vector<Spawned<void>> tasks;
  for (const char* name : {"a", "b", "c", "d"}) {
    tasks.push_back(world.start(callers.call(name)));
  }
  world.advance(1s);
  EXPECT_THAT(callers.log, ElementsAre("a@0", "b@0", "c@0", "d@100"));
}

TEST(RateLimiter, LimitsHowManyAreInAtOnce) {
  World world;
  RateLimiter limiter(world.clock, {.at_once = 1, .rate = {.count = 1'000, .period = 1s}});
  Callers callers{world, limiter};
  auto a = world.start(callers.call("a"));
  auto b = world.start(callers.call("b"));
  world.advance(1s);
  EXPECT_THAT(callers.log, ElementsAre("a@0"));
  EXPECT_EQ(limiter.available(), 0);
  callers.held.erase("a");
  world.executor.drain();
  EXPECT_THAT(callers.log, ElementsAre("a@0", "b@1000"));
}

TEST(RateLimiter, SpendsATokenOnlyWhenTheSlotIsThere) {
  World world;
  RateLimiter limiter(world.clock, {.at_once = 1, .rate = {.count = 1, .period = 1s, .burst = 2}});
  Callers callers{world, limiter};
  auto a = world.start(callers.call("a"));
  auto b = world.start(callers.call("b", {.timeout = 5s}));
  world.advance(5s);
  EXPECT_THROW(b.get(), TimedOut);
  EXPECT_EQ(limiter.available_tokens(), 2) << "the one that waited for the slot spent none";
  EXPECT_FALSE(limiter.try_acquire());
  EXPECT_EQ(limiter.available_tokens(), 2) << "nor did the one that was refused";
}

TEST(RateLimiter, OneWhoGivesUpWhileWaitingForATokenSpendsNone) {
  World world;
  RateLimiter limiter(world.clock, {.rate = {.count = 1, .period = 1s}});
  Callers callers{world, limiter};
  auto a = world.start(callers.call("a"));
  auto b = world.start(callers.call("b"));
  auto c = world.start(callers.call("c"));
  b.request_stop();
  world.executor.drain();
  EXPECT_THROW(b.get(), Cancelled);
  world.advance(1s);
  EXPECT_THAT(callers.log, ElementsAre("a@0", "c@1000"));
}

TEST(RateLimiter, SetsOneTimerHoweverManyWait) {
  World world;
  RateLimiter limiter(world.clock, {.rate = {.count = 1, .period = 1s}});
  Callers callers{world, limiter};
  std::vector<Spawned<void>> tasks;
  for (int i = 0; i < 100; ++i) {
    tasks.push_back(world.start(callers.call(std::to_string(i))));
  }
  EXPECT_EQ(world.clock.armed_count(), 1U);
  world.advance(99s);
  EXPECT_EQ(callers.log.size(), 100U);
  EXPECT_EQ(world.clock.armed_count(), 0U);
}

TEST(RateLimiter, HasNoDoubleBurstAtTheEdgeOfAWindow) {
  World world;
  RateLimiter limiter(world.clock, {.rate = {.count = 5, .period = 1s}});
  std::vector<TimePoint> starts;
  const auto caller = [](RateLimiter& limit, std::vector<TimePoint>& times) -> Task<void> {
    const Hold hold = co_await limit.acquire();
    times.push_back(this_task::clock().now());
  };
  std::vector<Spawned<void>> tasks;
  world.advance(900ms);  // Fixed windows would let five in now and five more in 100 ms.
  for (int i = 0; i < 20; ++i) {
    tasks.push_back(world.start(caller(limiter, starts)));
  }
  world.advance(10s);
  ASSERT_EQ(starts.size(), 20U);
  for (std::size_t i = 0; i + 5 < starts.size(); ++i) {
    EXPECT_GE(starts[i + 5] - starts[i], 1s);
  }
}

TEST(RateLimiter, TakesSeveralTokensForADearCallAndRefusesMoreThanTheBurst) {
  World world;
  RateLimiter limiter(world.clock, {.rate = {.count = 10, .period = 1s, .burst = 4}},
                      {.name = "api"});
  Callers callers{world, limiter};
  auto dear = world.start(callers.call("dear", {}, 4));
  auto cheap = world.start(callers.call("cheap", {}, 2));
  world.advance(1s);
  EXPECT_THAT(callers.log, ElementsAre("dear@0", "cheap@200"));
  auto never = world.start(callers.call("never", {}, 5));
  EXPECT_EQ(error_text<Unsatisfiable>([&] { never.get(); }),
            "RateLimiter 'api' can never give 5 at once: its limit is 4");
  EXPECT_THROW(auto op = limiter.acquire(0), InvalidArgument);
}

TEST(RateLimiter, WhenAHeavyHeadGivesUpTheNextGetsItsTokenAtItsTime) {
  World world;
  RateLimiter limiter(world.clock, {.rate = {.count = 1, .period = 1s, .burst = 5}});
  Callers callers{world, limiter};
  auto first = world.start(callers.call("first", {}, 5));
  auto heavy = world.start(callers.call("heavy", {.timeout = 500ms}, 5));
  auto light = world.start(callers.call("light"));
  world.advance(500ms);
  EXPECT_THROW(heavy.get(), TimedOut);
  world.advance(500ms);
  EXPECT_THAT(callers.log, ElementsAre("first@0", "light@1000"));
}

TEST(RateLimiter, RejectsOrDropsWhenItsQueueIsFull) {
  World world;
  RateLimiter rejects(world.clock, {.rate = {.count = 1, .period = 1s}},
                      {.queue = QueueLimit::reject(1)});
  Callers callers{world, rejects};
  auto a = world.start(callers.call("a"));
  auto b = world.start(callers.call("b"));
  auto c = world.start(callers.call("c"));
  EXPECT_THROW(c.get(), QueueFull);
  RateLimiter drops(world.clock, {.rate = {.count = 1, .period = 1s}},
                    {.queue = QueueLimit::drop_oldest(1)});
  Callers others{world, drops};
  auto d = world.start(others.call("d"));
  auto e = world.start(others.call("e"));
  auto f = world.start(others.call("f"));
  EXPECT_THROW(e.get(), Dropped);
  world.advance(1s);
  EXPECT_THAT(callers.log, ElementsAre("a@0", "b@1000"));
  EXPECT_THAT(others.log, ElementsAre("d@0", "f@1000"));
}

TEST(RateLimiter, LimitsChangeLive) {
  World world;
  RateLimiter limiter(world.clock, {.at_once = 1, .rate = {.count = 1, .period = 1h}});
  Callers callers{world, limiter};
  std::vector<Spawned<void>> tasks;
  for (const char* name : {"a", "b", "c"}) {
    tasks.push_back(world.start(callers.call(name)));
  }
  limiter.set_limits({.at_once = 3, .rate = {.count = 1, .period = 1s}});
  world.advance(2s);
  EXPECT_THAT(callers.log, ElementsAre("a@0", "b@1000", "c@2000"));
  EXPECT_THROW(limiter.set_limits({.at_once = 0}), InvalidArgument);
  EXPECT_THROW(limiter.set_limits({.rate = {.count = 0}}), InvalidArgument);
  EXPECT_EQ(limiter.available(), 0) << "a refused change changes nothing";
}

TEST(RateLimiter, RefusesLimitsThatMeanNothing) {
  VirtualClock clock;
  EXPECT_THROW(RateLimiter(clock, {.at_once = -1}), InvalidArgument);
  EXPECT_THROW(RateLimiter(clock, {.rate = {.count = 0}}), InvalidArgument);
}

TEST(RateLimiter, RunsAFunctionWithinItsLimits) {
  World world;
  RateLimiter limiter(world.clock, {.at_once = 2});
  const auto body = [](RateLimiter& limit) -> Task<std::int64_t> {
    const auto left = co_await limit.run([&limit] { return limit.available(); });
    co_return left;
  };
  EXPECT_EQ(world.run(body(limiter)), 1);
}

TEST(RateLimiter, DestroyingItEndsAllWaitsAndItsTimer) {
  World world;
  auto limiter = std::make_unique<RateLimiter>(world.clock, RateLimits{}, SyncOptions{});
  Callers callers{world, *limiter};
  auto a = world.start(callers.call("a"));
  auto b = world.start(callers.call("b"));
  limiter.reset();
  EXPECT_EQ(world.clock.armed_count(), 0U);
  world.executor.drain();
  EXPECT_THROW(b.get(), Closed);
  callers.held.clear();
}

TEST(RateLimiter, WorksInRealTime) {
  ThreadPool pool(2);
  RateLimiter limiter(pool.clock(), {.at_once = 2, .rate = {.count = 1'000, .period = 1s}});
  std::atomic<int> inside = 0;
  std::atomic<int> most = 0;
  const auto caller = [](RateLimiter& limit, std::atomic<int>& in,
                         std::atomic<int>& top) -> Task<void> {
    const Hold hold = co_await limit.acquire();
    const int now_in = ++in;
    int seen = top;
    while (now_in > seen && !top.compare_exchange_weak(seen, now_in)) {
    }
    co_await this_task::yield();
    --in;
  };
  const TimePoint start = pool.clock().now();
  std::vector<Spawned<void>> tasks;
  for (int i = 0; i < 21; ++i) {
    tasks.push_back(spawn(pool, caller(limiter, inside, most)));
  }
  for (auto& task : tasks) {
    task.get();
  }
  EXPECT_GE(pool.clock().now() - start, 20ms) << "never faster than the rate";
  EXPECT_LE(most, 2);
}

TEST(KeyedRateLimiter, LimitsEachKeyByItself) {
  World world;
  KeyedRateLimiter<std::string> limiter(world.clock, {.rate = {.count = 1, .period = 1s}});
  std::vector<std::string> log;
  const auto caller = [&](std::string key) -> Task<void> {
    const Hold hold = co_await limiter.acquire(key);
    log.push_back(key + "@" + std::to_string(world.clock.now().time_since_epoch() / 1ms));
  };
  std::vector<Spawned<void>> tasks;
  for (const char* key : {"a", "a", "b"}) {
    tasks.push_back(world.start(caller(key)));
  }
  EXPECT_EQ(limiter.queue_length("a"), 1U);
  world.advance(1s);
  EXPECT_THAT(log, ElementsAre("a@0", "b@0", "a@1000"));
}

TEST(KeyedRateLimiter, AKeyCanHaveALimitOfItsOwn) {
  World world;
  KeyedRateLimiter<std::string> limiter(world.clock, [](const std::string& key) {
    return RateLimits{.at_once = key == "vip" ? 2 : 1, .rate = {.count = 1'000, .burst = 10}};
  });
  auto a1 = limiter.try_acquire("a");
  EXPECT_TRUE(a1);
  EXPECT_FALSE(limiter.try_acquire("a"));
  auto v1 = limiter.try_acquire("vip");
  auto v2 = limiter.try_acquire("vip");
  EXPECT_TRUE(v2);
}

TEST(KeyedRateLimiter, RemembersAKeyUntilItsTokensAreBackAndNoLonger) {
  World world;
  KeyedRateLimiter<int> limiter(world.clock, {.rate = {.count = 1, .period = 1s, .burst = 2}});
  {
    auto hold = limiter.try_acquire(1);
  }
  {
    auto hold = limiter.try_acquire(1);
  }
  EXPECT_EQ(limiter.size(), 1U);
  EXPECT_FALSE(limiter.try_acquire(1)) << "or the rate could be cheated by leaving";
  world.advance(1s);
  EXPECT_EQ(limiter.size(), 1U);
  world.advance(1s);
  EXPECT_EQ(limiter.size(), 0U);
  EXPECT_EQ(world.clock.armed_count(), 0U);
}

TEST(KeyedRateLimiter, RefusesBadLimitsAtOnceOrWithTheKey) {
  World world;
  EXPECT_THROW(KeyedRateLimiter<int>(world.clock, {.at_once = 0}), InvalidArgument);
  EXPECT_THROW(KeyedRateLimiter<int>(world.clock, {.rate = {.count = 0}}), InvalidArgument);
  KeyedRateLimiter<int> by_key(world.clock, [](int) { return RateLimits{.at_once = 0}; });
  EXPECT_THROW(static_cast<void>(by_key.try_acquire(1)), InvalidArgument);
  EXPECT_EQ(by_key.size(), 0U);
  KeyedRateLimiter<int> bad_rate(world.clock, [](int) { return RateLimits{.rate = {.count = 0}}; });
  EXPECT_THROW(static_cast<void>(bad_rate.try_acquire(1)), InvalidArgument);
  EXPECT_EQ(bad_rate.size(), 0U);
}

TEST(KeyedRateLimiter, DestroyingItDisarmsItsTimers) {
  World world;
  {
    KeyedRateLimiter<int> limiter(world.clock, RateLimits{});
    auto hold = limiter.try_acquire(1);
    hold->release();
    EXPECT_EQ(world.clock.armed_count(), 1U);
  }
  EXPECT_EQ(world.clock.armed_count(), 0U);
}

TEST(KeyedRateLimiter, AKeyWhoseLimitsAreRefusedIsNotLeftBehindWithoutAny) {
  VirtualClock clock;
  std::uint32_t count = 0;
  KeyedRateLimiter<int> limiter(
      clock, [&](int) { return RateLimits{.at_once = 1, .rate = {.count = count, .period = 1s}}; });
  EXPECT_THROW(static_cast<void>(limiter.try_acquire(1)), InvalidArgument);
  EXPECT_EQ(limiter.size(), 0U);
  EXPECT_THROW(static_cast<void>(limiter.try_acquire(1)), InvalidArgument) << "not unlimited";
  count = 1;
  EXPECT_TRUE(limiter.try_acquire(1));
  EXPECT_FALSE(limiter.try_acquire(1)) << "its token is spent";
}

}  // namespace
}  // namespace holdfast
