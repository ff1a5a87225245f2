// SPDX-License-Identifier: Apache-2.0
// Signals that a run does not take.
#include <holdfast/engine.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>

#include <holdfast/this_task.hpp>

#include "engine_world.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_runs::Process;

/// Takes a number when it is asked to, or goes on as another one.
Task<int> takes_when_asked(Context& ctx, int sum) {
  for (;;) {
    const auto order = co_await ctx.signal<std::string>("order");
    if (order == "go on") {
      ctx.continue_as_new(sum);
    }
    if (order == "end") {
      co_return sum;
    }
    const int number = co_await ctx.signal<int>("number");
    sum += number;
  }
}
const auto kTakesWhenAsked = workflow("takes_when_asked", takes_when_asked);

/// Takes three, hours later; then one more.
Task<int> takes_later(Context& ctx) {
  int sum = 0;
  for (int i = 0; i < 4; ++i) {
    co_await ctx.sleep(1h);
    const int number = co_await ctx.signal<int>("number");
    sum += number;
  }
  co_return sum;
}
const auto kTakesLater = workflow("takes_later", takes_later);

constexpr StartOptions kOfKey{.id = "run", .idempotency_key = "key"};

class EngineSignalsTest : public testing_runs::EngineWorld {
 protected:
  void SetUp() override { options_.signals_kept_max = 3; }
  void add_workflows(Engine& engine) override {
    engine.add(kTakesWhenAsked);
    engine.add(kTakesLater);
  }
  void send(Process& from, int number) { run(from, from.engine->signal("run", "number", number)); }
  void order(Process& from, const std::string& text) {
    run(from, from.engine->signal("run", "order", text));
  }
  std::string start_or_order(Process& from, const StartOptions& options, const std::string& text,
                             std::string_view request = {}) {
    auto sent = from.engine->start_or_signal(kTakesWhenAsked, 0, options, "order", text, request);
    return run(from, std::move(sent)).id();
  }
  std::string refusal(Process& from) {
    try {
      send(from, 1000);
    } catch (const QueueFull& error) {
      return error.what();
    }
    return "it was sent";
  }
  void fill(Process& from) {
    for (const int number : {1, 20, 300}) {
      send(from, number);
    }
  }
};

TEST_F(EngineSignalsTest, ASignalWhoseSenderIsSlowIsTakenOnce) {
  Process& one = process();
  auto result = run(one, one.engine->start(kTakesWhenAsked, 0, {.id = "run"}));
  order(one, "take");
  // Until then the inbox is read more than once: the signal is taken, and nobody remembers it.
  one.store->after_next_commit = []() -> Task<void> { co_await this_task::sleep_for(5min); };
  const auto sending = begin(one, one.engine->signal("run", "number", 1));
  advance(4min);
  EXPECT_FALSE(sending.ended());
  advance(2min);
  EXPECT_TRUE(sending.ended());
  order(one, "take");
  send(one, 20);
  order(one, "end");
  EXPECT_EQ(run(one, result.result()), 21);
}

TEST_F(EngineSignalsTest, BeyondALimitTheSenderIsTold) {
  Process& one = process();
  Process& far = client();
  run(one, one.engine->start(kTakesWhenAsked, 0, {.id = "run"}));
  send(one, 1);
  send(far, 20);
  EXPECT_EQ(run(one, one.engine->describe("run")).value().state, RunState::kRunning);
  send(one, 300);
  for (Process* const from : {&one, &far}) {
    const std::uint64_t commits = disk_->commit_count();
    EXPECT_THAT(refusal(*from),
                AllOf(HasSubstr("run 'run' (takes_when_asked) has 3 signals that it did not take"),
                      HasSubstr("EngineOptions::signals_kept_max")));
    EXPECT_EQ(disk_->commit_count(), commits) << "nothing has changed";
  }
}

TEST_F(EngineSignalsTest, ARunThatIsFullKnowsItAfterACrash) {
  Process& one = process();
  run(one, one.engine->start(kTakesWhenAsked, 0, {.id = "run"}));
  fill(one);
  kill(one);
  advance(31s);
  Process& two = process();
  EXPECT_THAT(refusal(two), HasSubstr("has 3 signals"));
  EXPECT_THROW(run(two, two.engine->signal("run", "order", std::string("one"))), QueueFull)
      << "all names count";
}

TEST_F(EngineSignalsTest, WhoTakesSomeGetsMore) {
  Process& one = process();
  const auto started = run(one, one.engine->start(kTakesLater, {.id = "run"}));
  fill(one);
  EXPECT_THAT(refusal(one), HasSubstr("has 3 signals"));
  advance(1h);
  send(one, 4000);
  EXPECT_THAT(refusal(one), HasSubstr("has 3 signals"));
  advance(3h);
  EXPECT_EQ(run(one, started.result()), 4321);
}

TEST_F(EngineSignalsTest, AllElseReachesARunThatIsFull) {
  Process& one = process();
  run(one, one.engine->start(kTakesLater, {.id = "run"}));
  fill(one);
  run(one, one.engine->cancel("run"));
  EXPECT_EQ(run(one, one.engine->describe("run")).value().state, RunState::kCancelled);
}

TEST_F(EngineSignalsTest, ThoseThatAreOnTheirWayAreKept) {
  Process& far = client();
  const auto started = run(far, far.engine->start(kTakesLater, {.id = "run"}));
  fill(far);
  send(far, 4000);  // Nobody has counted them yet.
  process();
  EXPECT_THAT(refusal(far), HasSubstr("has 4 signals"));
  advance(4h);
  EXPECT_EQ(run(far, started.result()), 4321);
}

TEST_F(EngineSignalsTest, ARunThatHasNotBegunKeepsNoMoreEither) {
  Process& one = process();
  const auto started = run(one, one.engine->start(kTakesWhenAsked, 0, {.id = "run", .delay = 1h}));
  send(one, 1);
  order(one, "take");
  order(one, "end");
  EXPECT_THAT(refusal(one), HasSubstr("has 3 signals"));
  advance(1h);
  EXPECT_EQ(run(one, started.result()), 1);
}

TEST_F(EngineSignalsTest, TheOneThatItGoesOnAsIsFullToo) {
  Process& far = client();
  const auto started = run(far, far.engine->start(kTakesWhenAsked, 0, {.id = "run"}));
  order(far, "go on");
  fill(far);
  Process& one = process();
  EXPECT_THAT(refusal(one), HasSubstr("has 3 signals"));
}

TEST_F(EngineSignalsTest, OneThatIsResetGetsThoseThatItHasRoomForAgain) {
  Process& one = process();
  run(one, one.engine->start(kTakesWhenAsked, 0, {.id = "run"}));
  fill(one);
  run(one, one.engine->reset("run", 1, "without the numbers"));
  send(one, 7);
  order(one, "take");
  order(one, "end");
  EXPECT_EQ(run(one, one.engine->handle(kTakesWhenAsked, "run").result()), 7);
}

TEST_F(EngineSignalsTest, StartOrSignalIsToldAsWell) {
  Process& one = process();
  run(one, one.engine->start(kTakesWhenAsked, 0, {.id = "run"}));
  fill(one);
  const StartOptions same{.id = "run"};
  EXPECT_THROW(static_cast<void>(
                   run(one, one.engine->start_or_signal(kTakesWhenAsked, 0, same, "number", 1))),
               QueueFull);
}

// --- To the run of a key -------------------------------------------------------------------------

TEST_F(EngineSignalsTest, StartOrSignalReachesTheRunOfItsKey) {
  Process& one = process();
  EXPECT_EQ(start_or_order(one, kOfKey, "take"), "run");
  run(one, one.engine->start_or_signal(kTakesWhenAsked, 0, kOfKey, "number", 7));
  const StartOptions other_id{.id = "another", .idempotency_key = "key"};
  EXPECT_EQ(start_or_order(one, other_id, "end"), "run");
  EXPECT_EQ(run(one, one.engine->handle(kTakesWhenAsked, "run").result()), 7);
}

TEST_F(EngineSignalsTest, StartOrSignalReachesWhatTheRunOfItsKeyGoesOnAs) {
  Process& one = process();
  start_or_order(one, kOfKey, "take");
  send(one, 7);
  order(one, "go on");
  start_or_order(one, kOfKey, "take");
  send(one, 30);
  run(one, one.engine->reset("run", 1, "without the second number"));
  start_or_order(one, kOfKey, "end");
  EXPECT_EQ(run(one, one.engine->handle(kTakesWhenAsked, "run").result()), 7);
}

TEST_F(EngineSignalsTest, AKeyIsRememberedForAsLongAsItsRunGoesOnAsAnother) {
  Process& one = process();
  start_or_order(one, kOfKey, "go on");
  advance(1h);
  EXPECT_EQ(run(one, one.engine->purge(1min)), 1U);
  EXPECT_EQ(run(one, one.engine->start(kTakesWhenAsked, 0, kOfKey)).id(), "run");
  order(one, "end");
  advance(1h);
  EXPECT_EQ(run(one, one.engine->purge(1min)), 1U);
  const auto key = run(one, one.store->get("start_key/key"));
  EXPECT_FALSE(key.has_value());
}

TEST_F(EngineSignalsTest, TheRunOfAKeyThatHasEndedTakesNone) {
  Process& one = process();
  start_or_order(one, kOfKey, "end");
  EXPECT_THROW(start_or_order(one, kOfKey, "take"), NoSuchRun);
  run(one, one.engine->start(kTakesWhenAsked, 0, {.id = "run"}));
  EXPECT_THROW(start_or_order(one, kOfKey, "take"), NoSuchRun) << "that is another run";
  EXPECT_EQ(run(one, one.engine->list({.type = "takes_when_asked"})).runs.size(), 2U);
}

TEST_F(EngineSignalsTest, TheSameRequestToARunOfAKeyCountsOnce) {
  Process& one = process();
  start_or_order(one, kOfKey, "take", "first");
  start_or_order(one, kOfKey, "take", "first");
  send(one, 7);
  EXPECT_EQ(start_or_order(one, kOfKey, "go on", "second"), "run");
  EXPECT_EQ(start_or_order(one, kOfKey, "end", "third"), "run");
  for (const char* request : {"first", "second", "third"}) {
    EXPECT_EQ(start_or_order(one, kOfKey, "take", request), "run") << "it has got that";
  }
  EXPECT_THROW(start_or_order(one, kOfKey, "take", "fourth"), NoSuchRun);
  EXPECT_EQ(run(one, one.engine->handle(kTakesWhenAsked, "run").result()), 7);
}

TEST_F(EngineSignalsTest, ARunOfAKeyThatHadASignalAndNeverBeganIsKnownToHaveHadIt) {
  Process& one = process();
  constexpr StartOptions kLater{.id = "run", .idempotency_key = "key", .delay = 1h};
  start_or_order(one, kLater, "take", "first");
  run(one, one.engine->cancel("run"));
  EXPECT_EQ(start_or_order(one, kLater, "take", "first"), "run");
  EXPECT_THROW(start_or_order(one, kLater, "take", "second"), NoSuchRun);
}

TEST_F(EngineSignalsTest, WhatIsStartedInsteadOfARunThatHasEndedHasTheKey) {
  Process& far = client();
  run(far, far.engine->start(kTakesWhenAsked, 0, {.id = "run"}));
  order(far, "end");
  start_or_order(far, kOfKey, "take");  // Nobody has read the one before yet.
  Process& one = process();
  send(one, 7);
  order(one, "end");
  EXPECT_EQ(run(one, one.engine->handle(kTakesWhenAsked, "run").result()), 7);
  const StartOptions same_start{.idempotency_key = "key"};
  EXPECT_EQ(run(one, one.engine->start(kTakesWhenAsked, 0, same_start)).id(), "run");
}

TEST_F(EngineSignalsTest, NoneIsStartedInsteadOfARunThatHasEndedIfTheKeyHasStartedAnother) {
  Process& far = client();
  run(far, far.engine->start(kTakesWhenAsked, 0, {.id = "run"}));
  order(far, "end");
  start_or_order(far, kOfKey, "take");
  const StartOptions same_key{.id = "other", .idempotency_key = "key"};
  run(far, far.engine->start(kTakesWhenAsked, 0, same_key));
  Process& one = process();
  run(one, one.engine->signal("other", "number", 7));
  run(one, one.engine->signal("other", "order", std::string("end")));
  EXPECT_EQ(run(one, one.engine->handle(kTakesWhenAsked, "other").result()), 7);
  EXPECT_EQ(run(one, one.engine->list({.type = "takes_when_asked"})).runs.size(), 2U);
}

TEST_F(EngineSignalsTest, NoneIsStartedInsteadOfARunThatHasEndedIfThatOfTheKeyHasEndedToo) {
  Process& far = client();
  run(far, far.engine->start(kTakesWhenAsked, 0, {.id = "run"}));
  order(far, "end");
  start_or_order(far, kOfKey, "take");
  const StartOptions same_key{.id = "other", .idempotency_key = "key"};
  start_or_order(far, same_key, "end");
  process();
  const RunPage page = run(far, far.engine->list({.type = "takes_when_asked"}));
  EXPECT_EQ(page.runs.size(), 2U);
  EXPECT_THAT(page.runs, ::testing::Each(::testing::Field(&RunInfo::state, RunState::kCompleted)));
}

TEST_F(EngineSignalsTest, TheTimeoutOfWhatIsStartedInsteadCountsFromItsStart) {
  Process& far = client();
  run(far, far.engine->start(kTakesWhenAsked, 0, {.id = "run"}));
  order(far, "end");
  start_or_order(far, {.id = "run", .timeout = 1h}, "take");
  advance(30min);
  Process& one = process();
  advance(59min);
  EXPECT_EQ(run(one, one.engine->describe("run")).value().state, RunState::kRunning);
  advance(1min);
  EXPECT_EQ(run(one, one.engine->describe("run")).value().state, RunState::kTimedOut);
}

TEST_F(EngineSignalsTest, ALimitOfNoneIsRefused) {
  options_.signals_kept_max = 0;
  EXPECT_THROW(static_cast<void>(client()), InvalidArgument);
}

}  // namespace
}  // namespace holdfast
