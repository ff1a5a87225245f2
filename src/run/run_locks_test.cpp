// SPDX-License-Identifier: Apache-2.0
// Durable locks inside of runs.
#include <holdfast/engine.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <run.pb.h>

#include <holdfast/gate_control.hpp>
#include <holdfast/gate_inspection.hpp>
#include <holdfast/gates.hpp>
#include <holdfast/leased_gate.hpp>

#include "engine_world.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using testing_runs::Process;

/// What happened, in its order. Code that is replayed adds nothing.
std::vector<std::string> events;
void note(const Context& ctx, const std::string& what) {
  if (!ctx.is_replaying()) {
    events.push_back(ctx.run_id() + " " + what);
  }
}

/// Holds the lock until it is told to go on.
Task<std::string> holds(Context& ctx, std::string lock_name) {
  const RunLock lock = co_await ctx.lock(lock_name);
  note(ctx, "in");
  const auto word = co_await ctx.signal<std::string>("go");
  note(ctx, "out");
  co_return lock.fence() > 0 ? word : "no fence";
}
const auto kHolds = workflow("holds", holds);

/// What is written under the lock, and the release, are one commit.
Task<std::int64_t> adds(Context& ctx, int rounds) {
  std::int64_t sum = 0;
  for (int i = 0; i < rounds; ++i) {
    const RunLock lock = co_await ctx.lock("account");
    auto cell = ctx.global().cell<std::int64_t>("balance");
    const std::int64_t before = co_await cell.get();
    co_await ctx.sleep(1s);
    co_await cell.set(before + 1);
    sum = before + 1;
  }
  co_return sum;
}
const auto kAdds = workflow("adds", adds);

Task<std::string> waits_a_while(Context& ctx, int seconds) {
  const LockOptions for_a_while{.timeout = std::chrono::seconds(seconds)};
  auto wait = ctx.lock("m", for_a_while);
  auto outcome = co_await ctx.attempt(wait);
  if (!outcome) {
    co_return outcome.message();
  }
  note(ctx, "in");
  co_return "in";
}
const auto kWaitsAWhile = workflow("waits_a_while", waits_a_while);

Task<std::string> fails_inside(Context& ctx) {
  const RunLock lock = co_await ctx.lock("m");
  co_await ctx.sleep(1s);
  throw std::runtime_error("inside");
}
const auto kFailsInside = workflow("fails_inside", fails_inside);

Task<int> goes_on_inside(Context& ctx, int left) {
  const RunLock lock = co_await ctx.lock("m");
  co_await ctx.sleep(1s);
  if (left > 0) {
    ctx.continue_as_new(left - 1);
  }
  co_return left;
}
const auto kGoesOnInside = workflow("goes_on_inside", goes_on_inside);

/// Its next one asks for a lock by the operation that was another one in the first.
Task<std::string> locks_later(Context& ctx, bool is_first) {
  if (is_first) {
    co_await ctx.signal<std::string>("go");
    ctx.continue_as_new(false);
  }
  const RunLock lock = co_await ctx.lock("m");
  co_return "in";
}
const auto kLocksLater = workflow("locks_later", locks_later);

Task<std::string> tries(Context& ctx) {
  std::optional<RunLock> lock = co_await ctx.try_lock("m");
  co_return lock ? "has it" : "not now";
}
const auto kTries = workflow("tries", tries);

/// Two locks, in the order that it is given.
Task<std::string> takes_two(Context& ctx, std::vector<std::string> names) {
  const RunLock first = co_await ctx.lock(names.at(0));
  co_await ctx.sleep(1s);
  auto wait = ctx.lock(names.at(1));
  auto second = co_await ctx.attempt(wait);
  if (!second) {
    co_return second.message();
  }
  co_await ctx.sleep(1s);
  co_return "both";
}
const auto kTakesTwo = workflow("takes_two", takes_two);

Task<std::string> child_of_holder(Context& ctx) {
  auto wait = ctx.lock("m");
  auto lock = co_await ctx.attempt(wait);
  co_return lock ? "in" : lock.message();
}
const auto kChildOfHolder = workflow("child_of_holder", child_of_holder);

Task<std::string> waits_for_child_inside(Context& ctx) {
  const RunLock lock = co_await ctx.lock("m");
  const std::string said = co_await ctx.child(kChildOfHolder);
  co_return said;
}
const auto kWaitsForChildInside = workflow("waits_for_child_inside", waits_for_child_inside);

Task<std::string> goes_on_beside_child(Context& ctx) {
  RunLock lock = co_await ctx.lock("m");
  auto child = ctx.child(kChildOfHolder);
  co_await ctx.sleep(10s);
  lock.release();
  const std::string said = co_await child;
  co_return said;
}
const auto kGoesOnBesideChild = workflow("goes_on_beside_child", goes_on_beside_child);

Task<std::vector<std::uint64_t>> takes_permits(Context& ctx, int weight) {
  const Limit limit("gpus", 4);
  const LockOptions heavy{.weight = static_cast<std::uint64_t>(weight), .reason = "training"};
  const RunLock permits = co_await ctx.acquire(limit, heavy);
  co_await ctx.sleep(10s);
  co_return permits.slots();
}
const auto kTakesPermits = workflow("takes_permits", takes_permits);

Task<std::string> says_otherwise(Context& ctx, int capacity) {
  const Limit limit("gpus", static_cast<std::uint64_t>(capacity));
  auto wait = ctx.acquire(limit);
  auto outcome = co_await ctx.attempt(wait);
  co_return outcome ? "in" : outcome.message();
}
const auto kSaysOtherwise = workflow("says_otherwise", says_otherwise);

Task<std::string> goes_on_after_loss(Context& ctx) {
  const RunLock lock = co_await ctx.lock("m");
  note(ctx, "in");
  const auto word = co_await ctx.signal<std::string>("go");
  auto cell = ctx.global().cell<std::string>("written");
  co_await cell.set(word);
  co_return "wrote";
}
const auto kGoesOnAfterLoss = workflow("goes_on_after_loss", goes_on_after_loss);

Task<std::string> writes_at_once(Context& ctx) {
  const RunLock lock = co_await ctx.lock("m");
  auto cell = ctx.global().cell<std::string>("written");
  co_await cell.set("under the lock");
  co_return "wrote";
}
const auto kWritesAtOnce = workflow("writes_at_once", writes_at_once);

Task<std::string> reads(Context& ctx, bool writes) {
  auto wait = writes ? ctx.unique_lock("table") : ctx.shared_lock("table");
  const RunLock lock = co_await wait;
  note(ctx, "in");
  co_await ctx.sleep(1s);
  note(ctx, "out");
  co_return "done";
}
const auto kReads = workflow("reads", reads);

Task<int> takes_turns_at_rate(Context& ctx) {
  GateDefinition definition;
  definition.capacity = 100;
  definition.rate_count = 1;
  definition.rate_period = 10s;
  const Limit limit("calls", definition);
  const RunLock permit = co_await ctx.acquire(limit);
  note(ctx, "in");
  co_return 1;
}
const auto kTakesTurnsAtRate = workflow("takes_turns_at_rate", takes_turns_at_rate);

Task<std::string> takes_all(Context& ctx, std::vector<std::string> names) {
  std::vector<Limit> limits;
  for (const std::string& name : names) {
    limits.emplace_back(name, 1);
  }
  const std::vector<RunLock> locks = co_await lock_all(ctx, limits, {.timeout = 1min});
  note(ctx, "in");
  co_await ctx.sleep(1s);
  note(ctx, "out");
  co_return locks.front().name() + " " + locks.back().name();
}
const auto kTakesAll = workflow("takes_all", takes_all);

Task<std::string> first_of_two(Context& ctx) {
  auto lock = ctx.lock("m");
  const auto first = co_await ctx.any(lock, ctx.sleep(5s));
  note(ctx, first.index() == 0 ? "lock" : "time");
  co_await ctx.signal<std::string>("go");
  co_return first.index() == 0 ? "lock" : "time";
}
const auto kFirstOfTwo = workflow("first_of_two", first_of_two);

Task<std::string> in_scope(Context& ctx, bool of_type) {
  const LockOptions scoped{.scope = of_type ? LockScope::kWorkflow : LockScope::kExecution};
  const RunLock lock = co_await ctx.lock("m", scoped);
  co_await ctx.signal<std::string>("go");
  co_return lock.name();
}
const auto kInScope = workflow("in_scope", in_scope);

class RunLocksTest : public testing_runs::EngineWorld {
 protected:
  void SetUp() override { events.clear(); }
  void add_workflows(Engine& engine) override {
    engine.add(kHolds);
    engine.add(kAdds);
    engine.add(kWaitsAWhile);
    engine.add(kFailsInside);
    engine.add(kGoesOnInside);
    engine.add(kLocksLater);
    engine.add(kTries);
    engine.add(kTakesTwo);
    engine.add(kChildOfHolder);
    engine.add(kWaitsForChildInside);
    engine.add(kGoesOnBesideChild);
    engine.add(kTakesPermits);
    engine.add(kSaysOtherwise);
    engine.add(kGoesOnAfterLoss);
    engine.add(kWritesAtOnce);
    engine.add(kReads);
    engine.add(kTakesTurnsAtRate);
    engine.add(kTakesAll);
    engine.add(kFirstOfTwo);
    engine.add(kInScope);
  }

  template <typename Workflow, typename... Input>
  auto start(Process& in, std::string_view id, const Workflow& workflow, const Input&... input) {
    return run(in, in.engine->start(workflow, input..., {.id = id}));
  }
  GateInfo gate(Process& in, std::string_view name = "m") {
    auto info = run(in, inspect_gate(*in.store, name));
    if (!info) {
      ADD_FAILURE() << "no gate " << name;
      return {};
    }
    return *info;
  }
  std::vector<std::string> holders(Process& in, std::string_view name = "m") {
    std::vector<std::string> names;
    for (const GateHolderInfo& holder : gate(in, name).holders) {
      names.push_back(holder.holder);
    }
    return names;
  }
  void go(Process& in, std::string_view id) {
    const std::string word = "gone";
    run(in, in.engine->signal(id, "go", word));
  }
  std::size_t count_rows(Process& in, std::string_view prefix) {
    return run(in, in.store->scan(prefix)).entries.size();
  }
};

using Strings = std::vector<std::string>;

bool lets_in(const Batch& batch) {
  return std::ranges::any_of(batch.writes(), [](const Batch::Write& write) {
    return write.value && write.key.find("/holder/") != std::string::npos;
  });
}

std::string numbered(int number) { return std::string("r").append(std::to_string(number)); }

TEST_F(RunLocksTest, OneAtATimeInTheOrderInWhichTheyAsked) {
  Process& here = process();
  for (const char* id : {"a", "b", "c"}) {
    start(here, id, kHolds, "m");
  }
  EXPECT_EQ(holders(here), Strings{"a"});
  EXPECT_EQ(gate(here).waiter_count, 2U);
  EXPECT_EQ(gate(here).holders.front().tie, GateTie::kNothing);
  go(here, "a");
  EXPECT_EQ(holders(here), Strings{"b"});
  go(here, "b");
  go(here, "c");
  EXPECT_EQ(events, (Strings{"a in", "a out", "b in", "b out", "c in", "c out"}));
  EXPECT_EQ(holders(here), Strings{});
  EXPECT_EQ(gate(here).waiter_count, 0U);
  EXPECT_EQ(count_rows(here, "inbox/"), 0U);
  EXPECT_EQ(count_rows(here, "unattended/"), 0U);
  const auto history = run(here, gate_history(*here.store, "m"));
  ASSERT_EQ(history.size(), 3U);
  EXPECT_EQ(history.front().holder, "c");
  EXPECT_EQ(history.front().end, GateGrantInfo::End::kReleased);
  EXPECT_LT(history.back().fence, history.front().fence);
}

TEST_F(RunLocksTest, WhatIsReadUnderItIsNotChangedByOthers) {
  Process& here = process();
  std::vector<RunHandle<std::int64_t>> runs;
  for (const char* id : {"a", "b", "c"}) {
    runs.push_back(start(here, id, kAdds, 5));
  }
  advance(1min);
  std::int64_t most = 0;
  for (auto& one : runs) {
    most = std::max(most, run(here, one.result()));
  }
  EXPECT_EQ(most, 15);
}

TEST_F(RunLocksTest, AWaitKeepsItsPlaceThroughCrashes) {
  for (int round = 0; round < 3; ++round) {
    Process& here = process();
    if (round == 0) {
      for (const char* id : {"a", "b", "c"}) {
        start(here, id, kHolds, "m");
      }
    }
    EXPECT_EQ(holders(here).size(), 1U);
    if (round < 2) {
      kill(here);
      advance(1min);
    } else {
      advance(1min);
      for (const char* id : {"a", "b", "c"}) {
        go(here, id);
      }
      EXPECT_EQ(events, (Strings{"a in", "a out", "b in", "b out", "c in", "c out"}));
    }
  }
}

/// The commit that lets it in is made, and no other one by this process.
TEST_F(RunLocksTest, WhoeverWasLetInByAProcessThatDiedBeforeItSawThatIsIn) {
  Process& here = process();
  for (const char* id : {"a", "b", "c"}) {
    start(here, id, kHolds, "m");
  }
  bool is_let_in = false;
  here.store->before_commit = [&](const Batch& batch) {
    if (is_let_in) {
      throw StoreFailed("the process is dead");
    }
    is_let_in = lets_in(batch);
  };
  go(here, "a");
  ASSERT_TRUE(is_let_in);
  const GateInfo before = gate(here);
  ASSERT_EQ(before.holders.size(), 1U);
  kill(here);
  advance(1min);
  Process& next = process();
  EXPECT_EQ(holders(next), Strings{"b"});
  EXPECT_EQ(gate(next).holders.front().fence, before.holders.front().fence);
  go(next, "b");
  EXPECT_EQ(holders(next), Strings{"c"});
  EXPECT_EQ(count_rows(next, "inbox/"), 0U);
}

TEST_F(RunLocksTest, ManyInOneProcessAreLetInOneAfterTheOther) {
  Process& here = process();
  constexpr int kMany = 300;
  for (int i = 0; i < kMany; ++i) {
    start(here, numbered(i), kHolds, "m");
  }
  for (int i = 0; i < kMany; ++i) {
    run(here, here.engine->signal(numbered(kMany - 1 - i), "go", std::string("gone")));
  }
  Strings expected;
  for (int i = 0; i < kMany; ++i) {
    expected.push_back(numbered(i) + " in");
    expected.push_back(numbered(i) + " out");
  }
  EXPECT_EQ(events, expected);
  EXPECT_EQ(count_rows(here, "inbox/"), 0U);
  EXPECT_EQ(count_rows(here, "gate/m/holder"), 0U);
}

TEST_F(RunLocksTest, OneProcessLetsInARunOfAnother) {
  Process& first = process();
  Process& second = process();
  settle();
  advance(1min);
  for (int i = 0; i < 20; ++i) {
    start(first, numbered(i), kHolds, "m");
  }
  ASSERT_GT(first.engine->partitions(), 0U);
  ASSERT_GT(second.engine->partitions(), 0U);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(holders(first), Strings{numbered(i)});
    go(second, numbered(i));
  }
  EXPECT_EQ(events.size(), 40U);
}

TEST_F(RunLocksTest, ADeadlineEndsTheWait) {
  Process& here = process();
  start(here, "a", kHolds, "m");
  auto waits = start(here, "b", kWaitsAWhile, 5);
  EXPECT_EQ(gate(here).waiter_count, 1U);
  advance(5s);
  EXPECT_NE(run(here, waits.result()).find("deadline"), std::string::npos);
  EXPECT_EQ(gate(here).waiter_count, 0U);
  EXPECT_EQ(count_rows(here, "timer/"), 0U);
  auto again = start(here, "c", kWaitsAWhile, 5);
  go(here, "a");
  EXPECT_EQ(run(here, again.result()), "in");
  EXPECT_EQ(count_rows(here, "timer/"), 0U);
  EXPECT_EQ(run(here, start(here, "d", kWaitsAWhile, 0).result()), "in");
}

TEST_F(RunLocksTest, ZeroTimeDoesNotWait) {
  Process& here = process();
  start(here, "a", kHolds, "m");
  EXPECT_NE(run(here, start(here, "b", kWaitsAWhile, 0).result()).find("time-out is zero"),
            std::string::npos);
  EXPECT_EQ(run(here, start(here, "c", kTries).result()), "not now");
  EXPECT_EQ(gate(here).waiter_count, 0U);
  go(here, "a");
  EXPECT_EQ(run(here, start(here, "d", kTries).result()), "has it");
  EXPECT_EQ(holders(here), Strings{});
}

TEST_F(RunLocksTest, WhoeverFailsInsideLetsGo) {
  Process& here = process();
  auto fails = start(here, "a", kFailsInside);
  EXPECT_EQ(holders(here), Strings{"a"});
  advance(1s);
  EXPECT_THROW(run(here, fails.result()), RunFailed);
  EXPECT_EQ(holders(here), Strings{});
}

TEST_F(RunLocksTest, OneThatGoesOnAsAnotherLetsGo) {
  Process& here = process();
  auto chain = start(here, "a", kGoesOnInside, 2);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(holders(here), Strings{"a"}) << i;
    advance(1s);
  }
  EXPECT_EQ(run(here, chain.result()), 0);
  EXPECT_EQ(holders(here), Strings{});
}

TEST_F(RunLocksTest, NewsOfALockIsNotForTheRunThatGoesOn) {
  Process& here = process();
  start(here, "holder", kHolds, "m");
  auto chain = start(here, "a", kLocksLater, true);
  go(here, "a");
  EXPECT_EQ(gate(here).waiter_count, 1U);
  // As one that came too late for the first run, whose operation 0 it is about.
  const std::string first = run(here, here.engine->describe("a"))->root_uid;
  const Page runs = run(here, here.store->scan("run/"));
  const auto row = std::ranges::find_if(
      runs.entries, [&](const Entry& entry) { return entry.key.ends_with("/" + first); });
  ASSERT_NE(row, runs.entries.end());
  std::string inbox = "inbox/" + row->key.substr(std::string_view("run/").size());
  for (const auto kind : {record::RunEvent::LOCK_SETTLED, record::RunEvent::LOCK_LOST}) {
    record::RunMessage message;
    message.set_format(1);
    message.set_uid(first);
    message.mutable_event()->set_kind(kind);
    Batch batch;
    batch.put(inbox, message.SerializeAsString());
    ASSERT_NE(run(here, here.store->commit(std::move(batch))).committed(), nullptr);
  }
  EXPECT_EQ(count_rows(here, "inbox/"), 0U);
  EXPECT_EQ(gate(here).waiter_count, 1U);
  go(here, "holder");
  EXPECT_EQ(run(here, chain.result()), "in");
}

TEST_F(RunLocksTest, CancelledWhileItHoldsOrWaits) {
  Process& here = process();
  start(here, "a", kHolds, "m");
  start(here, "b", kHolds, "m");
  start(here, "c", kHolds, "m");
  run(here, here.engine->cancel("b"));
  EXPECT_EQ(gate(here).waiter_count, 1U);
  run(here, here.engine->cancel("a"));
  EXPECT_EQ(holders(here), Strings{"c"});
  run(here, here.engine->cancel("c"));
  EXPECT_EQ(holders(here), Strings{});
  EXPECT_EQ(count_rows(here, "inbox/"), 0U);
}

TEST_F(RunLocksTest, TerminatedWhileItHoldsOrWaits) {
  Process& here = process();
  start(here, "a", kHolds, "m");
  start(here, "b", kHolds, "m");
  start(here, "c", kHolds, "m");
  run(here, here.engine->terminate("b", "not wanted"));
  EXPECT_EQ(gate(here).waiter_count, 1U);
  run(here, here.engine->terminate("a", "not wanted"));
  EXPECT_EQ(holders(here), Strings{"c"});
  const auto history = run(here, gate_history(*here.store, "m"));
  ASSERT_EQ(history.size(), 1U);
  EXPECT_EQ(history.front().end, GateGrantInfo::End::kAbandoned);
}

TEST_F(RunLocksTest, TimedOutWhileItHolds) {
  Process& here = process();
  run(here, here.engine->start(kHolds, "m", {.id = "a", .timeout = 10s}));
  start(here, "b", kHolds, "m");
  advance(10s);
  EXPECT_EQ(holders(here), Strings{"b"});
}

TEST_F(RunLocksTest, AHolderThatLeftTheMemoryHoldsStill) {
  Process& here = process();
  start(here, "a", kHolds, "m");
  start(here, "b", kHolds, "m");
  advance(1h);
  EXPECT_EQ(here.engine->live_runs(), 0U);
  EXPECT_EQ(holders(here), Strings{"a"});
  go(here, "a");
  EXPECT_EQ(holders(here), Strings{"b"});
  EXPECT_EQ(events, (Strings{"a in", "a out", "b in"}));
}

TEST_F(RunLocksTest, ACircleIsFoundByTheOneWhoWouldCloseIt) {
  Process& here = process();
  auto first = start(here, "a", kTakesTwo, Strings{"x", "y"});
  advance(500ms);
  auto second = start(here, "b", kTakesTwo, Strings{"y", "x"});
  advance(1min);
  EXPECT_EQ(run(here, first.result()), "both");
  const std::string told = run(here, second.result());
  EXPECT_NE(told.find("deadlock"), std::string::npos) << told;
  EXPECT_NE(told.find("'b' waits for x, held by 'a'"), std::string::npos) << told;
}

TEST_F(RunLocksTest, AChildOnTheLockOfItsParentThatWaits) {
  Process& here = process();
  auto parent = start(here, "a", kWaitsForChildInside);
  const std::string told = run(here, parent.result());
  EXPECT_NE(told.find("deadlock"), std::string::npos) << told;
}

TEST_F(RunLocksTest, AChildOnTheLockOfItsParentThatGoesOn) {
  Process& here = process();
  auto parent = start(here, "a", kGoesOnBesideChild);
  advance(10s);
  EXPECT_EQ(run(here, parent.result()), "in");
}

TEST_F(RunLocksTest, PermitsHaveSlotsAndWeights) {
  Process& here = process();
  auto first = start(here, "a", kTakesPermits, 3);
  auto second = start(here, "b", kTakesPermits, 2);
  auto third = start(here, "c", kTakesPermits, 5);
  EXPECT_THROW(run(here, third.result()), RunFailed);
  EXPECT_EQ(gate(here, "gpus").waiter_count, 1U);
  advance(10s);
  EXPECT_EQ(run(here, first.result()), (std::vector<std::uint64_t>{0, 1, 2}));
  advance(10s);
  EXPECT_EQ(run(here, second.result()), (std::vector<std::uint64_t>{0, 1}));
}

TEST_F(RunLocksTest, OneWhoSaysSomethingElseOfALimitIsTold) {
  Process& here = process();
  EXPECT_EQ(run(here, start(here, "a", kSaysOtherwise, 4).result()), "in");
  const std::string told = run(here, start(here, "b", kSaysOtherwise, 5).result());
  EXPECT_NE(told.find("capacity 4, and here as"), std::string::npos) << told;
  const std::string bad = run(here, start(here, "c", kSaysOtherwise, 0).result());
  EXPECT_NE(bad.find("capacity"), std::string::npos) << bad;
}

TEST_F(RunLocksTest, ReadersTogetherWritersAlone) {
  Process& here = process();
  start(here, "r1", kReads, false);
  start(here, "r2", kReads, false);
  start(here, "w", kReads, true);
  start(here, "r3", kReads, false);
  advance(10s);
  EXPECT_EQ(events,
            (Strings{"r1 in", "r2 in", "r1 out", "r2 out", "w in", "w out", "r3 in", "r3 out"}));
}

TEST_F(RunLocksTest, ASessionAndRunsShareALock) {
  Process& here = process();
  Gates gates(*here.session, &here.executor);
  DurableMutex mutex = gates.mutex("m");
  std::optional<DurableHold> hold = run(here, mutex.acquire());
  start(here, "a", kHolds, "m");
  EXPECT_EQ(gate(here).waiter_count, 1U);
  auto behind = begin(here, mutex.acquire());
  static_cast<void>(run(here, hold->release()));
  EXPECT_EQ(holders(here), Strings{"a"});
  EXPECT_FALSE(behind.ended());
  go(here, "a");
  ASSERT_TRUE(behind.ended());
  hold = behind.get();
  EXPECT_GT(hold->fence(), 0U);
}

TEST_F(RunLocksTest, AHolderThatDiesIsFollowedByARun) {
  Process& here = process();
  LeasedGate leased(*here.store, "m");
  const StoreTime now = run(here, here.store->time());
  const LeasedGrant grant =
      run(here, leased.try_acquire({.holder = "dies", .now = now, .lease = 30s}));
  ASSERT_TRUE(grant.acquired);
  start(here, "a", kHolds, "m");
  start(here, "b", kHolds, "m");
  advance(30s - 1ns);
  EXPECT_EQ(events, Strings{});
  advance(1ns);
  EXPECT_EQ(events, Strings{"a in"});
  go(here, "a");
  EXPECT_EQ(events, (Strings{"a in", "a out", "b in"}));
}

TEST_F(RunLocksTest, ALockThatIsTakenAwayByForceIsNotWrittenUnder) {
  Process& here = process();
  auto loser = start(here, "a", kGoesOnAfterLoss);
  auto winner = start(here, "b", kGoesOnAfterLoss);
  const GateInfo before = gate(here);
  GateControl control(*here.store);
  const auto released = run(here, control.force_release("m", before.holders.front().fence,
                                                        {.by = "ops", .reason = "stuck"}));
  ASSERT_TRUE(released);
  EXPECT_EQ(holders(here), Strings{"b"});
  go(here, "a");
  try {
    static_cast<void>(run(here, loser.result()));
    FAIL() << "it went on without the lock";
  } catch (const RunFailed& failed) {
    EXPECT_NE(std::string(failed.what()).find("'m'"), std::string::npos) << failed.what();
  }
  EXPECT_EQ(holders(here), Strings{"b"});
  go(here, "b");
  EXPECT_EQ(run(here, winner.result()), "wrote");
}

/// Between the commit that let it in and the one with what it did inside.
TEST_F(RunLocksTest, NorIsOneThatIsTakenAwayBeforeItWasSeen) {
  Process& here = process();
  Process& far = client();
  auto first = start(here, "a", kHolds, "m");
  auto second = start(here, "b", kWritesAtOnce);
  bool is_let_in = false;
  here.store->before_commit = [&](const Batch& batch) {
    if (is_let_in) {
      here.store->before_commit = nullptr;
      GateControl control(*far.store);
      const auto info = run_in_between(far, inspect_gate(*far.store, "m"));
      const auto released = run_in_between(
          far, control.force_release("m", info->holders.front().fence, {.by = "ops"}));
      EXPECT_TRUE(released);
    }
    is_let_in = is_let_in || lets_in(batch);
  };
  go(here, "a");
  ASSERT_TRUE(is_let_in);
  EXPECT_EQ(run(here, first.result()), "gone");
  advance(1min);
  EXPECT_THROW(static_cast<void>(run(here, second.result())), RunFailed);
  EXPECT_EQ(count_rows(here, "cell/"), 0U);
  EXPECT_EQ(holders(here), Strings{});
}

TEST_F(RunLocksTest, ARunThatWasResetDoesNotHaveTheLocksOfTheOneBefore) {
  Process& here = process();
  auto chain = start(here, "a", kGoesOnAfterLoss);
  EXPECT_EQ(holders(here), Strings{"a"});
  const std::uint64_t rows_with_the_lock = 2;
  run(here, here.engine->reset("a", rows_with_the_lock, "again"));
  EXPECT_EQ(holders(here), Strings{});
  go(here, "a");
  EXPECT_THROW(run(here, chain.result()), RunFailed);
  EXPECT_EQ(count_rows(here, "cell/"), 0U);
}

TEST_F(RunLocksTest, ARateLetsInOneAfterTheOther) {
  Process& here = process();
  for (const char* id : {"a", "b", "c"}) {
    start(here, id, kTakesTurnsAtRate);
  }
  EXPECT_EQ(events, Strings{"a in"});
  advance(10s);
  EXPECT_EQ(events, (Strings{"a in", "b in"}));
  kill(here);
  Process& next = process();
  advance(1min);
  EXPECT_EQ(events, (Strings{"a in", "b in", "c in"}));
  EXPECT_EQ(count_rows(next, "unattended/"), 0U);
}

TEST_F(RunLocksTest, SeveralAtOnceInBothOrders) {
  Process& here = process();
  auto one = start(here, "a", kTakesAll, Strings{"x", "y"});
  auto two = start(here, "b", kTakesAll, Strings{"y", "x"});
  advance(1min);
  EXPECT_EQ(run(here, one.result()), "x y");
  EXPECT_EQ(run(here, two.result()), "y x");
  EXPECT_EQ(events, (Strings{"a in", "a out", "b in", "b out"}));
  auto twice = start(here, "c", kTakesAll, Strings{"x", "x"});
  EXPECT_THROW(run(here, twice.result()), RunFailed);
}

TEST_F(RunLocksTest, OneThatIsNotWaitedForAnyMoreIsNotHeld) {
  Process& here = process();
  start(here, "a", kHolds, "m");
  start(here, "b", kFirstOfTwo);
  EXPECT_EQ(gate(here).waiter_count, 1U);
  advance(5s);
  EXPECT_EQ(events, (Strings{"a in", "b time"}));
  EXPECT_EQ(gate(here).waiter_count, 0U);
  go(here, "a");
  EXPECT_EQ(holders(here), Strings{});
}

TEST_F(RunLocksTest, NamesInAScopeAreOthers) {
  Process& here = process();
  auto one = start(here, "a", kInScope, true);
  auto other = start(here, "b", kInScope, false);
  auto third = start(here, "c", kInScope, false);
  start(here, "d", kInScope, true);
  EXPECT_EQ(holders(here, "workflow/in_scope/m"), Strings{"a"});
  EXPECT_EQ(gate(here, "workflow/in_scope/m").waiter_count, 1U);
  for (const char* id : {"b", "c"}) {
    const auto info = run(here, here.engine->describe(id));
    ASSERT_TRUE(info);
    EXPECT_EQ(holders(here, "execution/" + info->root_uid + "/m"), Strings{id});
  }
}

}  // namespace
}  // namespace holdfast
