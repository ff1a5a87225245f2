// SPDX-License-Identifier: Apache-2.0
// The time-out of cells in memory, and what a state keeps.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include <holdfast/mutex.hpp>
#include <holdfast/state.hpp>
#include <holdfast/this_task.hpp>

#include "coro/test_world.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;

Task<int> add_after(int n, Duration wait) {
  co_await this_task::sleep_for(wait);
  co_return n + 1;
}

class CellsInMemory : public ::testing::Test {
 protected:
  Spawned<int> start_slow(Cell<int>& cell, Duration wait) {
    return world_.start(cell.update([wait](int n) { return add_after(n, wait); }).task());
  }
  Spawned<int> start_quick(Cell<int>& cell) {
    return world_.start(cell.update([](int n) { return n + 100; }).task());
  }
  template <typename T>
  static std::optional<bool> started_of(Spawned<T>& change) {
    try {
      static_cast<void>(change.get());
    } catch (const MutationTimeout& error) {
      EXPECT_EQ(error.key(), "cell/global/n");
      return error.started();
    }
    return std::nullopt;
  }

  testing::World world_;
  State state_;
  Cell<int> cell_ = state_.global().cell<int>("n");
  testing::EndTasks end_tasks_{world_};
};

TEST_F(CellsInMemory, AChangeThatTakesTooLongTimesOutAfterThirtySecondsAndMayStillCome) {
  auto slow = start_slow(cell_, 40s);
  world_.advance(30s - 1ms);
  EXPECT_FALSE(slow.ended());
  world_.advance(1ms);
  ASSERT_TRUE(slow.ended());
  const std::string text = testing::error_text<MutationTimeout>([&] { slow.get(); });
  EXPECT_NE(text.find("may still come"), std::string::npos) << text;
  EXPECT_EQ(world_.run(cell_.get()), 0);
  world_.advance(10s);
  EXPECT_EQ(world_.run(cell_.get()), 1) << "it did";
}

TEST_F(CellsInMemory, TheTimeOutCountsTheWaitInLineAndOneWhoWaitedChangesNothing) {
  auto slow = start_slow(cell_, 40s);
  world_.advance(5s);
  auto waiting = start_quick(cell_);
  world_.advance(30s - 1ms);
  EXPECT_FALSE(waiting.ended());
  world_.advance(1ms);
  EXPECT_EQ(started_of(slow), true);
  EXPECT_EQ(started_of(waiting), false);
  world_.advance(1h);
  EXPECT_EQ(world_.run(cell_.get()), 1);
}

TEST_F(CellsInMemory, TheWaitInLineLeavesLessForTheFunction) {
  auto first = start_slow(cell_, 20s);
  auto second = start_slow(cell_, 20s);
  world_.advance(30s);
  EXPECT_EQ(first.get(), 1);
  EXPECT_EQ(started_of(second), true);
}

TEST_F(CellsInMemory, AFunctionThatNeverEndsKeepsTheLineButNobodyHangs) {
  auto stuck = start_slow(cell_, 24h * 365);
  world_.advance(30s);
  EXPECT_EQ(started_of(stuck), true);
  auto next = start_quick(cell_);
  world_.advance(30s);
  EXPECT_EQ(started_of(next), false);
  auto other = state_.global().cell<int>("other");
  EXPECT_EQ(world_.run(other.update([](int n) { return n + 1; }).task()), 1);
}

TEST_F(CellsInMemory, TheTimeOutCanBeChosenAndSwitchedOff) {
  State quick({.mutation_timeout = 1s});
  auto cell = quick.global().cell<int>("n");
  auto slow = start_slow(cell, 2s);
  world_.advance(1s);
  EXPECT_EQ(started_of(slow), true);

  State patient({.mutation_timeout = std::nullopt});
  auto other = patient.global().cell<int>("n");
  auto slower = start_slow(other, 24h);
  world_.advance(24h);
  EXPECT_EQ(slower.get(), 1);
  world_.advance(1s);
}

TEST_F(CellsInMemory, AChangeInTimeArmsNothingForLater) {
  auto change = start_slow(cell_, 1s);
  world_.advance(1s);
  EXPECT_EQ(change.get(), 1);
  EXPECT_EQ(world_.clock.armed_count(), 0U);
}

TEST_F(CellsInMemory, AStopWaitsForTheFunctionThatRefersToItsCaller) {
  Mutex never;
  const Hold hold = never.lock().wait();
  std::string owned = "by the caller";
  bool ended = false;
  auto change = world_.start(cell_
                                 .update([&](int n) -> Task<int> {
                                   try {
                                     const Hold got = co_await never.lock();
                                   } catch (const Cancelled&) {
                                     ended = owned == "by the caller";
                                     throw;
                                   }
                                   co_return n;
                                 })
                                 .task());
  change.request_stop();
  world_.executor.drain();
  EXPECT_TRUE(change.ended());
  EXPECT_TRUE(ended);
  EXPECT_THROW(change.get(), Cancelled);
}

TEST_F(CellsInMemory, AFunctionThatIgnoresAStopStillCommits) {
  auto change = world_.start(cell_
                                 .update([](int n) -> Task<int> {
                                   try {
                                     co_await this_task::sleep_for(1s);
                                   } catch (const Cancelled&) {
                                     n += 41;
                                   }
                                   co_return n + 1;
                                 })
                                 .task());
  change.request_stop();
  world_.executor.drain();
  EXPECT_EQ(change.get(), 42);
  EXPECT_EQ(world_.run(cell_.get()), 42);
}

TEST_F(CellsInMemory, AValueStaysWithoutHandlesAndNothingElseDoes) {
  EXPECT_EQ(state_.size(), 1U) << "the handle of this test";
  for (int i = 0; i < 1'000; ++i) {
    auto cell = state_.user(std::to_string(i)).cell<int>("n");
    EXPECT_EQ(world_.run(cell.get()), 0);
    if (i % 2 == 0) {
      world_.run(cell.set(i));
    }
  }
  EXPECT_EQ(state_.size(), 501U);
  EXPECT_EQ(world_.run(state_.user("8").cell<int>("n").get()), 8);
  for (int i = 0; i < 1'000; ++i) {
    world_.run(state_.user(std::to_string(i)).cell<int>("n").erase());
  }
  EXPECT_EQ(state_.size(), 1U);
}

TEST_F(CellsInMemory, ACellMayOutliveItsState) {
  auto state = std::make_unique<State>();
  auto cell = state->global().cell<int>("n");
  world_.run(cell.set(1));
  state.reset();
  EXPECT_EQ(world_.run(cell.update([](int n) { return n + 1; }).task()), 2);
}

TEST_F(CellsInMemory, OptionsThatCannotWorkAreRefused) {
  EXPECT_THROW(State({.mutation_timeout = 0s}), InvalidArgument);
  EXPECT_THROW(State({.attempts_max = 0}), InvalidArgument);
  EXPECT_THROW(State({.back_off_min = 0s}), InvalidArgument);
  EXPECT_THROW(State({.back_off_min = 2s, .back_off_max = 1s}), InvalidArgument);
}

}  // namespace
}  // namespace holdfast
