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

/// Waits so many seconds, then for the lock.
Task<std::string> locks_after(Context& ctx, std::vector<std::string> plan) {
  co_await ctx.sleep(std::chrono::seconds(std::stoi(plan.at(1))));
  auto wait = ctx.lock(plan.at(0));
  auto lock = co_await ctx.attempt(wait);
  co_return lock ? "in" : lock.message();
}
const auto kLocksAfter = workflow("locks_after", locks_after);

/// Begins a child, which comes to the lock after so many seconds, and waits for it three seconds
/// later: holding the lock, or having let go of it.
Task<std::string> waits_for_child_later(Context& ctx, std::vector<std::string> plan) {
  RunLock lock = co_await ctx.lock("x");
  const std::string what = plan.at(0);
  const std::vector<std::string> for_child{"x", plan.at(1)};
  auto child = ctx.child<std::string>(what, for_child, {.id = "child"});
  if (plan.at(2) == "asks for y first") {
    auto y = ctx.lock("y", {.timeout = 3s});
    static_cast<void>(co_await ctx.attempt(y));
  } else {
    co_await ctx.sleep(3s);
  }
  if (plan.at(2) == "lets go") {
    lock.release();
  }
  auto said = co_await ctx.attempt(child);
  if (!said) {
    const auto last = co_await ctx.signal<std::string>("go");
    co_return said.message() + last;
  }
  co_return said.value();
}
const auto kWaitsForChildLater = workflow("waits_for_child_later", waits_for_child_later);

/// Hands its plan to a child of its own, for which it waits at once, or only later.
Task<std::string> passes_it_on(Context& ctx, std::vector<std::string> plan) {
  auto child = ctx.child<std::string>("locks_after", plan, {.id = "grandchild"});
  const std::string said = co_await child;
  co_return said;
}
Task<std::string> passes_it_on_later(Context& ctx, std::vector<std::string> plan) {
  auto child = ctx.child<std::string>("locks_after", plan, {.id = "grandchild"});
  co_await ctx.sleep(1s);
  const std::string said = co_await child;
  co_return said;
}
const auto kPassesItOn = workflow("passes_it_on", passes_it_on);
const auto kPassesItOnLater = workflow("passes_it_on_later", passes_it_on_later);

class RunDeadlockTest : public testing_runs::EngineWorld {
 protected:
  using Plan = std::vector<std::string>;

  void add_workflows(Engine& engine) override {
    engine.add(kTakesInOrder);
    engine.add(kCallsUnderLock);
    engine.add(kLocksAfter);
    engine.add(kWaitsForChildLater);
    engine.add(kPassesItOn);
    engine.add(kPassesItOnLater);
  }
  auto start(Process& in, std::string_view id, const Plan& plan) {
    auto handle = run(in, in.engine->start(kTakesInOrder, plan, {.id = id}));
    advance(1ms);  // Who comes later is younger.
    return handle;
  }
  std::string result(Process& in, std::string_view id) {
    return run(in, in.engine->handle(kTakesInOrder, id).result());
  }
  RunHandle<std::string> start_parent(Process& in, const Plan& plan) {
    return run(in, in.engine->start(kWaitsForChildLater, plan, {.id = "parent"}));
  }
  std::string child_said(Process& in, std::string_view id = "child") {
    const auto info = run(in, in.engine->describe(id));
    if (!info || !info->result.is_string()) {
      return info ? info->failure : "there is none";
    }
    return std::string(info->result.get_string());
  }
  void go(Process& in) { run(in, in.engine->signal("parent", "go", std::string("; told"))); }
  void expect_no_traces(Process& in) {
    for (const char* name : {"x", "y"}) {
      const auto gate = run(in, inspect_gate(*in.store, name));
      if (!gate) {
        continue;
      }
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

// --- A child that is waited for later ------------------------------------------------------------

TEST_F(RunDeadlockTest, AWaitForAChildThatWaitsForTheLockOfItsParentIsRefused) {
  Process& here = process();
  auto parent = start_parent(here, {"locks_after", "1", ""});
  advance(2s);
  EXPECT_EQ(run(here, inspect_gate(*here.store, "x"))->waiter_count, 1U) << "it does not wait yet";
  advance(2s);
  EXPECT_NE(child_said(here).find("asked to stop"), std::string::npos)
      << "nobody waits for it any more: " << child_said(here);
  go(here);
  EXPECT_EQ(run(here, parent.result()),
            "deadlock: 'parent' waits for its child 'child', which waits for x, held by "
            "'parent'; told");
  expect_no_traces(here);
}

TEST_F(RunDeadlockTest, AChildThatComesToTheLockWhenItsParentWaitsForItIsRefused) {
  Process& here = process();
  auto parent = start_parent(here, {"locks_after", "10", ""});
  advance(20s);
  EXPECT_EQ(run(here, parent.result()),
            "deadlock: 'child' waits for x, held by 'parent', which waits for its child 'child'");
  expect_no_traces(here);
}

TEST_F(RunDeadlockTest, AParentThatLetsGoAsItBeginsToWaitIsNotRefused) {
  for (const char* seconds : {"1", "10"}) {
    Process& here = process();
    advance(1min);
    auto parent = start_parent(here, {"locks_after", seconds, "lets go"});
    advance(20s);
    EXPECT_EQ(run(here, parent.result()), "in") << seconds;
    expect_no_traces(here);
    kill(here);
  }
}

TEST_F(RunDeadlockTest, AParentThatGaveUpALockBeforeItWaitsForItsChildIsInTheCircle) {
  Process& here = process();
  auto other = start(here, "other", {"y"});
  auto parent = start_parent(here, {"locks_after", "10", "asks for y first"});
  advance(5s);
  EXPECT_EQ(run(here, here.store->scan("wait/")).entries.size(), 1U) << "its wait for the child";
  advance(15s);
  EXPECT_EQ(run(here, parent.result()),
            "deadlock: 'child' waits for x, held by 'parent', which waits for its child 'child'");
}

TEST_F(RunDeadlockTest, TheCircleIsFoundOverAGrandchild) {
  for (const char* by : {"passes_it_on", "passes_it_on_later"}) {
    for (const char* seconds : {"2", "10"}) {
      Process& here = process();
      advance(1min);
      start_parent(here, {by, seconds, ""});
      advance(20s);
      const bool is_asked_first = std::string_view(seconds) == "2";
      if (is_asked_first) {
        go(here);
      }
      const std::string told = child_said(here, is_asked_first ? "parent" : "grandchild");
      EXPECT_NE(told.find("deadlock"), std::string::npos) << by << " " << seconds << ": " << told;
      EXPECT_NE(told.find("waits for its child 'child'"), std::string::npos) << told;
      EXPECT_NE(told.find("held by 'parent'"), std::string::npos) << told;
      expect_no_traces(here);
      kill(here);
    }
  }
}

TEST_F(RunDeadlockTest, AWaitForAChildIsKnownAfterItsProcessHasDied) {
  Process& first = process();
  start_parent(first, {"locks_after", "60", ""});
  advance(10s);
  EXPECT_EQ(run(first, first.store->scan("wait/")).entries.size(), 1U);
  kill(first);
  Process& second = process();
  advance(5min);
  const std::string told = child_said(second);
  EXPECT_NE(told.find("held by 'parent', which waits for its child 'child'"), std::string::npos)
      << told;
  expect_no_traces(second);
}

TEST_F(RunDeadlockTest, AParentThatIsStoppedWhileItWaitsForAChildLeavesNoTrace) {
  Process& first = process();
  start_parent(first, {"locks_after", "60", ""});
  advance(10s);
  run(first, first.engine->terminate("parent", "enough"));
  advance(2min);
  expect_no_traces(first);
  start_parent(first, {"locks_after", "60", ""});
  advance(10s);
  run(first, first.engine->cancel("parent"));
  advance(2min);
  expect_no_traces(first);
}

TEST_F(RunDeadlockTest, AParentAndItsChildThatComeToItInTheSameMoment) {
  Process& here = process("one");
  auto parent = start_parent(here, {"locks_after", "3", ""});
  advance(10s);
  const auto info = run(here, here.engine->describe("parent"));
  if (info->state == RunState::kRunning) {
    go(here);
  }
  const std::string told = run(here, parent.result());
  EXPECT_NE(told.find("deadlock"), std::string::npos) << told;
  expect_no_traces(here);
}

}  // namespace
}  // namespace holdfast
