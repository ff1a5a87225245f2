// SPDX-License-Identifier: Apache-2.0
// Runs from their start to their end, and processes that end in the middle.
#include <holdfast/engine.hpp>

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include <holdfast/this_task.hpp>

#include "engine_world.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using testing_runs::Process;

/// What steps do to the world outside.
struct World {
  int charges = 0;
  int mails = 0;
  int failures_left = 0;
  std::vector<std::string> log;
};
World world;

Task<std::string> fulfil(Context& ctx, std::string order) {
  auto charge = ctx.run("charge", [&](StepContext& step) {
    ++world.charges;
    return order + "/" + std::to_string(step.idempotency_key().size() > 10);
  });
  const std::string payment = co_await charge;
  co_await ctx.sleep(24h);
  const auto word = co_await ctx.signal<std::string>("shipped");
  auto mail = ctx.run("mail", [] { ++world.mails; });
  co_await mail;
  co_return payment + " " + word;
}
const auto kFulfil = workflow("fulfil", fulfil);

Task<int> fails(Context& ctx) {
  auto step = ctx.run("bad", []() -> int { throw std::runtime_error("no money"); },
                      {.retry = Retry::never()});
  const int value = co_await step;
  co_return value;
}
const auto kFails = workflow("fails", fails);

Task<int> tries(Context& ctx) {
  auto step = ctx.run("flaky",
                      [](StepContext& attempt) {
                        if (world.failures_left-- > 0) {
                          throw std::runtime_error("not yet");
                        }
                        return static_cast<int>(attempt.attempt());
                      },
                      {.retry = {.pause_first = 10s, .factor = 2, .pause_max = 1min}});
  const int attempt = co_await step;
  co_return attempt;
}
const auto kTries = workflow("tries", tries);

Task<int> at_once(Context& /*ctx*/, int value) { co_return value + 1; }
const auto kAtOnce = workflow("at_once", at_once);

Task<int> parent(Context& ctx, int count) {
  std::vector<Durable<int>> children;
  for (int i = 0; i < count; ++i) {
    children.push_back(ctx.child(kAtOnce, i));
  }
  const std::vector<int> values = co_await ctx.all(std::move(children));
  int sum = 0;
  for (const int value : values) {
    sum += value;
  }
  co_return sum;
}
const auto kParent = workflow("parent", parent);

Task<int> counts(Context& ctx, int rounds) {
  auto counter = ctx.global().cell<int>("counter");
  int last = 0;
  for (int i = 0; i < rounds; ++i) {
    auto change = counter.update([](int& value) { return ++value; });
    last = co_await change;
  }
  co_return last;
}
const auto kCounts = workflow("counts", counts);

Task<int> chain(Context& ctx, int left) {
  if (left > 0) {
    ctx.continue_as_new(left - 1);
  }
  const auto word = co_await ctx.signal<int>("end");
  co_return word;
}
const auto kChain = workflow("chain", chain);

Task<std::string> asks(Context& ctx) {
  int level = 0;
  bool done = false;
  ctx.on_query<int>("level", [&] { return level; });
  ctx.on_update<int, int>(
      "raise", [&](int by) { return level += by; },
      [](int by) {
        if (by < 0) {
          throw std::invalid_argument("only up");
        }
      });
  ctx.on_signal<int>("done", [&](int) { done = true; });
  auto wait = ctx.wait_until([&] { return done; });
  co_await wait;
  co_return std::to_string(level);
}
const auto kAsks = workflow("asks", asks);

Task<int> takes_three_seconds(Context& ctx) {
  auto slow = ctx.run("slow", [](StepContext&) -> Task<int> {
    co_await this_task::sleep_for(3s);
    co_return 3;
  });
  const int seconds = co_await slow;
  co_return seconds;
}
const auto kTakesThreeSeconds = workflow("takes_three_seconds", takes_three_seconds);

/// A step that uses a variable of its workflow, and is not wanted any more while it runs.
Task<std::string> waits_for_stop(Context& ctx) {
  std::string used = "there";
  auto slow = ctx.run("slow", [&](StepContext& step) -> Task<int> {
    while (!step.stop_token().stop_requested()) {
      auto paused = this_task::sleep_for(1s);
      try {
        co_await paused;
      } catch (const Cancelled&) {
        continue;  // It takes its time.
      }
    }
    co_await this_task::yield();
    world.log.push_back(used);
    throw Cancelled("stopped");
  });
  auto nap = ctx.sleep(10s);
  const auto first = co_await ctx.any(slow, nap);
  used = "gone";
  co_return std::to_string(first.index());
}
const auto kWaitsForStop = workflow("waits_for_stop", waits_for_stop);

class EngineTest : public testing_runs::EngineWorld {
 protected:
  void SetUp() override { world = {}; }
  void add_workflows(Engine& engine) override {
    engine.add(kFulfil);
    engine.add(kFails);
    engine.add(kTries);
    engine.add(kAtOnce);
    engine.add(kParent);
    engine.add(kCounts);
    engine.add(kChain);
    engine.add(kAsks);
    engine.add(kTakesThreeSeconds);
    engine.add(kWaitsForStop);
  }
  RunInfo describe(Process& in, const std::string& id) {
    return run(in, in.engine->describe(id)).value();
  }
};

TEST_F(EngineTest, ARunGoesFromItsStartToItsResult) {
  Process& one = process();
  const auto started = run(one, one.engine->start(kFulfil, "order-1"));
  EXPECT_EQ(world.charges, 1);
  advance(23h);
  EXPECT_EQ(describe(one, started.id()).state, RunState::kRunning);
  run(one, one.engine->signal(started.id(), "shipped", std::string("today")));
  EXPECT_EQ(world.mails, 0) << "it sleeps still";
  advance(2h);
  EXPECT_EQ(world.mails, 1);
  EXPECT_EQ(run(one, started.result()), "order-1/1 today");
  EXPECT_EQ(describe(one, started.id()).state, RunState::kCompleted);
}

TEST_F(EngineTest, AnotherProcessGoesOnWhereADeadOneStood) {
  Process& one = process();
  const std::string id = run(one, one.engine->start(kFulfil, "order-1")).id();
  ASSERT_EQ(world.charges, 1);
  kill(one);
  advance(1min);
  Process& two = process();
  advance(25h);
  run(two, two.engine->signal(id, "shipped", std::string("late")));
  EXPECT_EQ(run(two, two.engine->handle(kFulfil, id).result()), "order-1/1 late");
  EXPECT_EQ(world.charges, 1) << "what was recorded is not done again";
  EXPECT_EQ(world.mails, 1);
}

TEST_F(EngineTest, ALivingProcessTakesOverFromADeadOne) {
  Process& one = process();
  Process& two = process();
  advance(1min);
  EXPECT_EQ(one.engine->partitions(), 8U);
  EXPECT_EQ(two.engine->partitions(), 8U);
  const std::string id = run(one, one.engine->start(kFulfil, "order-1")).id();
  kill(one);
  advance(1min);
  EXPECT_EQ(two.engine->partitions(), 16U);
  run(two, two.engine->signal(id, "shipped", std::string("late")));
  advance(24h);
  EXPECT_EQ(run(two, two.engine->handle(kFulfil, id).result()), "order-1/1 late");
  EXPECT_EQ(world.charges, 1);
}

TEST_F(EngineTest, AStopHandsOverAtOnce) {
  Process& one = process();
  Process& two = process();
  advance(1min);
  const std::string id = run(one, one.engine->start(kFulfil, "order-1")).id();
  run(one, one.engine->stop());
  settle();
  EXPECT_EQ(two.engine->partitions(), 16U) << "no session had to expire";
  advance(24h);
  run(two, two.engine->signal(id, "shipped", std::string("x")));
  EXPECT_EQ(run(two, two.engine->handle(kFulfil, id).result()), "order-1/1 x");
}

TEST_F(EngineTest, AStopWaitsForWhatIsInHandAndNoLonger) {
  Process& one = process();
  Process& two = process();
  advance(1min);
  const auto started = run(one, one.engine->start(kTakesThreeSeconds));
  const Spawned<void> stopping = begin(one, one.engine->stop(1h));
  EXPECT_FALSE(stopping.ended());
  advance(3s);
  EXPECT_TRUE(stopping.ended()) << "though there is much time left";
  EXPECT_EQ(run(two, two.engine->handle(kTakesThreeSeconds, started.id()).result()), 3);
}

TEST_F(EngineTest, WhatAWorkflowThrowsIsItsEnd) {
  Process& one = process();
  const auto started = run(one, one.engine->start(kFails));
  const RunInfo info = describe(one, started.id());
  EXPECT_EQ(info.state, RunState::kFailed);
  EXPECT_EQ(info.failure, "no money");
  EXPECT_THROW(static_cast<void>(run(one, started.result())), RunFailed);
}

TEST_F(EngineTest, ACancelledRunEndsSo) {
  Process& one = process();
  const std::string id = run(one, one.engine->start(kFulfil, "order-1")).id();
  run(one, one.engine->cancel(id));
  EXPECT_EQ(describe(one, id).state, RunState::kCancelled);
  EXPECT_THROW(run(one, one.engine->signal(id, "shipped", std::string("x"))), NoSuchRun);
}

TEST_F(EngineTest, ATerminatedRunEndsWhereItStands) {
  Process& one = process();
  const std::string id = run(one, one.engine->start(kFulfil, "order-1")).id();
  run(one, one.engine->terminate(id, "a mistake"));
  const RunInfo info = describe(one, id);
  EXPECT_EQ(info.state, RunState::kTerminated);
  EXPECT_EQ(info.failure, "a mistake");
}

TEST_F(EngineTest, AStepIsTriedAgainAfterPausesThatGrow) {
  Process& one = process();
  world.failures_left = 3;
  const auto started = run(one, one.engine->start(kTries));
  EXPECT_EQ(world.failures_left, 2);
  const RunInfo info = describe(one, started.id());
  ASSERT_EQ(info.open_steps.size(), 1U);
  EXPECT_EQ(info.open_steps[0].name, "flaky");
  EXPECT_EQ(info.open_steps[0].attempts_failed, 1U);
  EXPECT_EQ(info.open_steps[0].failure, "not yet");
  advance(9s);
  EXPECT_EQ(world.failures_left, 2);
  advance(1s);
  EXPECT_EQ(world.failures_left, 1);
  advance(19s);
  EXPECT_EQ(world.failures_left, 1);
  advance(1s);
  EXPECT_EQ(world.failures_left, 0);
  advance(40s);
  EXPECT_EQ(run(one, started.result()), 4);
}

TEST_F(EngineTest, AttemptsAreCountedOnInAnotherProcess) {
  Process& one = process();
  world.failures_left = 2;
  const std::string id = run(one, one.engine->start(kTries)).id();
  advance(10s);
  EXPECT_EQ(world.failures_left, 0);
  kill(one);
  Process& two = process();
  advance(2min);
  EXPECT_EQ(run(two, two.engine->handle(kTries, id).result()), 3);
}

TEST_F(EngineTest, RetryNowDoesNotWaitForThePause) {
  Process& one = process();
  world.failures_left = 1;
  const auto started = run(one, one.engine->start(kTries));
  run(one, one.engine->retry_now(started.id()));
  EXPECT_EQ(run(one, started.result()), 2);
}

TEST_F(EngineTest, AStepThatIsNotWantedAnyMoreEndsBeforeTheWorkflowGoesOn) {
  Process& one = process();
  const auto started = run(one, one.engine->start(kWaitsForStop));
  advance(9s);
  EXPECT_TRUE(world.log.empty());
  advance(1s);
  EXPECT_EQ(world.log, std::vector<std::string>{"there"});
  EXPECT_EQ(run(one, started.result()), "1");
}

TEST_F(EngineTest, ChildrenGiveTheirResultsToTheirParent) {
  Process& one = process();
  const auto started = run(one, one.engine->start(kParent, 100));
  EXPECT_EQ(run(one, started.result()), 5050);
}

TEST_F(EngineTest, AChangeOfStateAndItsRecordAreOneCommit) {
  Process& one = process();
  EXPECT_EQ(run(one, run(one, one.engine->start(kCounts, 5)).result()), 5);
  EXPECT_EQ(run(one, run(one, one.engine->start(kCounts, 5)).result()), 10);
}

TEST_F(EngineTest, ARunContinuesAsANewOneUnderItsId) {
  Process& one = process();
  const auto started = run(one, one.engine->start(kChain, 3));
  run(one, one.engine->signal(started.id(), "end", 7));
  EXPECT_EQ(run(one, started.result()), 7);
  const RunPage page = run(one, one.engine->list({.type = "chain"}));
  ASSERT_EQ(page.runs.size(), 4U);
  for (const RunInfo& info : page.runs) {
    EXPECT_EQ(info.id, started.id());
  }
}

TEST_F(EngineTest, QueriesAndUpdatesReachARunFromAnywhere) {
  Process& one = process();
  Process& far = client();
  const std::string id = run(one, one.engine->start(kAsks)).id();
  for (Process* from : {&one, &far}) {
    const int before = run(*from, from->engine->query<int>(id, "level"));
    EXPECT_EQ(run(*from, from->engine->update<int>(id, "raise", 2)), before + 2);
    EXPECT_EQ(run(*from, from->engine->query<int>(id, "level")), before + 2);
    EXPECT_THROW(static_cast<void>(run(*from, from->engine->update<int>(id, "raise", -2))),
                 UpdateRefused);
    EXPECT_THROW(static_cast<void>(run(*from, from->engine->query<int>(id, "nothing"))),
                 NoSuchHandler);
  }
  run(far, far.engine->signal(id, "done", 1));
  EXPECT_EQ(run(far, far.engine->handle(kAsks, id).result()), "4");
}

TEST_F(EngineTest, AClientStartsRunsThatOthersDrive) {
  Process& far = client();
  const auto started = run(far, far.engine->start(kAtOnce, 41));
  EXPECT_EQ(describe(far, started.id()).state, RunState::kRunning) << "nobody is there";
  process();
  EXPECT_EQ(run(far, started.result()), 42);
}

TEST_F(EngineTest, AnIdBelongsToOneRunAtATime) {
  Process& one = process();
  const auto first = run(one, one.engine->start(kFulfil, "a", {.id = "order-1"}));
  EXPECT_EQ(first.id(), "order-1");
  EXPECT_THROW(run(one, one.engine->start(kFulfil, "b", {.id = "order-1"})), RunExists);
  EXPECT_EQ(world.charges, 1);
  const StartOptions same{.id = "order-1", .on_conflict = OnConflict::kUseExisting};
  EXPECT_EQ(run(one, one.engine->start(kFulfil, "c", same)).id(), "order-1");
  EXPECT_EQ(world.charges, 1);
  const StartOptions other{.id = "order-1", .on_conflict = OnConflict::kTerminateExisting};
  run(one, one.engine->start(kFulfil, "d", other));
  EXPECT_EQ(world.charges, 2);
  run(one, one.engine->cancel("order-1"));
  run(one, one.engine->start(kFulfil, "e", {.id = "order-1"}));
  EXPECT_EQ(world.charges, 3);
  EXPECT_EQ(describe(one, "order-1").input, "e");
}

TEST_F(EngineTest, AStartWithAKeyHappensOnce) {
  Process& one = process();
  const StartOptions with_key{.idempotency_key = "request-7"};
  const auto first = run(one, one.engine->start(kAtOnce, 1, with_key));
  const auto second = run(one, one.engine->start(kAtOnce, 1, with_key));
  EXPECT_EQ(first.id(), second.id());
  EXPECT_EQ(run(one, one.engine->list({.type = "at_once"})).runs.size(), 1U);
}

TEST_F(EngineTest, ADelayedStartWaits) {
  Process& one = process();
  const auto started = run(one, one.engine->start(kAtOnce, 1, {.delay = 1h}));
  advance(59min);
  EXPECT_EQ(describe(one, started.id()).state, RunState::kRunning);
  advance(1min);
  EXPECT_EQ(run(one, started.result()), 2);
}

TEST_F(EngineTest, ARunThatTakesTooLongIsEnded) {
  Process& one = process();
  const auto started = run(one, one.engine->start(kFulfil, "a", {.timeout = 1h}));
  advance(1h);
  EXPECT_EQ(describe(one, started.id()).state, RunState::kTimedOut);
}

TEST_F(EngineTest, StartOrSignalDoesOneOrTheOther) {
  Process& one = process();
  const StartOptions named{.id = "order-1"};
  run(one, one.engine->start_or_signal(kFulfil, "a", named, "shipped", std::string("one")));
  run(one, one.engine->start_or_signal(kFulfil, "a", named, "shipped", std::string("two")));
  EXPECT_EQ(world.charges, 1);
  advance(25h);
  EXPECT_EQ(run(one, one.engine->handle(kFulfil, "order-1").result()), "a/1 one");
}

TEST_F(EngineTest, AWaitingRunLeavesTheMemoryAndComesBack) {
  Process& one = process();
  const auto started = run(one, one.engine->start(kFulfil, "a"));
  EXPECT_EQ(one.engine->live_runs(), 1U);
  advance(1min);
  EXPECT_EQ(one.engine->live_runs(), 0U);
  advance(24h);
  run(one, one.engine->signal(started.id(), "shipped", std::string("x")));
  EXPECT_EQ(run(one, started.result()), "a/1 x");
  EXPECT_EQ(world.charges, 1);
}

TEST_F(EngineTest, ARunOfAnUnknownTypeWaitsVisibly) {
  Process& one = process();
  const std::string id = run(one, one.engine->start_run("of_later", 1, {}));
  const RunInfo info = describe(one, id);
  EXPECT_EQ(info.state, RunState::kRunning);
  EXPECT_NE(info.parked.find("of_later"), std::string::npos) << info.parked;
}

TEST_F(EngineTest, AResetRunGoesOnFromAnEarlierPoint) {
  Process& one = process();
  const std::string id = run(one, one.engine->start(kFulfil, "a")).id();
  advance(25h);
  run(one, one.engine->signal(id, "shipped", std::string("wrong")));
  EXPECT_EQ(run(one, one.engine->handle(kFulfil, id).result()), "a/1 wrong");
  run(one, one.engine->reset(id, 2, "the wrong word"));
  settle();
  EXPECT_EQ(describe(one, id).state, RunState::kRunning);
  advance(25h);
  run(one, one.engine->signal(id, "shipped", std::string("right")));
  EXPECT_EQ(run(one, one.engine->handle(kFulfil, id).result()), "a/1 right");
  EXPECT_EQ(world.charges, 1) << "that is before the point";
}

TEST_F(EngineTest, ARunIsRecordedAsFarAsItHasCome) {
  Process& one = process();
  const std::string id = run(one, one.engine->start(kFulfil, "a", {.id = "order-1"})).id();
  EXPECT_EQ(run(one, one.engine->record(id)).rows.size(), 2U) << "begun, and charged";
  advance(25h);
  run(one, one.engine->signal(id, "shipped", std::string("x")));
  const RecordedRun recorded = run(one, one.engine->record(id));
  EXPECT_EQ(recorded.id, "order-1");
  EXPECT_EQ(recorded.type, "fulfil");
  EXPECT_EQ(recorded.input, "a");
  const ReplayVerdict verdict = check_replay(kFulfil, RecordedRun::from_text(recorded.to_text()));
  EXPECT_TRUE(verdict.fits) << verdict.complaint;
  EXPECT_TRUE(verdict.ended);
  EXPECT_EQ(verdict.rows, recorded.rows.size());
  EXPECT_THROW(run(one, one.engine->record("nobody")), NoSuchRun);
}

TEST_F(EngineTest, ASweepByHandSaysWhenItIsToBeDoneAgain) {
  Process& one = client();
  run(one, one.engine->recover_all());
  EXPECT_FALSE(run(one, one.engine->sweep())) << "nobody waits for a time";
  const auto started = run(one, one.engine->start(kFulfil, "a"));
  run(one, one.engine->signal(started.id(), "shipped", std::string("x")));
  const StoreTime now = run(one, one.store->time());
  EXPECT_EQ(run(one, one.engine->sweep()), now + 24h);
  advance(24h);
  EXPECT_EQ(world.mails, 0) << "nothing happens by itself";
  EXPECT_FALSE(run(one, one.engine->sweep()));
  EXPECT_EQ(run(one, started.result()), "a/1 x");
}

TEST_F(EngineTest, PurgedRunsAreGone) {
  Process& one = process();
  const std::string id = run(one, one.engine->start(kAtOnce, 1)).id();
  EXPECT_EQ(run(one, one.engine->purge(1h)), 0U);
  advance(2h);
  EXPECT_EQ(run(one, one.engine->purge(1h)), 1U);
  EXPECT_FALSE(run(one, one.engine->describe(id)));
}

}  // namespace
}  // namespace holdfast
