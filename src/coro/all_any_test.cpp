// SPDX-License-Identifier: Apache-2.0
#include <holdfast/all_any.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <holdfast/this_task.hpp>

#include "test_world.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using testing::error_text;
using testing::World;

Task<int> after(Duration delay, int value) {
  co_await this_task::sleep_for(delay);
  co_return value;
}
Task<void> fail_after(Duration delay, std::string text) {
  co_await this_task::sleep_for(delay);
  throw std::runtime_error(text);
}
Task<void> note_stop(Duration delay, std::vector<std::string>& log) {
  try {
    co_await this_task::sleep_for(delay);
    log.emplace_back("slept");
  } catch (const Cancelled&) {
    log.emplace_back("stopped");
    throw;
  }
}

TEST(All, GivesTheResultsInTheOrderOfTheArguments) {
  World world;
  const auto body = []() -> Task<std::string> {
    const auto text = []() -> Task<std::string> { co_return "b"; };
    auto [a, b, c] = co_await all(after(2s, 1), text(), after(1s, 3));
    co_return std::to_string(a) + b + std::to_string(c);
  };
  EXPECT_EQ(world.run(body()), "1b3");
  EXPECT_EQ(world.clock.now().time_since_epoch(), 2s) << "they run at the same time";
}

TEST(All, OfAListGivesAList) {
  World world;
  std::vector<Task<int>> tasks;
  for (int i = 0; i < 1'000; ++i) {
    tasks.push_back(after(1ms * (1'000 - i), i));
  }
  const auto values = world.run(all(std::move(tasks)));
  for (int i = 0; i < 1'000; ++i) {
    ASSERT_EQ(values[static_cast<std::size_t>(i)], i);
  }
}

TEST(All, OfNothingEndsAtOnce) {
  World world;
  EXPECT_TRUE(world.run(all(std::vector<Task<int>>{})).empty());
  world.run(all(std::vector<Task<void>>{}));
}

TEST(All, TheFirstFailureStopsTheOthersAndIsThrownWhenAllHaveEnded) {
  World world;
  std::vector<std::string> log;
  const auto body = [](std::vector<std::string>& lines) -> Task<void> {
    co_await all(note_stop(1h, lines), fail_after(1s, "first"), fail_after(2s, "second"));
  };
  EXPECT_EQ(error_text<std::runtime_error>([&] { world.run(body(log)); }), "first");
  EXPECT_EQ(log, std::vector<std::string>{"stopped"});
  EXPECT_EQ(world.clock.armed_count(), 0U);
}

TEST(All, AStopReachesEveryBranch) {
  World world;
  std::vector<std::string> log;
  const auto body = [](std::vector<std::string>& lines) -> Task<void> {
    co_await all(note_stop(1h, lines), note_stop(2h, lines));
  };
  auto task = world.start(body(log));
  task.request_stop();
  world.executor.drain();
  EXPECT_THROW(task.get(), Cancelled);
  EXPECT_EQ(log, (std::vector<std::string>{"stopped", "stopped"}));
}

TEST(All, StartedAfterAStopItsBranchesRunToTheirFirstWait) {
  World world;
  std::vector<std::string> log;
  const auto body = [](std::vector<std::string>& lines) -> Task<void> {
    co_await all(note_stop(1h, lines), note_stop(2h, lines));
  };
  auto task = spawn(world.executor, body(log));
  task.request_stop();
  world.executor.drain();
  EXPECT_THROW(task.get(), Cancelled);
  EXPECT_EQ(log.size(), 2U);
}

TEST(All, BranchesAreNamedAfterTheirParent) {
  World world;
  const auto name = []() -> Task<std::string> { co_return this_task::name(); };
  const auto body = [&]() -> Task<std::string> {
    auto [a, b] = co_await all(name(), name());
    co_return a + " " + b;
  };
  auto task = world.start(body(), {.name = "parent"});
  EXPECT_EQ(task.get(), "parent/0 parent/1");
}

TEST(Any, TheFirstToEndWinsAndTheOthersAreStopped) {
  World world;
  std::vector<std::string> log;
  const auto body = [](std::vector<std::string>& lines) -> Task<std::size_t> {
    auto first = co_await any(note_stop(1h, lines), after(1s, 7));
    EXPECT_EQ(std::get<1>(first), 7);
    co_return first.index();
  };
  EXPECT_EQ(world.run(body(log)), 1U);
  EXPECT_EQ(log, std::vector<std::string>{"stopped"});
  EXPECT_EQ(world.clock.now().time_since_epoch(), 1s);
}

TEST(Any, AFailureThatComesFirstIsThrown) {
  World world;
  const auto body = []() -> Task<void> { co_await any(after(1h, 1), fail_after(1s, "too bad")); };
  EXPECT_EQ(error_text<std::runtime_error>([&] { world.run(body()); }), "too bad");
}

TEST(Any, OfAListSaysWhich) {
  World world;
  std::vector<Task<int>> tasks;
  for (int i = 0; i < 10; ++i) {
    tasks.push_back(after(i == 6 ? 1ms : 1s, i * 10));
  }
  const auto first = world.run(any(std::move(tasks)));
  EXPECT_EQ(first.index, 6U);
  EXPECT_EQ(first.value, 60);
}

TEST(Any, OfAnEmptyListIsRefused) {
  World world;
  EXPECT_THROW(world.run(any(std::vector<Task<int>>{})), InvalidArgument);
}

TEST(AllAny, NestAndAreCancelledTogether) {
  World world;
  std::vector<std::string> log;
  const auto inner = [](std::vector<std::string>& lines) -> Task<void> {
    co_await all(note_stop(1h, lines), note_stop(1h, lines));
  };
  const auto outer = [&inner](std::vector<std::string>& lines) -> Task<void> {
    co_await any(inner(lines), after(1s, 1));
  };
  world.run(outer(log));
  EXPECT_EQ(log, (std::vector<std::string>{"stopped", "stopped"}));
}

TEST(AllAny, HoldOnAPoolWithManyBranchesAndStops) {
  ThreadPool pool(4);
  const auto body = []() -> Task<std::size_t> {
    std::vector<Task<int>> tasks;
    for (int i = 0; i < 50; ++i) {
      tasks.push_back(after(i == 25 ? 0ms : 10min, i));
    }
    const auto first = co_await any(std::move(tasks));
    co_return first.index;
  };
  for (int round = 0; round < 50; ++round) {
    EXPECT_EQ(sync_wait(pool, body()), 25U);
  }
}

// Any order of the branches' ends must give the same outcome.
TEST(AllAny, ThousandsOfOrdersGiveTheSameResult) {
  for (std::uint64_t seed = 0; seed < 2'000; ++seed) {
    VirtualClock clock;
    SeededExecutor executor(clock, seed);
    const auto walk = [](int steps, int value) -> Task<int> {
      for (int i = 0; i < steps; ++i) {
        co_await this_task::yield();
      }
      co_return value;
    };
    const auto body = [&]() -> Task<int> {
      auto [a, b, c] = co_await all(walk(3, 1), walk(1, 10), walk(2, 100));
      co_return a + b + c;
    };
    ASSERT_EQ(sync_wait(executor, body()), 111) << "seed " << seed;
  }
}

}  // namespace
}  // namespace holdfast
