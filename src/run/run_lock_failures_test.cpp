// SPDX-License-Identifier: Apache-2.0
// What has gone wrong elsewhere with locks that outlive processes, with runs as holders and
// waiters.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/engine.hpp>
#include <holdfast/gate_control.hpp>
#include <holdfast/gate_inspection.hpp>
#include <holdfast/leased_gate.hpp>
#include <holdfast/store_error.hpp>

#include "engine_world.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using testing_runs::Process;
using Words = std::vector<std::string>;

/// What happened, in its order. Code that is replayed adds nothing.
Words happened;
void tell(const Context& ctx, const std::string& what) {
  if (!ctx.is_replaying()) {
    happened.push_back(ctx.run_id() + " " + what);
  }
}

Task<std::string> keeps(Context& ctx, std::string gate) {
  const RunLock lock = co_await ctx.lock(gate);
  tell(ctx, "in");
  const auto word = co_await ctx.signal<std::string>("go");
  tell(ctx, "out");
  co_return word;
}
const auto kKeeps = workflow("keeps", keeps);

Task<std::string> gives_up_in_ten_seconds(Context& ctx) {
  const LockOptions ten_seconds{.timeout = 10s};
  auto wait = ctx.lock("m", ten_seconds);
  auto lock = co_await ctx.attempt(wait);
  tell(ctx, lock ? "in" : "too late");
  co_await ctx.signal<std::string>("go");
  co_return lock ? "in" : lock.message();
}
const auto kGivesUpInTenSeconds = workflow("gives_up_in_ten_seconds", gives_up_in_ten_seconds);

/// Goes on as new while it holds the lock, and wants it again.
Task<int> goes_round(Context& ctx, int left) {
  const RunLock lock = co_await ctx.lock("m");
  tell(ctx, "in");
  co_await ctx.signal<std::string>("go");
  if (left > 0) {
    ctx.continue_as_new(left - 1);
  }
  co_return left;
}
const auto kGoesRound = workflow("goes_round", goes_round);

Task<std::string> uses_permits(Context& ctx, int capacity) {
  const Limit limit("gpus", static_cast<std::uint64_t>(capacity));
  auto wait = ctx.acquire(limit);
  auto permit = co_await ctx.attempt(wait);
  if (!permit) {
    co_return permit.message();
  }
  tell(ctx, "in");
  co_await ctx.signal<std::string>("go");
  co_return "had one";
}
const auto kUsesPermits = workflow("uses_permits", uses_permits);

/// The child takes a permit of the same limit, and the parent waits for it.
Task<std::string> shares_with_child(Context& ctx, int capacity) {
  const Limit limit("gpus", static_cast<std::uint64_t>(capacity));
  const RunLock permit = co_await ctx.acquire(limit);
  auto child = ctx.child(kUsesPermits, capacity, {.id = "child"});
  const std::string said = co_await child;
  co_return said;
}
const auto kSharesWithChild = workflow("shares_with_child", shares_with_child);

Task<std::string> leaves_child(Context& ctx, bool abandons) {
  const ChildOptions options{
      .id = "child", .parent_close = abandons ? ParentClose::kAbandon : ParentClose::kTerminate};
  auto child = ctx.child(kKeeps, "m", options);
  co_await ctx.signal<std::string>("go");
  co_return "ended";
}
const auto kLeavesChild = workflow("leaves_child", leaves_child);

/// Lets go after its lock has gone to somebody else.
Task<std::string> lets_go_late(Context& ctx) {
  RunLock lock = co_await ctx.lock("m");
  tell(ctx, "in");
  co_await ctx.signal<std::string>("go");
  lock.release();
  co_return "let go";
}
const auto kLetsGoLate = workflow("lets_go_late", lets_go_late);

Task<std::string> locks_after_word(Context& ctx) {
  co_await ctx.signal<std::string>("go");
  const RunLock lock = co_await ctx.lock("m");
  tell(ctx, "in");
  co_return "in";
}
const auto kLocksAfterWord = workflow("locks_after_word", locks_after_word);

class RunLockFailuresTest : public testing_runs::EngineWorld {
 protected:
  void SetUp() override { happened.clear(); }
  void add_workflows(Engine& engine) override {
    engine.add(kKeeps);
    engine.add(kGivesUpInTenSeconds);
    engine.add(kGoesRound);
    engine.add(kUsesPermits);
    engine.add(kSharesWithChild);
    engine.add(kLeavesChild);
    engine.add(kLetsGoLate);
    engine.add(kLocksAfterWord);
  }

  template <typename Workflow, typename... Input>
  auto start(Process& in, std::string_view id, const Workflow& workflow, const Input&... input) {
    return run(in, in.engine->start(workflow, input..., {.id = id}));
  }
  GateInfo gate(Process& in, std::string_view name = "m") {
    return run(in, inspect_gate(*in.store, name)).value_or(GateInfo{});
  }
  Words holders(Process& in, std::string_view name = "m") {
    Words names;
    for (const GateHolderInfo& holder : gate(in, name).holders) {
      names.push_back(holder.holder);
    }
    return names;
  }
  void go(Process& in, std::string_view id) {
    run(in, in.engine->signal(id, "go", std::string("gone")));
  }
  void put(Process& in, const std::string& key, const std::string& value) {
    Batch batch;
    batch.put(key, value);
    ASSERT_NE(run(in, in.store->commit(std::move(batch))).committed(), nullptr);
  }
  /// From the commit on that lets somebody in, the process of `deaf` hears and writes nothing.
  static void goes_deaf_when_granted(Process& granting, Process& deaf) {
    granting.store->before_commit = [&deaf](const Batch& batch) {
      const bool lets_in = std::ranges::any_of(batch.writes(), [](const Batch::Write& write) {
        return write.value && write.key.starts_with("inbox/");
      });
      if (lets_in) {
        deaf.kill();
      }
    };
  }
  void expect_no_traces(Process& in) {
    EXPECT_EQ(holders(in), Words{});
    EXPECT_EQ(gate(in).waiter_count, 0U);
    for (const char* prefix : {"inbox/", "unattended/", "timer/", "wait/"}) {
      EXPECT_EQ(run(in, in.store->scan(prefix)).entries.size(), 0U) << prefix;
    }
  }
};

TEST_F(RunLockFailuresTest, AHolderWhoseProcessIsKilledHoldsOnAndLetsGoElsewhere) {
  Process& first = process();
  start(first, "a", kKeeps, "m");
  start(first, "b", kKeeps, "m");
  const std::uint64_t fence = gate(first).holders.front().fence;
  kill(first);
  Process& second = process();
  advance(10min);
  EXPECT_EQ(holders(second), Words{"a"});
  EXPECT_EQ(gate(second).holders.front().fence, fence) << "it is the same grant";
  go(second, "a");
  go(second, "b");
  EXPECT_EQ(happened, (Words{"a in", "a out", "b in", "b out"}));
  expect_no_traces(second);
}

TEST_F(RunLockFailuresTest, TheProcessOfTheNextInLineDiesInTheMomentOfTheGrant) {
  Process& holding = process("one");
  Process& waiting = process("two");
  static_cast<void>(run(holding, holding.engine->start(kKeeps, "m", {.id = "a"})));
  static_cast<void>(run(waiting, waiting.engine->start(kKeeps, "m", {.id = "b"})));
  static_cast<void>(run(holding, holding.engine->start(kKeeps, "m", {.id = "c"})));
  goes_deaf_when_granted(holding, waiting);
  run(holding, holding.engine->signal("a", "go", std::string("gone")));
  holding.store->before_commit = nullptr;
  EXPECT_EQ(holders(holding), Words{"b"}) << "granted, and nobody has told it";
  EXPECT_EQ(happened, (Words{"a in", "a out"}));
  Process& next = process("two");
  advance(1min);
  EXPECT_EQ(happened, (Words{"a in", "a out", "b in"}));
  go(next, "b");
  EXPECT_EQ(holders(next), Words{"c"});
  go(holding, "c");
  expect_no_traces(next);
}

TEST_F(RunLockFailuresTest, TheNextInLineIsStoppedInTheMomentOfTheGrant) {
  for (const bool by_force : {false, true}) {
    happened.clear();
    Process& holding = process("one");
    Process& waiting = process("two");
    static_cast<void>(run(holding, holding.engine->start(kKeeps, "m", {.id = "a"})));
    static_cast<void>(run(waiting, waiting.engine->start(kKeeps, "m", {.id = "b"})));
    static_cast<void>(run(holding, holding.engine->start(kKeeps, "m", {.id = "c"})));
    goes_deaf_when_granted(holding, waiting);
    go(holding, "a");
    holding.store->before_commit = nullptr;
    ASSERT_EQ(holders(holding), Words{"b"});
    // Nobody drives it at present, and it has not seen that it holds the lock.
    auto stopping = begin(holding, by_force ? holding.engine->terminate("b", "not wanted")
                                            : holding.engine->cancel("b"));
    Process& next = process("two");
    advance(1min);
    EXPECT_EQ(holders(next), Words{"c"}) << by_force;
    EXPECT_EQ(run(next, next.engine->describe("b"))->state,
              by_force ? RunState::kTerminated : RunState::kCancelled);
    go(holding, "c");
    expect_no_traces(next);
    kill(holding);
    kill(next);
    advance(1min);
  }
}

TEST_F(RunLockFailuresTest, TheFirstInLineIsCancelledAndThoseBehindItKeepTheirOrder) {
  Process& here = process();
  for (const char* id : {"a", "b", "c", "d"}) {
    start(here, id, kKeeps, "m");
  }
  run(here, here.engine->cancel("b"));
  go(here, "a");
  EXPECT_EQ(holders(here), Words{"c"});
  go(here, "c");
  EXPECT_EQ(holders(here), Words{"d"});
  run(here, here.engine->cancel("d"));
  EXPECT_EQ(happened, (Words{"a in", "a out", "c in", "c out", "d in"}));
  expect_no_traces(here);
}

TEST_F(RunLockFailuresTest, OneWhoseTimeIsUpNeverEndsUpHolding) {
  for (const bool dies : {false, true}) {
    happened.clear();
    Process* here = &process();
    start(*here, "a", kKeeps, "m");
    start(*here, "b", kGivesUpInTenSeconds);
    start(*here, "c", kKeeps, "m");
    if (dies) {
      kill(*here);
      here = &process();
    }
    advance(dies ? 1min : 10s);
    EXPECT_EQ(gate(*here).waiter_count, 1U);
    go(*here, "a");
    EXPECT_EQ(holders(*here), Words{"c"});
    go(*here, "b");
    go(*here, "c");
    EXPECT_EQ(happened, (Words{"a in", "b too late", "a out", "c in", "c out"}));
    expect_no_traces(*here);
    kill(*here);
    advance(1min);
  }
}

TEST_F(RunLockFailuresTest, AGrantInTimeIsAGrantThoughItIsSeenTooLate) {
  Process& holding = process("one");
  Process& waiting = process("two");
  static_cast<void>(run(holding, holding.engine->start(kKeeps, "m", {.id = "a"})));
  auto waits = run(waiting, waiting.engine->start(kGivesUpInTenSeconds, {.id = "b"}));
  advance(9s);
  goes_deaf_when_granted(holding, waiting);
  go(holding, "a");
  holding.store->before_commit = nullptr;
  advance(1h);
  Process& next = process("two");
  advance(1min);
  // Which of the two news it hears first is up to the store; what it says is what is so.
  const bool has_it = happened.back() == "b in";
  EXPECT_EQ(holders(next), has_it ? Words{"b"} : Words{});
  go(next, "b");
  expect_no_traces(next);
}

TEST_F(RunLockFailuresTest, OneThatGoesOnAsNewGoesToTheEndOfTheQueue) {
  Process* here = &process();
  start(*here, "a", kGoesRound, 1);
  start(*here, "b", kKeeps, "m");
  kill(*here);
  here = &process();
  advance(1min);
  go(*here, "a");
  EXPECT_EQ(holders(*here), Words{"b"}) << "the new run is another holder, and others waited";
  EXPECT_EQ(gate(*here).waiter_count, 1U);
  go(*here, "b");
  EXPECT_EQ(holders(*here), Words{"a"});
  go(*here, "a");
  EXPECT_EQ(happened, (Words{"a in", "b in", "b out", "a in"}));
  expect_no_traces(*here);
}

TEST_F(RunLockFailuresTest, AParentAndItsChildOnOneLimit) {
  Process& here = process();
  auto alone = start(here, "a", kSharesWithChild, 1);
  const std::string why = run(here, alone.result());
  EXPECT_NE(why.find("deadlock"), std::string::npos) << why;
  EXPECT_EQ(holders(here, "gpus"), Words{});
}

TEST_F(RunLockFailuresTest, AParentAndItsChildOnALimitWithRoomForBoth) {
  Process& here = process();
  auto both = start(here, "a", kSharesWithChild, 2);
  EXPECT_EQ(holders(here, "gpus").size(), 2U);
  go(here, "child");
  EXPECT_EQ(run(here, both.result()), "had one");
  EXPECT_EQ(holders(here, "gpus"), Words{});
}

TEST_F(RunLockFailuresTest, AParentThatEndsFreesWhatItsChildHolds) {
  Process& here = process();
  start(here, "a", kLeavesChild, false);
  start(here, "b", kKeeps, "m");
  EXPECT_EQ(holders(here), Words{"child"});
  go(here, "a");
  EXPECT_EQ(holders(here), Words{"b"});
  go(here, "b");
  expect_no_traces(here);
}

TEST_F(RunLockFailuresTest, AChildThatIsLeftToItselfHoldsOn) {
  Process& here = process();
  start(here, "a", kLeavesChild, true);
  go(here, "a");
  EXPECT_EQ(holders(here), Words{"child"});
  go(here, "child");
  expect_no_traces(here);
}

TEST_F(RunLockFailuresTest, ALimitThatIsLoweredUnderItsHoldersPutsNobodyOut) {
  Process& here = process();
  for (const char* id : {"a", "b", "c", "d"}) {
    start(here, id, kUsesPermits, 3);
  }
  GateControl control(*here.store);
  run(here, control.set_capacity("gpus", 1, {.by = "ops"}));
  EXPECT_EQ(holders(here, "gpus"), (Words{"a", "b", "c"}));
  go(here, "a");
  EXPECT_EQ(gate(here, "gpus").waiter_count, 1U);
  go(here, "b");
  EXPECT_EQ(holders(here, "gpus"), Words{"c"}) << "one is what there is";
  go(here, "c");
  EXPECT_EQ(holders(here, "gpus"), Words{"d"});
  start(here, "e", kUsesPermits, 3);
  run(here, control.set_capacity("gpus", std::nullopt, {.by = "ops"}));
  EXPECT_EQ(holders(here, "gpus"), (Words{"d", "e"})) << "and raised, it lets in who fits";
}

TEST_F(RunLockFailuresTest, ALateReleaseDoesNotFreeTheNextHolder) {
  Process& here = process();
  auto late = start(here, "a", kLetsGoLate);
  start(here, "b", kKeeps, "m");
  start(here, "c", kKeeps, "m");
  GateControl control(*here.store);
  static_cast<void>(
      run(here, control.force_release("m", gate(here).holders.front().fence, {.by = "ops"})));
  EXPECT_EQ(holders(here), Words{"b"});
  go(here, "a");
  EXPECT_EQ(run(here, late.result()), "let go");
  EXPECT_EQ(holders(here), Words{"b"});
  EXPECT_EQ(gate(here).waiter_count, 1U);
}

TEST_F(RunLockFailuresTest, AStrangerCannotReleaseWhatARunHolds) {
  Process& here = process();
  start(here, "a", kKeeps, "m");
  start(here, "b", kKeeps, "m");
  LeasedGate stranger(*here.store, "m");
  const StoreTime now = run(here, here.store->time());
  const std::uint64_t fence = gate(here).holders.front().fence;
  EXPECT_FALSE(run(here, stranger.release({.holder = "a", .fence = fence, .now = now})));
  EXPECT_FALSE(run(here, stranger.renew({.holder = "a", .fence = fence, .now = now})));
  EXPECT_FALSE(run(here, stranger.withdraw("a", now)));
  EXPECT_FALSE(run(here, stranger.withdraw("b", now)));
  EXPECT_EQ(holders(here), Words{"a"});
  EXPECT_EQ(gate(here).waiter_count, 1U);
}

TEST_F(RunLockFailuresTest, WhoeverCountsThePermitsDifferentlyGetsNone) {
  Process& here = process();
  start(here, "a", kUsesPermits, 2);
  const std::string why = run(here, start(here, "b", kUsesPermits, 3).result());
  EXPECT_NE(why.find("capacity 2, and here as permits, capacity 3"), std::string::npos) << why;
  EXPECT_EQ(holders(here, "gpus"), Words{"a"});
  EXPECT_EQ(gate(here, "gpus").capacity, 2U) << "nothing was changed";
}

TEST_F(RunLockFailuresTest, ADamagedRowLetsNobodyIn) {
  Process& here = process();
  start(here, "a", kKeeps, "m");
  const std::string holder = gate(here).holders.front().key;
  kill(here);
  Process& next = process();
  advance(1min);
  start(next, "c", kLocksAfterWord);
  put(next, holder, "\xff damaged");
  EXPECT_THROW(start(next, "b", kKeeps, "m"), StoreCorrupt);
  EXPECT_FALSE(run(next, next.engine->describe("b"))) << "a start that cannot be is none";
  go(next, "c");
  EXPECT_EQ(happened, Words{"a in"});
  const auto stands = run(next, next.engine->describe("c"));
  ASSERT_TRUE(stands);
  EXPECT_EQ(stands->state, RunState::kRunning);
  EXPECT_NE(stands->parked.find(holder), std::string::npos) << stands->parked;
}

}  // namespace
}  // namespace holdfast
