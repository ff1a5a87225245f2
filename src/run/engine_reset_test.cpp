// SPDX-License-Identifier: Apache-2.0
// What a run that was reset keeps, and what begins anew with it.
#include <holdfast/engine.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "engine_world.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using testing_runs::Process;

/// What it does, and when, follows from its start.
Task<std::int64_t> tells_its_start(Context& ctx) {
  co_await ctx.sleep_until(ctx.started_at() + 5s);
  co_await ctx.sleep_until(ctx.started_at() + 10s);
  co_return ctx.started_at().time_since_epoch() / 1ns;
}
const auto kTellsItsStart = workflow("tells_its_start", tells_its_start);

Task<std::int64_t> tells_its_start_again(Context& ctx, bool is_first) {
  co_await ctx.sleep(5s);
  if (is_first) {
    ctx.continue_as_new(false);
  }
  co_return ctx.started_at().time_since_epoch() / 1ns;
}
const auto kTellsItsStartAgain = workflow("tells_its_start_again", tells_its_start_again);

Task<int> waits_for_word(Context& ctx) {
  co_await ctx.sleep(1s);
  const int word = co_await ctx.signal<int>("word");
  co_return word;
}
const auto kWaitsForWord = workflow("waits_for_word", waits_for_word);

class EngineResetTest : public testing_runs::EngineWorld {
 protected:
  void add_workflows(Engine& engine) override {
    engine.add(kTellsItsStart);
    engine.add(kTellsItsStartAgain);
    engine.add(kWaitsForWord);
  }
  RunInfo info(Process& from, const std::string& id) {
    return run(from, from.engine->describe(id)).value();
  }
};

TEST_F(EngineResetTest, WhenItWasStartedStaysSoInARunThatIsResetTwice) {
  Process& one = process();
  const auto started = run(one, one.engine->start(kTellsItsStart, {.id = "teller"}));
  advance(10s);
  const std::int64_t start = run(one, started.result());
  for (int resets = 0; resets < 2; ++resets) {
    run(one, one.engine->reset("teller", 1, "once more"));
    advance(1min);
    EXPECT_EQ(run(one, one.engine->handle(kTellsItsStart, "teller").result()), start);
    const RecordedRun recorded = run(one, one.engine->record("teller"));
    EXPECT_EQ(recorded.started_at.time_since_epoch() / 1ns, start);
    const ReplayVerdict verdict = check_replay(kTellsItsStart, recorded);
    EXPECT_TRUE(verdict.fits && verdict.ended) << verdict.complaint;
  }
}

TEST_F(EngineResetTest, TheOneThatItGoesOnAsIsStartedThen) {
  Process& one = process();
  const auto started = run(one, one.engine->start(kTellsItsStartAgain, true, {.id = "teller"}));
  advance(3s);
  run(one, one.engine->reset("teller", 1, "once more"));
  advance(1min);
  const RunInfo last = info(one, "teller");
  EXPECT_EQ(run(one, started.result()), last.started_at.time_since_epoch() / 1ns);
}

TEST_F(EngineResetTest, ItsTimeoutCountsFromTheReset) {
  Process& one = process();
  run(one, one.engine->start(kWaitsForWord, {.id = "waiter", .timeout = 1h}));
  advance(50min);
  run(one, one.engine->reset("waiter", 1, "once more"));
  const StoreTime reset_at = run(one, one.store->time());
  advance(59min);
  EXPECT_EQ(info(one, "waiter").state, RunState::kRunning);
  EXPECT_EQ(info(one, "waiter").started_at, reset_at) << "that is what people see";
  advance(1min);
  EXPECT_EQ(info(one, "waiter").state, RunState::kTimedOut);
}

}  // namespace
}  // namespace holdfast
