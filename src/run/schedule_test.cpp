// SPDX-License-Identifier: Apache-2.0
// Schedules, over processes that die and calendars that are set.
#include <holdfast/schedule.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <vector>

#include <holdfast/testing.hpp>

#include "engine_world.hpp"
#include "schedule_book.hpp"
#include "schedule_times.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_runs::Process;

constexpr WallTime kNovember17 = std::chrono::sys_days(std::chrono::year_month_day(
    std::chrono::year(2026), std::chrono::November, std::chrono::day(17)));

/// Works for so many minutes.
Task<std::int64_t> works(Context& ctx, std::int64_t minutes) {
  co_await ctx.sleep(std::chrono::minutes(minutes));
  co_return minutes;
}
const auto kWorks = workflow("works", works);
const auto kWorksAlone = workflow("works_alone", works).concurrency({.max = 1});

/// Does not stop when it is asked to.
Task<void> goes_on(Context& ctx) { co_await ctx.sleep(20min); }
Task<void> is_stubborn(Context& ctx) { co_await ctx.shielded(goes_on(ctx)); }
const auto kStubborn = workflow("stubborn", is_stubborn);

Task<void> waits_for_word(Context& ctx) {
  static_cast<void>(co_await ctx.signal<std::string>("word"));
}
const auto kWaitsForWord = workflow("waits_for_word", waits_for_word);

Task<void> breaks(Context& ctx) {
  auto step = ctx.run("break", [] { throw PermanentFailure("no such ledger"); });
  co_await step;
}
const auto kBreaks = workflow("breaks", breaks);

Task<std::int64_t> counts_in_a_cell(Context& ctx) {
  auto one_more = ctx.state<std::int64_t>("count").update([](std::int64_t& it) { ++it; });
  std::int64_t count = co_await one_more;
  co_return count;
}
const auto kCountsInACell = workflow("counts_in_a_cell", counts_in_a_cell);

std::string text_of(WallTime time) { return detail::text_of_time(detail::ns_of_wall(time)); }

std::vector<std::string> texts_of(const std::vector<WallTime>& times) {
  std::vector<std::string> texts;
  std::ranges::transform(times, std::back_inserter(texts), text_of);
  return texts;
}

class ScheduleTest : public testing_runs::EngineWorld {
 protected:
  ScheduleTest() { options_.wall_clock = &calendar_; }
  void add_workflows(Engine& engine) override {
    engine.add(kWorks);
    engine.add(kWorksAlone);
    engine.add(kStubborn);
    engine.add(kWaitsForWord);
    engine.add(kBreaks);
    engine.add(kCountsInACell);
  }

  void set(Process& in, std::string_view name, std::int64_t minutes, const ScheduleSpec& spec) {
    run(in, Schedules(*in.engine).set(name, kWorks, minutes, spec));
  }
  ScheduleInfo describe(Process& in, std::string_view name) {
    return run(in, Schedules(*in.engine).describe(name)).value();
  }
  /// The ids of all runs that schedules have begun, with how they stand, by time.
  std::vector<std::string> runs(Process& in) {
    std::vector<std::string> texts;
    for (const RunInfo& one : run(in, in.engine->list({.limit = 10'000})).runs) {
      if (one.type != "holdfast.schedule") {
        texts.push_back(one.id + (one.state == RunState::kRunning     ? " runs"
                                  : one.state == RunState::kCompleted ? ""
                                  : one.state == RunState::kCancelled ? " cancelled"
                                                                      : " ended otherwise"));
      }
    }
    std::ranges::sort(texts);
    return texts;
  }
  void kill_and_wait(Process& process, Duration time) {
    kill(process);
    advance(time);
  }

  VirtualWallClock calendar_{clock_, kNovember17};
};

// --- Times ---------------------------------------------------------------------------------------

TEST_F(ScheduleTest, ARunBeginsAtEachTimeOfTheZone) {
  Process& one = process();
  set(one, "nightly", 5, {.cron = "30 2 * * *", .zone = "Europe/Berlin"});
  advance(1h + 29min);
  EXPECT_THAT(runs(one), IsEmpty());
  advance(1min);
  EXPECT_THAT(runs(one), ElementsAre("nightly@2026-11-17T01:30:00Z runs"));
  advance(2 * 24h);
  EXPECT_THAT(runs(one), ElementsAre("nightly@2026-11-17T01:30:00Z", "nightly@2026-11-18T01:30:00Z",
                                     "nightly@2026-11-19T01:30:00Z runs"));
}

TEST_F(ScheduleTest, AnIntervalBeginsWithTheSchedule) {
  Process& one = process();
  advance(10min);
  set(one, "poll", 1, {.every = 90min});
  advance(4h);
  EXPECT_THAT(runs(one), ElementsAre("poll@2026-11-17T01:40:00Z", "poll@2026-11-17T03:10:00Z"));
}

TEST_F(ScheduleTest, AnIntervalBeginsWhereItIsToldTo) {
  Process& one = process();
  set(one, "poll", 1, {.every = 1h, .from = kNovember17 + 15min, .until = kNovember17 + 135min});
  advance(5h);
  EXPECT_THAT(runs(one), ElementsAre("poll@2026-11-17T00:15:00Z", "poll@2026-11-17T01:15:00Z"))
      << "and ends there";
  EXPECT_THAT(describe(one, "poll").next, IsEmpty());
}

TEST_F(ScheduleTest, CronTimesAreThoseFromOneTimeToAnother) {
  Process& one = process();
  set(one, "x", 1, {.cron = "@hourly", .from = kNovember17 + 2h, .until = kNovember17 + 4h});
  advance(9h);
  EXPECT_THAT(runs(one), ElementsAre("x@2026-11-17T02:00:00Z", "x@2026-11-17T03:00:00Z"));
}

TEST_F(ScheduleTest, ManyTimesMakeAJournalThatStaysShort) {
  Process& one = process();
  set(one, "poll", 0, {.every = 1min});
  advance(10h);
  EXPECT_EQ(runs(one).size(), 600U);
  const RecordedRun recorded = run(one, one.engine->record("schedule:poll"));
  EXPECT_LT(recorded.rows.size(), 1'000U);
  EXPECT_EQ(describe(one, "poll").begun, 600U);
  EXPECT_EQ(describe(one, "poll").last.size(), kScheduleRunsShown);
}

// --- Jitter --------------------------------------------------------------------------------------

TEST_F(ScheduleTest, JitterIsTheSameAfterARestart) {
  Process& one = process();
  set(one, "spread", 1, {.cron = "@hourly", .jitter = 30min});
  const std::vector<WallTime> next = describe(one, "spread").next;
  ASSERT_EQ(next.size(), 5U);
  std::set<Duration> delays;
  for (std::size_t i = 0; i < next.size(); ++i) {
    const Duration delay = next[i] - (kNovember17 + std::chrono::hours(i + 1));
    EXPECT_GE(delay, 0s);
    EXPECT_LE(delay, 30min);
    delays.insert(delay);
  }
  EXPECT_EQ(delays.size(), 5U) << "each time has its own";
  kill_and_wait(one, 31s);
  Process& two = process();
  EXPECT_EQ(describe(two, "spread").next, next);
  advance(next[0] - calendar_.now() - 1ms);
  EXPECT_THAT(runs(two), IsEmpty());
  advance(1ms);
  EXPECT_THAT(runs(two), ElementsAre("spread@2026-11-17T01:00:00Z runs"));
}

TEST_F(ScheduleTest, SchedulesOfOneTimeHaveDifferentJitter) {
  Process& one = process();
  std::set<WallTime> first;
  for (const char* const name : {"a", "b", "c", "d"}) {
    set(one, name, 1, {.every = 1h, .jitter = 1h});
    first.insert(describe(one, name).next.front());
  }
  EXPECT_EQ(first.size(), 4U);
}

// --- Overlap -------------------------------------------------------------------------------------

TEST_F(ScheduleTest, SkipPassesOverTimesAtWhichOneRuns) {
  Process& one = process();
  set(one, "slow", 150, {.cron = "@hourly"});
  advance(3h);
  EXPECT_THAT(runs(one), ElementsAre("slow@2026-11-17T01:00:00Z runs"));
  advance(1h);  // It ends at 03:30.
  EXPECT_THAT(runs(one),
              ElementsAre("slow@2026-11-17T01:00:00Z", "slow@2026-11-17T04:00:00Z runs"));
  EXPECT_EQ(describe(one, "slow").skipped, 2U);
  EXPECT_EQ(describe(one, "slow").missed, 0U);
}

TEST_F(ScheduleTest, QueueRunsOneAfterTheOther) {
  Process& one = process();
  set(one, "slow", 90, {.cron = "0 1,2,3 * * *", .overlap = Overlap::kQueue});
  advance(3h);
  EXPECT_THAT(runs(one),
              ElementsAre("slow@2026-11-17T01:00:00Z", "slow@2026-11-17T02:00:00Z runs"));
  EXPECT_THAT(texts_of(describe(one, "slow").waiting), ElementsAre("2026-11-17T03:00:00Z"));
  advance(3h);
  EXPECT_THAT(runs(one), ElementsAre("slow@2026-11-17T01:00:00Z", "slow@2026-11-17T02:00:00Z",
                                     "slow@2026-11-17T03:00:00Z"));
  EXPECT_EQ(describe(one, "slow").skipped, 0U);
}

TEST_F(ScheduleTest, AQueueThatIsFullPassesOverWhatComes) {
  Process& one = process();
  run(one, Schedules(*one.engine)
               .set("stuck", kWaitsForWord, {.every = 1min, .overlap = Overlap::kQueue}));
  advance(3h);
  ScheduleInfo info = describe(one, "stuck");
  EXPECT_EQ(info.waiting.size(), kScheduleQueueMax);
  EXPECT_EQ(info.begun, 1U);
  run(one, one.engine->signal(info.last.front().id, "word", std::string("go")));
  settle();
  info = describe(one, "stuck");
  EXPECT_EQ(info.begun, 2U);
  EXPECT_EQ(info.waiting.size(), kScheduleQueueMax - 1);
  EXPECT_EQ(info.skipped, 180 - 1 - kScheduleQueueMax);
  const RecordedRun recorded = run(one, one.engine->record("schedule:stuck"));
  EXPECT_LT(recorded.rows.size(), 1'000U) << "what cannot begin does not wake it";
}

TEST_F(ScheduleTest, CancelRunningEndsTheEarlierOneFirst) {
  Process& one = process();
  set(one, "slow", 150, {.cron = "@hourly", .overlap = Overlap::kCancelRunning});
  advance(2h);
  EXPECT_THAT(runs(one),
              ElementsAre("slow@2026-11-17T01:00:00Z cancelled", "slow@2026-11-17T02:00:00Z runs"));
  const ScheduleInfo info = describe(one, "slow");
  EXPECT_EQ(info.last.at(0).state, RunState::kRunning);
  EXPECT_EQ(info.last.at(1).state, RunState::kCancelled);
}

TEST_F(ScheduleTest, CancelRunningWaitsForOneThatTakesItsTime) {
  Process& one = process();
  run(one, Schedules(*one.engine)
               .set("stubborn", kStubborn, {.every = 15min, .overlap = Overlap::kCancelRunning}));
  advance(30min);
  EXPECT_THAT(runs(one), ElementsAre("stubborn@2026-11-17T00:15:00Z runs"));
  advance(5min);  // It ends, and the next one begins at once.
  EXPECT_THAT(runs(one),
              ElementsAre("stubborn@2026-11-17T00:15:00Z", "stubborn@2026-11-17T00:30:00Z runs"));
}

TEST_F(ScheduleTest, AllowLetsThemGoOnSideBySide) {
  Process& one = process();
  set(one, "slow", 150, {.cron = "@hourly", .overlap = Overlap::kAllow});
  advance(3h);
  EXPECT_THAT(runs(one),
              ElementsAre("slow@2026-11-17T01:00:00Z runs", "slow@2026-11-17T02:00:00Z runs",
                          "slow@2026-11-17T03:00:00Z runs"));
  advance(1h);
  const ScheduleInfo info = describe(one, "slow");
  EXPECT_EQ(info.last.at(3).state, RunState::kCompleted);
  EXPECT_EQ(info.last.at(0).state, RunState::kRunning);
}

TEST_F(ScheduleTest, RunNowGoesByTheOverlapPolicy) {
  Process& one = process();
  Schedules schedules(*one.engine);
  const auto after_two = [&](Overlap overlap) {
    const std::string name = "now" + std::to_string(static_cast<int>(overlap));
    set(one, name, 60, {.cron = "0 12 * * *", .overlap = overlap});
    run(one, schedules.run_now(name));
    run(one, schedules.run_now(name));
    settle();
    const ScheduleInfo info = describe(one, name);
    std::string text;
    for (const ScheduledRun& shown : info.last) {
      EXPECT_TRUE(shown.asked_for);
      text.append(shown.state == RunState::kRunning ? "runs " : "ended ");
    }
    return text.append(std::to_string(info.waiting.size()))
        .append(" ")
        .append(std::to_string(info.skipped));
  };
  EXPECT_EQ(after_two(Overlap::kSkip), "runs 0 1");
  EXPECT_EQ(after_two(Overlap::kQueue), "runs 1 0");
  EXPECT_EQ(after_two(Overlap::kCancelRunning), "runs ended 0 0");
  EXPECT_EQ(after_two(Overlap::kAllow), "runs runs 0 0");
}

TEST_F(ScheduleTest, RunNowWithOneRequestCountsOnce) {
  Process& one = process();
  Schedules schedules(*one.engine);
  set(one, "x", 0, {.cron = "0 12 * * *"});
  advance(90s + 5ms);
  run(one, schedules.run_now("x", "click-1"));
  run(one, schedules.run_now("x", "click-1"));
  run(one, schedules.run_now("x", "click-2"));
  settle();
  EXPECT_THAT(runs(one),
              ElementsAre("x@2026-11-17T00:01:30.005Z#1", "x@2026-11-17T00:01:30.005Z#2"));
}

TEST_F(ScheduleTest, ATimeWhoseIdIsTakenIsPassedOver) {
  Process& one = process();
  set(one, "x", 5, {.cron = "@hourly"});
  run(one, one.engine->start(kWorks, 90, {.id = "x@2026-11-17T01:00:00Z"}));
  advance(2h);
  EXPECT_THAT(runs(one), ElementsAre("x@2026-11-17T01:00:00Z", "x@2026-11-17T02:00:00Z runs"));
  EXPECT_EQ(describe(one, "x").skipped, 1U);
  EXPECT_EQ(describe(one, "x").begun, 1U);
}

/// A time comes while the run of the one before waits for its admission, until 02:30.
class QueuedTest : public ScheduleTest {
 protected:
  ScheduleInfo at_two(Overlap overlap) {
    run(*one_, one_->engine->start(kWorksAlone, 150, {.id = "before"}));
    run(*one_, Schedules(*one_->engine)
                   .set("x", kWorksAlone, 10, {.cron = "0 1,2 * * *", .overlap = overlap}));
    advance(2h);
    return describe(*one_, "x");
  }
  /// And by three.
  std::vector<std::string> at_three() {
    advance(1h);
    return runs(*one_);
  }
  Process* one_ = &process();
};

TEST_F(QueuedTest, SkipPassesOverTheTime) {
  const ScheduleInfo info = at_two(Overlap::kSkip);
  EXPECT_THAT(runs(*one_), ElementsAre("before runs", "x@2026-11-17T01:00:00Z runs"));
  EXPECT_EQ(info.begun, 1U);
  EXPECT_EQ(info.last.at(0).state, RunState::kRunning);
  EXPECT_THAT(at_three(), ElementsAre("before", "x@2026-11-17T01:00:00Z"));
  EXPECT_EQ(describe(*one_, "x").skipped, 1U);
}

TEST_F(QueuedTest, QueueKeepsTheTime) {
  const ScheduleInfo info = at_two(Overlap::kQueue);
  EXPECT_THAT(runs(*one_), ElementsAre("before runs", "x@2026-11-17T01:00:00Z runs"));
  EXPECT_THAT(texts_of(info.waiting), ElementsAre("2026-11-17T02:00:00Z"));
  EXPECT_THAT(at_three(),
              ElementsAre("before", "x@2026-11-17T01:00:00Z", "x@2026-11-17T02:00:00Z"));
}

TEST_F(QueuedTest, CancelRunningTakesTheEarlierOneOutOfTheLine) {
  const ScheduleInfo info = at_two(Overlap::kCancelRunning);
  EXPECT_THAT(runs(*one_), ElementsAre("before runs", "x@2026-11-17T01:00:00Z cancelled",
                                       "x@2026-11-17T02:00:00Z runs"));
  EXPECT_EQ(info.last.at(1).state, RunState::kCancelled);
  EXPECT_THAT(at_three(),
              ElementsAre("before", "x@2026-11-17T01:00:00Z cancelled", "x@2026-11-17T02:00:00Z"));
}

TEST_F(QueuedTest, AllowPutsBothIntoTheLine) {
  const ScheduleInfo info = at_two(Overlap::kAllow);
  EXPECT_THAT(runs(*one_), ElementsAre("before runs", "x@2026-11-17T01:00:00Z runs",
                                       "x@2026-11-17T02:00:00Z runs"));
  EXPECT_EQ(info.begun, 2U);
  EXPECT_THAT(at_three(),
              ElementsAre("before", "x@2026-11-17T01:00:00Z", "x@2026-11-17T02:00:00Z"));
}

// --- Nobody there --------------------------------------------------------------------------------

class MissedTest : public ScheduleTest {
 protected:
  /// What has begun when nobody was there from 00:31 to 05:30.
  std::vector<std::string> after_hours_away(const ScheduleSpec& spec) {
    Process& before = process();
    set(before, "hourly", 1, spec);
    advance(31min);
    kill_and_wait(before, 5h - 1min);
    after_ = &process();
    advance(10min);
    return runs(*after_);
  }

  Process* after_ = nullptr;
};

TEST_F(MissedTest, OneRunMakesUpForAllThatWereMissed) {
  EXPECT_THAT(after_hours_away({.cron = "@hourly"}), ElementsAre("hourly@2026-11-17T05:00:00Z"));
  EXPECT_EQ(describe(*after_, "hourly").missed, 4U);
  advance(30min);
  EXPECT_EQ(runs(*after_).size(), 2U) << "and it goes on as ever";
}

TEST_F(MissedTest, OneThatIsDueNowIsEnough) {
  EXPECT_THAT(after_hours_away({.cron = "*/30 * * * *"}),
              ElementsAre("hourly@2026-11-17T00:30:00Z", "hourly@2026-11-17T05:30:00Z"));
  EXPECT_EQ(describe(*after_, "hourly").missed, 9U);
}

TEST_F(MissedTest, SkipPassesOverThem) {
  EXPECT_THAT(after_hours_away({.cron = "@hourly", .missed = Missed::kSkip}), IsEmpty());
  EXPECT_EQ(describe(*after_, "hourly").missed, 5U);
}

TEST_F(MissedTest, AllOfThemRunOneAfterTheOther) {
  EXPECT_THAT(after_hours_away({.cron = "@hourly", .missed = Missed::kRunAll, .missed_max = 3}),
              ElementsAre("hourly@2026-11-17T03:00:00Z", "hourly@2026-11-17T04:00:00Z",
                          "hourly@2026-11-17T05:00:00Z"));
  EXPECT_EQ(describe(*after_, "hourly").missed, 2U);
  std::vector<RunInfo> made_up = run(*after_, after_->engine->list({.type = "works"})).runs;
  std::ranges::sort(made_up, {}, &RunInfo::id);
  EXPECT_GE(made_up.at(1).started_at, made_up.at(0).ended_at);
  EXPECT_GE(made_up.at(2).started_at, made_up.at(1).ended_at);
}

TEST_F(MissedTest, AnIntervalMissesTimesAsWell) {
  EXPECT_THAT(after_hours_away({.every = 1h}), ElementsAre("hourly@2026-11-17T05:00:00Z"));
  EXPECT_EQ(describe(*after_, "hourly").missed, 4U);
}

TEST_F(MissedTest, WhatIsWithinTheGraceIsNotMissed) {
  EXPECT_THAT(after_hours_away({.cron = "@hourly", .missed = Missed::kSkip, .grace = 90min}),
              ElementsAre("hourly@2026-11-17T04:00:00Z"));
  EXPECT_EQ(describe(*after_, "hourly").missed, 3U);
  EXPECT_EQ(describe(*after_, "hourly").skipped, 1U) << "the one of 05:00 came while the other ran";
}

TEST_F(MissedTest, ASecondProcessTakesOverWithinTheGrace) {
  Process& one = process();
  Process& two = process();
  set(one, "hourly", 1, {.cron = "@hourly", .missed = Missed::kSkip});
  advance(1h - 1s);
  kill(one);
  advance(2min);
  EXPECT_EQ(runs(two).size(), 1U);
}

TEST_F(MissedTest, ATimeThatNobodyTakesIsSeenToBeLate) {
  Process& one = process();
  set(one, "hourly", 1, {.cron = "@hourly"});
  kill_and_wait(one, 150min);
  EXPECT_EQ(describe(client(), "hourly").next.front(), kNovember17 + 1h);
}

// --- Calendars that are set ----------------------------------------------------------------------

TEST_F(ScheduleTest, ACalendarThatIsSetBackRepeatsNothing) {
  Process& one = process();
  set(one, "hourly", 1, {.cron = "@hourly"});
  advance(2h + 10min);
  calendar_.set(kNovember17 + 30min);
  advance(150min);
  EXPECT_THAT(runs(one), ElementsAre("hourly@2026-11-17T01:00:00Z", "hourly@2026-11-17T02:00:00Z",
                                     "hourly@2026-11-17T03:00:00Z runs"));
}

TEST_F(ScheduleTest, ACalendarThatIsSetForwardIsNoticedWithinTheHour) {
  Process& one = process();
  set(one, "noon", 1, {.cron = "0 12 * * *"});
  advance(10min);
  calendar_.set(kNovember17 + 11h + 30min);
  advance(1h);
  EXPECT_THAT(runs(one), ElementsAre("noon@2026-11-17T12:00:00Z"));
}

TEST_F(ScheduleTest, ACalendarThatWasFarAheadHoldsNothingUp) {
  Process& one = process();
  set(one, "hourly", 1, {.cron = "@hourly"});
  advance(30min);
  calendar_.set(kNovember17 + 365 * 24h);
  advance(1h);
  EXPECT_EQ(runs(one).size(), 2U);
  calendar_.set(kNovember17 + 90min);
  advance(2h);
  EXPECT_THAT(runs(one), ::testing::Contains("hourly@2026-11-17T03:00:00Z"));
}

TEST_F(ScheduleTest, AnIntervalDoesNotMindTheCalendar) {
  Process& one = process();
  set(one, "poll", 1, {.every = 1h});
  advance(30min);
  calendar_.set(kNovember17 + 77 * 24h);
  advance(150min);
  EXPECT_THAT(runs(one), ElementsAre("poll@2026-11-17T01:00:00Z", "poll@2026-11-17T02:00:00Z",
                                     "poll@2026-11-17T03:00:00Z runs"));
}

TEST_F(ScheduleTest, AClockThatGoesSlowlyIsWaitedFor) {
  Process& one = process();
  set(one, "hourly", 1, {.cron = "@hourly"});
  advance(59min);
  calendar_.set(kNovember17 + 58min);
  advance(61s);  // An hour by the store's clock, and a minute before it by the calendar.
  EXPECT_THAT(runs(one), IsEmpty());
  advance(59s);
  EXPECT_THAT(runs(one), ElementsAre("hourly@2026-11-17T01:00:00Z runs"));
}

// --- Pauses, changes, removal --------------------------------------------------------------------

TEST_F(ScheduleTest, TimesThatPassInAPauseAreGone) {
  Process& one = process();
  Schedules schedules(*one.engine);
  set(one, "hourly", 1, {.cron = "@hourly"});
  advance(30min);
  run(one, schedules.pause("hourly", "stocktaking"));
  advance(2h);
  EXPECT_THAT(runs(one), IsEmpty());
  ScheduleInfo info = describe(one, "hourly");
  EXPECT_TRUE(info.paused);
  EXPECT_EQ(info.pause_reason, "stocktaking");
  EXPECT_THAT(info.next, IsEmpty());
  run(one, schedules.resume("hourly"));
  advance(31min);
  EXPECT_THAT(runs(one), ElementsAre("hourly@2026-11-17T03:00:00Z"));
  info = describe(one, "hourly");
  EXPECT_FALSE(info.paused);
  EXPECT_EQ(info.pause_reason, "");
  EXPECT_EQ(info.missed + info.skipped, 0U);
}

TEST_F(ScheduleTest, APauseOutlastsTheProcess) {
  Process& one = process();
  set(one, "hourly", 1, {.cron = "@hourly"});
  run(one, Schedules(*one.engine).pause("hourly", "holidays"));
  kill_and_wait(one, 5h);
  Process& two = process();
  advance(5h);
  EXPECT_THAT(runs(two), IsEmpty());
}

TEST_F(ScheduleTest, AnIntervalBeginsWithTheScheduleAlsoIfItWasPausedAtFirst) {
  Process& far = client();
  set(far, "poll", 1, {.every = 1h});
  run(far, Schedules(*far.engine).pause("poll", ""));
  advance(90min);
  run(far, Schedules(*far.engine).resume("poll"));
  Process& one = process();
  advance(31min);
  EXPECT_THAT(runs(one), ElementsAre("poll@2026-11-17T02:00:00Z"));
  EXPECT_EQ(describe(one, "poll").missed, 0U);
}

TEST_F(ScheduleTest, RunNowBeginsOneAlsoInAPause) {
  Process& one = process();
  Schedules schedules(*one.engine);
  set(one, "hourly", 1, {.cron = "@hourly"});
  run(one, schedules.pause("hourly", ""));
  run(one, schedules.run_now("hourly"));
  advance(3h);
  EXPECT_THAT(runs(one), ElementsAre("hourly@2026-11-17T00:00:00Z#1"));
}

TEST_F(ScheduleTest, WhatWaitsInLineWaitsForTheEndOfAPause) {
  Process& one = process();
  Schedules schedules(*one.engine);
  set(one, "slow", 90, {.cron = "@hourly", .overlap = Overlap::kQueue});
  advance(2h);
  run(one, schedules.pause("slow", ""));
  advance(5h);
  EXPECT_THAT(runs(one), ElementsAre("slow@2026-11-17T01:00:00Z"));
  run(one, schedules.resume("slow"));
  settle();
  EXPECT_THAT(runs(one),
              ElementsAre("slow@2026-11-17T01:00:00Z", "slow@2026-11-17T02:00:00Z runs"));
}

TEST_F(ScheduleTest, ToSetTheSameAgainChangesNothing) {
  Process& one = process();
  set(one, "hourly", 1, {.cron = "@hourly"});
  kill_and_wait(one, 150min);
  Process& two = process();
  set(two, "hourly", 1, {.cron = "@hourly"});
  settle();
  EXPECT_THAT(runs(two), ElementsAre("hourly@2026-11-17T02:00:00Z runs"))
      << "a program that sets its schedules at each start keeps what was missed";
}

TEST_F(ScheduleTest, AnotherSpecCountsFromNowOn) {
  Process& one = process();
  set(one, "x", 1, {.cron = "@hourly"});
  advance(90min);
  set(one, "x", 2, {.cron = "45 * * * *", .zone = "Europe/Berlin", .overlap = Overlap::kQueue});
  advance(60min);
  EXPECT_THAT(runs(one), ElementsAre("x@2026-11-17T01:00:00Z", "x@2026-11-17T01:45:00Z"));
  const ScheduleInfo info = describe(one, "x");
  EXPECT_EQ(info.terms.cron, "45 * * * *");
  EXPECT_EQ(info.input, 2);
  EXPECT_EQ(info.begun, 2U) << "what was before is known still";
}

TEST(ScheduleBook, WhatChangesTheTimesWhileItLooksAtTheClockMakesItLookAgain) {
  detail::ScheduleState state;
  state.definition = detail::checked_definition("x", "works", 1, {.cron = "@hourly"});
  detail::ScheduleBook book(state, StoreTime());
  const auto look = [&] {
    const detail::ScheduleTimes times(book.state());
    book.begin_look();
    return times.agenda(kNovember17 + 1h, StoreTime(1h), book.start());
  };
  const detail::Agenda of_cron = look();
  EXPECT_EQ(of_cron.on_time, 1U);
  book.set(detail::checked_definition("x", "works", 1, {.every = 40min}), StoreTime(1h));
  EXPECT_FALSE(book.decide(of_cron));
  EXPECT_FALSE(book.has_next());
  const detail::Agenda of_interval = look();
  book.pause("");
  book.resume(StoreTime(1h));
  EXPECT_FALSE(book.decide(of_interval));
  EXPECT_TRUE(book.decide(look()));
  EXPECT_FALSE(book.has_next());
  EXPECT_EQ(book.state().cursor_ns, detail::ns_of_wall(kNovember17 + 1h));
}

TEST(ScheduleBook, ARunThatNobodyCouldSeeYetIsNotStoppedForTheNextOne) {
  detail::ScheduleState state;
  state.definition = detail::checked_definition(
      "x", "works", 1, {.cron = "@hourly", .overlap = Overlap::kCancelRunning});
  detail::ScheduleBook book(state, StoreTime());
  const auto run_now = [&] {
    book.ask_for_run();
    book.begin_look();
    const detail::ScheduleTimes times(book.state());
    return book.decide(times.agenda(kNovember17, StoreTime(), book.start()));
  };
  ASSERT_TRUE(run_now());
  const detail::FiredRun first = book.begin_next();
  ASSERT_TRUE(run_now());
  EXPECT_FALSE(book.shall_stop()) << "it would never have begun, and be counted as begun";
  book.was_shown(std::nullopt);
  EXPECT_FALSE(book.shall_stop()) << "that was before it";
  book.was_shown(first.id);
  EXPECT_TRUE(book.shall_stop());
  book.end_running(RunState::kFailed, "it was cancelled");
  EXPECT_TRUE(book.has_next());
}

TEST_F(ScheduleTest, AnotherInputKeepsTheTimes) {
  Process& one = process();
  set(one, "poll", 1, {.every = 1h});
  advance(30min);
  set(one, "poll", 2, {.every = 1h});
  advance(30min);
  EXPECT_THAT(runs(one), ElementsAre("poll@2026-11-17T01:00:00Z runs"));
  EXPECT_EQ(run(one, one.engine->describe("poll@2026-11-17T01:00:00Z")).value().input, 2);
}

TEST_F(ScheduleTest, AScheduleThatIsRemovedLeavesItsRunAlone) {
  Process& one = process();
  Schedules schedules(*one.engine);
  set(one, "hourly", 30, {.cron = "@hourly"});
  advance(1h);
  run(one, schedules.remove("hourly"));
  settle();
  EXPECT_FALSE(run(one, schedules.describe("hourly")).has_value());
  EXPECT_THAT(run(one, schedules.list()), IsEmpty());
  EXPECT_THROW(run(one, schedules.pause("hourly", "")), NoSuchRun);
  EXPECT_THROW(run(one, schedules.run_now("hourly")), NoSuchRun);
  advance(5h);
  EXPECT_THAT(runs(one), ElementsAre("hourly@2026-11-17T01:00:00Z"));
}

TEST_F(ScheduleTest, WhatWasSetAndThenRemovedWhileNobodyWasThereIsGone) {
  Process& one = process();
  set(one, "hourly", 1, {.cron = "@hourly"});
  kill(one);
  Process& far = client();
  set(far, "hourly", 2, {.cron = "@hourly"});
  run(far, Schedules(*far.engine).remove("hourly"));
  advance(31s);
  Process& two = process();
  EXPECT_FALSE(run(two, Schedules(*two.engine).describe("hourly")).has_value());
  advance(5h);
  EXPECT_THAT(runs(two), IsEmpty());
}

TEST_F(ScheduleTest, WhatWasRemovedAndThenSetWhileNobodyWasThereIsThere) {
  Process& one = process();
  set(one, "hourly", 1, {.cron = "@hourly"});
  kill(one);
  Process& far = client();
  run(far, Schedules(*far.engine).remove("hourly"));
  set(far, "hourly", 2, {.cron = "@hourly"});
  advance(31s);
  Process& two = process();
  EXPECT_EQ(describe(two, "hourly").input, 2);
}

TEST_F(ScheduleTest, AScheduleThatIsMadeAgainBeginsAnew) {
  Process& one = process();
  Schedules schedules(*one.engine);
  set(one, "hourly", 1, {.cron = "@hourly"});
  advance(3h);
  run(one, schedules.remove("hourly"));
  set(one, "hourly", 1, {.cron = "@hourly"});
  settle();
  EXPECT_EQ(describe(one, "hourly").begun, 0U);
}

// --- What is seen --------------------------------------------------------------------------------

TEST_F(ScheduleTest, AllThatWasSetIsSeenFromAnywhere) {
  Process& one = process();
  const ScheduleSpec spec{.cron = "0 9 * * mon",
                          .zone = "America/New_York",
                          .jitter = 5min,
                          .overlap = Overlap::kCancelRunning,
                          .missed = Missed::kRunAll,
                          .missed_max = 7,
                          .grace = 3min,
                          .from = kNovember17 + 24h,
                          .until = kNovember17 + 900 * 24h,
                          .queue = "heavy"};
  set(one, "weekly", 42, spec);
  settle();
  kill(one);
  Process& far = client();
  const ScheduleInfo info = describe(far, "weekly");
  EXPECT_EQ(info.name, "weekly");
  EXPECT_EQ(info.workflow, "works");
  EXPECT_EQ(info.input, 42);
  const ScheduleTerms terms{"0 9 * * mon",
                            "America/New_York",
                            0s,
                            5min,
                            Overlap::kCancelRunning,
                            Missed::kRunAll,
                            7,
                            3min,
                            spec.from,
                            spec.until,
                            "heavy"};
  EXPECT_EQ(info.terms, terms);
  ASSERT_EQ(info.next.size(), 5U);
  EXPECT_GE(info.next.front(), kNovember17 + 6 * 24h + 14h);
  EXPECT_LE(info.next.front(), kNovember17 + 6 * 24h + 14h + 5min);
}

TEST_F(ScheduleTest, AScheduleThatNobodyHasDrivenYetIsSeen) {
  Process& far = client();
  set(far, "hourly", 1, {.cron = "@hourly"});
  const ScheduleInfo info = describe(far, "hourly");
  EXPECT_EQ(info.terms.cron, "@hourly");
  EXPECT_EQ(info.begun, 0U);
  EXPECT_FALSE(run(far, Schedules(*far.engine).describe("other")).has_value());
}

TEST_F(ScheduleTest, TimesCountFromWhenItWasSetThoughNobodyWasThere) {
  Process& far = client();
  set(far, "hourly", 1, {.cron = "@hourly"});
  set(far, "poll", 1, {.every = 1h, .missed = Missed::kSkip});
  advance(150min);
  Process& one = process();
  EXPECT_THAT(runs(one), ElementsAre("hourly@2026-11-17T02:00:00Z runs"));
  EXPECT_EQ(describe(one, "hourly").missed, 1U);
  EXPECT_EQ(describe(one, "poll").missed, 2U);
  EXPECT_EQ(describe(one, "poll").next.front(), kNovember17 + 3h);
}

TEST_F(ScheduleTest, SchedulesAreListedByName) {
  Process& one = process();
  set(one, "b", 1, {.cron = "@hourly"});
  set(one, "a", 1, {.every = 5min});
  set(one, "c", 1, {.cron = "@daily"});
  std::vector<std::string> names;
  for (const ScheduleInfo& info : run(one, Schedules(*one.engine).list())) {
    names.push_back(info.name);
  }
  EXPECT_THAT(names, ElementsAre("a", "b", "c"));
}

TEST_F(ScheduleTest, HowRunsEndedIsSeen) {
  Process& one = process();
  Schedules schedules(*one.engine);
  run(one, schedules.set("broken", kBreaks, {.cron = "@hourly"}));
  advance(61min);
  ScheduleInfo info = describe(one, "broken");
  ASSERT_EQ(info.last.size(), 1U);
  EXPECT_EQ(info.last[0].id, "broken@2026-11-17T01:00:00Z");
  EXPECT_EQ(info.last[0].due, kNovember17 + 1h);
  EXPECT_EQ(info.last[0].state, RunState::kFailed);
  EXPECT_THAT(info.last[0].failure, HasSubstr("no such ledger"));
  run(one, one.engine->purge(0s));
  info = describe(one, "broken");
  EXPECT_EQ(info.last[0].state, RunState::kFailed) << "also when the run is gone";
  EXPECT_THAT(info.last[0].failure, HasSubstr("no such ledger"));
}

TEST_F(ScheduleTest, ARunThatWasTerminatedOrPurgedIsSeenAsThat) {
  Process& one = process();
  Schedules schedules(*one.engine);
  run(one, schedules.set("x", kWaitsForWord, {.cron = "@hourly", .overlap = Overlap::kAllow}));
  advance(2h);
  run(one, one.engine->terminate("x@2026-11-17T01:00:00Z", "enough"));
  settle();
  EXPECT_EQ(describe(one, "x").last.at(1).state, RunState::kTerminated);
  run(one, one.engine->purge(0s));
  EXPECT_EQ(describe(one, "x").last.at(1).state, std::nullopt);
}

TEST_F(ScheduleTest, AWorkflowThatNobodyKnowsIsSeenToWait) {
  Process& one = process();
  run(one, Schedules(*one.engine).set_type("x", "unheard_of", 1, {.cron = "@hourly"}));
  advance(2h);
  EXPECT_THAT(runs(one), ElementsAre("x@2026-11-17T01:00:00Z runs"));
}

TEST_F(ScheduleTest, EachRunHasCellsOfItsOwn) {
  Process& one = process();
  run(one, Schedules(*one.engine).set("x", kCountsInACell, {.cron = "@hourly"}));
  advance(2h);
  for (const char* const id : {"x@2026-11-17T01:00:00Z", "x@2026-11-17T02:00:00Z"}) {
    EXPECT_EQ(run(one, one.engine->handle(kCountsInACell, id).result()), 1) << id;
  }
}

TEST_F(ScheduleTest, RunsGoToTheQueueThatWasNamed) {
  Process& one = process();
  process("heavy");
  set(one, "x", 1, {.cron = "@hourly", .queue = "heavy"});
  advance(1h);
  EXPECT_EQ(run(one, one.engine->describe("x@2026-11-17T01:00:00Z")).value().queue, "heavy");
  advance(2min);
  EXPECT_THAT(runs(one), ElementsAre("x@2026-11-17T01:00:00Z"));
}

// --- Crashes -------------------------------------------------------------------------------------

/// What a schedule has begun, with a pause from 03:10 to 04:10.
void fire_through_crashes(testing::TestEngine& world, Overlap overlap,
                          const std::vector<std::string>& expected) {
  world.calendar().set(kNovember17);
  world.run([overlap](Engine& engine) {
    const ScheduleSpec spec{
        .cron = "@hourly", .jitter = 5min, .overlap = overlap, .until = kNovember17 + 5h + 30min};
    return Schedules(engine).set("hourly", kWorks, 70, spec);
  });
  world.skip(3h + 10min);
  world.run([](Engine& engine) { return Schedules(engine).pause("hourly", "a rest"); });
  world.skip(1h);
  world.run([](Engine& engine) { return Schedules(engine).resume("hourly"); });
  world.skip(3h);
  const RunPage page = world.run([](Engine& engine) { return engine.list({.type = "works"}); });
  std::vector<std::string> ids;
  for (const RunInfo& run : page.runs) {
    ids.push_back(run.id.substr(run.id.find('T')));
  }
  std::ranges::sort(ids);
  EXPECT_EQ(ids, expected) << world.trace();
  const auto info =
      world.run([](Engine& engine) { return Schedules(engine).describe("hourly"); }).value();
  EXPECT_EQ(info.begun, expected.size());
  EXPECT_EQ(info.last.size(), expected.size());
  EXPECT_EQ(info.skipped + info.missed, overlap == Overlap::kSkip ? 1U : 0U);
}

TEST(ScheduleCrashes, EachTimeHasOneRunWhateverDiesWhen) {
  const std::vector<std::string> all{"T01:00:00Z", "T02:00:00Z", "T03:00:00Z", "T05:00:00Z"};
  const std::vector<std::string> every_other{"T01:00:00Z", "T03:00:00Z", "T05:00:00Z"};
  for (const Overlap overlap :
       {Overlap::kSkip, Overlap::kQueue, Overlap::kCancelRunning, Overlap::kAllow}) {
    SCOPED_TRACE(static_cast<int>(overlap));
    const auto report = testing::crash_everywhere(
        {kWorks},
        [&](testing::TestEngine& world) {
          fire_through_crashes(world, overlap, overlap == Overlap::kSkip ? every_other : all);
        },
        {.has_failed = ::testing::Test::HasFailure});
    EXPECT_GT(report.commits, 20U);
  }
}

TEST(ScheduleReplay, ItsJournalFitsItsCode) {
  testing::TestEngine world({kWorks});
  world.run([](Engine& engine) {
    return Schedules(engine).set("x", kWorks, 1, {.cron = "@hourly", .overlap = Overlap::kQueue});
  });
  world.forbid_real_steps();
  world.skip(30h);  // Runs that wait leave the memory, so it is replayed at each time.
  EXPECT_EQ(world.run([](Engine& engine) { return Schedules(engine).describe("x"); })->begun, 30U);
}

TEST(ScheduleTrouble, IsWhyItDoesNotFindItsTimesAndGoesWhenItDoes) {
  testing::TestEngine world({kWorks});
  const auto trouble = [&] {
    return world.run([](Engine& engine) { return Schedules(engine).describe("x"); })->trouble;
  };
  const detail::Agenda nothing_due;
  bool knows_the_zone = false;
  world.fake_step("look at the clock", [&] {
    if (!knows_the_zone) {
      throw InvalidArgument("the zone is not known here");
    }
    return nothing_due;
  });
  world.run([](Engine& engine) { return Schedules(engine).set("x", kWorks, 1, {.every = 1h}); });
  EXPECT_THAT(trouble(), HasSubstr("the zone is not known here"));
  knows_the_zone = true;
  world.skip(1h);
  EXPECT_EQ(trouble(), "");
}

// --- Mistakes ------------------------------------------------------------------------------------

class ScheduleMistakesTest : public ScheduleTest {
 protected:
  std::string complaint(const ScheduleSpec& spec, std::string_view name = "nightly") {
    std::string text = "it is fine";
    try {
      set(*one_, name, 1, spec);
    } catch (const InvalidArgument& error) {
      text = error.what();
      EXPECT_THAT(run(*one_, Schedules(*one_->engine).list()), IsEmpty());
    }
    return text;
  }
  Process* one_ = &process();
};

TEST_F(ScheduleMistakesTest, AScheduleHasANameAndAWorkflow) {
  EXPECT_EQ(complaint({.every = 1h}, ""),
            "the name of a schedule is empty: give it one, by which it is found again");
  EXPECT_THAT(complaint({.every = 1h}, std::string(201, 'x')),
              HasSubstr("the name has 201 bytes; at most 200"));
  EXPECT_THROW(static_cast<void>(Schedules(*one_->engine).set_type("x", "", 1, {.every = 1h})),
               InvalidArgument);
}

TEST_F(ScheduleMistakesTest, EitherCronOrAnIntervalIsGiven) {
  EXPECT_EQ(complaint({}), "schedule 'nightly': neither cron nor every is given: give one of them");
  EXPECT_EQ(complaint({.cron = "@daily", .every = 1h}),
            "schedule 'nightly': both cron and every are given: give one of them");
}

TEST_F(ScheduleMistakesTest, TimesMakeSense) {
  EXPECT_EQ(complaint({.every = -1h}),
            "schedule 'nightly': every is -3600 s: give a second or more");
  EXPECT_THAT(complaint({.every = 999ms}), HasSubstr("every is 0.999 s"));
  EXPECT_EQ(complaint({.every = 1s}), "it is fine");
}

TEST_F(ScheduleMistakesTest, JitterIsNotLongerThanTheInterval) {
  EXPECT_EQ(complaint({.every = 1min, .jitter = 61s}),
            "schedule 'nightly': jitter is 61 s, and every 60 s: it must not be longer than that");
  EXPECT_THAT(complaint({.every = 1min, .jitter = -1s}), HasSubstr("jitter is -1 s"));
}

TEST_F(ScheduleMistakesTest, WhatIsWrongWithCronIsSaid) {
  EXPECT_THAT(complaint({.cron = "60 * * * *"}),
              HasSubstr("schedule 'nightly': cron '60 * * * *': the minute '60' has 60"));
  EXPECT_THAT(complaint({.cron = "@daily", .zone = "Mars/Olympus"}),
              HasSubstr("schedule 'nightly': time zone 'Mars/Olympus' is not known"));
  EXPECT_THAT(complaint({.zone = "Mars/Olympus", .every = 1h}), HasSubstr("is not known"));
}

TEST_F(ScheduleMistakesTest, LimitsMakeSense) {
  EXPECT_THAT(complaint({.every = 1h, .missed_max = 0}),
              HasSubstr("missed_max is 0: give 1 to 100"));
  EXPECT_THAT(complaint({.every = 1h, .missed_max = 101}), HasSubstr("missed_max is 101"));
  EXPECT_THAT(complaint({.every = 1h, .grace = -1s}), HasSubstr("grace is -1 s"));
  EXPECT_THAT(complaint({.every = 1h, .from = kNovember17, .until = kNovember17}),
              HasSubstr("from is 2026-11-17T00:00:00Z, and until 2026-11-17T00:00:00Z"));
}

TEST_F(ScheduleMistakesTest, AMistakeLeavesTheScheduleAsItWas) {
  set(*one_, "x", 1, {.cron = "@hourly"});
  EXPECT_THROW(set(*one_, "x", 1, {.cron = "never"}), InvalidArgument);
  EXPECT_EQ(describe(*one_, "x").terms.cron, "@hourly");
}

}  // namespace
}  // namespace holdfast
