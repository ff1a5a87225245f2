// SPDX-License-Identifier: Apache-2.0
#include <holdfast/task.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include <holdfast/spawn.hpp>
#include <holdfast/this_task.hpp>

#include "test_world.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using testing::error_text;
using testing::World;

Task<int> value(int x) { co_return x; }
Task<void> note(std::vector<int>& notes, int x) {
  notes.push_back(x);
  co_return;
}
Task<int> failing(std::string text) {
  co_await this_task::yield();
  throw std::runtime_error(text);
}

TEST(Task, StartsOnlyWhenItIsAwaited) {
  World world;
  std::vector<int> notes;
  auto task = note(notes, 1);
  EXPECT_TRUE(notes.empty());
  world.run(std::move(task));
  EXPECT_EQ(notes, std::vector<int>{1});
}

TEST(Task, GivesItsValueToTheOneWhoAwaitsIt) {
  World world;
  const auto sum = []() -> Task<int> {
    const int a = co_await value(20);
    const int b = co_await value(22);
    co_return a + b;
  };
  EXPECT_EQ(world.run(sum()), 42);
}

TEST(Task, CarriesMoveOnlyValuesAndValuesWithoutDefaultConstructor) {
  struct NoDefault {
    explicit NoDefault(int value) : x(value) {}
    int x;
  };
  World world;
  const auto pointer = []() -> Task<std::unique_ptr<int>> { co_return std::make_unique<int>(7); };
  const auto plain = []() -> Task<NoDefault> { co_return NoDefault(8); };
  EXPECT_EQ(*world.run(pointer()), 7);
  EXPECT_EQ(world.run(plain()).x, 8);
}

TEST(Task, PassesExceptionsToTheOneWhoAwaitsIt) {
  World world;
  const auto outer = []() -> Task<std::string> {
    try {
      co_await failing("inner");
    } catch (const std::runtime_error& error) {
      co_return std::string("caught ") + error.what();
    }
    co_return "nothing";
  };
  EXPECT_EQ(world.run(outer()), "caught inner");
  EXPECT_EQ(error_text<std::runtime_error>([&] { world.run(failing("outer")); }), "outer");
}

TEST(Task, DestroysItsLocalsBeforeItsAwaiterGoesOn) {
  World world;
  struct Tell {
    std::vector<std::string>* log;
    ~Tell() { log->push_back("local destroyed"); }
  };
  std::vector<std::string> log;
  const auto inner = [](std::vector<std::string>& lines) -> Task<void> {
    const Tell tell{&lines};
    co_await this_task::yield();
  };
  const auto outer = [&inner](std::vector<std::string>& lines) -> Task<void> {
    {
      auto task = inner(lines);
      co_await task;
    }
    lines.push_back("awaiter resumed");
  };
  world.run(outer(log));
  EXPECT_THAT(log, ::testing::ElementsAre("local destroyed", "awaiter resumed"));
}

Task<int> count_down(int n) {
  if (n == 0) {
    co_return 0;
  }
  const int below = co_await count_down(n - 1);
  co_return below + 1;
}

TEST(Task, AChainAsDeepAsTheLimitNeedsNoStack) {
  World world;
  EXPECT_EQ(world.run(count_down(kTaskDepthMax - 1)), kTaskDepthMax - 1);
}

TEST(Task, BeyondTheDepthLimitItThrowsAndNamesTheLimit) {
  World world;
  EXPECT_THAT(error_text<TaskTooDeep>([&] { world.run(count_down(1'000'000)); }),
              ::testing::HasSubstr("more than 10000 deep"));
}

TEST(Task, AMillionAwaitsInALoopNeedNoStack) {
  World world;
  const auto loop = []() -> Task<int> {
    int sum = 0;
    for (int i = 0; i < 1'000'000; ++i) {
      sum += co_await value(1);
    }
    co_return sum;
  };
  EXPECT_EQ(world.run(loop()), 1'000'000);
}

TEST(Task, MayBeDestroyedBeforeItStarts) {
  auto data = std::make_shared<int>(5);
  const auto holds = [](std::shared_ptr<int> held) -> Task<int> { co_return *held; };
  {
    auto task = holds(data);
    EXPECT_EQ(data.use_count(), 2);
  }
  EXPECT_EQ(data.use_count(), 1);
}

TEST(Task, CanBeMovedUntilItIsAwaited) {
  World world;
  auto first = value(1);
  auto second = std::move(first);
  second = value(3);
  EXPECT_EQ(world.run(std::move(second)), 3);
}

TEST(TaskDeathTest, AwaitedTwiceIsNamed) {
  const auto twice = []() -> Task<void> {
    auto task = value(1);
    co_await task;
    co_await task;
  };
  EXPECT_DEATH(
      {
        World world;
        world.run(twice());
      },
      "a Task was awaited twice");
}

TEST(ThisTask, KnowsItsNameExecutorAndClock) {
  World world;
  const auto ask = []() -> Task<std::string> {
    co_await this_task::yield();
    co_return this_task::name();
  };
  auto named = world.start(ask(), {.name = "checkout"});
  EXPECT_EQ(named.get(), "checkout");
  const auto where = [](Executor* expected) -> Task<bool> {
    co_return &this_task::executor() == expected && &this_task::clock() == &expected->clock();
  };
  EXPECT_TRUE(world.run(where(&world.executor)));
}

TEST(ThisTask, OutsideATaskIsAnError) {
  EXPECT_THROW(static_cast<void>(this_task::name()), WrongContext);
  EXPECT_THROW(static_cast<void>(this_task::stop_requested()), WrongContext);
}

TEST(Sleep, EndsWhenItsTimeHasComeAndNotBefore) {
  World world;
  const auto nap = []() -> Task<void> { co_await this_task::sleep_for(10s); };
  auto task = world.start(nap());
  world.advance(9s);
  EXPECT_FALSE(task.ended());
  world.advance(1s);
  EXPECT_TRUE(task.ended());
  task.get();
}

TEST(Sleep, UntilAPastMomentEndsWithTheNextTimers) {
  World world;
  world.advance(1h);
  const auto nap = []() -> Task<void> { co_await this_task::sleep_until(TimePoint{}); };
  world.run(nap());
}

TEST(Sleep, IsEndedByAStop) {
  World world;
  const auto nap = []() -> Task<void> { co_await this_task::sleep_for(1h); };
  auto task = world.start(nap(), {.name = "dozer"});
  task.request_stop();
  world.executor.drain();
  EXPECT_EQ(error_text<Cancelled>([&] { task.get(); }), "'dozer' was asked to stop while it slept");
  EXPECT_EQ(world.clock.armed_count(), 0U);
}

TEST(Sleep, RefusesANegativeDuration) {
  World world;
  const auto nap = []() -> Task<void> { co_await this_task::sleep_for(-1ns); };
  EXPECT_THROW(world.run(nap()), InvalidArgument);
}

TEST(Cancellation, ReachesTheInnermostWaitThroughAllThatAwaitIt) {
  World world;
  const auto inner = []() -> Task<void> { co_await this_task::sleep_for(1h); };
  const auto middle = [&]() -> Task<void> { co_await inner(); };
  const auto outer = [&]() -> Task<std::string> {
    try {
      co_await middle();
    } catch (const Cancelled&) {
      co_return "cancelled";
    }
    co_return "not cancelled";
  };
  auto task = world.start(outer());
  task.request_stop();
  world.executor.drain();
  EXPECT_EQ(task.get(), "cancelled");
}

TEST(Cancellation, ComesFromAStopTokenToo) {
  World world;
  std::stop_source source;
  const auto nap = []() -> Task<void> { co_await this_task::sleep_for(1h); };
  auto task = world.start(nap(), {}, source.get_token());
  source.request_stop();
  world.executor.drain();
  EXPECT_THROW(task.get(), Cancelled);
}

TEST(Cancellation, BeforeTheStartIsSeenByTheFirstWait) {
  World world;
  std::stop_source source;
  source.request_stop();
  std::vector<int> notes;
  const auto body = [](std::vector<int>& seen) -> Task<void> {
    seen.push_back(this_task::stop_requested() ? 1 : 0);
    co_await this_task::sleep_for(1h);
    seen.push_back(2);
  };
  auto task = world.start(body(notes), {}, source.get_token());
  EXPECT_THROW(task.get(), Cancelled);
  EXPECT_EQ(notes, std::vector<int>{1});
}

TEST(Cancellation, AfterAStopEveryFurtherWaitThrows) {
  World world;
  const auto stubborn = []() -> Task<int> {
    int count = 0;
    for (int i = 0; i < 3; ++i) {
      try {
        co_await this_task::sleep_for(1h);
      } catch (const Cancelled&) {
        ++count;
      }
    }
    co_return count;
  };
  auto task = world.start(stubborn());
  task.request_stop();
  world.executor.drain();
  EXPECT_EQ(task.get(), 3);
}

TEST(Cancellation, ATokenForCallbacksFollowsTheTask) {
  World world;
  bool called = false;
  const auto body = [](bool& flag) -> Task<void> {
    const std::stop_callback callback(this_task::stop_token(), [&flag] { flag = true; });
    co_await this_task::sleep_for(1h);
  };
  auto task = world.start(body(called));
  task.request_stop();
  EXPECT_TRUE(called);
  world.executor.drain();
  EXPECT_THROW(task.get(), Cancelled);
  const auto late = []() -> Task<bool> { co_return this_task::stop_token().stop_requested(); };
  auto stopped = spawn(world.executor, late());
  stopped.request_stop();
  world.executor.drain();
  EXPECT_TRUE(stopped.get());
}

TEST(Cancellation, CheckStopThrowsOnlyAfterAStop) {
  World world;
  const auto body = []() -> Task<void> {
    this_task::check_stop();
    co_await this_task::yield();
    this_task::check_stop();
  };
  EXPECT_NO_THROW(world.run(body()));
  auto task = spawn(world.executor, body());
  world.executor.run_one();
  task.request_stop();
  world.executor.drain();
  EXPECT_THROW(task.get(), Cancelled);
}

TEST(Sleep, AnEndlessSleepIsNoOverflow) {
  VirtualClock clock;
  ManualExecutor executor(clock);
  clock.advance(1h);
  auto sleeps =
      spawn(executor, []() -> Task<void> { co_await this_task::sleep_for(Duration::max()); }());
  executor.drain();
  clock.advance(1000h);
  executor.drain();
  EXPECT_FALSE(sleeps.ended());
  sleeps.request_stop();
  executor.drain();
  EXPECT_THROW(sleeps.get(), Cancelled);
}

}  // namespace
}  // namespace holdfast
