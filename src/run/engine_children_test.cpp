// SPDX-License-Identifier: Apache-2.0
// Children that have ids of their own.
#include <holdfast/engine.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine_world.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing_runs::Process;

int starts = 0;

Task<std::string> listens(Context& ctx) {
  auto count = ctx.run("count", [] { ++starts; });
  co_await count;
  std::string word = co_await ctx.signal<std::string>("word");
  co_return word;
}
const auto kListens = workflow("listens", listens);

/// Begins a child of each id, and says how each has ended.
Task<std::string> asks_children(Context& ctx, std::vector<std::string> ids) {
  std::vector<Durable<std::string>> children;
  for (const std::string& id : ids) {
    children.push_back(ctx.child(kListens, {.id = id, .queue = ids.size() > 2 ? "other" : ""}));
  }
  std::string text;
  for (Durable<std::string>& child : children) {
    auto ended = co_await ctx.attempt(child);
    try {
      text.append(ended.value()).append(";");
    } catch (const RunExists& error) {
      text.append(error.what()).append(";");
    } catch (const RunFailed& error) {
      text.append("failed: ").append(error.what()).append(";");
    }
  }
  co_return text;
}
const auto kAsksChildren = workflow("asks_children", asks_children);

/// Does not catch that the id is taken.
Task<std::string> hopes(Context& ctx, std::string id) {
  auto child = ctx.child(kListens, {.id = id});
  std::string word = co_await child;
  co_return word;
}
const auto kHopes = workflow("hopes", hopes);

Task<std::string> watches_a_hope(Context& ctx, std::string id) {
  auto child = ctx.child(kHopes, id);
  auto ended = co_await ctx.attempt(child);
  std::string text;
  try {
    text = ended.value();
  } catch (const RunFailed& error) {
    text = error.what();
  }
  co_return text;
}
const auto kWatchesAHope = workflow("watches_a_hope", watches_a_hope);

/// Takes its time to stop.
Task<void> tidies_up(Context& ctx) { co_await ctx.sleep(10min); }
Task<std::string> stops_slowly(Context& ctx) {
  auto word = ctx.signal<std::string>("word");
  const auto heard = co_await ctx.attempt(word);
  co_await ctx.shielded(tidies_up(ctx));
  co_return heard ? "heard" : "tidied up";
}
const auto kStopsSlowly = workflow("stops_slowly", stops_slowly);

Task<void> keep_ending(Context& ctx, Durable<std::string>& child, std::string& ending) {
  auto ended = co_await ctx.attempt(child);
  ending = ended ? ended.value() : ended.message();
}
/// Gives its child a minute, and says how it ended.
Task<std::string> gives_a_minute(Context& ctx, bool must_end) {
  auto child = ctx.child(kStopsSlowly, {.id = "slow", .must_end = must_end});
  std::string ending;
  static_cast<void>(co_await ctx.any(keep_ending(ctx, child, ending), ctx.sleep(1min)));
  co_return ending;
}
const auto kGivesAMinute = workflow("gives_a_minute", gives_a_minute);

Task<std::string> names_its_cell(Context& ctx) {
  std::string key = ctx.state<int>("count").key();
  co_await ctx.sleep(1s);
  co_return key + " of " + ctx.root_id();
}
const auto kNamesItsCell = workflow("names_its_cell", names_its_cell);
Task<std::vector<std::string>> compares_cells(Context& ctx) {
  std::vector<std::string> keys{ctx.state<int>("count").key() + " of " + ctx.root_id()};
  for (const bool is_root : {false, true}) {
    auto child = ctx.child(kNamesItsCell, {.id = "child", .is_root = is_root});
    std::string key = co_await child;
    keys.push_back(std::move(key));
  }
  co_return keys;
}
const auto kComparesCells = workflow("compares_cells", compares_cells);

constexpr const char* kTaken =
    "a run 'ear' (listens) goes on already: use it, end it, or choose another id;";

class EngineChildrenTest : public testing_runs::EngineWorld {
 protected:
  void SetUp() override { starts = 0; }
  void add_workflows(Engine& engine) override {
    engine.add(kListens);
    engine.add(kAsksChildren);
    engine.add(kHopes);
    engine.add(kWatchesAHope);
    engine.add(kStopsSlowly);
    engine.add(kGivesAMinute);
    engine.add(kNamesItsCell);
    engine.add(kComparesCells);
  }
  using Ids = std::vector<std::string>;
};

TEST_F(EngineChildrenTest, AChildIsReachedByItsIdFromAnyProcess) {
  Process& one = process();
  Process& far = client();
  const auto parent = run(one, one.engine->start(kAsksChildren, Ids{"ear"}, {.id = "top"}));
  EXPECT_EQ(run(far, far.engine->describe("ear")).value().parent_id, "top");
  run(far, far.engine->signal("ear", "word", std::string("hello")));
  EXPECT_EQ(run(far, far.engine->handle(kListens, "ear").result()), "hello");
  EXPECT_EQ(run(one, parent.result()), "hello;");
}

TEST_F(EngineChildrenTest, AChildInAnotherQueueIsReachedByItsId) {
  Process& one = process();
  Process& other = process("other");
  const auto parent = run(one, one.engine->start(kAsksChildren, Ids{"a", "b", "c"}));
  EXPECT_EQ(run(one, one.engine->describe("b")).value().queue, "other");
  for (const char* const id : {"a", "b", "c"}) {
    run(other, other.engine->signal(id, "word", std::string(id)));
  }
  EXPECT_EQ(run(one, parent.result()), "a;b;c;");
}

TEST_F(EngineChildrenTest, AnIdThatIsTakenEndsTheWaitForTheChild) {
  Process& one = process();
  const auto first = run(one, one.engine->start(kListens, {.id = "ear"}));
  const auto parent = run(one, one.engine->start(kAsksChildren, Ids{"ear"}));
  EXPECT_EQ(run(one, parent.result()), kTaken);
  EXPECT_EQ(starts, 1);
  EXPECT_EQ(run(one, one.engine->list({.type = "listens"})).runs.size(), 1U);
  run(one, one.engine->signal("ear", "word", std::string("still here")));
  EXPECT_EQ(run(one, first.result()), "still here");
}

TEST_F(EngineChildrenTest, NobodyElseStartsUnderTheIdOfAChild) {
  Process& one = process();
  const auto parent = run(one, one.engine->start(kAsksChildren, Ids{"ear"}));
  EXPECT_THROW(static_cast<void>(run(one, one.engine->start(kListens, {.id = "ear"}))), RunExists);
  const StartOptions instead{.id = "ear", .on_conflict = OnConflict::kTerminateExisting};
  run(one, one.engine->start(kListens, instead));
  EXPECT_THAT(run(one, parent.result()), HasSubstr("another run of its id was started instead"));
}

TEST_F(EngineChildrenTest, TwoChildrenOfOneMomentDoNotShareAnId) {
  Process& one = process();
  const auto parent = run(one, one.engine->start(kAsksChildren, Ids{"ear", "ear"}));
  run(one, one.engine->signal("ear", "word", std::string("mine")));
  EXPECT_EQ(run(one, parent.result()), std::string("mine;").append(kTaken));
  EXPECT_EQ(starts, 1);
}

TEST_F(EngineChildrenTest, AChildDoesNotTakeTheIdOfItsParent) {
  Process& one = process();
  const auto parent = run(one, one.engine->start(kAsksChildren, Ids{"top"}, {.id = "top"}));
  EXPECT_THAT(run(one, parent.result()), HasSubstr("a run 'top' (asks_children) goes on already"));
  EXPECT_EQ(run(one, one.engine->describe("top")).value().type, "asks_children");
}

TEST_F(EngineChildrenTest, TheIdOfARunThatHasEndedIsFree) {
  Process& one = process();
  run(one, one.engine->start(kListens, {.id = "ear"}));
  run(one, one.engine->terminate("ear", "enough"));
  const auto parent = run(one, one.engine->start(kAsksChildren, Ids{"ear"}));
  run(one, one.engine->signal("ear", "word", std::string("next")));
  EXPECT_EQ(run(one, parent.result()), "next;");
  EXPECT_EQ(starts, 2);
}

TEST_F(EngineChildrenTest, AReplaySeesThatTheIdWasTakenThoughItIsFreeByThen) {
  Process& one = process();
  run(one, one.engine->start(kListens, {.id = "ear"}));
  const auto parent =
      run(one, one.engine->start(kAsksChildren, Ids{"other ear", "ear"}, {.id = "top"}));
  run(one, one.engine->terminate("ear", "enough"));
  kill(one);
  advance(31s);
  Process& two = process();
  EXPECT_EQ(starts, 2);
  run(two, two.engine->signal("other ear", "word", std::string("yes")));
  EXPECT_EQ(run(two, two.engine->handle(kAsksChildren, "top").result()),
            std::string("yes;").append(kTaken));
  const RecordedRun recorded = run(two, two.engine->record("top"));
  const ReplayVerdict verdict = check_replay(kAsksChildren, recorded);
  EXPECT_TRUE(verdict.fits) << verdict.complaint;
  EXPECT_TRUE(verdict.ended);
}

TEST_F(EngineChildrenTest, AnIdThatOthersTakeInTheMeantimeIsTaken) {
  Process& one = process();
  Process& far = client();
  one.store->before_commit = [&](const Batch& batch) {
    const auto is_name = [](const Batch::Write& write) { return write.key == "run_id/ear"; };
    if (std::any_of(batch.writes().begin(), batch.writes().end(), is_name)) {
      one.store->before_commit = nullptr;
      EXPECT_EQ(run_in_between(far, far.engine->start(kListens, {.id = "ear"})).id(), "ear");
    }
  };
  const auto parent = run(one, one.engine->start(kAsksChildren, Ids{"ear"}));
  EXPECT_EQ(run(one, parent.result()), kTaken);
  EXPECT_EQ(run(one, one.engine->describe("ear")).value().parent_id, "");
  EXPECT_EQ(starts, 1);
}

TEST_F(EngineChildrenTest, ARunThatFailedOfATakenIdIsAFailedChild) {
  Process& one = process();
  run(one, one.engine->start(kListens, {.id = "ear"}));
  const auto top = run(one, one.engine->start(kWatchesAHope, "ear"));
  EXPECT_THAT(run(one, top.result()), HasSubstr("failed: a run 'ear' (listens) goes on already"));
}

TEST_F(EngineChildrenTest, ARunCanBeResetToWhereAChildWasRefused) {
  Process& one = process();
  run(one, one.engine->start(kListens, {.id = "ear"}));
  run(one, one.engine->start(kAsksChildren, Ids{"ear"}, {.id = "top"}));
  run(one, one.engine->terminate("ear", "enough"));
  run(one, one.engine->reset("top", 1, "look again"));
  EXPECT_EQ(run(one, one.engine->handle(kAsksChildren, "top").result()), kTaken);
}

TEST_F(EngineChildrenTest, AChildThatNobodyWaitsForAnyMoreIsAskedToStopAndLeft) {
  Process& one = process();
  const auto parent = run(one, one.engine->start(kGivesAMinute, false));
  advance(1min);
  EXPECT_THAT(run(one, parent.result()), HasSubstr("asked to stop while it waited"));
  EXPECT_EQ(run(one, one.engine->describe("slow")).value().state, RunState::kTerminated);
}

TEST_F(EngineChildrenTest, AChildThatMustEndIsAskedToStopAndWaitedFor) {
  Process& one = process();
  run(one, one.engine->start(kGivesAMinute, true, {.id = "top"}));
  advance(1min);
  EXPECT_EQ(run(one, one.engine->describe("slow")).value().state, RunState::kRunning);
  kill(one);
  advance(5min);
  Process& two = process();
  EXPECT_EQ(run(two, two.engine->describe("top")).value().state, RunState::kRunning);
  advance(5min);
  EXPECT_EQ(run(two, two.engine->handle(kGivesAMinute, "top").result()), "tidied up");
}

TEST_F(EngineChildrenTest, AChildMayBeAtTheTopOfItsOwnTree) {
  Process& one = process();
  const auto parent = run(one, one.engine->start(kComparesCells, {.id = "top"}));
  advance(2s);
  const std::vector<std::string> keys = run(one, parent.result());
  EXPECT_EQ(keys.at(1), keys.at(0));
  EXPECT_THAT(keys.at(0), HasSubstr(" of top"));
  EXPECT_THAT(keys.at(2), HasSubstr(" of child"));
  EXPECT_NE(keys.at(2).substr(0, keys.at(2).find(' ')), keys.at(0).substr(0, keys.at(0).find(' ')));
}

TEST_F(EngineChildrenTest, IdsThatCannotBeAreRefused) {
  Process& one = process();
  const auto too_long = run(one, one.engine->start(kHopes, std::string(256, 'x')));
  EXPECT_THROW(static_cast<void>(run(one, too_long.result())), RunFailed);
  const std::string made = run(one, one.engine->start(kListens)).id();
  const auto like_a_made_one = run(one, one.engine->start(kHopes, made));
  EXPECT_THROW(static_cast<void>(run(one, like_a_made_one.result())), RunFailed);
  EXPECT_THAT(run(one, one.engine->describe(like_a_made_one.id())).value().failure,
              HasSubstr("child 'listens': id is '" + made + "', which looks like an id that is"));
}

}  // namespace
}  // namespace holdfast
