// SPDX-License-Identifier: Apache-2.0
// The cells that a run shares with its children, and with what it continues as.
#include <holdfast/engine.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <holdfast/state.hpp>

#include "engine_world.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using testing_runs::Process;

/// Notes a word in a cell of its tree, goes on as another one with the rest, or waits for its end.
Task<std::vector<std::string>> notes(Context& ctx, std::vector<std::string> words) {
  auto notes = ctx.state<std::vector<std::string>>("notes");
  const std::string word = words.front();
  auto note = notes.update([word](std::vector<std::string>& all) { all.push_back(word); });
  std::vector<std::string> all = co_await note;
  if (words.size() > 1) {
    words.erase(words.begin());
    ctx.continue_as_new(words);
  }
  static_cast<void>(co_await ctx.signal<int>("end"));
  co_return all;
}
const auto kNotes = workflow("notes", notes);

Task<std::vector<std::string>> lets_note(Context& ctx, std::string queue) {
  auto first = ctx.child(kNotes, {"child"}, {.id = "first", .queue = queue});
  std::vector<std::string> all = co_await first;
  auto notes = ctx.state<std::vector<std::string>>("notes");
  auto note = notes.update([](std::vector<std::string>& it) { it.emplace_back("parent"); });
  all = co_await note;
  auto last = ctx.child(kNotes, {"left"}, {.id = "left", .parent_close = ParentClose::kAbandon});
  co_await ctx.sleep(1s);
  co_return all;
}
const auto kLetsNote = workflow("lets_note", lets_note);

class EngineStateTest : public testing_runs::EngineWorld {
 protected:
  using Words = std::vector<std::string>;
  void add_workflows(Engine& engine) override {
    engine.add(kNotes);
    engine.add(kLetsNote);
  }
  Words end(Process& in, const std::string& id) {
    run(in, in.engine->signal(id, "end", 1));
    return run(in, in.engine->handle(kNotes, id).result());
  }
  std::size_t count_cells(Process& in) {
    return run(in, in.store->scan("cell/execution/")).entries.size();
  }
};

TEST_F(EngineStateTest, ALaterRunOfTheIdBeginsWithNone) {
  Process& one = process();
  run(one, one.engine->start(kNotes, Words{"a"}, {.id = "same"}));
  EXPECT_EQ(end(one, "same"), Words{"a"});
  run(one, one.engine->start(kNotes, Words{"b"}, {.id = "same"}));
  EXPECT_EQ(end(one, "same"), Words{"b"});
  EXPECT_EQ(count_cells(one), 2U);
}

TEST_F(EngineStateTest, ARunThatGoesOnAsAnotherKeepsIt) {
  Process& one = process();
  const std::string id = run(one, one.engine->start(kNotes, Words{"a", "b", "c"})).id();
  EXPECT_EQ(end(one, id), (Words{"a", "b", "c"}));
  EXPECT_EQ(count_cells(one), 1U);
}

TEST_F(EngineStateTest, AParentAndItsChildrenShareItInAnyQueue) {
  for (const char* const queue : {"", "other"}) {
    Process& one = process();
    Process& other = process("other");
    const auto parent = run(one, one.engine->start(kLetsNote, queue));
    EXPECT_EQ(end(other, "first"), Words{"child"}) << queue;
    advance(2s);
    EXPECT_EQ(run(one, parent.result()), (Words{"child", "parent"})) << queue;
    EXPECT_EQ(end(one, "left"), (Words{"child", "parent", "left"})) << queue;
    run(one, one.engine->stop());
    run(other, other.engine->stop());
  }
}

TEST_F(EngineStateTest, ItIsReachedFromOutsideByTheUidOfTheTop) {
  Process& one = process();
  const std::string id = run(one, one.engine->start(kNotes, Words{"a", "b"})).id();
  const RunInfo info = run(one, one.engine->describe(id)).value();
  EXPECT_NE(info.root_uid, info.uid) << "it is the second of its chain";
  const State state(*one.store);
  auto cell = state.execution(info.root_uid).cell<Words>("notes");
  EXPECT_EQ(run(one, cell.get()), (Words{"a", "b"}));
}

TEST_F(EngineStateTest, ARunThatIsResetKeepsIt) {
  Process& one = process();
  run(one, one.engine->start(kNotes, Words{"a"}, {.id = "again"}));
  run(one, one.engine->reset("again", 1, "once more"));
  EXPECT_EQ(end(one, "again"), Words{"a"}) << "its change is before the point of the reset";
  EXPECT_EQ(count_cells(one), 1U);
}

TEST_F(EngineStateTest, ARecordedRunHasWhatItTakesToReplayIt) {
  Process& one = process();
  const std::string id = run(one, one.engine->start(kNotes, Words{"a", "b"})).id();
  static_cast<void>(end(one, id));
  const RecordedRun recorded = RecordedRun::from_text(run(one, one.engine->record(id)).to_text());
  const ReplayVerdict verdict = check_replay(kNotes, recorded);
  EXPECT_TRUE(verdict.fits) << verdict.complaint;
}

TEST_F(EngineStateTest, ItIsForgottenWithTheLastRunOfTheTree) {
  Process& one = process();
  run(one, one.engine->start(kLetsNote, "", {.id = "top"}));
  static_cast<void>(end(one, "first"));
  advance(2s);
  EXPECT_EQ(run(one, one.engine->purge(0s)), 2U);
  EXPECT_FALSE(run(one, one.engine->describe("top")));
  EXPECT_EQ(count_cells(one), 1U) << "a child that was left alone goes on with it";
  EXPECT_EQ(end(one, "left"), (Words{"child", "parent", "left"}));
  EXPECT_EQ(run(one, one.engine->purge(0s)), 1U);
  EXPECT_EQ(count_cells(one), 0U);
}

TEST_F(EngineStateTest, APurgeLeavesTheCellsOfOthersAlone) {
  Process& one = process();
  const std::string id = run(one, one.engine->start(kNotes, Words{"a"})).id();
  const std::string other = run(one, one.engine->start(kNotes, Words{"b"})).id();
  static_cast<void>(end(one, id));
  EXPECT_EQ(run(one, one.engine->purge(0s)), 1U);
  EXPECT_EQ(count_cells(one), 1U);
  EXPECT_EQ(end(one, other), Words{"b"});
}

}  // namespace
}  // namespace holdfast
