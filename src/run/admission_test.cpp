// SPDX-License-Identifier: Apache-2.0
// How many runs of a workflow go on at once.
#include <holdfast/admission.hpp>

#include <gtest/gtest.h>

#include <boost/describe/class.hpp>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/engine.hpp>
#include <holdfast/gate_control.hpp>
#include <holdfast/gate_inspection.hpp>
#include <holdfast/store_error.hpp>

#include "engine_world.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using testing_runs::Process;
using Ids = std::vector<std::string>;

struct Job {
  std::string customer;
  std::string does;
};
BOOST_DESCRIBE_STRUCT(Job, (), (customer, does))

std::string customer_of(const Job& job) { return job.customer; }

/// What happened, in its order. Code that is replayed adds nothing.
Ids seen_jobs;
void note_job(const Context& ctx, const std::string& what) {
  if (!ctx.is_replaying()) {
    std::string seen = ctx.run_id();
    seen_jobs.push_back(seen.append(" ").append(what));
  }
}

/// Whoever asks it to stop has to wait.
Task<std::string> take_an_hour(Context& ctx) {
  co_await ctx.sleep(1h);
  co_return "in its own time";
}

Task<std::string> work(Context& ctx, Job job) {
  note_job(ctx, "in");
  if (job.does == "fail") {
    co_await ctx.sleep(1s);
    throw std::runtime_error("failed inside");
  }
  if (job.does == "end") {
    co_return "at once";
  }
  if (job.does == "continue") {
    co_await ctx.sleep(1s);
    job.does = "wait";
    ctx.continue_as_new(job);
  }
  if (job.does == "ignore") {
    auto wait = ctx.signal<std::string>("go");
    auto told = co_await ctx.attempt(wait);
    note_job(ctx, told ? "goes on" : "ignores it");
    const std::string done = co_await ctx.shielded(take_an_hour(ctx));
    co_return done;
  }
  const auto word = co_await ctx.signal<std::string>("go");
  note_job(ctx, "out");
  co_return word;
}
Task<std::string> work_on_whatever_comes(Context& ctx, Job /*job*/) {
  note_job(ctx, "in");
  const std::string done = co_await ctx.shielded(take_an_hour(ctx));
  co_return done;
}

const auto kLine = workflow("line", work).concurrency({.max = 1}, customer_of);
const auto kBoth = workflow("both", work).concurrency({.max = 2, .max_total = 3}, customer_of);
const auto kAll = workflow("all", work).concurrency({.max = 1});
const auto kPicky =
    workflow("picky", work).concurrency({.max = 1, .when_full = WhenFull::kReject}, customer_of);
const auto kSkips =
    workflow("skips", work).concurrency({.max = 1, .when_full = WhenFull::kSkip}, customer_of);
const auto kNewest =
    workflow("newest", work).concurrency({.max = 1, .when_full = WhenFull::kReplace}, customer_of);
const auto kNewestTwo = workflow("newest two", work)
                            .concurrency({.max = 2, .when_full = WhenFull::kReplace}, customer_of);
const auto kNewestSoon =
    workflow("newest soon", work_on_whatever_comes)
        .concurrency({.max = 1, .when_full = WhenFull::kReplace, .replace_grace = 10s},
                     customer_of);
const auto kOne = workflow("one", work).singleton(customer_of);
const auto kPatient =
    workflow("patient", work).concurrency({.max = 1, .wait_max = 10s}, customer_of);
const auto kShortLine =
    workflow("short line", work).concurrency({.max = 1, .queue_max = 1}, customer_of);
const auto kRated = workflow("rated", work)
                        .concurrency({.rate = StartRate{.count = 1, .period = 10s}}, customer_of);

Task<std::string> delegate(Context& ctx, Job job) {
  note_job(ctx, "in");
  if (job.does == "continue, then child of the same") {
    job.does = "continue once more";
    ctx.continue_as_new(job);
  }
  if (job.does == "continue once more") {
    co_await ctx.sleep(1s);
    job.does = "child of the same";
    ctx.continue_as_new(job);
  }
  if (job.does == "child of the same") {
    const Job same{job.customer, "end"};
    const std::string said = co_await ctx.child<std::string>("delegates", same);
    co_return said;
  }
  if (job.does == "child of another customer") {
    const Job other{"bolt", "end"};
    const std::string said = co_await ctx.child<std::string>("delegates in all", other);
    co_return said;
  }
  if (job.does == "child of another") {
    const Job other{job.customer, "wait"};
    const ChildOptions named{.id = "child"};
    auto child = ctx.child(kPicky, other, named);
    auto ended = co_await ctx.attempt(child);
    co_return ended ? ended.value() : ended.message();
  }
  co_return "alone";
}
const auto kDelegates = workflow("delegates", delegate).concurrency({.max = 1}, customer_of);
const auto kDelegatesInAll =
    workflow("delegates in all", delegate).concurrency({.max = 2, .max_total = 1}, customer_of);

Task<std::string> work_in_parts(Context& ctx, Job /*job*/) {
  note_job(ctx, "in");
  co_await ctx.signal<std::string>("go");
  note_job(ctx, "again");
  auto step = ctx.run("step", [] { return std::string("stepped"); });
  const std::string stepped = co_await step;
  note_job(ctx, stepped);
  const auto last = co_await ctx.signal<std::string>("go");
  co_return last;
}
const auto kInParts = workflow("in parts", work_in_parts)
                          .concurrency({.max = 1, .hold = HoldSlot::kWhileBusy}, customer_of);

Task<std::string> work_after_a_sleep(Context& ctx, Job /*job*/) {
  note_job(ctx, "in");
  std::string words;
  ctx.on_signal<std::string>("go", [&](const std::string& word) { words += word; });
  co_await ctx.sleep(3h);
  note_job(ctx, "slept");
  co_return words;
}
const auto kSleepsBetween = workflow("sleeps", work_after_a_sleep)
                                .concurrency({.max = 1, .hold = HoldSlot::kWhileBusy}, customer_of);

class AdmissionTest : public testing_runs::EngineWorld {
 protected:
  void SetUp() override { seen_jobs.clear(); }
  void add_workflows(Engine& engine) override {
    if (knows_nothing_) {
      return;
    }
    engine.add(kLine);
    engine.add(kBoth);
    engine.add(kAll);
    engine.add(kPicky);
    engine.add(kSkips);
    engine.add(kNewest);
    engine.add(kNewestTwo);
    engine.add(kNewestSoon);
    engine.add(kOne);
    engine.add(kPatient);
    engine.add(kShortLine);
    engine.add(kRated);
    engine.add(kDelegates);
    engine.add(kDelegatesInAll);
    engine.add(kInParts);
    engine.add(kSleepsBetween);
  }

  RunHandle<std::string> start(Process& in, std::string_view id,
                               const Workflow<Job, std::string>& workflow,
                               const std::string& customer, const std::string& does = "wait",
                               StartOptions options = {}) {
    options.id = id;
    const Job job{customer, does};
    return run(in, in.engine->start(workflow, job, options));
  }
  void go(Process& in, std::string_view id) {
    const std::string word = "gone";
    run(in, in.engine->signal(id, "go", word));
  }
  GateInfo gate(Process& in, std::string_view name) {
    auto info = run(in, inspect_gate(*in.store, name));
    return info ? *info : GateInfo{};
  }
  Ids holders(Process& in, std::string_view name) {
    Ids names;
    for (const GateHolderInfo& holder : gate(in, name).holders) {
      names.push_back(holder.holder);
    }
    std::ranges::sort(names);
    return names;
  }
  Ids waiters(Process& in, std::string_view name) {
    Ids names;
    for (const GateWaiterInfo& waiter : gate(in, name).waiters) {
      names.push_back(waiter.holder);
    }
    return names;
  }
  RunInfo info(Process& in, std::string_view id) {
    auto found = run(in, in.engine->describe(id));
    return found ? *found : RunInfo{};
  }
  std::size_t count_rows(Process& in, std::string_view prefix) {
    return run(in, in.store->scan(prefix)).entries.size();
  }
  template <typename E, typename T>
  E error_of(Process& in, Task<T> task) {
    try {
      static_cast<void>(run(in, std::move(task)));
    } catch (const E& error) {
      return error;
    }
    throw std::logic_error("it did not throw that");
  }

  bool knows_nothing_ = false;
};

constexpr std::string_view kAcme = "admission/line/acme";

// --- The limits ----------------------------------------------------------------------------------

TEST_F(AdmissionTest, OneAtATimeOfAKeyInTheOrderInWhichTheyWereStarted) {
  Process& here = process();
  for (const char* id : {"a", "b", "c"}) {
    start(here, id, kLine, "acme");
  }
  start(here, "other", kLine, "bolt");
  EXPECT_EQ(seen_jobs, (Ids{"a in", "other in"}));
  EXPECT_EQ(holders(here, kAcme), Ids{"a"});
  EXPECT_EQ(waiters(here, kAcme), (Ids{"b", "c"}));
  go(here, "a");
  EXPECT_EQ(holders(here, kAcme), Ids{"b"});
  go(here, "b");
  go(here, "c");
  EXPECT_EQ(seen_jobs, (Ids{"a in", "other in", "a out", "b in", "b out", "c in", "c out"}));
  EXPECT_EQ(holders(here, kAcme), Ids{});
  EXPECT_EQ(gate(here, kAcme).waiter_count, 0U);
  EXPECT_EQ(count_rows(here, "unattended/"), 0U);
}

TEST_F(AdmissionTest, AKeyAndAllTogetherAreLimitedAtOnce) {
  Process& here = process();
  for (const char* id : {"a1", "a2", "a3"}) {
    start(here, id, kBoth, "acme");
  }
  start(here, "b1", kBoth, "bolt");
  start(here, "b2", kBoth, "bolt");
  EXPECT_EQ(seen_jobs, (Ids{"a1 in", "a2 in", "b1 in"}));
  EXPECT_EQ(holders(here, "admission/both"), (Ids{"a1", "a2", "b1"}));
  EXPECT_EQ(waiters(here, "admission/both"), Ids{"b2"}) << "it has its key's slot";
  EXPECT_EQ(holders(here, "admission/both/bolt"), (Ids{"b1", "b2"}));
  EXPECT_EQ(waiters(here, "admission/both/acme"), Ids{"a3"})
      << "it does not stand in the second line while it waits in the first";
  go(here, "a1");
  EXPECT_EQ(holders(here, "admission/both"), (Ids{"a2", "b1", "b2"}));
  EXPECT_EQ(holders(here, "admission/both/acme"), (Ids{"a2", "a3"}));
  EXPECT_EQ(waiters(here, "admission/both"), Ids{"a3"});
  go(here, "b1");
  go(here, "b2");
  go(here, "a2");
  go(here, "a3");
  EXPECT_EQ(holders(here, "admission/both"), Ids{});
  EXPECT_EQ(holders(here, "admission/both/acme"), Ids{});
  EXPECT_EQ(holders(here, "admission/both/bolt"), Ids{});
}

TEST_F(AdmissionTest, WithoutKeysAllRunsOfATypeShareOneLimit) {
  Process& here = process();
  start(here, "a", kAll, "acme");
  start(here, "b", kAll, "bolt");
  EXPECT_EQ(seen_jobs, Ids{"a in"});
  EXPECT_EQ(waiters(here, "admission/all"), Ids{"b"});
}

TEST_F(AdmissionTest, ARunThatEndsInItsFirstActivationLeavesNothingBehind) {
  Process& here = process();
  for (const char* id : {"a", "b"}) {
    auto handle = start(here, id, kLine, "acme", "end");
    EXPECT_EQ(run(here, handle.result()), "at once");
  }
  EXPECT_EQ(holders(here, kAcme), Ids{});
  EXPECT_EQ(run(here, gate_history(*here.store, kAcme)).size(), 2U);
}

TEST_F(AdmissionTest, AHigherPriorityGoesFirst) {
  Process& here = process();
  start(here, "a", kLine, "acme");
  start(here, "b", kLine, "acme");
  start(here, "urgent", kLine, "acme", "wait", {.priority = 10});
  go(here, "a");
  EXPECT_EQ(holders(here, kAcme), Ids{"urgent"});
}

TEST_F(AdmissionTest, TheRateOfAKeyLimitsItsStarts) {
  Process& here = process();
  for (const char* id : {"a", "b", "c"}) {
    start(here, id, kRated, "acme");
  }
  start(here, "other", kRated, "bolt");
  EXPECT_EQ(seen_jobs, (Ids{"a in", "other in"}));
  advance(10s);
  EXPECT_EQ(seen_jobs, (Ids{"a in", "other in", "b in"}));
  advance(10s);
  EXPECT_EQ(seen_jobs, (Ids{"a in", "other in", "b in", "c in"}));
}

// --- When it is full -----------------------------------------------------------------------------

TEST_F(AdmissionTest, ARejectedStartWritesNothing) {
  Process& here = process();
  start(here, "a", kPicky, "acme");
  const std::size_t rows = count_rows(here, "");
  const Job job{"acme", "wait"};
  const auto error = error_of<ConcurrencyLimitExceeded>(
      here, here.engine->start(kPicky, job, {.id = "b", .idempotency_key = "once"}));
  EXPECT_EQ(error.type(), "picky");
  EXPECT_EQ(error.key(), "acme");
  EXPECT_EQ(error.limit(), 1U);
  EXPECT_EQ(error.remedy(), Remedy::kTryAgain);
  EXPECT_EQ(count_rows(here, ""), rows);
  go(here, "a");
  start(here, "b", kPicky, "acme");
  EXPECT_EQ(seen_jobs, (Ids{"a in", "a out", "b in"}));
}

TEST_F(AdmissionTest, ASkippedStartSaysSo) {
  Process& here = process();
  const auto first = start(here, "a", kSkips, "acme");
  EXPECT_FALSE(first.was_skipped());
  const auto second = start(here, "b", kSkips, "acme");
  EXPECT_TRUE(second.was_skipped());
  EXPECT_THROW(run(here, second.result()), NoSuchRun);
  EXPECT_FALSE(run(here, here.engine->describe("b")).has_value());
}

TEST_F(AdmissionTest, AFullQueueRejects) {
  Process& here = process();
  start(here, "a", kShortLine, "acme");
  start(here, "b", kShortLine, "acme");
  const Job job{"acme", "wait"};
  const auto error = error_of<ConcurrencyLimitExceeded>(here, here.engine->start(kShortLine, job));
  EXPECT_NE(std::string(error.what()).find("queue_max"), std::string::npos) << error.what();
  EXPECT_EQ(waiters(here, "admission/short line/acme"), Ids{"b"});
}

TEST_F(AdmissionTest, ASecondStartOfASingletonIsGivenTheFirst) {
  Process& here = process();
  Process& there = process();
  const auto first = start(here, "a", kOne, "acme");
  const auto second = start(there, "b", kOne, "acme");
  EXPECT_EQ(second.id(), "a");
  EXPECT_EQ(start(here, "other", kOne, "bolt").id(), "other");
  go(here, "a");
  EXPECT_EQ(run(there, second.result()), "gone");
  EXPECT_EQ(start(there, "c", kOne, "acme").id(), "c");
}

TEST_F(AdmissionTest, ANewOneReplacesTheOneThatGoesOn) {
  Process& here = process();
  const auto first = start(here, "a", kNewest, "acme");
  const auto second = start(here, "b", kNewest, "acme");
  EXPECT_EQ(info(here, "a").state, RunState::kCancelled);
  EXPECT_EQ(seen_jobs, (Ids{"a in", "b in"}));
  go(here, "b");
  EXPECT_EQ(run(here, second.result()), "gone");
}

TEST_F(AdmissionTest, OfManyThatReplaceEachOtherTheNewestStay) {
  Process& here = process();
  for (const char* id : {"a", "b"}) {
    start(here, id, kNewestTwo, "acme", "ignore");
  }
  for (const char* id : {"c", "d", "e"}) {
    start(here, id, kNewestTwo, "acme");
  }
  EXPECT_EQ(seen_jobs, (Ids{"a in", "b in", "a ignores it", "b ignores it"}));
  EXPECT_EQ(info(here, "c").state, RunState::kCancelled) << "it had not begun";
  EXPECT_EQ(waiters(here, "admission/newest two/acme"), (Ids{"d", "e"}));
}

TEST_F(AdmissionTest, AReplacedRunThatIgnoresCancellationKeepsItsSlotUntilItEnds) {
  Process& here = process();
  start(here, "a", kNewest, "acme", "ignore");
  start(here, "b", kNewest, "acme");
  EXPECT_EQ(seen_jobs, (Ids{"a in", "a ignores it"}));
  advance(30min);
  EXPECT_EQ(holders(here, "admission/newest/acme"), Ids{"a"});
  advance(30min);
  EXPECT_EQ(info(here, "a").state, RunState::kCompleted);
  EXPECT_EQ(seen_jobs.back(), "b in");
}

TEST_F(AdmissionTest, AReplacedRunThatIgnoresCancellationIsTerminatedAfterTheGrace) {
  Process& here = process();
  start(here, "a", kNewestSoon, "acme");
  start(here, "b", kNewestSoon, "acme");
  advance(9s);
  EXPECT_EQ(seen_jobs, Ids{"a in"});
  kill(here);
  Process& next = process();
  advance(1min);
  EXPECT_EQ(info(next, "a").state, RunState::kTerminated);
  EXPECT_EQ(seen_jobs, (Ids{"a in", "b in"}));
}

// --- In the queue --------------------------------------------------------------------------------

TEST_F(AdmissionTest, AQueuedStartIsDurableAtOnce) {
  Process& here = process();
  start(here, "a", kLine, "acme");
  start(here, "b", kLine, "acme");
  kill(here);
  Process& next = process();
  advance(1min);
  EXPECT_EQ(waiters(next, kAcme), Ids{"b"});
  EXPECT_EQ(seen_jobs, Ids{"a in"});
  go(next, "a");
  go(next, "b");
  EXPECT_EQ(seen_jobs, (Ids{"a in", "a out", "b in", "b out"}));
}

TEST_F(AdmissionTest, AProcessThatDiesAfterTheGrantAndBeforeTheRunBeginsLosesNothing) {
  Process& here = process();
  start(here, "a", kLine, "acme");
  start(here, "b", kLine, "acme");
  bool is_granted = false;
  here.store->before_commit = [&](const Batch& batch) {
    if (is_granted) {
      throw StoreBusy("it is about to die");
    }
    is_granted = std::ranges::any_of(
        batch.writes(), [](const auto& write) { return write.key.starts_with("gate/"); });
  };
  const std::string word = "gone";
  auto sent = begin(here, here.engine->signal("a", "go", word));
  EXPECT_TRUE(is_granted);
  EXPECT_EQ(std::ranges::count(seen_jobs, "b in"), 0);
  kill(here);
  Process& next = process();
  advance(1min);
  EXPECT_EQ(holders(next, kAcme), Ids{"b"});
  EXPECT_EQ(std::ranges::count(seen_jobs, "b in"), 1);
  go(next, "b");
  EXPECT_EQ(info(next, "b").state, RunState::kCompleted);
}

TEST_F(AdmissionTest, DescribeSaysWhereAndWhyItIsQueued) {
  Process& here = process();
  start(here, "a", kPatient, "acme");
  start(here, "b", kPatient, "acme");
  EXPECT_FALSE(info(here, "a").queued.has_value());
  const RunInfo queued = info(here, "b");
  EXPECT_EQ(queued.state, RunState::kRunning);
  ASSERT_TRUE(queued.queued.has_value());
  EXPECT_EQ(queued.queued->gate, "admission/patient/acme");
  EXPECT_EQ(queued.queued->until, queued.queued->since + 10s);
  EXPECT_EQ(queued.queued->why, to_string(gate(here, "admission/patient/acme").waiters.at(0).why));
}

TEST_F(AdmissionTest, WhoIsCancelledOrTerminatedInTheQueueLeavesIt) {
  Process& here = process();
  for (const char* id : {"a", "b", "c", "d"}) {
    start(here, id, kLine, "acme");
  }
  run(here, here.engine->cancel("b"));
  run(here, here.engine->terminate("c", "not needed"));
  EXPECT_EQ(waiters(here, kAcme), Ids{"d"});
  EXPECT_EQ(info(here, "b").state, RunState::kCancelled);
  EXPECT_EQ(info(here, "c").state, RunState::kTerminated);
  go(here, "a");
  EXPECT_EQ(seen_jobs, (Ids{"a in", "a out", "d in"}));
}

TEST_F(AdmissionTest, WhoWaitsTooLongTimesOut) {
  Process& here = process();
  start(here, "a", kPatient, "acme");
  auto late = start(here, "b", kPatient, "acme");
  kill(here);
  Process& next = process();
  advance(1min);
  const RunInfo ended = info(next, "b");
  EXPECT_EQ(ended.state, RunState::kTimedOut);
  EXPECT_NE(ended.failure.find("admission/patient/acme"), std::string::npos) << ended.failure;
  EXPECT_EQ(gate(next, "admission/patient/acme").waiter_count, 0U);
  EXPECT_EQ(count_rows(next, "timer/"), 0U);
}

TEST_F(AdmissionTest, SignalsUpdatesAndQueriesOfAQueuedRunWaitForIt) {
  Process& here = process();
  start(here, "a", kLine, "acme");
  start(here, "b", kLine, "acme");
  go(here, "b");
  auto question = begin(here, here.engine->query<std::string>("b", "no such query"));
  EXPECT_FALSE(question.ended());
  EXPECT_EQ(seen_jobs, Ids{"a in"});
  go(here, "a");
  EXPECT_TRUE(question.ended());
  EXPECT_THROW(question.get(), Error);
  EXPECT_EQ(seen_jobs, (Ids{"a in", "a out", "b in", "b out"}));
}

TEST_F(AdmissionTest, AQueuedRunNeedsNoMemory) {
  options_.idle_time = 1s;
  Process& here = process();
  for (const char* id : {"a", "b", "c"}) {
    start(here, id, kLine, "acme");
  }
  advance(1min);
  EXPECT_EQ(here.engine->live_runs(), 0U);
  go(here, "a");
  EXPECT_EQ(seen_jobs.back(), "b in");
}

// --- However it ends -----------------------------------------------------------------------------

TEST_F(AdmissionTest, TheSlotIsFreeWhenTheRunEndsHoweverThatIs) {
  Process& here = process();
  start(here, "fails", kLine, "acme", "fail");
  start(here, "cancelled", kLine, "acme");
  start(here, "terminated", kLine, "acme");
  start(here, "late", kLine, "acme", "wait", {.timeout = 10s});
  start(here, "last", kLine, "acme");
  advance(1s);
  EXPECT_EQ(holders(here, kAcme), Ids{"cancelled"});
  run(here, here.engine->cancel("cancelled"));
  EXPECT_EQ(holders(here, kAcme), Ids{"terminated"});
  run(here, here.engine->terminate("terminated", "enough"));
  EXPECT_EQ(holders(here, kAcme), Ids{"late"});
  advance(10s);
  EXPECT_EQ(info(here, "late").state, RunState::kTimedOut);
  EXPECT_EQ(holders(here, kAcme), Ids{"last"});
}

TEST_F(AdmissionTest, ARunThatContinuesAsNewKeepsItsSlot) {
  Process& here = process();
  start(here, "a", kLine, "acme", "continue");
  start(here, "b", kLine, "acme");
  advance(5s);
  EXPECT_EQ(seen_jobs, (Ids{"a in", "a in"}));
  EXPECT_EQ(holders(here, kAcme), Ids{"a"});
  kill(here);
  Process& next = process();
  advance(1min);
  go(next, "a");
  EXPECT_EQ(holders(next, kAcme), Ids{"b"});
}

TEST_F(AdmissionTest, ARunThatIsResetAsksAnew) {
  Process& here = process();
  start(here, "a", kLine, "acme");
  start(here, "b", kLine, "acme");
  run(here, here.engine->reset("a", 1, "once more"));
  EXPECT_EQ(holders(here, kAcme), Ids{"b"});
  EXPECT_EQ(waiters(here, kAcme), Ids{"a"});
  go(here, "a");
  EXPECT_EQ(info(here, "a").state, RunState::kRunning) << "it does not go on without its slot";
  go(here, "b");
  EXPECT_EQ(info(here, "a").state, RunState::kCompleted);
}

TEST_F(AdmissionTest, ARunThatIsResetIsEndedByItsTimeoutWhileItIsQueued) {
  Process& here = process();
  start(here, "a", kLine, "acme", "wait", {.timeout = 1h});
  start(here, "b", kLine, "acme");
  run(here, here.engine->reset("a", 1, "once more"));
  advance(59min);
  EXPECT_EQ(waiters(here, kAcme), Ids{"a"});
  advance(1min);
  EXPECT_EQ(info(here, "a").state, RunState::kTimedOut);
  EXPECT_EQ(waiters(here, kAcme), Ids{});
  EXPECT_EQ(holders(here, kAcme), Ids{"b"});
}

TEST_F(AdmissionTest, ARunThatIsResetWhileNobodyDrivesItIsEndedByItsTimeoutWhileItIsQueued) {
  Process& here = process();
  Process& far = client();
  start(here, "a", kLine, "acme", "wait", {.timeout = 1h});
  go(here, "a");
  start(here, "b", kLine, "acme");
  kill(here);
  run(far, far.engine->reset("a", 1, "once more"));
  Process& next = process();
  advance(1min);  // Until the one before has expired.
  EXPECT_EQ(waiters(far, kAcme), Ids{"a"});
  kill(next);
  process();
  advance(1h);
  EXPECT_EQ(info(far, "a").state, RunState::kTimedOut);
  EXPECT_EQ(waiters(far, kAcme), Ids{});
}

TEST_F(AdmissionTest, AnOperatorWhoTakesTheSlotAwayLetsTheRunGoOn) {
  Process& here = process();
  auto first = start(here, "a", kLine, "acme");
  start(here, "b", kLine, "acme");
  GateControl control(*here.store);
  const std::uint64_t fence = gate(here, kAcme).holders.at(0).fence;
  run(here, control.force_release(kAcme, fence, {.by = "ada", .reason = "let both go on"}));
  EXPECT_EQ(seen_jobs, (Ids{"a in", "b in"}));
  go(here, "a");
  EXPECT_EQ(run(here, first.result()), "gone");
  EXPECT_EQ(holders(here, kAcme), Ids{"b"});
}

TEST_F(AdmissionTest, ALimitThatIsLoweredPutsNobodyOut) {
  Process& here = process();
  for (const char* id : {"a", "b", "c"}) {
    start(here, id, kBoth, "acme");
  }
  GateControl control(*here.store);
  run(here, control.set_capacity("admission/both/acme", 1, {.by = "ada", .reason = "less"}));
  EXPECT_EQ(holders(here, "admission/both/acme"), (Ids{"a", "b"}));
  go(here, "a");
  EXPECT_EQ(holders(here, "admission/both/acme"), Ids{"b"});
  go(here, "b");
  EXPECT_EQ(holders(here, "admission/both/acme"), Ids{"c"});
}

// --- Every way to start one ----------------------------------------------------------------------

TEST_F(AdmissionTest, AStartForAnotherQueueAsksInItsCommit) {
  Process& here = process();
  Process& far = process("far");
  start(here, "a", kPicky, "acme", "wait", {.queue = "far"});
  EXPECT_EQ(holders(here, "admission/picky/acme"), Ids{"a"});
  EXPECT_EQ(seen_jobs, Ids{"a in"});
  const Job job{"acme", "wait"};
  error_of<ConcurrencyLimitExceeded>(here, here.engine->start(kPicky, job, {.queue = "far"}));
  go(far, "a");
  EXPECT_EQ(holders(here, "admission/picky/acme"), Ids{});
}

TEST_F(AdmissionTest, ARejectionIsNotFoundedOnWhatIsOld) {
  Process& here = process();
  Process& far = process("far");
  start(here, "a", kPicky, "acme", "wait", {.queue = "far"});
  go(far, "a");
  start(here, "b", kPicky, "acme");
  EXPECT_EQ(seen_jobs, (Ids{"a in", "a out", "b in"}));
}

TEST_F(AdmissionTest, AQueuedStartForAnotherQueueBeginsThere) {
  Process& here = process();
  process("far");
  start(here, "a", kPatient, "acme");
  start(here, "b", kPatient, "acme", "wait", {.queue = "far"});
  start(here, "c", kPatient, "acme", "wait", {.queue = "far"});
  go(here, "a");
  EXPECT_EQ(seen_jobs, (Ids{"a in", "a out", "b in"}));
  advance(10s);
  EXPECT_EQ(info(here, "c").state, RunState::kTimedOut);
}

TEST_F(AdmissionTest, OfATypeThatIsNotKnownHereWhoeverDrivesItAsks) {
  Process& here = process();
  knows_nothing_ = true;
  Process& stranger = client();
  const boost::json::value job = {{"customer", "acme"}, {"does", "wait"}};
  run(stranger, stranger.engine->start_run("picky", job, {.id = "a"}));
  run(stranger, stranger.engine->start_run("picky", job, {.id = "b"}));
  settle();
  EXPECT_EQ(seen_jobs, Ids{"a in"});
  const RunInfo refused = info(here, "b");
  EXPECT_EQ(refused.state, RunState::kFailed);
  EXPECT_EQ(refused.failure_type, "holdfast::ConcurrencyLimitExceeded");
  EXPECT_EQ(run(stranger, stranger.engine->describe("a"))->state, RunState::kRunning);
}

TEST_F(AdmissionTest, ADelayedStartAsksWhenItIsDue) {
  Process& here = process();
  start(here, "later", kLine, "acme", "wait", {.delay = 10s});
  EXPECT_EQ(gate(here, kAcme).holders.size(), 0U);
  start(here, "a", kLine, "acme");
  advance(10s);
  EXPECT_EQ(waiters(here, kAcme), Ids{"later"});
  go(here, "a");
  EXPECT_EQ(seen_jobs, (Ids{"a in", "a out", "later in"}));
}

TEST_F(AdmissionTest, AStartOrSignalPassesTheGateToo) {
  Process& here = process();
  start(here, "a", kLine, "acme");
  const Job job{"acme", "wait"};
  const std::string word = "gone";
  run(here, here.engine->start_or_signal(kLine, job, {.id = "b"}, "go", word));
  EXPECT_EQ(waiters(here, kAcme), Ids{"b"});
  go(here, "a");
  EXPECT_EQ(info(here, "b").state, RunState::kCompleted) << "with the signal it was started with";
}

TEST_F(AdmissionTest, ARefusedChildFailsTowardsItsParent) {
  Process& here = process();
  start(here, "a", kPicky, "acme");
  auto parent = start(here, "p", kDelegates, "acme", "child of another");
  EXPECT_NE(run(here, parent.result()).find("admission/picky/acme"), std::string::npos);
  EXPECT_EQ(info(here, "child").state, RunState::kFailed);
}

TEST_F(AdmissionTest, AParentThatWaitsForAChildOfItsOwnLimitIsToldOfTheDeadlock) {
  Process& here = process();
  auto parent = start(here, "p", kDelegates, "acme", "child of the same");
  std::string said;
  try {
    run(here, parent.result());
  } catch (const RunFailed& failed) {
    said = failed.what();
  }
  EXPECT_NE(said.find("admission/delegates/acme"), std::string::npos) << said;
  EXPECT_EQ(holders(here, "admission/delegates/acme"), Ids{});
  EXPECT_EQ(gate(here, "admission/delegates/acme").waiter_count, 0U);
}

TEST_F(AdmissionTest, AParentThatContinuedAsNewIsToldOfItAsWell) {
  Process& here = process();
  auto parent = start(here, "p", kDelegates, "acme", "continue, then child of the same");
  kill(here);
  Process& next = process();
  advance(1min);
  const RunInfo ended = info(next, "p");
  EXPECT_EQ(ended.state, RunState::kFailed);
  EXPECT_NE(ended.failure.find("deadlock"), std::string::npos) << ended.failure;
  EXPECT_NE(ended.failure.find("waits for admission/delegates/acme, held by 'p'"),
            std::string::npos)
      << ended.failure;
  EXPECT_EQ(holders(next, "admission/delegates/acme"), Ids{});
  EXPECT_EQ(count_rows(next, "wait/"), 0U);
}

TEST_F(AdmissionTest, AParentThatHoldsTheSlotOfAllAndWaitsForAChildOfAnotherKeyIsToldOfIt) {
  Process& here = process();
  auto parent = start(here, "p", kDelegatesInAll, "acme", "child of another customer");
  const RunInfo ended = info(here, "p");
  EXPECT_EQ(ended.state, RunState::kFailed);
  EXPECT_NE(ended.failure.find("waits for admission/delegates in all, held by 'p'"),
            std::string::npos)
      << ended.failure;
  for (const char* name : {"admission/delegates in all", "admission/delegates in all/acme",
                           "admission/delegates in all/bolt"}) {
    EXPECT_EQ(holders(here, name), Ids{}) << name;
    EXPECT_EQ(gate(here, name).waiter_count, 0U) << name;
  }
}

// --- Released while it waits ---------------------------------------------------------------------

TEST_F(AdmissionTest, ASlotCanBeLetGoOfWhileTheRunOnlyWaits) {
  Process& here = process();
  const auto first = start(here, "a", kInParts, "acme", "");
  const auto second = start(here, "b", kInParts, "acme", "");
  EXPECT_EQ(seen_jobs, (Ids{"a in", "b in"}));
  EXPECT_EQ(holders(here, "admission/in parts/acme"), Ids{});
  go(here, "a");
  EXPECT_EQ(holders(here, "admission/in parts/acme"), Ids{});
  kill(here);
  Process& next = process();
  advance(1min);
  go(next, "b");
  go(next, "a");
  EXPECT_EQ(info(next, "a").state, RunState::kCompleted);
  EXPECT_EQ(info(next, "b").state, RunState::kRunning);
  go(next, "b");
  EXPECT_EQ(info(next, "b").state, RunState::kCompleted);
  EXPECT_EQ(count_rows(next, "inbox/"), 0U);
}

TEST_F(AdmissionTest, WhatComesForARunThatWaitsForItsSlotIsKept) {
  Process& here = process();
  start(here, "a", kInParts, "acme", "");
  GateControl control(*here.store);
  constexpr std::string_view kGate = "admission/in parts/acme";
  run(here, control.pause(kGate, {.by = "ada", .reason = "a look"}));
  go(here, "a");
  EXPECT_EQ(waiters(here, kGate), Ids{"a"});
  ASSERT_TRUE(info(here, "a").queued.has_value());
  kill(here);
  Process& next = process();
  advance(1min);
  go(next, "a");
  EXPECT_EQ(seen_jobs, Ids{"a in"});
  run(next, control.resume(kGate, {.by = "ada", .reason = "seen"}));
  advance(1min);
  EXPECT_EQ(seen_jobs, (Ids{"a in", "a again", "a stepped"}));
  EXPECT_EQ(info(next, "a").state, RunState::kCompleted);
}

TEST_F(AdmissionTest, ARunThatWaitsForItsSlotAndHasMailNeedsNoMemory) {
  Process& here = process();
  constexpr std::string_view kGate = "admission/sleeps/acme";
  GateControl control(*here.store);
  auto sleeper = start(here, "a", kSleepsBetween, "acme");
  run(here, control.pause(kGate, {.by = "ada", .reason = "a look"}));
  for (const char* word : {"one ", "two ", "three "}) {
    run(here, here.engine->signal("a", "go", std::string(word)));
  }
  EXPECT_EQ(waiters(here, kGate), Ids{"a"});
  advance(1h);
  EXPECT_EQ(here.engine->live_runs(), 0U);
  EXPECT_EQ(seen_jobs, Ids{"a in"});
  // Whoever looks at it, or sends it more, brings back what was there before.
  run(here, here.engine->signal("a", "go", std::string("four")));
  EXPECT_EQ(here.engine->live_runs(), 1U);
  advance(1h);
  EXPECT_EQ(here.engine->live_runs(), 0U);
  advance(2h);
  EXPECT_EQ(here.engine->live_runs(), 0U) << "nor when its time has come";
  run(here, control.resume(kGate, {.by = "ada", .reason = "seen"}));
  EXPECT_EQ(seen_jobs, (Ids{"a in", "a slept"}));
  EXPECT_EQ(run(here, sleeper.result()), "one two three four") << "each once, and in their order";
  for (const char* prefix : {"inbox/", "timer/", "wait/", "unattended/"}) {
    EXPECT_EQ(count_rows(here, prefix), 0U) << prefix;
  }
}

TEST_F(AdmissionTest, WhatARunThatWasPutAwayHasNotReadOutlivesItsProcess) {
  Process& here = process();
  constexpr std::string_view kGate = "admission/sleeps/acme";
  auto sleeper = start(here, "a", kSleepsBetween, "acme");
  GateControl control(*here.store);
  run(here, control.pause(kGate, {.by = "ada", .reason = "a look"}));
  run(here, here.engine->signal("a", "go", std::string("one ")));
  advance(1h);
  EXPECT_EQ(here.engine->live_runs(), 0U);
  kill(here);
  Process& next = process();
  advance(1h);
  run(next, next.engine->signal("a", "go", std::string("two")));
  GateControl other(*next.store);
  run(next, other.resume(kGate, {.by = "ada", .reason = "seen"}));
  advance(3h);
  EXPECT_EQ(info(next, "a").result, "one two");
}

TEST_F(AdmissionTest, ARunThatGoesOnAsksAgainAtAGateThatIsDrained) {
  Process& here = process();
  constexpr std::string_view kGate = "admission/in parts/acme";
  GateControl control(*here.store);
  start(here, "a", kInParts, "acme", "");
  run(here, control.drain(kGate, {.by = "ada", .reason = "no more"}));
  go(here, "a");
  advance(1min);
  EXPECT_EQ(seen_jobs, Ids{"a in"});
  EXPECT_EQ(info(here, "a").state, RunState::kRunning) << "one that has begun is not refused";
  const Job job{"acme", ""};
  error_of<ConcurrencyLimitExceeded>(here, here.engine->start(kInParts, job, {.id = "b"}));
  run(here, control.resume(kGate, {.by = "ada", .reason = "go on"}));
  advance(2s);
  EXPECT_EQ(seen_jobs, (Ids{"a in", "a again", "a stepped"}));
  go(here, "a");
  EXPECT_EQ(info(here, "a").state, RunState::kCompleted);
  EXPECT_EQ(count_rows(here, "timer/"), 0U);
}

TEST_F(AdmissionTest, AStartOrSignalToOneThatEndsBeforeItIsReadPassesTheGateToo) {
  Process& here = process();
  Process& stranger = client();
  start(here, "a", kLine, "acme");
  start(here, "b", kLine, "acme");
  kill(here);
  // When these are read, the first one ends the run that the second one is for.
  go(stranger, "a");
  const Job job{"acme", "wait"};
  const std::string word = "late";
  run(stranger, stranger.engine->start_or_signal(kLine, job, {.id = "a"}, "go", word));
  Process& next = process();
  advance(1min);
  EXPECT_EQ(holders(next, kAcme), Ids{"b"});
  EXPECT_EQ(waiters(next, kAcme), Ids{"a"}) << "the next one of its id waits its turn";
  go(next, "b");
  EXPECT_EQ(info(next, "a").state, RunState::kCompleted);
  EXPECT_EQ(info(next, "a").result, "late");
  EXPECT_EQ(holders(next, kAcme), Ids{});
  EXPECT_EQ(count_rows(next, "inbox/"), 0U);
}

// --- Many, and bad input -------------------------------------------------------------------------

TEST_F(AdmissionTest, CapacityIsNeverExceededWhateverDies) {
  for (int round = 0; round < 4; ++round) {
    Process& here = process();
    Process& there = process();
    for (int i = 0; i < 6; ++i) {
      std::string id = std::to_string(round);
      id.append("-").append(std::to_string(i));
      start(i % 2 == 0 ? here : there, id, kBoth, i % 3 == 0 ? "acme" : "bolt");
      EXPECT_LE(gate(here, "admission/both").holders.size(), 3U);
      EXPECT_LE(gate(here, "admission/both/bolt").holders.size(), 2U);
    }
    kill(here);
    advance(1min);
    for (const std::string& id : holders(there, "admission/both")) {
      go(there, id);
      EXPECT_LE(gate(there, "admission/both").holders.size(), 3U);
    }
    kill(there);
  }
  Process& last = process();
  advance(1min);
  for (Ids open = holders(last, "admission/both"); !open.empty();
       open = holders(last, "admission/both")) {
    EXPECT_LE(open.size(), 3U);
    go(last, open.front());
  }
  EXPECT_EQ(std::ranges::count_if(seen_jobs, [](const auto& one) { return one.ends_with("out"); }),
            24);
  EXPECT_EQ(gate(last, "admission/both").waiter_count, 0U);
}

TEST_F(AdmissionTest, BadTermsAreRefusedWhenTheyAreSaid) {
  const auto plain = workflow("plain", work);
  EXPECT_THROW(static_cast<void>(plain.concurrency({.max = 0})), InvalidArgument);
  EXPECT_THROW(static_cast<void>(plain.concurrency({})), InvalidArgument);
  EXPECT_THROW(static_cast<void>(plain.concurrency({.max = 1, .max_total = 2})), InvalidArgument);
  EXPECT_THROW(static_cast<void>(plain.concurrency({.max = 1, .wait_max = -1s})), InvalidArgument);
  EXPECT_THROW(static_cast<void>(plain.concurrency({.max = 1, .queue_max = 0})), InvalidArgument);
  EXPECT_THROW(static_cast<void>(plain.concurrency({.rate = StartRate{.count = 0, .period = 1s}})),
               InvalidArgument);
  EXPECT_THROW(static_cast<void>(plain.concurrency({.max = 1, .replace_grace = 1s})),
               InvalidArgument);
  EXPECT_THROW(static_cast<void>(workflow(std::string(300, 'x'), work).concurrency({.max = 1})),
               InvalidArgument);
}

TEST_F(AdmissionTest, ABadKeyIsRefusedAndNothingIsWritten) {
  Process& here = process();
  const auto throws = workflow("line", work).concurrency({.max = 1}, [](const Job&) -> std::string {
    throw std::runtime_error("no key");
  });
  const Job job{std::string(300, 'x'), "wait"};
  const std::size_t rows = count_rows(here, "");
  const auto too_long = error_of<InvalidArgument>(here, here.engine->start(kLine, job));
  const auto no_key = error_of<InvalidArgument>(here, here.engine->start(throws, job));
  EXPECT_NE(std::string(no_key.what()).find("no key"), std::string::npos) << no_key.what();
  EXPECT_THROW(run(here, here.engine->start(kLine, job, {.priority = 101})), InvalidArgument);
  EXPECT_EQ(count_rows(here, ""), rows);
}

TEST_F(AdmissionTest, NoTypeWithAKeyHasTheGateOfAnotherType) {
  Process& here = process();
  const auto slashed = workflow("line/acme", work).concurrency({.max = 5});
  const Job job{"bolt", "wait"};
  run(here, here.engine->start(slashed, job, {.id = "s"}));
  start(here, "a", kLine, "acme");
  EXPECT_EQ(holders(here, "admission/line%2Facme"), Ids{"s"});
  EXPECT_EQ(holders(here, kAcme), Ids{"a"});
}

}  // namespace
}  // namespace holdfast
