// SPDX-License-Identifier: Apache-2.0
// Cells in a store: what is written, what is retried, and what a lost answer comes to.
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/all_any.hpp>
#include <holdfast/memory_store.hpp>
#include <holdfast/state.hpp>
#include <holdfast/this_task.hpp>

#include "coro/test_world.hpp"
#include "settle.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using Json = boost::json::value;
using testing::error_text;

constexpr const char* kPathKey = "cell/user/42/n";

class CellsInStore : public ::testing::Test {
 protected:
  template <typename T>
  T run(Task<T> task) {
    return world_.run(std::move(task));
  }
  std::optional<Entry> entry() { return run(store_->get(kPathKey)); }
  void write(const std::string& text) {
    ASSERT_TRUE(run(store_->commit(Batch().put(kPathKey, text))).committed());
  }
  int add_one(State& state) {
    return run(state.user("42").cell<int>("n").update([](int n) { return n + 1; }).task());
  }

  testing::World world_;
  std::shared_ptr<MemoryDisk> disk_ = std::make_shared<MemoryDisk>(world_.clock);
  std::unique_ptr<Store> store_ = open_memory_store(disk_);
  State state_{*store_, {.seed = 1}};
  Cell<int> cell_ = state_.user("42").cell<int>("n");
  testing::EndTasks end_tasks_{world_};
};

TEST_F(CellsInStore, AreReadableJsonUnderTheirKeys) {
  run(state_.user("42").cell<Json>("n").set({{"name", "Ada"}}));
  const Json stored = boost::json::parse(entry()->value);
  EXPECT_EQ(stored.at("format"), Json(1));
  EXPECT_EQ(stored.at("value"), (Json{{"name", "Ada"}}));
  EXPECT_GE(stored.at("op").as_string().size(), 32U);
  EXPECT_EQ(stored.as_object().size(), 3U);
}

TEST_F(CellsInStore, EveryWriteHasAnOperationOfItsOwn) {
  add_one(state_);
  const Json first = boost::json::parse(entry()->value);
  add_one(state_);
  const Json second = boost::json::parse(entry()->value);
  State other(*store_);
  add_one(other);
  const Json third = boost::json::parse(entry()->value);
  EXPECT_NE(first.at("op"), second.at("op"));
  EXPECT_NE(first.at("op").as_string().subview(0, 32), third.at("op").as_string().subview(0, 32));
}

TEST_F(CellsInStore, MembersThatThisVersionDoesNotKnowSurviveAChange) {
  write(R"({"format":1,"op":"x","value":1,"colour":{"r":1}})");
  EXPECT_EQ(add_one(state_), 2);
  const Json stored = boost::json::parse(entry()->value);
  EXPECT_EQ(stored.at("colour"), (Json{{"r", 1}}));
  EXPECT_EQ(stored.at("value"), Json(2));
}

TEST_F(CellsInStore, ANewerFormatIsRefusedAndLeftAsItIs) {
  const std::string text = R"({"format":2,"op":"x","value":1})";
  write(text);
  EXPECT_THROW(run(cell_.get()), NewerFormat);
  EXPECT_THROW(add_one(state_), NewerFormat);
  EXPECT_THROW(run(cell_.set(1)), NewerFormat);
  EXPECT_EQ(entry()->value, text);
}

TEST_F(CellsInStore, DamageIsNamedAndLeftAsItIsUntilItIsErased) {
  for (const std::string text :
       {"", "{", "[]", "7", R"({"value":1})", R"({"format":"1","value":1})",
        R"({"format":0,"value":1})", R"({"format":-1,"value":1})", R"({"format":1})"}) {
    write(text);
    const std::string error = error_text<StoreCorrupt>([&] { run(cell_.get()); });
    EXPECT_NE(error.find("'cell/user/42/n'"), std::string::npos) << error;
    EXPECT_THROW(add_one(state_), StoreCorrupt);
    EXPECT_EQ(entry()->value, text);
  }
  EXPECT_TRUE(run(cell_.erase()));
  EXPECT_EQ(entry(), std::nullopt);
}

TEST_F(CellsInStore, AChangeThatMakesNoDifferenceWritesNothing) {
  run(cell_.set(5));
  const Version version = entry()->version;
  EXPECT_EQ(run(cell_.update([](int n) { return n; }).task()), 5);
  run(cell_.set(5));
  EXPECT_EQ(entry()->version, version);
  auto absent = state_.user("42").cell<int>("absent", 3);
  EXPECT_EQ(run(absent.update([](int n) { return n; }).task()), 3);
  EXPECT_EQ(run(absent.find()), std::nullopt);
  EXPECT_FALSE(run(absent.erase()));
}

TEST_F(CellsInStore, AChangeThatMakesNoDifferenceConfirmsThatItReadTheCurrentValue) {
  run(cell_.set(5));
  int runs = 0;
  auto capped = run(cell_
                        .update([&](int n) -> Task<int> {
                          if (++runs == 1) {
                            // Another process, between the read and the commit.
                            State other(*store_);
                            auto theirs = other.user("42").cell<int>("n");
                            Task<void> setting = theirs.set(1);
                            co_await setting;
                          }
                          co_return n < 5 ? n + 1 : n;
                        })
                        .task());
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(capped, 2) << "what was read was no longer so";
}

TEST_F(CellsInStore, TheFunctionRunsAgainOnTheWinnersValueWithoutAPause) {
  run(cell_.set(1));
  std::vector<int> seen;
  const TimePoint before = world_.clock.now();
  const int result = run(cell_
                             .update([&](int n) -> Task<int> {
                               seen.push_back(n);
                               if (seen.size() == 1) {
                                 State other(*store_);
                                 auto theirs = other.user("42").cell<int>("n");
                                 Task<void> setting = theirs.set(50);
                                 co_await setting;
                               }
                               co_return n + 1;
                             })
                             .task());
  EXPECT_EQ(seen, (std::vector<int>{1, 50}));
  EXPECT_EQ(result, 51);
  EXPECT_EQ(world_.clock.now(), before);
}

TEST_F(CellsInStore, WhenTheBudgetIsSpentItIsAnErrorWithTheKeyAndTheAttempts) {
  run(cell_.set(1));
  disk_->set_faults({.seed = 1, .conflict_chance = 1});
  const TimePoint before = world_.clock.now();
  int runs = 0;
  try {
    run(cell_.update([&runs](int n) { return n + 1 + 0 * ++runs; }).task());
    FAIL() << "nothing was thrown";
  } catch (const ConcurrentModification& error) {
    EXPECT_EQ(error.key(), kPathKey);
    EXPECT_EQ(error.attempts(), 32U);
    EXPECT_EQ(error.remedy(), Remedy::kStartOver);
  }
  EXPECT_EQ(runs, 32);
  EXPECT_GT(world_.clock.now() - before, 500ms) << "it backed off";
  EXPECT_LT(world_.clock.now() - before, 30 * 250ms);
  disk_->set_faults({});
  EXPECT_EQ(run(cell_.get()), 1);
}

TEST_F(CellsInStore, TheBudgetAndThePausesCanBeChosen) {
  run(cell_.set(1));
  disk_->set_faults({.seed = 1, .conflict_chance = 1});
  State hasty(*store_, {.attempts_max = 1});
  EXPECT_THROW(add_one(hasty), ConcurrentModification);
  State slow(*store_, {.attempts_max = 20, .back_off_min = 1h, .back_off_max = 1h, .seed = 1});
  const TimePoint before = world_.clock.now();
  EXPECT_THROW(add_one(slow), ConcurrentModification);
  EXPECT_GT(world_.clock.now() - before, 4h);
  EXPECT_LT(world_.clock.now() - before, 18h);
}

TEST_F(CellsInStore, TasksOfOneProcessNeverSpendARetryOnEachOther) {
  State strict(*store_, {.attempts_max = 1});
  std::vector<Task<int>> tasks;
  for (int i = 0; i < 100; ++i) {
    tasks.push_back(strict.user("42").cell<int>("n").update([](int n) { return n + 1; }).task());
  }
  run(all(std::move(tasks)));
  EXPECT_EQ(run(cell_.get()), 100);
}

TEST_F(CellsInStore, HandlesLeaveNothingBehind) {
  for (int i = 0; i < 1'000; ++i) {
    run(state_.user(std::to_string(i)).cell<int>("n").set(i));
  }
  EXPECT_EQ(state_.size(), 1U) << "the handle of this test";
}

TEST_F(CellsInStore, BusyIsPassedOnAndNothingHappened) {
  run(cell_.set(1));
  disk_->set_faults({.seed = 1, .busy_chance = 1});
  EXPECT_THROW(add_one(state_), StoreBusy);
  disk_->set_faults({});
  EXPECT_EQ(run(cell_.get()), 1);
  EXPECT_EQ(add_one(state_), 2) << "the line is free";
}

TEST_F(CellsInStore, ALostAnswerIsFoundAgainByReading) {
  run(cell_.set(0));
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    disk_->set_faults({.seed = seed, .unknown_chance = 0.5});
    ASSERT_EQ(add_one(state_), static_cast<int>(seed) + 1) << "seed " << seed;
  }
  disk_->set_faults({});
  EXPECT_EQ(run(cell_.get()), 200);
}

TEST_F(CellsInStore, AnEraseWhoseAnswerGotLostIsFoundAgainByReading) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    disk_->set_faults({});
    run(cell_.set(1));
    disk_->set_faults({.seed = seed, .unknown_chance = 0.7});
    ASSERT_TRUE(run(cell_.erase())) << "seed " << seed;
    ASSERT_EQ(entry(), std::nullopt);
  }
}

TEST_F(CellsInStore, AStoreThatSaysNothingMoreLeavesTheOutcomeUnknown) {
  run(cell_.set(0));
  disk_->set_faults({.seed = 1, .crash_at_commit = 1});
  EXPECT_THROW(add_one(state_), OutcomeUnknown);
}

TEST_F(CellsInStore, AnAtomicStateReachesTheSameCellFromOutside) {
  run(cell_.set(1));
  AtomicState<int> admin(*store_, cell_.key());
  EXPECT_EQ(run(admin.update([](int n) { return n + 1; }).task()), 2);
  EXPECT_EQ(run(cell_.get()), 2);
  AtomicState<Json> json(*store_, kPathKey);
  EXPECT_EQ(run(json.inc("")), Json(3));
  EXPECT_EQ(run(state_.at<int>(kPathKey).get()), 3);
  EXPECT_THROW(AtomicState<int>(*store_, "account/1"), InvalidArgument);
  EXPECT_THROW(AtomicState<int>(*store_, "cell/"), InvalidArgument);
  EXPECT_THROW(AtomicState<int>(*store_, ""), InvalidArgument);
}

TEST_F(CellsInStore, AChangeByAnotherStateWakesAWatch) {
  CellWatch<int> watch = cell_.watch();
  EXPECT_EQ(run(watch.next()), std::nullopt);
  auto next = world_.start(watch.next());
  State other(*store_);
  add_one(other);
  world_.executor.drain();
  EXPECT_EQ(next.get(), 1);
}

// --- What came of a lost write -------------------------------------------------------------------

Entry written(Version version, const std::string& operation) {
  std::string text(R"({"format":1,"op":")");
  return {"cell/global/n", text.append(operation).append(R"(","value":1})"), version};
}

TEST(Settle, NeverGuesses) {
  using detail::settle;
  using detail::Settled;
  const detail::LostWrite change{written(5, "old"), "old", "mine"};
  EXPECT_EQ(settle(change, written(5, "old")), Settled::kDidNot);
  EXPECT_EQ(settle(change, written(6, "mine")), Settled::kHappened);
  EXPECT_EQ(settle(change, written(7, "theirs")), Settled::kUnknown);
  EXPECT_EQ(settle(change, written(7, "old")), Settled::kDidNot);
  EXPECT_EQ(settle(change, std::nullopt), Settled::kUnknown);
  const detail::LostWrite creation{std::nullopt, "", "mine"};
  EXPECT_EQ(settle(creation, written(6, "mine")), Settled::kHappened);
  EXPECT_EQ(settle(creation, written(6, "theirs")), Settled::kUnknown);
  EXPECT_EQ(settle(creation, written(6, "")), Settled::kUnknown);
  EXPECT_EQ(settle(creation, std::nullopt), Settled::kUnknown) << "made, and erased since?";
  const detail::LostWrite erasure{written(5, "old"), "", ""};
  EXPECT_EQ(settle(erasure, std::nullopt), Settled::kHappened);
  EXPECT_EQ(settle(erasure, written(5, "old")), Settled::kDidNot);
  EXPECT_EQ(settle(erasure, written(6, "theirs")), Settled::kUnknown);
}

}  // namespace
}  // namespace holdfast
