// SPDX-License-Identifier: Apache-2.0
// Who gives way when runs would wait for each other.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <holdfast/engine.hpp>
#include <holdfast/gate_inspection.hpp>

#include "engine_world.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using testing_runs::Process;

/// Takes the first that the plan names, and, after so many seconds as it says, the second.
Task<std::string> takes_in_order(Context& ctx, std::vector<std::string> plan) {
  const RunLock first = co_await ctx.lock(plan.at(0));
  co_await ctx.sleep(std::chrono::seconds(std::stoi(plan.at(2))));
  const LockOptions spares_the_old{.timeout = 1h, .victim = DeadlockVictim::kYoungest};
  auto wait = ctx.lock(plan.at(1), spares_the_old);
  auto second = co_await ctx.attempt(wait);
  if (!second) {
    co_return second.message();
  }
  co_await ctx.sleep(1s);
  co_return "both";
}
const auto kTakesInOrder = workflow("takes_in_order", takes_in_order);

Task<std::string> calls_under_lock(Context& ctx) {
  const Limit limit("x", 1);
  const RunLock lock = co_await ctx.lock("y");
  co_await ctx.sleep(1s);
  const StepOptions once{.retry = Retry::never(), .limit = &limit};
  auto step = ctx.run("call", [] { return 1; }, once);
  auto called = co_await ctx.attempt(step);
  co_return called ? "called" : called.message();
}
const auto kCallsUnderLock = workflow("calls_under_lock", calls_under_lock);

class RunDeadlockTest : public testing_runs::EngineWorld {
 protected:
  using Plan = std::vector<std::string>;

  void add_workflows(Engine& engine) override {
    engine.add(kTakesInOrder);
    engine.add(kCallsUnderLock);
  }
  auto start(Process& in, std::string_view id, const Plan& plan) {
    auto handle = run(in, in.engine->start(kTakesInOrder, plan, {.id = id}));
    advance(1ms);  // Who comes later is younger.
    return handle;
  }
  std::string result(Process& in, std::string_view id) {
    return run(in, in.engine->handle(kTakesInOrder, id).result());
  }
  void expect_no_traces(Process& in) {
    for (const char* name : {"x", "y"}) {
      const auto gate = run(in, inspect_gate(*in.store, name));
      ASSERT_TRUE(gate);
      EXPECT_EQ(gate->waiter_count, 0U) << name;
      EXPECT_TRUE(gate->holders.empty()) << name;
    }
    for (const char* prefix : {"inbox/", "unattended/", "timer/", "wait/"}) {
      EXPECT_EQ(run(in, in.store->scan(prefix)).entries.size(), 0U) << prefix;
    }
  }
};

TEST_F(RunDeadlockTest, TheYoungestGivesWayThoughAnOlderOneClosesTheCircle) {
  Process& here = process();
  start(here, "old", {"x", "y", "2"});
  start(here, "young", {"y", "x", "1"});
  advance(10s);
  const std::string told = result(here, "young");
  EXPECT_NE(told.find("deadlock"), std::string::npos) << told;
  EXPECT_EQ(told,
            "deadlock: 'young' waits for x, held by 'old', which waits for y, held by 'young'");
  EXPECT_EQ(result(here, "old"), "both");
  expect_no_traces(here);
}

TEST_F(RunDeadlockTest, TheYoungestGivesWayIfItClosesTheCircleItself) {
  Process& here = process();
  start(here, "old", {"x", "y", "1"});
  start(here, "young", {"y", "x", "2"});
  advance(10s);
  EXPECT_NE(result(here, "young").find("deadlock"), std::string::npos);
  EXPECT_EQ(result(here, "old"), "both");
  expect_no_traces(here);
}

TEST_F(RunDeadlockTest, OfThreeTheYoungestGivesWayAndTheOthersGoOn) {
  Process& here = process();
  start(here, "a", {"x", "y", "3"});
  start(here, "b", {"y", "z", "1"});
  start(here, "c", {"z", "x", "2"});
  advance(20s);
  EXPECT_NE(result(here, "c").find("deadlock"), std::string::npos);
  EXPECT_EQ(result(here, "a"), "both");
  EXPECT_EQ(result(here, "b"), "both");
  expect_no_traces(here);
}

TEST_F(RunDeadlockTest, TheProcessOfTheVictimDiesBeforeItHearsOfIt) {
  Process& first = process("one");
  Process& second = process("two");
  start(first, "old", {"x", "y", "2"});
  start(second, "young", {"y", "x", "1"});
  advance(1500ms);
  kill(second);
  advance(500ms);
  EXPECT_EQ(run(first, inspect_gate(*first.store, "y"))->waiter_count, 1U) << "it waits";
  Process& next = process("two");
  advance(2min);
  EXPECT_NE(result(next, "young").find("'young' waits for x, held by 'old'"), std::string::npos);
  EXPECT_EQ(result(first, "old"), "both");
  expect_no_traces(next);
}

TEST_F(RunDeadlockTest, TheOneWhoStaysDiesInTheCommitThatEndsTheCircle) {
  Process& first = process();
  start(first, "old", {"x", "y", "2"});
  start(first, "young", {"y", "x", "1"});
  advance(1500ms);
  bool is_told = false;
  first.store->before_commit = [&](const Batch& batch) {
    if (is_told) {
      throw Cancelled("killed");
    }
    is_told = std::ranges::any_of(
        batch.writes(), [](const Batch::Write& write) { return write.key.ends_with("-deadlock"); });
  };
  advance(1s);
  EXPECT_TRUE(is_told);
  first.kill();
  Process& next = process();
  advance(2min);
  EXPECT_NE(result(next, "young").find("deadlock"), std::string::npos);
  EXPECT_EQ(result(next, "old"), "both");
  expect_no_traces(next);
}

TEST_F(RunDeadlockTest, AStepThatWaitsForItsPermitCanBeTheOneThatGivesWay) {
  Process& here = process();
  start(here, "old", {"x", "y", "2"});
  auto young = run(here, here.engine->start(kCallsUnderLock, {.id = "young"}));
  advance(10s);
  const std::string told = run(here, young.result());
  EXPECT_NE(told.find("deadlock"), std::string::npos) << told;
  EXPECT_EQ(result(here, "old"), "both");
  expect_no_traces(here);
}

}  // namespace
}  // namespace holdfast
