// SPDX-License-Identifier: Apache-2.0
// What the simulation of runs has found, each as short as it can be told.
#include <holdfast/engine.hpp>

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "engine_world.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using testing_runs::Process;

Task<int> adds_two(Context& ctx) {
  const int first = co_await ctx.signal<int>("number");
  const int second = co_await ctx.signal<int>("number");
  co_return first + second;
}
const auto kAddsTwo = workflow("adds_two", adds_two);

/// One signal for each run of the chain.
Task<int> adds_in_turn(Context& ctx, std::vector<int> numbers) {
  const int number = co_await ctx.signal<int>("number");
  numbers.push_back(number);
  if (numbers.size() < 3) {
    ctx.continue_as_new(numbers);
  }
  co_return numbers[0] + 10 * numbers[1] + 100 * numbers[2];
}
const auto kAddsInTurn = workflow("adds_in_turn", adds_in_turn);

/// Goes on as another one in the activation that starts it.
Task<int> goes_on_at_once(Context& ctx, bool is_first) {
  if (is_first) {
    ctx.continue_as_new(false);
  }
  const int number = co_await ctx.signal<int>("number");
  co_return number;
}
const auto kGoesOnAtOnce = workflow("goes_on_at_once", goes_on_at_once);

int attempts = 0;
Task<int> tries_for_ever(Context& ctx) {
  auto step = ctx.run("flaky", []() -> int {
    ++attempts;
    throw std::runtime_error("not yet");
  });
  const int value = co_await step;
  co_return value;
}
const auto kTriesForEver = workflow("tries_for_ever", tries_for_ever);

Task<int> takes_updates(Context& ctx) {
  int sum = 0;
  ctx.on_update<int, int>("add", [&](int by) { return sum += by; });
  auto enough = ctx.wait_until([&] { return sum >= 10; });
  co_await enough;
  co_return sum;
}
const auto kTakesUpdates = workflow("takes_updates", takes_updates);

/// One update for each run of the chain, and none more when three have come.
Task<int> counts_in_turn(Context& ctx, int sum) {
  bool came = false;
  ctx.on_query<int>("sum", [&] { return sum; });
  ctx.on_update<int, int>(
      "add",
      [&](int by) {
        came = true;
        return sum += by;
      },
      [&](int /*by*/) {
        if (came) {
          throw std::invalid_argument("one is enough");
        }
      });
  if (sum >= 111) {
    co_await ctx.sleep(1min);
    co_return sum;
  }
  auto one_more = ctx.wait_until([&] { return came; });
  co_await one_more;
  if (sum == 110) {
    co_await ctx.sleep(1min);
  }
  ctx.continue_as_new(sum);
}
const auto kCountsInTurn = workflow("counts_in_turn", counts_in_turn);

class EngineCrashTest : public testing_runs::EngineWorld {
 protected:
  void SetUp() override { attempts = 0; }
  void add_workflows(Engine& engine) override {
    engine.add(kAddsTwo);
    engine.add(kAddsInTurn);
    engine.add(kGoesOnAtOnce);
    engine.add(kTriesForEver);
    engine.add(kTakesUpdates);
    engine.add(kCountsInTurn);
  }
  std::size_t count_rows(Process& in, std::string_view prefix) {
    return run(in, in.store->scan(prefix)).entries.size();
  }
};

TEST_F(EngineCrashTest, ADelayedRunStartsOnce) {
  Process& one = process();
  const auto started = run(one, one.engine->start(kAddsTwo, {.delay = 1min}));
  advance(1min);
  EXPECT_EQ(count_rows(one, "timer/"), 0U) << "the timer of its start has done its duty";
  run(one, one.engine->signal(started.id(), "number", 1));
  advance(1min);
  run(one, one.engine->signal(started.id(), "number", 2));
  EXPECT_EQ(run(one, started.result()), 3);
}

TEST_F(EngineCrashTest, AProcessTakesBackWhatItGaveUp) {
  Process& one = process();
  const auto started = run(one, one.engine->start(kAddsTwo));
  run(one, one.engine->signal(started.id(), "number", 1));
  disk_->set_faults({.seed = 1, .unknown_chance = 1});
  advance(15s);  // It is to leave the memory, of which nobody knows whether it happened.
  EXPECT_EQ(one.engine->live_runs(), 0U);
  disk_->set_faults({});
  advance(10s);
  EXPECT_EQ(one.engine->partitions(), 16U);
  run(one, one.engine->signal(started.id(), "number", 2));
  EXPECT_EQ(run(one, started.result()), 3);
}

TEST_F(EngineCrashTest, SignalsThatComeWithTheEndGoToTheNextRun) {
  Process& far = client();
  const auto started = run(far, far.engine->start(kAddsInTurn, {}, {.id = "chain"}));
  for (const int number : {1, 2, 3}) {
    run(far, far.engine->signal("chain", "number", number));
  }
  process();  // All three are in its inbox at once.
  EXPECT_EQ(run(far, started.result()), 321);
}

TEST_F(EngineCrashTest, ARunThatGoesOnAsAnotherAtOnceGivesItItsName) {
  Process& one = process();
  const auto started = run(one, one.engine->start(kGoesOnAtOnce, true, {.id = "named"}));
  run(one, one.engine->signal("named", "number", 7));
  EXPECT_EQ(run(one, started.result()), 7);
}

TEST_F(EngineCrashTest, ASignalThatIsSentAgainCountsOnceInAllOfTheChain) {
  Process& one = process();
  const auto started = run(one, one.engine->start(kAddsInTurn, {}, {.id = "chain"}));
  run(one, one.engine->signal("chain", "number", 1, "first"));
  run(one, one.engine->signal("chain", "number", 1, "first"));
  run(one, one.engine->signal("chain", "number", 2, "second"));
  run(one, one.engine->signal("chain", "number", 1, "first"));
  run(one, one.engine->signal("chain", "number", 3, "third"));
  EXPECT_EQ(run(one, started.result()), 321);
}

TEST_F(EngineCrashTest, AnUpdateThatIsSentAgainCountsOnceInAllOfTheChain) {
  Process& one = process();
  Process& far = client();
  const auto started = run(one, one.engine->start(kCountsInTurn, 0, {.id = "chain"}));
  const auto add = [&](Process& from, int by, std::string_view request) {
    return run(from, from.engine->update<int>("chain", "add", by, request));
  };
  EXPECT_EQ(add(one, 1, "first"), 1);
  EXPECT_EQ(add(far, 1, "first"), 1);
  EXPECT_EQ(add(far, 9, "other"), 10);
  EXPECT_EQ(add(one, 1, "first"), 1);
  kill(one);
  advance(31s);
  Process& two = process();
  EXPECT_EQ(add(two, 1, "first"), 1);
  EXPECT_EQ(add(far, 9, "other"), 10);
  EXPECT_EQ(add(two, 100, "third"), 110);
  EXPECT_EQ(add(two, 100, "third"), 110) << "the validator would refuse another one";
  EXPECT_THROW(static_cast<void>(add(far, 100, "fourth")), UpdateRefused);
  const RecordedRun recorded = run(two, two.engine->record("chain"));
  EXPECT_EQ(recorded.answers.size(), 2U);
  const ReplayVerdict verdict = check_replay(kCountsInTurn, recorded);
  EXPECT_TRUE(verdict.fits) << verdict.complaint;
  advance(1min);
  EXPECT_EQ(add(far, 100, "third"), 110);
  EXPECT_EQ(add(far, 1, "fifth"), 111);
}

TEST_F(EngineCrashTest, WhoAsksBeforeTheRunHasBegunIsAnsweredThen) {
  Process& far = client();
  run(far, far.engine->start(kCountsInTurn, 100, {.id = "early"}));
  auto query = begin(far, far.engine->query<int>("early", "sum"));
  auto update = begin(far, far.engine->update<int>("early", "add", 10));
  EXPECT_FALSE(query.ended());
  process();
  EXPECT_EQ(query.get(), 100);
  EXPECT_EQ(update.get(), 110);
}

TEST_F(EngineCrashTest, ARunThatBeginsLaterAnswersNobodyUntilThen) {
  Process& one = process();
  run(one, one.engine->start(kCountsInTurn, 100, {.id = "late", .delay = 1h}));
  EXPECT_THROW(static_cast<void>(run(one, one.engine->query<int>("late", "sum"))), NoSuchHandler);
  EXPECT_THROW(static_cast<void>(run(one, one.engine->update<int>("late", "add", 1))),
               NoSuchHandler);
  EXPECT_EQ(count_rows(one, "inbox/"), 0U);
  advance(1h);
  EXPECT_EQ(run(one, one.engine->query<int>("late", "sum")), 100);
}

TEST_F(EngineCrashTest, ARunThatEndsBetweenTwoAttemptsLeavesNothing) {
  Process& one = process();
  const std::string id = run(one, one.engine->start(kTriesForEver)).id();
  advance(10s);
  EXPECT_GT(attempts, 2);
  EXPECT_EQ(count_rows(one, "timer/"), 1U);
  run(one, one.engine->terminate(id, "enough"));
  EXPECT_EQ(count_rows(one, "timer/"), 0U);
  EXPECT_EQ(count_rows(one, "journal/"), 0U);
}

TEST_F(EngineCrashTest, WhoAsksARunThatIsEndedMeanwhileIsTold) {
  Process& far = client();
  const std::string id = run(far, far.engine->start(kTakesUpdates)).id();
  auto update = begin(far, far.engine->update<int>(id, "add", 1));
  run(far, far.engine->terminate(id, "enough"));
  Process& one = process();
  advance(1min);
  ASSERT_TRUE(update.ended());
  EXPECT_EQ(count_rows(one, "inbox/"), 0U);
  EXPECT_THROW(static_cast<void>(update.get()), NoSuchRun);
}

TEST_F(EngineCrashTest, AnswersToTheDeadArePurged) {
  Process& far = client();
  const std::string id = run(far, far.engine->start(kTakesUpdates)).id();
  begin(far, far.engine->update<int>(id, "add", 1)).request_stop();
  kill(far);
  Process& one = process();
  advance(1min);
  EXPECT_EQ(count_rows(one, "reply/"), 1U);
  static_cast<void>(run(one, one.engine->purge(0s)));
  EXPECT_EQ(count_rows(one, "reply/"), 0U);
}

TEST_F(EngineCrashTest, ARunThatCannotLeaveTheMemoryIsReadAgain) {
  Process& one = process();
  const auto started = run(one, one.engine->start(kAddsTwo));
  run(one, one.engine->signal(started.id(), "number", 1));
  disk_->set_faults({.seed = 1, .conflict_chance = 1});
  advance(12s);
  disk_->set_faults({});
  advance(1min);
  run(one, one.engine->signal(started.id(), "number", 2));
  EXPECT_EQ(run(one, started.result()), 3);
}

}  // namespace
}  // namespace holdfast
