// SPDX-License-Identifier: Apache-2.0
// Several waits of a run at once.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <holdfast/workflow.hpp>

#include "run_by_hand.hpp"

namespace holdfast::detail {
namespace {

using Numbers = std::vector<std::uint64_t>;

Task<int> number(Context& ctx, std::string name) {
  auto step = ctx.run(name, [] { return 0; });
  const int value = co_await step;
  co_return value;
}

TEST(RunAll, TakesAnyMixAndKeepsTheOrder) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    auto named = ctx.run("named", [] { return 0; });
    auto pause = ctx.sleep(1s);
    const auto all = co_await ctx.all(named, number(ctx, "part"), pause, ctx.signal<int>("go"));
    co_return 100 * std::get<0>(all) + 10 * std::get<1>(all) + std::get<3>(all);
  };
  Machine machine(body);
  const Activated begun = machine.step(started());
  EXPECT_EQ(begun.steps.size(), 2U);
  machine.step(signalled("go", 3));
  machine.step(ended(3, 2));
  machine.step(fired(1));
  EXPECT_EQ(machine.step(ended(0, 1)).end->value, 123);
}

TEST(RunAll, GivesUpTheOthersWhenOneFails) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    auto first = ctx.run("first", [] { return 0; });
    auto second = ctx.run("second", [] { return 0; });
    auto both = ctx.all(first, second, ctx.sleep(1h));
    static_cast<void>(co_await both);
    co_return nullptr;
  };
  Machine machine(body);
  machine.step(started());
  const Activated activated = machine.step(failed(1, "broken"));
  EXPECT_EQ(activated.given_up, Numbers{2});
  EXPECT_EQ(activated.unwanted, Numbers{0});
  EXPECT_FALSE(activated.end) << "the step may use what the code has";
  EXPECT_EQ(failure<StepFailed>(machine.step(failed(0, "stopped"))), "broken");
}

TEST(RunAll, OfNoneIsOverAtOnce) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    const std::vector<int> none = co_await ctx.all(std::vector<Task<int>>());
    co_await ctx.all(std::vector<Durable<void>>());
    co_return none.size();
  };
  EXPECT_EQ(Machine(body).step(started()).end->value, 0U);
}

TEST(RunAll, OfAListOfOperations) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    std::vector<Durable<int>> steps;
    for (int i = 0; i < 3; ++i) {
      steps.push_back(ctx.run("step", [] { return 0; }));
    }
    std::vector<Durable<void>> sleeps;
    sleeps.push_back(ctx.sleep(1s));
    const std::vector<int> values = co_await ctx.all(std::move(steps));
    co_await ctx.all(std::move(sleeps));
    co_return boost::json::value_from(values);
  };
  Machine machine(body);
  machine.step(started());
  machine.step({ended(2, 30), ended(0, 10), fired(3)});
  EXPECT_EQ(machine.step(ended(1, 20)).end->value, boost::json::value({10, 20, 30}));
}

TEST(RunAll, RefusesATaskWithoutTheContext) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    const auto stranger = []() -> Task<int> { co_return 1; };
    auto both = ctx.all(stranger(), number(ctx, "part"));
    static_cast<void>(co_await both);
    co_return nullptr;
  };
  const Activated activated = Machine(body).step(started());
  EXPECT_NE(failure<WrongContext>(activated).find("does not take its Context"), std::string::npos);
  EXPECT_TRUE(activated.steps.empty());
}

Body fan_out(std::size_t count, std::size_t at_most) {
  return [count, at_most](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    std::vector<Task<int>> tasks;
    for (std::size_t i = 0; i < count; ++i) {
      tasks.push_back(number(ctx, "item"));
    }
    const std::vector<int> values = co_await ctx.all(std::move(tasks), {.at_most = at_most});
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      sum += values[i] * static_cast<std::int64_t>(i + 1);
    }
    co_return sum;
  };
}

TEST(RunFanOut, HasSoManyUnderWayAtOnceAndBeginsInOrder) {
  Machine machine(fan_out(5, 2));
  EXPECT_EQ(machine.step(started()).steps.size(), 2U);
  EXPECT_EQ(machine.step(ended(1, 1)).steps.size(), 1U);
  EXPECT_EQ(machine.step(ended(2, 1)).steps.size(), 1U);
  EXPECT_EQ(machine.step({ended(0, 10), ended(3, 1)}).steps.size(), 1U);
  EXPECT_EQ(machine.step(ended(4, 1)).end->value, 10 + 2 + 3 + 4 + 5);
}

TEST(RunFanOut, OfAThousandItems) {
  constexpr int kItems = 1'000;
  Machine machine(fan_out(kItems, 50));
  Activated activated = machine.step(started());
  int done = 0;
  while (!activated.end) {
    std::vector<Event> events;
    for (const BegunStep& step : activated.steps) {
      events.push_back(ended(step.operation, 1));
      ++done;
    }
    ASSERT_LE(events.size(), 50U);
    activated = machine.step(std::move(events));
  }
  EXPECT_EQ(done, kItems);
  EXPECT_EQ(activated.end->value, kItems * (kItems + 1) / 2);
}

TEST(RunFanOut, BeginsNoMoreAfterAFailure) {
  Machine machine(fan_out(5, 2));
  machine.step(started());
  Activated activated = machine.step(failed(0, "broken"));
  EXPECT_EQ(activated.unwanted, Numbers{1});
  EXPECT_TRUE(activated.steps.empty());
  activated = machine.step(ended(1, 1));
  EXPECT_EQ(failure<StepFailed>(activated), "broken");
  EXPECT_TRUE(activated.steps.empty());
}

TEST(RunFanOut, RefusesNoneAtATime) {
  EXPECT_NE(failure<InvalidArgument>(Machine(fan_out(5, 0)).step(started())).find("at_most is 0"),
            std::string::npos);
}

Task<boost::json::value> answer_or_time(Context& ctx, boost::json::value) {
  auto answer = ctx.signal<std::string>("answer");
  const auto first = co_await ctx.any(answer, ctx.sleep(1h));
  std::string text("late");
  if (first.index() == 0) {
    text = std::get<0>(first);
  }
  co_await ctx.sleep(1s);
  co_return boost::json::value(text);
}

TEST(RunAny, TakesTheFirstAndGivesUpTheOthers) {
  Machine machine(answer_or_time);
  machine.step(started());
  const Activated activated = machine.step(signalled("answer", "yes"));
  EXPECT_EQ(activated.given_up, Numbers{1}) << "its timer need not fire";
  machine.step(fired(1));
  EXPECT_EQ(machine.step(fired(2)).end->value, "yes") << "one that fires after all is passed over";
}

TEST(RunAny, OfASignalThatIsGivenUpKeepsTheSignal) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    auto go = ctx.signal<std::string>("go");
    const auto first = co_await ctx.any(go, ctx.sleep(1h));
    EXPECT_EQ(first.index(), 1U);
    const auto word = co_await ctx.signal<std::string>("go");
    co_return boost::json::value(word);
  };
  Machine machine(body);
  machine.step(started());
  EXPECT_TRUE(machine.step(fired(1)).given_up.empty()) << "nobody does anything for a signal";
  EXPECT_EQ(machine.step(signalled("go", "now")).end->value, "now");
}

TEST(RunAny, OfSeveralThatHappenAtOnceIsTheFirstEvent) {
  Machine machine(answer_or_time);
  machine.step(started());
  machine.step({fired(1), signalled("answer", "yes")});
  EXPECT_EQ(machine.step(fired(2)).end->value, "late");
}

TEST(RunAny, OfAList) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    std::vector<Task<int>> tasks;
    for (int i = 0; i < 3; ++i) {
      tasks.push_back(number(ctx, "item"));
    }
    const First<int> first = co_await ctx.any(std::move(tasks));
    co_return 10 * static_cast<int>(first.index) + first.value;
  };
  Machine machine(body);
  machine.step(started());
  EXPECT_EQ(machine.step(ended(2, 7)).unwanted, (Numbers{0, 1}));
  EXPECT_FALSE(machine.step(ended(1, 8)).end);
  EXPECT_EQ(machine.step(failed(0, "stopped")).end->value, 27);
  const Body none = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    static_cast<void>(co_await ctx.any(std::vector<Task<int>>()));
    co_return nullptr;
  };
  EXPECT_NE(failure<InvalidArgument>(Machine(none).step(started())).find("no first of none"),
            std::string::npos);
}

TEST(RunAny, OfAPartGivesUpAllThatThePartWaitsFor) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    auto parts = ctx.all(number(ctx, "a"), number(ctx, "b"));
    const auto first = co_await ctx.any(parts, ctx.sleep(1s));
    co_return first.index();
  };
  Machine machine(body);
  machine.step(started());
  EXPECT_EQ(machine.step(fired(0)).unwanted, (Numbers{1, 2}));
  EXPECT_EQ(machine.step({failed(1, "stopped"), failed(2, "stopped")}).end->value, 1U);
}

TEST(RunAny, LoopsKeepNoWaitsThatWereGivenUp) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    int turns = 0;
    for (bool going = true; going; ++turns) {
      auto stop = ctx.signal<int>("stop");
      const auto first = co_await ctx.any(stop, ctx.sleep(1s));
      going = first.index() == 1;
    }
    co_return turns;
  };
  Machine machine(body);
  machine.step(started());
  for (std::uint64_t turn = 0; turn < 100; ++turn) {
    machine.step(fired(2 * turn + 1));
  }
  EXPECT_EQ(machine.step(signalled("stop", 1)).end->value, 101);
}

TEST(RunTogether, IsCancelledInEveryPlace) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    auto [a, b] = co_await ctx.all(number(ctx, "a"), number(ctx, "b"));
    const auto first = co_await ctx.any(ctx.sleep(1h), number(ctx, "c"));
    const int d = co_await number(ctx, "d");
    co_return a + b + d + static_cast<int>(first.index());
  };
  const std::vector<Event> events{started(), ended(0, 1), ended(1, 1), ended(3, 1), ended(4, 1)};
  for (std::size_t before = 1; before < events.size(); ++before) {
    Machine machine(body);
    for (std::size_t i = 0; i < before; ++i) {
      machine.step(events[i]);
    }
    Activated activated = machine.step(cancel());
    ASSERT_FALSE(activated.unwanted.empty()) << before;
    std::vector<Event> stopped;
    for (const std::uint64_t step : activated.unwanted) {
      stopped.push_back(failed(step, "stopped"));
    }
    activated = machine.step(std::move(stopped));
    ASSERT_TRUE(activated.end) << before;
    EXPECT_THROW(std::rethrow_exception(activated.end->error), Cancelled) << before;
  }
}

}  // namespace
}  // namespace holdfast::detail
