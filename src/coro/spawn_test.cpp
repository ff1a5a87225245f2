// SPDX-License-Identifier: Apache-2.0
#include <holdfast/spawn.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <set>
#include <thread>

#include <holdfast/this_task.hpp>

#include "test_world.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using testing::error_text;
using testing::World;

Task<int> later(Duration delay, int value) {
  co_await this_task::sleep_for(delay);
  co_return value;
}
Task<void> failing() {
  co_await this_task::yield();
  throw std::runtime_error("it broke");
}

/// An awaitable that knows nothing of Holdfast.
struct ForeignWait {
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> handle) {
    suspended = handle;
    if (on_suspend) {
      on_suspend();
    }
  }
  void await_resume() const noexcept {}
  std::coroutine_handle<> suspended{};
  std::function<void()> on_suspend{};
};

TEST(Spawn, RunsByItselfAndGivesItsResultToATask) {
  World world;
  auto working = world.start(later(1s, 5));
  const auto join = [](Spawned<int>& other) -> Task<int> {
    const int value = co_await other;
    co_return value + 1;
  };
  auto joiner = world.start(join(working));
  EXPECT_FALSE(joiner.ended());
  world.advance(1s);
  EXPECT_EQ(joiner.get(), 6);
}

TEST(Spawn, AJoinerThatIsStoppedStopsWaitingAndTheTaskGoesOn) {
  World world;
  auto working = world.start(later(1s, 5), {.name = "work"});
  const auto join = [](Spawned<int>& other) -> Task<int> {
    const int value = co_await other;
    co_return value;
  };
  auto joiner = world.start(join(working), {.name = "joiner"});
  joiner.request_stop();
  world.executor.drain();
  EXPECT_EQ(error_text<Cancelled>([&] { joiner.get(); }),
            "'joiner' was asked to stop while it waited for 'work'");
  world.advance(1s);
  EXPECT_EQ(working.get(), 5);
}

TEST(Spawn, ADroppedHandleLetsTheTaskGoOn) {
  World world;
  int ended = 0;
  const auto body = [](int& count) -> Task<void> {
    co_await this_task::sleep_for(1s);
    ++count;
  };
  {
    auto dropped = world.start(body(ended));
  }
  EXPECT_EQ(world.executor.task_count(), 1U);
  world.advance(1s);
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(world.executor.task_count(), 0U);
}

TEST(Spawn, ADroppedTaskMayBeCancelled) {
  World world;
  std::stop_source source;
  {
    auto dropped = world.start(later(1h, 1), {}, source.get_token());
  }
  source.request_stop();
  world.executor.drain();
  EXPECT_EQ(world.executor.task_count(), 0U);
}

TEST(SpawnDeathTest, AFailureThatNobodyCanSeeEndsTheProgramWithItsText) {
  EXPECT_DEATH(
      {
        World world;
        {
          auto dropped = spawn(world.executor, failing(), {.name = "orphan"});
        }
        world.executor.drain();
      },
      "'orphan' failed and nobody waits for it: it broke");
}

TEST(Spawn, GetThrowsWhatTheTaskThrew) {
  World world;
  auto task = world.start(failing());
  EXPECT_EQ(error_text<std::runtime_error>([&] { task.get(); }), "it broke");
}

TEST(Spawn, BlockingInsideATaskIsRefused) {
  World world;
  const auto body = [](Executor& executor) -> Task<std::string> {
    const auto nested = [&] { sync_wait(executor, later(1s, 1)); };
    co_return error_text<WrongContext>(nested);
  };
  EXPECT_THAT(world.run(body(world.executor)), ::testing::HasSubstr("use co_await there"));
}

TEST(SyncWait, SkipsVirtualTime) {
  World world;
  const TimePoint start = world.clock.now();
  EXPECT_EQ(world.run(later(24h * 365, 1)), 1);
  EXPECT_EQ(world.clock.now() - start, 24h * 365);
}

TEST(SyncWait, SaysSoWhenNothingCanEverHappen) {
  World world;
  auto never = world.start(later(1h, 1));
  const auto wait_for_it = [](Spawned<int>& other) -> Task<int> {
    const int value = co_await other;
    co_return value;
  };
  never.request_stop();
  world.executor.drain();
  EXPECT_THROW(world.run(wait_for_it(never)), Cancelled);

  ForeignWait forever;
  const auto stuck = [](ForeignWait& wait) -> Task<void> { co_await wait; };
  EXPECT_THAT(error_text<WrongContext>([&] { world.run(stuck(forever)); }),
              ::testing::HasSubstr("waits for something that nobody will do"));
  forever.suspended.resume();  // Ends the task, or the executor could not go.
  world.executor.drain();
}

TEST(ForeignAwaitables, MayResumeATaskFromAnywhereAndItsExecutorTakesItBack) {
  ThreadPool pool(2);
  ForeignWait foreign;
  std::promise<void> suspended;
  foreign.on_suspend = [&] { suspended.set_value(); };
  const auto inner = [](ForeignWait& wait) -> Task<int> {
    co_await wait;
    co_return 1;
  };
  const auto outer = [&inner](ForeignWait& wait, Executor* home) -> Task<bool> {
    co_await inner(wait);
    co_return &this_task::executor() == home;
  };
  auto task = spawn(pool, outer(foreign, &pool));
  suspended.get_future().wait();
  std::thread([&] { foreign.suspended.resume(); }).join();
  EXPECT_TRUE(task.get());
}

TEST(Executors, AnEndingExecutorStopsItsTasksAndRunsThemToTheirEnds) {
  VirtualClock clock;
  bool cancelled = false;
  const auto body = [](bool& flag) -> Task<void> {
    try {
      co_await this_task::sleep_for(1h);
    } catch (const Cancelled&) {
      flag = true;
      throw;
    }
  };
  {
    ManualExecutor executor(clock);
    {
      auto dropped = spawn(executor, body(cancelled));
    }
    executor.drain();
  }
  EXPECT_TRUE(cancelled);
  cancelled = false;
  {
    ThreadPool pool(2);
    {
      auto dropped = spawn(pool, body(cancelled));
    }
  }
  EXPECT_TRUE(cancelled);
}

TEST(Executors, AHandleMayOutliveItsExecutor) {
  VirtualClock clock;
  auto executor = std::make_unique<ManualExecutor>(clock);
  auto task = spawn(*executor, later(1h, 1));
  executor.reset();
  EXPECT_TRUE(task.ended());
  task.request_stop();
  EXPECT_THROW(task.get(), Cancelled);
}

TEST(Executors, ManualRunsInTheOrderOfPostingOneAtATime) {
  World world;
  std::vector<int> order;
  const auto body = [](std::vector<int>& seen, int id) -> Task<void> {
    seen.push_back(id);
    co_await this_task::yield();
    seen.push_back(id + 10);
  };
  auto a = spawn(world.executor, body(order, 1));
  auto b = spawn(world.executor, body(order, 2));
  EXPECT_TRUE(order.empty());
  EXPECT_TRUE(world.executor.run_one());
  EXPECT_EQ(order, std::vector<int>{1});
  EXPECT_EQ(world.executor.drain(), 3U);
  EXPECT_FALSE(world.executor.run_one());
  EXPECT_EQ(order, (std::vector<int>{1, 2, 11, 12}));
}

TEST(Executors, ManualTakesWorkFromOtherThreads) {
  SystemClock clock;
  ManualExecutor executor(clock);
  const auto value = sync_wait(executor, later(1ms, 3));  // The clock's thread posts the wake-up.
  EXPECT_EQ(value, 3);
}

std::vector<int> order_of_seed(std::uint64_t seed) {
  VirtualClock clock;
  SeededExecutor executor(clock, seed);
  std::vector<int> order;
  const auto body = [](std::vector<int>& seen, int id) -> Task<void> {
    for (int i = 0; i < 3; ++i) {
      seen.push_back(id);
      co_await this_task::yield();
    }
  };
  std::vector<Spawned<void>> tasks;
  for (int id = 0; id < 5; ++id) {
    tasks.push_back(spawn(executor, body(order, id)));
  }
  executor.drain();
  return order;
}

TEST(Executors, TheSameSeedGivesTheSameOrderAndOthersGiveOthers) {
  EXPECT_EQ(order_of_seed(1), order_of_seed(1));
  std::set<std::vector<int>> orders;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    orders.insert(order_of_seed(seed));
  }
  EXPECT_GT(orders.size(), 90U);
}

TEST(Executors, AThreadPoolRunsTasksOnItsThreadsAndLosesNone) {
  ThreadPool pool(4);
  std::atomic<int> count = 0;
  const auto body = [](std::atomic<int>& counter) -> Task<void> {
    for (int i = 0; i < 100; ++i) {
      co_await this_task::yield();
      counter.fetch_add(1);
    }
  };
  std::vector<Spawned<void>> tasks;
  for (int i = 0; i < 100; ++i) {
    tasks.push_back(spawn(pool, body(count)));
  }
  for (auto& task : tasks) {
    task.get();
  }
  EXPECT_EQ(count, 10'000);
}

TEST(Executors, APoolOfNoThreadsIsRefused) {
  EXPECT_EQ(error_text<InvalidArgument>([] { const ThreadPool pool(0); }),
            "ThreadPool: thread_count is 0; it must be at least 1");
}

TEST(Executors, AStopThatRacesWithTheEndOfItsTaskIsHarmless) {
  ThreadPool pool(2);
  for (int i = 0; i < 2'000; ++i) {
    const auto body = []() -> Task<void> {
      co_await this_task::yield();
      co_await this_task::sleep_for(1h);
    };
    auto task = spawn(pool, body());
    task.request_stop();
    EXPECT_THROW(task.get(), Cancelled);
  }
}

}  // namespace
}  // namespace holdfast
