// SPDX-License-Identifier: Apache-2.0
// Permits of pools inside of runs: several processes, virtual time.
#include <holdfast/permit_pool.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/deadlock.hpp>
#include <holdfast/engine.hpp>
#include <holdfast/gate_control.hpp>
#include <holdfast/gate_inspection.hpp>
#include <holdfast/replay.hpp>
#include <holdfast/run_inspection.hpp>

#include "engine_world.hpp"
#include "permit_run.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_runs::Process;
using Strings = std::vector<std::string>;

const PermitPool kOne("one", 1);
const PermitPool kTwo("two", 2);
const PermitPool kColours("colours", Strings{"red", "blue"});
const PermitPool kAnyOfThree("any", 3, {.order = PermitOrder::kRandom});
const PermitPool kElsewhere("elsewhere", 1, {.queue = "permits"});

/// What happened, in its order. Code that is replayed adds nothing.
Strings permit_events;
void note_permit(const Context& ctx, const std::string& what) {
  if (!ctx.is_replaying()) {
    permit_events.push_back(ctx.run_id() + " " + what);
  }
}

const PermitPool& pool_called(const std::string& name) {
  for (const PermitPool* pool : {&kOne, &kTwo, &kColours, &kAnyOfThree, &kElsewhere}) {
    if (pool->name() == name) {
      return *pool;
    }
  }
  throw std::logic_error("no pool " + name);
}

/// Holds a permit for 10 s at most, until it is told to go on; and then goes on without it.
Task<std::string> holds_permit(Context& ctx, std::string pool) {
  Permit permit = co_await pool_called(pool).acquire(ctx, {.lease = 10s, .reason = "work"});
  note_permit(ctx, "in " + permit.slot());
  co_await ctx.signal<std::string>("go");
  note_permit(ctx, permit.expired() ? "too late" : "out");
  permit.release();
  co_await ctx.signal<std::string>("end");
  co_return permit.run_id();
}
const auto kHoldsPermit = workflow("holds_permit", holds_permit);

Task<std::string> fails_with_permit(Context& ctx) {
  const Permit permit = co_await kOne.acquire(ctx);
  co_await ctx.sleep(1s);
  throw std::runtime_error("inside");
}
const auto kFailsWithPermit = workflow("fails_with_permit", fails_with_permit);

/// Its last scope ends with the run itself.
Task<std::string> ends_with_permit(Context& ctx) {
  const Permit permit = co_await kOne.acquire(ctx);
  co_await ctx.sleep(1s);
  co_return permit.slot();
}
const auto kEndsWithPermit = workflow("ends_with_permit", ends_with_permit);

Task<int> goes_on_with_permit(Context& ctx, int left) {
  const Permit permit = co_await kOne.acquire(ctx);
  note_permit(ctx, "in " + permit.slot());
  co_await ctx.sleep(1s);
  if (left > 0) {
    ctx.continue_as_new(left - 1);
  }
  co_return left;
}
const auto kGoesOnWithPermit = workflow("goes_on_with_permit", goes_on_with_permit);

/// Renews whenever it is told to, for 10 s unless it is told otherwise.
Task<std::string> renews_permit(Context& ctx) {
  Permit permit = co_await kOne.acquire(ctx, {.lease = 10s});
  note_permit(ctx, "in " + permit.slot());
  for (;;) {
    const auto word = co_await ctx.signal<std::string>("go");
    if (word == "end") {
      co_return "ended";
    }
    const bool is_held = co_await permit.renew(ctx, word == "for long" ? 10min : 10s);
    note_permit(ctx, is_held ? "renewed" : "not renewed");
  }
}
const auto kRenewsPermit = workflow("renews_permit", renews_permit);

Task<std::string> watches_permit(Context& ctx) {
  Permit permit = co_await kOne.acquire(ctx, {.lease = 10s});
  auto told = ctx.signal<std::string>("go");
  const auto first = co_await ctx.any(permit.until_expired(ctx), told);
  note_permit(ctx, first.index() == 0 ? "lost" : "told");
  co_return first.index() == 0 ? "lost" : "told";
}
const auto kWatchesPermit = workflow("watches_permit", watches_permit);

Task<std::string> permit_within(Context& ctx, std::string pool) {
  Permit permit = co_await pool_called(pool).acquire(ctx, {.timeout = 25s});
  note_permit(ctx, "in " + permit.slot());
  co_await ctx.signal<std::string>("go");
  co_return permit.slot();
}
Task<std::string> gives_up_waiting(Context& ctx, std::string pool) {
  auto outcome = co_await ctx.attempt(permit_within(ctx, pool));
  if (!outcome) {
    note_permit(ctx, "not in");
    co_return outcome.message();
  }
  co_return outcome.value();
}
const auto kGivesUpWaiting = workflow("gives_up_waiting", gives_up_waiting);

Task<std::string> permit_or_time(Context& ctx) {
  const auto first = co_await ctx.any(kOne.acquire(ctx), ctx.sleep(5s));
  co_await ctx.signal<std::string>("go");
  co_return first.index() == 0 ? "permit" : "time";
}
const auto kPermitOrTime = workflow("permit_or_time", permit_or_time);

Task<std::string> permit_and_lock(Context& ctx, bool permit_first) {
  std::string said;
  if (permit_first) {
    const Permit permit = co_await kOne.acquire(ctx);
    co_await ctx.sleep(1s);
    auto wait = ctx.lock("m");
    auto outcome = co_await ctx.attempt(wait);
    said = outcome ? "both" : outcome.message();
  } else {
    const RunLock lock = co_await ctx.lock("m");
    co_await ctx.sleep(1s);
    auto outcome = co_await ctx.attempt(kOne.acquire(ctx));
    said = outcome ? "both" : outcome.message();
  }
  co_return said;
}
const auto kPermitAndLock = workflow("permit_and_lock", permit_and_lock);

Store* written_to = nullptr;
/// Writes twice under the permit's guard, the second time when it is told to.
Task<std::string> writes_guarded(Context& ctx) {
  const Permit permit = co_await kOne.acquire(ctx, {.lease = 10s});
  const auto write = [&permit](StepContext& /*step*/) -> Task<bool> {
    Batch batch;
    permit.guard(batch).put("written", std::to_string(permit.fence()));
    const CommitOutcome outcome = co_await written_to->commit(std::move(batch));
    co_return outcome.committed() != nullptr;
  };
  auto first = ctx.run("write", write);
  const bool is_first_written = co_await first;
  co_await ctx.signal<std::string>("go");
  auto second = ctx.run("write", write);
  const bool is_second_written = co_await second;
  co_return std::string(is_first_written ? "written" : "refused")
      .append(is_second_written ? ", written" : ", refused");
}
const auto kWritesGuarded = workflow("writes_guarded", writes_guarded);

Task<Strings> asks_badly(Context& ctx) {
  Strings complaints;
  const auto note_complaint = [&complaints](const auto& ask) {
    try {
      static_cast<void>(ask());
      complaints.emplace_back("none");
    } catch (const InvalidArgument& error) {
      complaints.emplace_back(error.what());
    }
  };
  note_complaint([&] { return kOne.acquire(ctx, {.lease = 0s}); });
  note_complaint([&] { return kOne.acquire(ctx, {.timeout = -1s}); });
  Permit permit = co_await kOne.acquire(ctx);
  note_complaint([&] { return permit.renew(ctx, -1ns); });
  co_return complaints;
}
const auto kAsksBadly = workflow("asks_badly", asks_badly);

Task<Strings> moves_permit(Context& ctx) {
  Permit permit;
  co_await permit.until_expired(ctx);
  const bool is_none_renewed = co_await permit.renew(ctx, 1s);
  Permit taken = co_await kOne.acquire(ctx);
  permit = std::move(taken);
  const bool is_moved_renewed = co_await permit.renew(ctx, 1min);
  permit.release();
  const bool is_released_renewed = co_await permit.renew(ctx, 1min);
  co_await permit.until_expired(ctx);
  co_await ctx.signal<std::string>("go");
  co_return Strings{is_none_renewed ? "none: renewed" : "none: not renewed",
                    is_moved_renewed ? "moved: renewed" : "moved: not renewed",
                    is_released_renewed ? "released: renewed" : "released: not renewed",
                    permit.expired() ? "released: expired" : "released: not expired"};
}
const auto kMovesPermit = workflow("moves_permit", moves_permit);

Task<std::string> waits_for_word(Context& ctx) {
  auto word = co_await ctx.signal<std::string>("go");
  co_return word;
}
const auto kWaitsForWord = workflow("waits_for_word", waits_for_word);

class PermitPoolTest : public testing_runs::EngineWorld {
 protected:
  void SetUp() override { permit_events.clear(); }
  void add_workflows(Engine& engine) override {
    engine.add(kHoldsPermit);
    engine.add(kFailsWithPermit);
    engine.add(kEndsWithPermit);
    engine.add(kGoesOnWithPermit);
    engine.add(kRenewsPermit);
    engine.add(kWatchesPermit);
    engine.add(kGivesUpWaiting);
    engine.add(kPermitOrTime);
    engine.add(kPermitAndLock);
    engine.add(kWritesGuarded);
    engine.add(kAsksBadly);
    engine.add(kMovesPermit);
    engine.add(kWaitsForWord);
  }

  template <typename Workflow, typename... Input>
  auto start(Process& in, std::string_view id, const Workflow& workflow, const Input&... input) {
    return run(in, in.engine->start(workflow, input..., {.id = id}));
  }
  void tell(Process& in, std::string_view id, const std::string& word = "on") {
    run(in, in.engine->signal(id, "go", word));
  }
  GateInfo gate(Process& in, std::string_view name) {
    auto info = run(in, inspect_gate(*in.store, name));
    if (!info) {
      ADD_FAILURE() << "no gate " << name;
      return {};
    }
    return *info;
  }
  Strings holders(Process& in, std::string_view pool) {
    Strings names;
    for (const GateHolderInfo& holder : gate(in, pool).holders) {
      names.push_back(holder.holder);
    }
    return names;
  }
  RunInfo describe(Process& in, std::string_view id) {
    auto info = run(in, in.engine->describe(id));
    if (!info) {
      ADD_FAILURE() << "no run " << id;
      return {};
    }
    return *info;
  }
  /// Of a run's permits, the last one last: its result, or how else it ended.
  Strings outcomes(Process& in, std::string_view parent) {
    const RunPage page = run(in, in.engine->list({.parent_id = parent}));
    std::vector<RunInfo> runs = page.runs;
    std::ranges::sort(runs, {}, &RunInfo::started_at);
    Strings all;
    for (const RunInfo& one : runs) {
      all.push_back(one.state == RunState::kCompleted    ? std::string(one.result.as_string())
                    : one.state == RunState::kTerminated ? "terminated"
                                                         : "otherwise");
    }
    return all;
  }
  Strings history(Process& in, std::string_view pool) {
    Strings ends;
    for (const GateGrantInfo& grant : run(in, gate_history(*in.store, pool))) {
      ends.push_back(grant.holder + " " + std::string(to_string(grant.end)));
    }
    return ends;
  }
  void expect_all_is_free(Process& in, std::string_view pool) {
    EXPECT_THAT(holders(in, pool), IsEmpty());
    EXPECT_EQ(gate(in, pool).waiter_count, 0U);
    const RunPage open =
        run(in, in.engine->list({.type = detail::kPermitType, .state = RunState::kRunning}));
    EXPECT_THAT(open.runs, IsEmpty());
  }
};

// --- The order, and what is seen of it -----------------------------------------------------------

TEST_F(PermitPoolTest, AsManyAsThereAreSlotsInTheOrderInWhichTheyAsked) {
  Process& here = process();
  for (const char* id : {"a", "b", "c", "d"}) {
    start(here, id, kHoldsPermit, "two");
  }
  EXPECT_THAT(permit_events, ElementsAre("a in 0", "b in 1"));
  tell(here, "b");
  tell(here, "a");
  EXPECT_THAT(permit_events, ElementsAre("a in 0", "b in 1", "b out", "c in 1", "a out", "d in 0"));
  tell(here, "c");
  tell(here, "d");
  expect_all_is_free(here, "two");
}

TEST_F(PermitPoolTest, APermitIsARunThatListsShowWithItsOutcome) {
  Process& here = process();
  auto holder = start(here, "a", kHoldsPermit, "colours");
  const RunInfo open = describe(here, "permit:colours:red");
  EXPECT_EQ(open.state, RunState::kRunning);
  EXPECT_EQ(open.type, detail::kPermitType);
  EXPECT_EQ(open.parent_id, "a");
  EXPECT_EQ(open.input.at("slot"), "red");
  EXPECT_EQ(open.input.at("fence").to_number<std::uint64_t>(),
            gate(here, "colours").holders.at(0).fence);
  const auto holding = run(here, inspect_run(*here.store, "a"));
  ASSERT_EQ(holding->waits.size(), 1U) << "it does not wait for its permit to end";
  EXPECT_EQ(holding->waits[0].kind, RunWaitInfo::Kind::kSignal);
  tell(here, "a");
  const RunInfo ended = describe(here, "permit:colours:red");
  EXPECT_EQ(ended.state, RunState::kCompleted);
  EXPECT_EQ(ended.result, "released");
  run(here, here.engine->signal("a", "end", std::string()));
  EXPECT_EQ(run(here, holder.result()), "permit:colours:red");
  EXPECT_THAT(history(here, "colours"), ElementsAre("a released"));
}

TEST_F(PermitPoolTest, AScopeThatEndsWithTheRunIsAReleaseToo) {
  Process& here = process();
  start(here, "a", kEndsWithPermit);
  start(here, "b", kFailsWithPermit);
  advance(1s);
  EXPECT_THAT(outcomes(here, "a"), ElementsAre("released"));
  advance(1s);
  EXPECT_THAT(outcomes(here, "b"), ElementsAre("released"));
  EXPECT_EQ(describe(here, "b").state, RunState::kFailed);
  expect_all_is_free(here, "one");
}

TEST_F(PermitPoolTest, APermitARenewalAndThePlacesOfThoseWhoWaitOutliveTheProcess) {
  Process& first = process();
  start(first, "a", kRenewsPermit);
  tell(first, "a", "for long");
  start(first, "b", kHoldsPermit, "one");
  start(first, "c", kHoldsPermit, "one");
  kill(first);
  Process& second = process();
  advance(1min);
  tell(second, "a", "for long");
  EXPECT_THAT(permit_events, ElementsAre("a in 0", "a renewed", "a renewed"));
  EXPECT_EQ(holders(second, "one"), Strings{"a"});
  tell(second, "a", "end");
  tell(second, "b");
  EXPECT_THAT(Strings(permit_events.end() - 3, permit_events.end()),
              ElementsAre("b in 0", "b out", "c in 0"));
}

// --- Leases --------------------------------------------------------------------------------------

TEST_F(PermitPoolTest, ALeaseThatEndsFreesTheSlotThoughItsHolderLives) {
  Process& here = process();
  start(here, "a", kHoldsPermit, "one");
  start(here, "b", kHoldsPermit, "one");
  advance(10s - 1ns);
  EXPECT_EQ(permit_events, Strings{"a in 0"});
  advance(1ns);
  EXPECT_THAT(permit_events, ElementsAre("a in 0", "b in 0"));
  EXPECT_THAT(outcomes(here, "a"), ElementsAre("lease_expired"));
  EXPECT_THAT(history(here, "one"), ElementsAre("a expired"));
  tell(here, "a");
  EXPECT_EQ(permit_events.back(), "a too late");
  EXPECT_EQ(holders(here, "one"), Strings{"b"}) << "a late release frees nobody else";
  EXPECT_EQ(describe(here, "permit:one:0").parent_id, "b");
  EXPECT_EQ(describe(here, "permit:one:0").state, RunState::kRunning);
}

TEST_F(PermitPoolTest, ALeaseEndsWhileNoProcessIsThere) {
  Process& first = process();
  start(first, "a", kHoldsPermit, "one");
  start(first, "b", kHoldsPermit, "one");
  kill(first);
  advance(1min);
  Process& second = process();
  advance(0s);
  EXPECT_THAT(permit_events, ElementsAre("a in 0", "b in 0"));
  EXPECT_EQ(holders(second, "one"), Strings{"b"});
}

TEST_F(PermitPoolTest, RenewalsKeepItAndNoneRevivesIt) {
  Process& here = process();
  start(here, "a", kRenewsPermit);
  start(here, "b", kHoldsPermit, "one");
  for (int i = 0; i < 5; ++i) {
    advance(9s);
    tell(here, "a");
    EXPECT_EQ(permit_events.back(), "a renewed");
  }
  EXPECT_EQ(holders(here, "one"), Strings{"a"});
  advance(10s);
  EXPECT_EQ(permit_events.back(), "b in 0");
  tell(here, "a");
  EXPECT_EQ(permit_events.back(), "a not renewed");
  EXPECT_EQ(holders(here, "one"), Strings{"b"});
  EXPECT_THAT(outcomes(here, "a"), ElementsAre("lease_expired"));
}

TEST_F(PermitPoolTest, ARenewalThatComesTooLateIsNone) {
  Process& first = process();
  start(first, "a", kRenewsPermit);
  kill(first);
  advance(10s);
  Process& client_only = client();
  run(client_only, client_only.engine->signal("a", "go", std::string("on")));
  Process& second = process();
  advance(30s);
  EXPECT_THAT(permit_events, ElementsAre("a in 0", "a not renewed"));
  expect_all_is_free(second, "one");
}

TEST_F(PermitPoolTest, GarbageInPlaceOfARenewalIsIgnored) {
  Process& here = process();
  start(here, "a", kHoldsPermit, "one");
  const std::string garbage = "for ever";
  run(here, here.engine->signal("permit:one:0", detail::kRenewSignal, garbage));
  EXPECT_EQ(holders(here, "one"), Strings{"a"});
  advance(10s);
  expect_all_is_free(here, "one");
}

TEST_F(PermitPoolTest, APermitCanBeRenewedFromOutside) {
  Process& here = process();
  start(here, "a", kRenewsPermit);
  advance(9s);
  const boost::json::value for_a_minute{{"lease_ns", 60'000'000'000}};
  run(here, here.engine->signal("permit:one:0", detail::kRenewSignal, for_a_minute));
  advance(1min - 1ns);
  EXPECT_EQ(holders(here, "one"), Strings{"a"});
  advance(1ns);
  tell(here, "a");
  EXPECT_THAT(permit_events, ElementsAre("a in 0", "a not renewed"));
}

TEST_F(PermitPoolTest, WhoWaitsForTheEndOfItsPermitIsWoken) {
  Process& here = process();
  auto loses = start(here, "a", kWatchesPermit);
  advance(10s);
  EXPECT_EQ(run(here, loses.result()), "lost");
  auto is_told = start(here, "b", kWatchesPermit);
  tell(here, "b");
  EXPECT_EQ(run(here, is_told.result()), "told");
  EXPECT_THAT(outcomes(here, "b"), ElementsAre("released"));
}

TEST_F(PermitPoolTest, WhatIsGuardedByALostPermitIsRefused) {
  Process& here = process();
  written_to = here.store.get();
  auto loses = start(here, "a", kWritesGuarded);
  start(here, "b", kHoldsPermit, "one");
  advance(10s);
  tell(here, "a");
  EXPECT_EQ(run(here, loses.result()), "written, refused");
}

// --- How a holder or a waiter ends ---------------------------------------------------------------

TEST_F(PermitPoolTest, TheEndOfItsParentEndsAPermitHoweverThatEnds) {
  Process& here = process();
  start(here, "cancelled", kHoldsPermit, "one");
  start(here, "terminated", kHoldsPermit, "one");
  run(here, here.engine->start(kHoldsPermit, "one", {.id = "too slow", .timeout = 5s}));
  start(here, "last", kHoldsPermit, "one");
  run(here, here.engine->cancel("cancelled"));
  EXPECT_THAT(outcomes(here, "cancelled"), ElementsAre("released"));
  run(here, here.engine->terminate("terminated", "enough"));
  EXPECT_THAT(outcomes(here, "terminated"), ElementsAre("terminated"));
  EXPECT_EQ(holders(here, "one"), Strings{"too slow"});
  advance(5s);
  EXPECT_THAT(outcomes(here, "too slow"), ElementsAre("terminated"));
  EXPECT_EQ(holders(here, "one"), Strings{"last"});
  EXPECT_THAT(history(here, "one"),
              ElementsAre("too slow abandoned", "terminated abandoned", "cancelled released"));
}

TEST_F(PermitPoolTest, WhoIsCancelledOrTimesOutWhileItWaitsIsNotLetIn) {
  Process& here = process();
  start(here, "a", kRenewsPermit);
  auto late = start(here, "late", kGivesUpWaiting, "one");
  start(here, "cancelled", kHoldsPermit, "one");
  start(here, "c", kHoldsPermit, "one");
  run(here, here.engine->cancel("cancelled"));
  for (int i = 0; i < 5; ++i) {
    advance(5s);
    tell(here, "a");
  }
  EXPECT_THAT(run(here, late.result()), HasSubstr("'one'"));
  tell(here, "a", "end");
  EXPECT_EQ(permit_events.back(), "c in 0");
  EXPECT_EQ(gate(here, "one").waiter_count, 0U);
}

TEST_F(PermitPoolTest, OneThatIsNotWantedAnyMoreIsGivenBack) {
  Process& here = process();
  start(here, "a", kHoldsPermit, "one");
  auto gives_up = start(here, "b", kPermitOrTime);
  advance(5s);
  tell(here, "a");
  expect_all_is_free(here, "one");
  tell(here, "b");
  EXPECT_EQ(run(here, gives_up.result()), "time");
}

TEST_F(PermitPoolTest, WhoGoesOnAsNewGivesItBackAndAsksAgain) {
  Process& here = process();
  start(here, "a", kGoesOnWithPermit, 2);
  start(here, "b", kGoesOnWithPermit, 0);
  advance(10s);
  EXPECT_THAT(permit_events, ElementsAre("a in 0", "b in 0", "a in 0", "a in 0"));
  expect_all_is_free(here, "one");
}

// --- Operators -----------------------------------------------------------------------------------

TEST_F(PermitPoolTest, ACapacityThatIsLoweredPutsNobodyOutAndOneThatIsRaisedLetsMoreIn) {
  Process& here = process();
  GateControl control(*here.store);
  for (const char* id : {"a", "b", "c", "d", "e"}) {
    start(here, id, kHoldsPermit, "two");
  }
  run(here, control.set_capacity("two", 1, {.by = "ops"}));
  EXPECT_EQ(holders(here, "two").size(), 2U);
  tell(here, "a");
  EXPECT_EQ(holders(here, "two"), Strings{"b"});
  tell(here, "b");
  EXPECT_EQ(permit_events.back(), "c in 0");
  run(here, control.set_capacity("two", 3, {.by = "ops"}));
  EXPECT_THAT(Strings(permit_events.end() - 2, permit_events.end()),
              ElementsAre("d in 1", "e in 2"));
  EXPECT_EQ(describe(here, "permit:two:2").parent_id, "e");
}

TEST_F(PermitPoolTest, ASlotThatIsDisabledIsGivenToNobody) {
  Process& here = process();
  start(here, "a", kHoldsPermit, "two");
  GateControl control(*here.store);
  run(here, control.disable_slot("two", 0, {.by = "ops", .reason = "broken"}));
  EXPECT_EQ(holders(here, "two"), Strings{"a"}) << "whoever has it keeps it";
  start(here, "b", kHoldsPermit, "two");
  start(here, "c", kHoldsPermit, "two");
  tell(here, "a");
  tell(here, "b");
  EXPECT_THAT(permit_events, ElementsAre("a in 0", "a out", "b in 1", "b out", "c in 1"));
}

TEST_F(PermitPoolTest, APermitThatAnOperatorEndsAtTheGateIsOver) {
  Process& here = process();
  start(here, "a", kHoldsPermit, "one");
  start(here, "b", kHoldsPermit, "one");
  GateControl control(*here.store);
  const std::uint64_t fence = gate(here, "one").holders.at(0).fence;
  run(here, control.force_release("one", fence, {.by = "ops", .reason = "stuck"}));
  advance(1s);
  EXPECT_EQ(holders(here, "one"), Strings{"b"});
  EXPECT_EQ(permit_events.back(), "b in 0");
  tell(here, "a");
  EXPECT_EQ(permit_events.back(), "a too late");
  EXPECT_EQ(holders(here, "one"), Strings{"b"});
}

TEST_F(PermitPoolTest, APermitWhoseRunAnOperatorEndsIsOver) {
  Process& here = process();
  start(here, "a", kHoldsPermit, "one");
  run(here, here.engine->terminate("permit:one:0", "enough"));
  tell(here, "a");
  EXPECT_EQ(permit_events.back(), "a too late");
  expect_all_is_free(here, "one");
}

TEST_F(PermitPoolTest, AnIdThatAnotherRunHasIsAClearErrorAndTheSlotIsGivenBack) {
  Process& here = process();
  start(here, "permit:one:0", kWaitsForWord);
  auto refused = start(here, "a", kGivesUpWaiting, "one");
  EXPECT_THAT(run(here, refused.result()), HasSubstr("'permit:one:0' (waits_for_word)"));
  EXPECT_THAT(holders(here, "one"), IsEmpty());
  tell(here, "permit:one:0");
  start(here, "b", kHoldsPermit, "one");
  EXPECT_EQ(permit_events.back(), "b in 0");
}

// --- Other queues, other orders ------------------------------------------------------------------

TEST_F(PermitPoolTest, PermitsCanHaveAQueueOfTheirOwn) {
  Process& here = process();
  Process& permits = process("permits");
  start(here, "a", kHoldsPermit, "elsewhere");
  start(here, "b", kHoldsPermit, "elsewhere");
  EXPECT_EQ(describe(here, "permit:elsewhere:0").queue, "permits");
  advance(1s);
  tell(here, "a");
  advance(1s);
  EXPECT_EQ(permit_events.back(), "b in 0");
  kill(permits);
  advance(1min);
  EXPECT_EQ(holders(here, "elsewhere"), Strings{"b"}) << "nobody is there to end it";
  process("permits");
  advance(1min);
  EXPECT_THAT(outcomes(here, "b"), ElementsAre("lease_expired"));
  expect_all_is_free(here, "elsewhere");
}

TEST_F(PermitPoolTest, InRandomOrderNobodyQueuesAndLooksBecomeRarer) {
  Process& here = process();
  for (const char* id : {"a", "b", "c", "d"}) {
    start(here, id, kGivesUpWaiting, "any");
  }
  EXPECT_EQ(permit_events.size(), 3U);
  EXPECT_EQ(gate(here, "any").waiter_count, 0U);
  advance(5s);
  tell(here, "a");
  advance(10s - 1ns);
  EXPECT_EQ(permit_events.size(), 3U) << "it looks at 5 s, and then at 15 s";
  advance(1ns);
  EXPECT_EQ(permit_events.size(), 4U);
  auto late = start(here, "late", kGivesUpWaiting, "any");
  advance(25s);
  EXPECT_THAT(run(here, late.result()), HasSubstr("'any': the deadline passed"));
}

TEST_F(PermitPoolTest, InRandomOrderAnySlotIsGivenButForThoseThatAreDisabled) {
  Process& here = process();
  std::set<std::string> given;
  GateControl control(*here.store);
  for (int i = 0; i < 30; ++i) {
    const std::string id = std::to_string(i);
    auto holder = start(here, id, kGivesUpWaiting, "any");
    if (i == 0) {
      run(here, control.disable_slot("any", 1, {.by = "ops"}));
      run(here, control.set_capacity("any", 4, {.by = "ops"}));
    }
    tell(here, id);
    const std::string slot = run(here, holder.result());
    if (i > 0) {
      given.insert(slot);
    }
  }
  EXPECT_EQ(given, (std::set<std::string>{"0", "2", "3"}));
}

TEST_F(PermitPoolTest, ADeadlockAcrossAPermitAndALockIsFound) {
  Process& here = process();
  auto one = start(here, "one way", kPermitAndLock, true);
  auto other = start(here, "other way", kPermitAndLock, false);
  advance(1s);
  advance(1s);
  const Strings said{run(here, one.result()), run(here, other.result())};
  EXPECT_EQ(std::ranges::count(said, "both"), 1) << said[0] << "; " << said[1];
  EXPECT_THAT(said, ::testing::Contains(HasSubstr("one way"))) << said[0] << "; " << said[1];
}

// --- What is refused, and journals ---------------------------------------------------------------

TEST_F(PermitPoolTest, WhatMakesNoSenseIsRefusedBeforeAnythingIsWritten) {
  EXPECT_THROW(PermitPool("", 1), InvalidArgument);
  EXPECT_THROW(PermitPool("p", 0), InvalidArgument);
  EXPECT_THROW(PermitPool("p", Strings{}), InvalidArgument);
  EXPECT_THROW(PermitPool("p", Strings{"x", "x"}), InvalidArgument);
  EXPECT_THROW(PermitPool("p", Strings{"x", ""}), InvalidArgument);
  EXPECT_THROW(PermitPool("p", Strings{"x:1"}), InvalidArgument);
  EXPECT_THROW(PermitPool("p", Strings{std::string(300, 'x')}), InvalidArgument);
  EXPECT_THROW(PermitPool(std::string(kGateNameMax + 1, 'p'), 1), InvalidArgument);
  const std::string queue(300, 'q');
  EXPECT_THROW(PermitPool("p", 1, {.queue = queue}), InvalidArgument);
  Process& here = process();
  auto asks = start(here, "a", kAsksBadly);
  const Strings complaints = run(here, asks.result());
  EXPECT_THAT(complaints, ElementsAre(HasSubstr("'one' is 0 ns"), HasSubstr("'one' is below zero"),
                                      HasSubstr("'permit:one:0' is -1 ns")));
}

TEST_F(PermitPoolTest, OneThatIsNoneExpiresNothingAndRenewsNothing) {
  Process& here = process();
  auto moves = start(here, "a", kMovesPermit);
  tell(here, "a");
  EXPECT_EQ(run(here, moves.result()), (Strings{"none: not renewed", "moved: renewed",
                                                "released: not renewed", "released: not expired"}));
  expect_all_is_free(here, "one");
}

TEST_F(PermitPoolTest, JournalsFitTheCodeOnceMore) {
  Process& here = process();
  start(here, "a", kRenewsPermit);
  start(here, "b", kGivesUpWaiting, "any");
  advance(9s);
  tell(here, "a");
  const RecordedRun permit = run(here, here.engine->record("permit:one:0"));
  const ReplayVerdict open = check_replay(detail::permit_workflow(), permit);
  EXPECT_TRUE(open.fits) << open.complaint;
  EXPECT_EQ(open.rows, 2U);
  tell(here, "a", "end");
  const ReplayVerdict a = check_replay(kRenewsPermit, run(here, here.engine->record("a")));
  EXPECT_TRUE(a.fits && a.ended) << a.complaint;
  const ReplayVerdict ended =
      check_replay(detail::permit_workflow(), run(here, here.engine->record("permit:one:0")));
  EXPECT_TRUE(ended.fits && ended.ended) << ended.complaint;
  const ReplayVerdict b = check_replay(kGivesUpWaiting, run(here, here.engine->record("b")));
  EXPECT_TRUE(b.fits) << b.complaint;
}

}  // namespace
}  // namespace holdfast
