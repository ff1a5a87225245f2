// SPDX-License-Identifier: Apache-2.0
// What can be known of a run from outside.
#include <holdfast/run_inspection.hpp>

#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <holdfast/gates.hpp>
#include <holdfast/leased_gate.hpp>

#include "engine_world.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using testing_runs::Process;
using Kind = RunWaitInfo::Kind;

Task<std::string> locks_and_listens(Context& ctx, std::string name) {
  const LockOptions for_an_hour{.timeout = 1h, .reason = "to listen"};
  const RunLock lock = co_await ctx.lock(name, for_an_hour);
  auto word = co_await ctx.signal<std::string>("go");
  co_return word;
}
const auto kLocksAndListens = workflow("locks_and_listens", locks_and_listens);

Task<void> sleeps(Context& ctx) { co_await ctx.sleep(1min); }
const auto kSleeps = workflow("sleeps", sleeps);

Task<void> waits_for_child(Context& ctx) {
  const ChildOptions named{.id = "the child"};
  co_await ctx.child(kSleeps, named);
}
const auto kWaitsForChild = workflow("waits_for_child", waits_for_child);

/// The signal or the time: with the first, the other one is given up.
Task<std::string> listens_for_a_while(Context& ctx) {
  auto word = ctx.signal<std::string>("go");
  const auto found = co_await ctx.any(word, ctx.sleep(1min));
  auto next = co_await ctx.signal<std::string>("and then");
  co_return found.index() == 0 ? next : "too late";
}
const auto kListensForAWhile = workflow("listens_for_a_while", listens_for_a_while);

Task<void> fails_again(Context& ctx) {
  auto step = ctx.run("call", [] { throw std::runtime_error("no route"); });
  co_await step;
}
const auto kFailsAgain = workflow("fails_again", fails_again);

class RunInspectionTest : public testing_runs::EngineWorld {
 protected:
  void add_workflows(Engine& engine) override {
    engine.add(kLocksAndListens);
    engine.add(kSleeps);
    engine.add(kWaitsForChild);
    engine.add(kListensForAWhile);
    engine.add(kFailsAgain);
  }
  template <typename Workflow, typename... Input>
  auto start(Process& in, std::string_view id, const Workflow& workflow, const Input&... input) {
    return run(in, in.engine->start(workflow, input..., {.id = id}));
  }
  RunInspection look(Process& in, std::string_view id) {
    auto seen = run(in, inspect_run(*in.store, id));
    if (!seen) {
      ADD_FAILURE() << "no run " << id;
      return {};
    }
    return *seen;
  }
  /// Of one that waits for one thing alone.
  RunWaitInfo only_wait(Process& in, std::string_view id) {
    const RunInspection seen = look(in, id);
    EXPECT_EQ(seen.waits.size(), 1U);
    EXPECT_TRUE(seen.run.open_steps.empty());
    return seen.waits.empty() ? RunWaitInfo{} : seen.waits.front();
  }
  Duration until(Process& in, const RunWaitInfo& wait) {
    return wait.until ? *wait.until - run(in, in.store->time()) : Duration{-1};
  }
};

TEST_F(RunInspectionTest, ARunWaitsForALockAndThenForASignal) {
  Process& here = process();
  start(here, "a", kLocksAndListens, "m");
  start(here, "b", kLocksAndListens, "m");
  EXPECT_EQ(only_wait(here, "a").kind, Kind::kSignal);
  EXPECT_EQ(only_wait(here, "a").name, "go");
  const RunWaitInfo lock = only_wait(here, "b");
  EXPECT_EQ(lock.kind, Kind::kLock);
  EXPECT_EQ(lock.name, "m");
  EXPECT_EQ(until(here, lock), 1h);
  const std::string word = "gone";
  run(here, here.engine->signal("a", "go", word));
  EXPECT_EQ(only_wait(here, "b").kind, Kind::kSignal);
  EXPECT_EQ(look(here, "a").run.state, RunState::kCompleted);
  EXPECT_TRUE(look(here, "a").waits.empty());
}

TEST_F(RunInspectionTest, ARunWaitsForATimeOrForItsStart) {
  Process& here = process();
  start(here, "now", kSleeps);
  run(here, here.engine->start(kSleeps, {.id = "later", .delay = 1h}));
  EXPECT_EQ(only_wait(here, "now").kind, Kind::kTime);
  EXPECT_EQ(until(here, only_wait(here, "now")), 1min);
  EXPECT_EQ(only_wait(here, "later").kind, Kind::kStart);
  EXPECT_EQ(until(here, only_wait(here, "later")), 1h);
}

TEST_F(RunInspectionTest, AParentWaitsForItsChild) {
  Process& here = process();
  start(here, "parent", kWaitsForChild);
  const RunWaitInfo child = only_wait(here, "parent");
  EXPECT_EQ(child.kind, Kind::kChild);
  EXPECT_EQ(child.name, "the child");
  EXPECT_EQ(child.child_type, "sleeps");
  EXPECT_EQ(look(here, "the child").run.parent_id, "parent");
}

TEST_F(RunInspectionTest, WhatWasGivenUpIsNotWaitedFor) {
  Process& here = process();
  start(here, "a", kListensForAWhile);
  EXPECT_EQ(look(here, "a").waits.size(), 2U);
  const std::string word = "gone";
  run(here, here.engine->signal("a", "go", word));
  EXPECT_EQ(only_wait(here, "a").name, "and then");
}

TEST_F(RunInspectionTest, AStepThatIsTriedAgainSaysWhenAndWhy) {
  Process& here = process();
  start(here, "a", kFailsAgain);
  const RunInspection seen = look(here, "a");
  ASSERT_EQ(seen.run.open_steps.size(), 1U);
  EXPECT_EQ(seen.run.open_steps.front().failure, "no route");
  EXPECT_TRUE(seen.run.open_steps.front().next_at);
  EXPECT_TRUE(seen.waits.empty());
}

TEST_F(RunInspectionTest, WhoDrivesItAndWhoCould) {
  Process& here = process();
  start(here, "a", kSleeps);
  Process& other = client();
  RunInspection seen = look(other, "a");
  ASSERT_TRUE(seen.driver);
  EXPECT_EQ(seen.driver->id, here.session->id());
  EXPECT_TRUE(seen.driver->live);
  EXPECT_EQ(seen.engines, 1U);
  kill(here);
  advance(31s);
  seen = look(other, "a");
  EXPECT_FALSE(seen.driver && seen.driver->live);
  EXPECT_EQ(seen.engines, 0U);
  start(other, "b", kSleeps);
  EXPECT_EQ(only_wait(other, "b").kind, Kind::kStart) << "nobody has begun it";
  EXPECT_FALSE(only_wait(other, "b").until);
}

TEST_F(RunInspectionTest, ARunIsToldFromASessionAndALease) {
  Process& here = process();
  start(here, "a", kLocksAndListens, "m");
  Gates gates(*here.session, &here.executor);
  auto waits = begin(here, gates.mutex("m").acquire({.holder = "s"}));
  const LeasedGate leased(*here.store, "m", {});
  LeasedRequest request{.holder = "l", .now = {}, .lease = 1h};
  request.now = run(here, here.store->time());
  static_cast<void>(run(here, leased.try_acquire(request)));
  const auto gate = run(here, inspect_gate(*here.store, "m"));
  ASSERT_TRUE(gate);
  ASSERT_EQ(gate->holders.size(), 1U);
  EXPECT_EQ(run_uid_of(gate->holders.front()), look(here, "a").run.uid);
  ASSERT_EQ(gate->waiters.size(), 2U);
  EXPECT_EQ(gate->waiters[0].tie, GateTie::kSession);
  EXPECT_EQ(gate->waiters[1].tie, GateTie::kLease);
  EXPECT_EQ(run_uid_of(gate->waiters[0]), "");

  const std::string uid = look(here, "a").run.uid;
  const std::string word = "gone";
  run(here, here.engine->signal("a", "go", word));
  const auto history = run(here, gate_history(*here.store, "m"));
  ASSERT_EQ(history.size(), 1U);
  EXPECT_EQ(run_uid_of(history.front()), uid);
  EXPECT_TRUE(waits.ended());
}

TEST_F(RunInspectionTest, ARunThatThereIsNot) {
  Process& here = process();
  EXPECT_FALSE(run(here, inspect_run(*here.store, "nobody")));
  EXPECT_FALSE(run(here, find_run(*here.store, "nobody")));
  start(here, "a", kSleeps);
  EXPECT_EQ(run(here, find_run(*here.store, "a"))->type, "sleeps");
}

}  // namespace
}  // namespace holdfast
