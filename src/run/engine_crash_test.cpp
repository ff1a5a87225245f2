// SPDX-License-Identifier: Apache-2.0
// What the simulation of runs has found, each as short as it can be told.
#include <holdfast/engine.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include <run.pb.h>

#include <holdfast/store_error.hpp>

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

/// Nothing that it does has to be durable before it goes on.
Task<int> naps_between(Context& ctx) {
  const int first = co_await ctx.signal<int>("number");
  co_await ctx.sleep(5s);
  const int second = co_await ctx.signal<int>("number");
  co_await ctx.sleep(5s);
  co_return first + second;
}
const auto kNapsBetween = workflow("naps_between", naps_between);

Task<int> naps(Context& ctx) {
  co_await ctx.sleep(5s);
  co_await ctx.sleep(5s);
  co_return 0;
}
const auto kNaps = workflow("naps", naps);

Task<std::string> draws(Context& ctx) {
  std::string drawn = std::to_string(ctx.random());
  co_await ctx.sleep(5s);
  co_return drawn;
}
const auto kDraws = workflow("draws", draws);

/// Holds one lock, is refused another one, and asks for that again later.
Task<int> asks_again(Context& ctx) {
  const RunLock held = co_await ctx.lock("held by one");
  auto attempt = ctx.lock("passed on", {.timeout = 0s});
  static_cast<void>(co_await ctx.attempt(attempt));
  const int number = co_await ctx.signal<int>("number");
  const RunLock lock = co_await ctx.lock("passed on");
  co_return number;
}
const auto kAsksAgain = workflow("asks_again", asks_again);

/// Lets go of one lock, keeps another one, and waits for what the other run holds.
Task<int> passes_on(Context& ctx) {
  const RunLock kept = co_await ctx.lock("kept");
  RunLock lock = co_await ctx.lock("passed on");
  const int number = co_await ctx.signal<int>("number");
  lock.release();
  const RunLock held = co_await ctx.lock("held by one");
  co_return number;
}
const auto kPassesOn = workflow("passes_on", passes_on);
/// What it reads under the lock is still to come, or the end, when it is read from the store.
Task<int> counts_under_lock(Context& ctx) {
  const RunLock lock = co_await ctx.lock("m");
  auto cell = ctx.global().cell<int>("count");
  const int count = co_await cell.get();
  co_await cell.set(count + 1);
  co_return count + 1;
}
const auto kCountsUnderLock = workflow("counts_under_lock", counts_under_lock);

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

/// Frames of its code that are in memory.
int frames_alive = 0;
struct AliveInFrame {
  AliveInFrame() { ++frames_alive; }
  AliveInFrame(const AliveInFrame&) = delete;
  AliveInFrame& operator=(const AliveInFrame&) = delete;
  ~AliveInFrame() { --frames_alive; }
};
Task<int> is_counted(Context& ctx) {
  const AliveInFrame alive;
  const int number = co_await ctx.signal<int>("number");
  co_return number;
}
const auto kIsCounted = workflow("is_counted", is_counted);

class EngineCrashTest : public testing_runs::EngineWorld {
 protected:
  void SetUp() override { attempts = 0; }
  void add_workflows(Engine& engine) override {
    engine.add(kAddsTwo);
    engine.add(kAddsInTurn);
    engine.add(kGoesOnAtOnce);
    engine.add(kNapsBetween);
    engine.add(kNaps);
    engine.add(kAsksAgain);
    engine.add(kPassesOn);
    engine.add(kCountsUnderLock);
    engine.add(kDraws);
    engine.add(kTriesForEver);
    engine.add(kTakesUpdates);
    engine.add(kCountsInTurn);
    engine.add(kIsCounted);
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

TEST_F(EngineCrashTest, AnEngineThatIsDestroyedWhileItReadsARunKeepsNothingOfIt) {
  frames_alive = 0;
  Process& one = process();
  Process& far = client();
  const auto started = run(one, one.engine->start(kIsCounted));
  advance(15s);
  ASSERT_EQ(frames_alive, 0) << "it has left the memory";
  one.store->before_get = [&one](const std::string& key) {
    if (key.starts_with("run/")) {
      one.store->before_get = nullptr;
      one.engine.reset();
    }
  };
  run(far, far.engine->signal(started.id(), "number", 1));
  advance(1s);
  ASSERT_FALSE(one.engine.has_value()) << "nobody has read the run";
  one.kill();
  EXPECT_EQ(frames_alive, 0);
}

Task<void> lose_the_answer() {
  throw OutcomeUnknown("the answer to a commit is lost");
  co_return;
}

TEST_F(EngineCrashTest, AStartWhoseAnswerIsLostIsMadeOnce) {
  Process& one = process();
  for (const std::string_view id : {"", "named"}) {
    const std::size_t before = count_rows(one, "run/");
    one.store->after_next_commit = lose_the_answer;
    const auto started = run(one, one.engine->start(kNaps, {.id = id}));
    EXPECT_EQ(count_rows(one, "run/"), before + 1);
    EXPECT_TRUE(run(one, one.engine->describe(started.id())).has_value());
  }
}

TEST_F(EngineCrashTest, ASignalThatStartsARunComesOnceThoughTheAnswerIsLost) {
  Process& one = process();
  one.store->after_next_commit = lose_the_answer;
  const StartOptions chain{.id = "chain"};
  const auto started = run(one, one.engine->start_or_signal(kAddsInTurn, {}, chain, "number", 1));
  advance(10s);  // Somebody takes the partition that was given up.
  run(one, one.engine->signal("chain", "number", 2));
  run(one, one.engine->signal("chain", "number", 3));
  EXPECT_EQ(run(one, started.result()), 321);
}

TEST_F(EngineCrashTest, AMessageThatIsWrittenIsSentThoughItsRunIsNotReached) {
  Process& one = process();
  const auto started = run(one, one.engine->start(kAddsTwo));
  one.store->before_get = [](const std::string& key) {
    if (key.starts_with("inbox/")) {
      throw StoreBusy("the store cannot be reached");
    }
  };
  run(one, one.engine->signal(started.id(), "number", 1));
  one.store->before_get = nullptr;
  advance(1min);  // Somebody looks into the inbox.
  EXPECT_EQ(count_rows(one, "inbox/"), 0U);
  run(one, one.engine->signal(started.id(), "number", 2));
  EXPECT_EQ(run(one, started.result()), 3);
}

TEST_F(EngineCrashTest, AnUpdateIsAnsweredOnceThoughTheAnswerCannotBeReadAtOnce) {
  Process& one = process();
  Process& far = client();
  const auto started = run(one, one.engine->start(kTakesUpdates));
  far.store->before_get = [&far](const std::string& key) {
    if (key.starts_with("reply/")) {
      far.store->before_get = nullptr;
      throw StoreBusy("the store cannot be reached");
    }
  };
  auto answer = begin(far, far.engine->update<int>(started.id(), "add", 10));
  advance(1s);
  ASSERT_TRUE(answer.ended());
  EXPECT_EQ(answer.get(), 10);
  EXPECT_EQ(run(one, started.result()), 10);
}

TEST_F(EngineCrashTest, ARunThatWasResetWakesInTimeThoughSomethingCameAtOnce) {
  Process& one = process();
  const auto started = run(one, one.engine->start(kNaps, {.id = "napper", .timeout = 1h}));
  advance(10s);
  EXPECT_EQ(run(one, started.result()), 0);
  kill(one);
  Process& far = client();
  run(far, far.engine->reset("napper", 1, "once more"));
  run(far, far.engine->signal("napper", "number", 1));
  process();  // Both are in its inbox.
  advance(1min);
  EXPECT_EQ(run(far, far.engine->describe("napper")).value().state, RunState::kCompleted);
}

TEST_F(EngineCrashTest, WhatWasRandomStaysSoInARunThatIsResetTwice) {
  Process& one = process();
  const auto started = run(one, one.engine->start(kDraws, {.id = "drawn"}));
  advance(10s);
  const std::string drawn = run(one, started.result());
  for (int resets = 0; resets < 2; ++resets) {
    run(one, one.engine->reset("drawn", 1, "once more"));
    advance(1min);
    EXPECT_EQ(run(one, one.engine->handle(kDraws, "drawn").result()), drawn);
    const RecordedRun recorded = run(one, one.engine->record("drawn"));
    const ReplayVerdict verdict = check_replay(kDraws, RecordedRun::from_text(recorded.to_text()));
    EXPECT_TRUE(verdict.fits && verdict.ended) << verdict.complaint;
    EXPECT_EQ(RecordedRun::from_text(recorded.to_text()).random_uid, recorded.random_uid);
  }
}

/// True: it was told to try again.
Task<bool> is_refused(Task<void> reset) {
  bool refused = false;
  try {
    co_await reset;
  } catch (const StoreBusy&) {
    refused = true;
  }
  co_return refused;
}

TEST_F(EngineCrashTest, OfTwoResetsAtOnceOneCounts) {
  Process& one = process();
  Process& far = client();
  const auto started = run(one, one.engine->start(kNaps, {.id = "napper"}));
  far.store->before_commit = [&](const Batch& /*batch*/) {
    far.store->before_commit = nullptr;
    EXPECT_FALSE(run_in_between(one, is_refused(one.engine->reset("napper", 1, "once more"))));
  };
  EXPECT_TRUE(run(far, is_refused(far.engine->reset("napper", 1, "once more"))));
  EXPECT_EQ(run(far, far.engine->describe("napper")).value().state, RunState::kRunning);
  EXPECT_EQ(count_rows(one, "run/"), 2U);
}

TEST_F(EngineCrashTest, AResetTakesTheIdOfNoOtherRun) {
  Process& one = process();
  Process& far = client();
  const auto started = run(one, one.engine->start(kNaps, {.id = "napper"}));
  advance(10s);
  EXPECT_EQ(run(one, started.result()), 0);
  far.store->before_commit = [&](const Batch& /*batch*/) {
    far.store->before_commit = nullptr;
    static_cast<void>(run_in_between(one, one.engine->start(kNaps, {.id = "napper"})));
  };
  EXPECT_TRUE(run(far, is_refused(far.engine->reset("napper", 1, "once more"))));
  EXPECT_EQ(run(far, far.engine->describe("napper")).value().state, RunState::kRunning);
  EXPECT_EQ(count_rows(one, "run/"), 2U);
}

TEST_F(EngineCrashTest, WhoeverHasLetGoIsNoPartOfACircle) {
  Process& one = process();
  Process& two = process("second");
  const auto other = run(two, two.engine->start(kPassesOn, {.queue = "second"}));
  const auto asks = run(one, one.engine->start(kAsksAgain));
  run(two, two.engine->signal(other.id(), "number", 2));
  run(one, one.engine->signal(asks.id(), "number", 1));  // It knew who held it before.
  EXPECT_EQ(run(one, asks.result()), 1);
  EXPECT_EQ(run(two, other.result()), 2);
}

TEST_F(EngineCrashTest, ALockThatIsLostIsLostBeforeAnythingElseHappens) {
  Process& one = process();
  const auto started = run(one, one.engine->start(kCountsUnderLock, {.id = "counter"}));
  EXPECT_EQ(run(one, started.result()), 1);
  const std::uint64_t rows = run(one, one.engine->record("counter")).rows.size();
  const auto cell = [&] { return run(one, one.store->get("cell/global/count")).value().version; };
  const Version before = cell();
  for (std::uint64_t row = rows; row > 1; --row) {
    run(one, one.engine->reset("counter", row - 1, "once more"));
    advance(1min);
    EXPECT_NE(run(one, one.engine->describe("counter")).value().state, RunState::kRunning);
    if (row > 2) {
      EXPECT_EQ(cell(), before) << "after row " << row;
    }
  }
}

TEST_F(EngineCrashTest, WhetherAStartHasHappenedIsUnknownIfNobodyCanLook) {
  Process& one = process();
  one.store->after_next_commit = [this]() -> Task<void> {
    disk_->crash();
    return lose_the_answer();
  };
  EXPECT_THROW(static_cast<void>(run(one, one.engine->start(kNaps))), OutcomeUnknown);
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

TEST_F(EngineCrashTest, ARowThatIsThereIsNotWrittenOver) {
  Process& one = process();
  Process& far = client();
  const auto twin = run(one, one.engine->start(kAddsTwo));
  run(one, one.engine->signal(twin.id(), "number", 5));
  const auto started = run(one, one.engine->start(kAddsTwo));
  const std::string uid = run(one, one.engine->describe(started.id())).value().uid;
  const auto rows = run(far, far.store->scan("journal/")).entries;
  ASSERT_EQ(rows.size(), 1U) << "its first row is in its head";
  const std::string value = rows[0].value;
  one.store->before_commit = [&, value](const Batch& batch) {
    for (const Batch::Write& write : batch.writes()) {
      if (write.key.starts_with("journal/") && write.key.find(uid) != std::string::npos) {
        one.store->before_commit = nullptr;
        Batch other;
        other.put(write.key, value);
        const auto outcome = run_in_between(far, far.store->commit(std::move(other)));
        EXPECT_NE(outcome.committed(), nullptr);
      }
    }
  };
  run(one, one.engine->signal(started.id(), "number", 1));
  advance(1min);
  EXPECT_EQ(run(one, started.result()), 6) << "the row that was there, then the signal";
}

/// As a group that is lost to a full disk: rows that were applied are not there, and nobody waits
/// to hear of it.
TEST_F(EngineCrashTest, ALostRowLeavesNoHoleInTheJournal) {
  Process& one = process();
  Process& far = client();
  const auto started = run(one, one.engine->start(kNapsBetween));
  Batch lost;
  std::vector<Entry> before;
  one.store->before_commit = [&](const Batch& batch) {
    const auto is_row = [](const Batch::Write& write) { return write.key.starts_with("journal/"); };
    if (std::any_of(batch.writes().begin(), batch.writes().end(), is_row)) {
      one.store->before_commit = nullptr;
      lost = batch;
      before = run_in_between(far, far.store->scan("inbox/")).entries;
    }
  };
  run(one, one.engine->signal(started.id(), "number", 1));
  ASSERT_EQ(before.size(), 1U);
  Batch loss;
  for (const Batch::Write& write : lost.writes()) {
    loss.erase(write.key);
  }
  static_cast<void>(run(far, far.store->commit(std::move(loss))));
  advance(5s);  // The process has the timer in its memory.
  EXPECT_EQ(count_rows(one, "journal/"), 0U);
  EXPECT_EQ(count_rows(one, "timer/"), 0U);

  // The message is not lost, but here that would be heard by those who watch the inbox.
  Batch message;
  message.put(before[0].key, before[0].value);
  static_cast<void>(run(far, far.store->commit(std::move(message))));
  advance(5s);
  run(one, one.engine->signal(started.id(), "number", 2));
  advance(5s);
  EXPECT_EQ(run(one, started.result()), 3);
  const RecordedRun recorded = run(one, one.engine->record(started.id()));
  const ReplayVerdict verdict = check_replay(kNapsBetween, recorded);
  EXPECT_TRUE(verdict.fits) << verdict.complaint;
  EXPECT_TRUE(verdict.ended);
}

TEST_F(EngineCrashTest, ARunWhoseHeadWasLostWritesNoJournal) {
  Process& one = process();
  Process& far = client();
  run(one, one.engine->start(kNaps));
  const auto heads = run(far, far.store->scan("run/")).entries;
  ASSERT_EQ(heads.size(), 1U);
  Batch loss;
  loss.erase(heads[0].key);
  static_cast<void>(run(far, far.store->commit(std::move(loss))));
  advance(11s);
  EXPECT_EQ(count_rows(one, "journal/"), 0U);
  EXPECT_EQ(count_rows(one, "run/"), 0U);
}

TEST_F(EngineCrashTest, ARunThatIsEndedByForceHasAllRowsThatItSays) {
  Process& one = process();
  Process& far = client();
  run(one, one.engine->start(kNapsBetween, {.id = "run"}));
  run(one, one.engine->signal("run", "number", 1));
  const auto rows = run(far, far.store->scan("journal/")).entries;
  ASSERT_EQ(rows.size(), 1U);
  Batch loss;
  loss.erase(rows[0].key);
  static_cast<void>(run(far, far.store->commit(std::move(loss))));
  run(far, far.engine->terminate("run", "enough"));
  advance(1min);
  EXPECT_EQ(run(one, one.engine->describe("run")).value().state, RunState::kTerminated);
  const auto heads = run(far, far.store->scan("run/")).entries;
  record::RunHead head;
  ASSERT_TRUE(head.ParseFromString(heads.at(0).value));
  EXPECT_EQ(head.rows(), run(one, one.engine->record("run")).rows.size());
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
