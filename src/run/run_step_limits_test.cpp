// SPDX-License-Identifier: Apache-2.0
// Steps under limits: so many attempts at once, and so many in a period.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <run.pb.h>

#include <holdfast/engine.hpp>
#include <holdfast/gate_control.hpp>
#include <holdfast/gate_inspection.hpp>
#include <holdfast/this_task.hpp>

#include "engine_world.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using testing_runs::Process;
using Strings = std::vector<std::string>;

/// What the steps do something to.
struct LimitedApi {
  int under_way = 0;
  int most_at_once = 0;
  Strings begun;  ///< The key of each attempt that began.
  std::vector<std::uint64_t> fences;
  int fails = 0;  ///< So many of the next calls.
  Duration takes = 10s;
  std::optional<std::string> change_limit_to{};  ///< For code that is replayed.
};
LimitedApi api;

/// Goes back also if the process dies.
class Call {
 public:
  Call() { api.most_at_once = std::max(api.most_at_once, ++api.under_way); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() { --api.under_way; }
};

Task<std::string> call_api(std::string key, std::uint64_t fence) {
  const Call call;
  api.begun.push_back(key);
  api.fences.push_back(fence);
  auto working = this_task::sleep_for(api.takes);
  co_await working;
  if (api.fails > 0) {
    --api.fails;
    throw std::runtime_error("the API says no");
  }
  co_return key;
}

GateDefinition per_minute(std::uint64_t at_once, std::uint64_t count) {
  GateDefinition definition;
  definition.capacity = at_once;
  definition.rate_count = count;
  definition.rate_period = 1min;
  return definition;
}

const Limit kOne("api", 1);
const Limit kTwo("api", 2);
const Limit kSixAMinute("api", per_minute(2, 6));

const auto kCall = [](StepContext& step) { return call_api(step.idempotency_key(), step.fence()); };

Task<std::string> calls(Context& ctx) {
  auto call = ctx.run("call", kCall, {.limit = &kOne});
  const std::string key = co_await call;
  co_return key;
}
const auto kCalls = workflow("calls", calls);

Task<int> calls_many(Context& ctx, int count) {
  std::vector<Durable<std::string>> all;
  for (int i = 0; i < count; ++i) {
    all.push_back(ctx.run("call", kCall, {.limit = &kTwo}));
  }
  const std::vector<std::string> keys = co_await ctx.all(std::move(all));
  co_return static_cast<int>(keys.size());
}
const auto kCallsMany = workflow("calls_many", calls_many);

Task<std::string> calls_at_rate(Context& ctx) {
  auto call = ctx.run("call", kCall, {.limit = &kSixAMinute});
  const std::string key = co_await call;
  co_return key;
}
const auto kCallsAtRate = workflow("calls_at_rate", calls_at_rate);

Task<std::string> tries_twice(Context& ctx) {
  const StepOptions twice{.retry = {.attempts_max = 2, .pause_first = 5s}, .limit = &kOne};
  auto call = ctx.run("call", kCall, twice);
  const std::string key = co_await call;
  co_return key;
}
const auto kTriesTwice = workflow("tries_twice", tries_twice);

/// All of it may take a minute, and an attempt fifteen seconds.
Task<std::string> calls_in_time(Context& ctx) {
  const StepOptions in_time{
      .retry = Retry::never(), .attempt_timeout = 15s, .timeout = 1min, .limit = &kOne};
  auto call = ctx.run("call", kCall, in_time);
  auto outcome = co_await ctx.attempt(call);
  co_return outcome ? outcome.value() : outcome.message();
}
const auto kCallsInTime = workflow("calls_in_time", calls_in_time);

Task<std::string> gives_up_after(Context& ctx, int seconds) {
  auto call = ctx.run("call", kCall, {.limit = &kOne});
  const auto first = co_await ctx.any(call, ctx.sleep(std::chrono::seconds(seconds)));
  co_await ctx.signal<std::string>("go");
  co_return first.index() == 0 ? "called" : "gave up";
}
const auto kGivesUpAfter = workflow("gives_up_after", gives_up_after);

Task<std::string> holds_while_calling(Context& ctx, std::string lock_name) {
  const RunLock lock = co_await ctx.lock(lock_name);
  co_await ctx.sleep(1s);
  const StepOptions once{.retry = Retry::never(), .limit = &kOne};
  auto call = ctx.run("call", kCall, once);
  auto outcome = co_await ctx.attempt(call);
  co_return outcome ? "called" : outcome.message();
}
const auto kHoldsWhileCalling = workflow("holds_while_calling", holds_while_calling);

/// Holds the permit of the API, and waits for the lock.
Task<std::string> locks_with_permit(Context& ctx, std::string lock_name) {
  const RunLock permit = co_await ctx.acquire(kOne);
  co_await ctx.sleep(2s);
  const RunLock lock = co_await ctx.lock(lock_name);
  co_return "both";
}
const auto kLocksWithPermit = workflow("locks_with_permit", locks_with_permit);

Task<std::string> says_it_differently(Context& ctx) {
  auto call = ctx.run("call", kCall, {.limit = &kTwo});
  auto outcome = co_await ctx.attempt(call);
  co_return outcome ? "called" : outcome.message();
}
const auto kSaysItDifferently = workflow("says_it_differently", says_it_differently);

Task<std::string> reports_progress(Context& ctx) {
  auto call = ctx.run("call",
                      [](StepContext& step) -> Task<std::string> {
                        step.heartbeat(step.last_progress<int>().value_or(0) + 1);
                        auto calling = call_api(step.idempotency_key(), step.fence());
                        std::string key = co_await calling;
                        co_return key;
                      },
                      {.limit = &kOne});
  const std::string key = co_await call;
  co_return key;
}
const auto kReportsProgress = workflow("reports_progress", reports_progress);

Task<std::string> changes_its_mind(Context& ctx) {
  const Limit limit(api.change_limit_to.value_or("api"), 1);
  auto call = ctx.run("call", kCall, {.limit = &limit});
  const std::string key = co_await call;
  co_return key;
}
const auto kChangesItsMind = workflow("changes_its_mind", changes_its_mind);

class RunStepLimitsTest : public testing_runs::EngineWorld {
 protected:
  void SetUp() override { api = {}; }
  void add_workflows(Engine& engine) override {
    engine.add(kCalls);
    engine.add(kCallsMany);
    engine.add(kCallsAtRate);
    engine.add(kTriesTwice);
    engine.add(kCallsInTime);
    engine.add(kGivesUpAfter);
    engine.add(kHoldsWhileCalling);
    engine.add(kLocksWithPermit);
    engine.add(kSaysItDifferently);
    engine.add(kReportsProgress);
    engine.add(kChangesItsMind);
  }

  template <typename Workflow, typename... Input>
  auto start(Process& in, std::string_view id, const Workflow& workflow, const Input&... input) {
    return run(in, in.engine->start(workflow, input..., {.id = id}));
  }
  GateInfo gate(Process& in, std::string_view name = "api") {
    return run(in, inspect_gate(*in.store, name)).value_or(GateInfo{});
  }
  Strings holders(Process& in, std::string_view name = "api") {
    Strings names;
    for (const GateHolderInfo& holder : gate(in, name).holders) {
      names.push_back(holder.holder);
    }
    return names;
  }
  std::size_t ended_grants(Process& in, std::string_view name = "api") {
    return run(in, gate_history(*in.store, name)).size();
  }
  std::size_t count_rows(Process& in, std::string_view prefix) {
    return run(in, in.store->scan(prefix)).entries.size();
  }
  /// Nothing of a step is left but what the journal says.
  void expect_nothing_left(Process& in) {
    EXPECT_EQ(holders(in), Strings{});
    EXPECT_EQ(gate(in).waiter_count, 0U);
    for (const char* prefix : {"timer/", "inbox/", "unattended/"}) {
      EXPECT_EQ(count_rows(in, prefix), 0U) << prefix;
    }
  }
};

TEST_F(RunStepLimitsTest, SoManyAttemptsAtOnce) {
  Process& here = process();
  auto many = start(here, "a", kCallsMany, 7);
  auto more = start(here, "b", kCallsMany, 2);
  EXPECT_EQ(holders(here), (Strings{"a", "a"}));
  EXPECT_EQ(gate(here).waiter_count, 7U);
  EXPECT_EQ(gate(here).holders.front().reason, "step 'call'");
  const auto info = run(here, here.engine->describe("a"));
  ASSERT_TRUE(info);
  EXPECT_EQ(std::ranges::count(info->open_steps, true, &OpenStep::waits), 5);
  advance(50s);
  EXPECT_EQ(api.most_at_once, 2);
  EXPECT_EQ(run(here, many.result()), 7);
  EXPECT_EQ(run(here, more.result()), 2);
  EXPECT_TRUE(std::ranges::is_sorted(api.fences)) << "first come, first served";
  EXPECT_EQ(api.fences.size(), 9U);
  EXPECT_GT(api.fences.front(), 0U);
  expect_nothing_left(here);
}

TEST_F(RunStepLimitsTest, SoManyAttemptsInAPeriod) {
  Process& here = process();
  api.takes = 1s;
  api.fails = 2;
  std::vector<RunHandle<std::string>> runs;
  for (int i = 0; i < 8; ++i) {
    runs.push_back(start(here, std::string("r").append(std::to_string(i)), kCallsAtRate));
  }
  advance(10s);
  EXPECT_EQ(api.begun.size(), 7U) << "six at once, and one after each ten seconds";
  advance(10s);
  EXPECT_EQ(api.begun.size(), 8U);
  advance(1min);
  EXPECT_EQ(api.begun.size(), 10U) << "attempts that failed count as well";
  for (auto& one : runs) {
    static_cast<void>(run(here, one.result()));
  }
  EXPECT_EQ(api.most_at_once, 2);
  expect_nothing_left(here);
}

TEST_F(RunStepLimitsTest, AStepThatPausesHoldsNothing) {
  Process& here = process();
  api.fails = 1;
  auto fails_first = start(here, "a", kTriesTwice);
  auto second = start(here, "b", kCalls);
  advance(10s);
  EXPECT_EQ(holders(here), Strings{"b"}) << "it was let in while the other one pauses";
  advance(5s);
  EXPECT_EQ(gate(here).waiter_count, 1U) << "the next attempt waits for its turn";
  advance(5s);
  EXPECT_EQ(holders(here), Strings{"a"});
  EXPECT_EQ(api.begun.size(), 3U);
  advance(10s);
  static_cast<void>(run(here, fails_first.result()));
  static_cast<void>(run(here, second.result()));
  EXPECT_EQ(api.most_at_once, 1);
  expect_nothing_left(here);
}

TEST_F(RunStepLimitsTest, OneThatFailsForGoodLetsGo) {
  Process& here = process();
  api.fails = 2;
  auto fails = start(here, "a", kTriesTwice);
  advance(10s);
  EXPECT_EQ(holders(here), Strings{});
  advance(15s);
  EXPECT_THROW(run(here, fails.result()), RunFailed);
  expect_nothing_left(here);
}

TEST_F(RunStepLimitsTest, AWaitKeepsItsPlaceThroughCrashesAndTheAttemptBeginsOnce) {
  Process* here = &process();
  for (const char* id : {"a", "b", "c"}) {
    start(*here, id, kCalls);
  }
  for (int round = 0; round < 3; ++round) {
    kill(*here);
    here = &process();
    advance(1s);
    EXPECT_EQ(holders(*here), Strings{"a"}) << "the permit is the run's, not the process's";
    EXPECT_EQ(gate(*here).waiter_count, 2U);
  }
  advance(5min);
  Strings keys = api.begun;
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  EXPECT_EQ(keys.size(), 3U) << "one after the other";
  EXPECT_EQ(std::ranges::count(api.begun, api.begun.back()), 1);
  EXPECT_EQ(api.most_at_once, 1);
  expect_nothing_left(*here);
}

TEST_F(RunStepLimitsTest, TheNextOwnerBeginsTheAttemptAnewUnderTheSamePermit) {
  Process& first = process();
  start(first, "a", kCallsAtRate);
  kill(first);
  Process& second = process();
  advance(1min);
  ASSERT_EQ(api.fences.size(), 2U);
  EXPECT_EQ(api.fences[0], api.fences[1]);
  EXPECT_EQ(ended_grants(second), 1U);
  expect_nothing_left(second);
}

TEST_F(RunStepLimitsTest, ItNeedsNoMemoryWhileItWaits) {
  Process& here = process();
  api.takes = 2h;
  start(here, "a", kCalls);
  auto waits = start(here, "b", kCalls);
  advance(1h);
  EXPECT_EQ(here.engine->live_runs(), 1U);
  EXPECT_EQ(api.begun.size(), 1U);
  api.takes = 1s;
  advance(1h);
  EXPECT_EQ(api.begun.size(), 2U);
  advance(1s);
  static_cast<void>(run(here, waits.result()));
  expect_nothing_left(here);
}

TEST_F(RunStepLimitsTest, ADeathAfterTheGrantAndBeforeTheAttemptLosesNothing) {
  Process& here = process();
  start(here, "a", kCalls);
  start(here, "b", kCalls);
  advance(10s - 1ns);
  // As `a` ends, `b` is let in by that commit; its process does not live to see it.
  bool is_let_in = false;
  here.store->before_commit = [&](const Batch& batch) {
    if (is_let_in) {
      throw Cancelled("killed");
    }
    is_let_in = std::ranges::any_of(
        batch.writes(), [](const auto& write) { return write.key.starts_with("inbox/"); });
  };
  advance(1ns);
  EXPECT_TRUE(is_let_in);
  here.kill();
  const std::size_t begun = api.begun.size();
  Process& next = process();
  advance(1min);
  EXPECT_GT(api.begun.size(), begun);
  EXPECT_EQ(api.most_at_once, 1);
  expect_nothing_left(next);
}

TEST_F(RunStepLimitsTest, AnAttemptMayTakeItsTimeFromWhenItBegins) {
  Process& here = process();
  start(here, "a", kCalls);
  start(here, "b", kCalls);
  auto waits = start(here, "c", kCallsInTime);
  advance(20s);
  EXPECT_EQ(holders(here), Strings{"c"});
  advance(10s);
  EXPECT_EQ(run(here, waits.result()), api.begun.back());
  api.takes = 20s;
  auto too_slow = start(here, "d", kCallsInTime);
  advance(15s);
  EXPECT_NE(run(here, too_slow.result()).find("an attempt of step 'call' took too long"),
            std::string::npos);
  expect_nothing_left(here);
}

TEST_F(RunStepLimitsTest, TheTimeForAllOfItCountsTheWait) {
  Process& here = process();
  api.takes = 50s;
  start(here, "a", kCalls);
  start(here, "b", kCalls);
  auto waits = start(here, "c", kCallsInTime);
  advance(1min - 1ns);
  EXPECT_EQ(holders(here), Strings{"b"});
  EXPECT_EQ(gate(here).waiter_count, 1U);
  advance(1ns);
  EXPECT_EQ(gate(here).waiter_count, 0U);
  EXPECT_NE(run(here, waits.result()).find("took too long, with all its attempts"),
            std::string::npos);
  advance(1min);
  EXPECT_EQ(api.begun.size(), 2U);
  expect_nothing_left(here);
}

TEST_F(RunStepLimitsTest, TheTimeForAllOfItGoesOnWhileNobodyDrivesTheRun) {
  Process& first = process();
  api.takes = 10min;
  start(first, "a", kCalls);
  start(first, "b", kCallsInTime);
  start(first, "c", kCallsInTime);
  kill(first);
  advance(50s);
  Process& second = process();
  advance(10s);
  EXPECT_EQ(gate(second).waiter_count, 0U) << "both are late";
  EXPECT_EQ(run(second, second.engine->describe("b"))->state, RunState::kCompleted);
  EXPECT_EQ(run(second, second.engine->describe("c"))->state, RunState::kCompleted);
  advance(20min);
  expect_nothing_left(second);
}

TEST_F(RunStepLimitsTest, OneThatIsNotWantedAnyMoreLeavesTheQueue) {
  Process& here = process();
  start(here, "a", kCalls);
  auto gives_up = start(here, "b", kGivesUpAfter, 5);
  start(here, "c", kCalls);
  EXPECT_EQ(gate(here).waiter_count, 2U);
  advance(5s);
  EXPECT_EQ(gate(here).waiter_count, 1U);
  run(here, here.engine->signal("b", "go", std::string("go")));
  EXPECT_EQ(run(here, gives_up.result()), "gave up");
  advance(20s);
  EXPECT_EQ(api.begun.size(), 2U);
  expect_nothing_left(here);
}

TEST_F(RunStepLimitsTest, RunsThatAreStoppedLeaveTheQueueAndLetGo) {
  Process& here = process();
  for (const char* id : {"a", "b", "c", "d"}) {
    start(here, id, kCalls);
  }
  run(here, here.engine->cancel("b"));
  EXPECT_EQ(gate(here).waiter_count, 2U);
  run(here, here.engine->terminate("c", "not wanted"));
  EXPECT_EQ(gate(here).waiter_count, 1U);
  run(here, here.engine->terminate("a", "not wanted"));
  EXPECT_EQ(holders(here), Strings{"d"});
  run(here, here.engine->cancel("d"));
  advance(10s);
  expect_nothing_left(here);
}

TEST_F(RunStepLimitsTest, CancelledInTheVeryCommitThatWouldLetItIn) {
  Process& here = process();
  start(here, "a", kCalls);
  start(here, "b", kCalls);
  start(here, "c", kCalls);
  advance(5s);
  // Between the look at the gate and the commit that leaves the queue, `a` is ended.
  bool is_done = false;
  here.store->before_commit = [&](const Batch& batch) {
    const bool leaves = std::ranges::any_of(batch.writes(), [](const auto& write) {
      return !write.value && write.key.find("/waiter/") != std::string::npos;
    });
    if (leaves && !std::exchange(is_done, true)) {
      auto store = open_memory_store(disk_);
      auto control = GateControl(*store);
      const auto info = run_in_between(here, inspect_gate(*store, "api"));
      static_cast<void>(run_in_between(
          here, control.force_release("api", info->holders.front().fence, {.by = "ops"})));
    }
  };
  run(here, here.engine->cancel("b"));
  EXPECT_TRUE(is_done);
  settle();
  EXPECT_EQ(holders(here), Strings{"c"});
  advance(30s);
  EXPECT_EQ(gate(here).waiter_count, 0U);
}

TEST_F(RunStepLimitsTest, APermitThatIsTakenAwayStopsTheAttemptWhichIsTriedAgain) {
  Process& here = process();
  auto loses = start(here, "a", kTriesTwice);
  start(here, "b", kCalls);
  advance(1s);
  GateControl control(*here.store);
  static_cast<void>(run(here, control.force_release("api", gate(here).holders.front().fence,
                                                    {.by = "ops", .reason = "stuck"})));
  EXPECT_EQ(holders(here), Strings{"b"});
  EXPECT_EQ(api.under_way, 1) << "the attempt of the one that lost it has stopped";
  advance(1min);
  static_cast<void>(run(here, loses.result()));
  EXPECT_EQ(api.begun.size(), 3U);
  expect_nothing_left(here);
}

TEST_F(RunStepLimitsTest, ACircleThroughAStepIsFound) {
  Process& here = process();
  auto holds = start(here, "a", kHoldsWhileCalling, "m");
  auto locks = start(here, "b", kLocksWithPermit, "m");
  advance(1min);
  EXPECT_EQ(run(here, holds.result()), "called");
  EXPECT_THROW(run(here, locks.result()), RunFailed);
  // And by the step, if it comes last.
  auto first = start(here, "c", kLocksWithPermit, "n");
  advance(1500ms);
  auto last = start(here, "d", kHoldsWhileCalling, "n");
  advance(1min);
  const std::string told = run(here, last.result());
  EXPECT_NE(told.find("deadlock"), std::string::npos) << told;
  EXPECT_EQ(run(here, first.result()), "both");
  expect_nothing_left(here);
}

TEST_F(RunStepLimitsTest, OneWhoSaysSomethingElseOfTheLimitIsTold) {
  Process& here = process();
  start(here, "a", kCalls);
  auto other = start(here, "b", kSaysItDifferently);
  const std::string told = run(here, other.result());
  EXPECT_NE(told.find("capacity 1, and here as"), std::string::npos) << told;
  EXPECT_EQ(gate(here).waiter_count, 0U);
}

TEST_F(RunStepLimitsTest, AFailedAttemptInADrainedLimitIsTriedLater) {
  Process& here = process();
  start(here, "a", kCalls);
  advance(10s);
  GateControl control(*here.store);
  run(here, control.drain("api", {.by = "ops"}));
  auto waits = start(here, "b", kCalls);
  EXPECT_EQ(api.begun.size(), 1U);
  advance(5s);
  EXPECT_EQ(api.begun.size(), 1U);
  run(here, control.resume("api", {.by = "ops"}));
  advance(1min);
  EXPECT_EQ(api.begun.size(), 2U);
  static_cast<void>(run(here, waits.result()));
}

TEST_F(RunStepLimitsTest, ProgressIsWrittenDownAndThePermitKept) {
  Process& first = process();
  api.takes = 1min;
  start(first, "a", kReportsProgress);
  start(first, "b", kReportsProgress);
  advance(30s);
  EXPECT_EQ(holders(first), Strings{"a"});
  kill(first);
  Process& second = process();
  advance(10min);
  EXPECT_EQ(api.most_at_once, 1);
  EXPECT_EQ(api.begun.size(), 3U);
  expect_nothing_left(second);
}

TEST_F(RunStepLimitsTest, CodeThatNamesAnotherLimitLetsGoOfTheOldOne) {
  Process& first = process();
  start(first, "a", kChangesItsMind);
  start(first, "b", kChangesItsMind);
  EXPECT_EQ(holders(first), Strings{"a"});
  kill(first);
  api.change_limit_to = "other";
  Process& second = process();
  advance(5min);
  expect_nothing_left(second);
  EXPECT_EQ(holders(second, "other"), Strings{});
  EXPECT_EQ(ended_grants(second, "other"), 2U);
}

TEST_F(RunStepLimitsTest, AnOperatorsRetryTakesANewPermit) {
  Process& here = process();
  api.fails = 1;
  auto fails_first = start(here, "a", kTriesTwice);
  advance(10s);
  run(here, here.engine->retry_now("a"));
  EXPECT_EQ(holders(here), Strings{"a"});
  advance(10s);
  static_cast<void>(run(here, fails_first.result()));
  EXPECT_EQ(ended_grants(here), 2U);
  expect_nothing_left(here);
}

}  // namespace
}  // namespace holdfast
