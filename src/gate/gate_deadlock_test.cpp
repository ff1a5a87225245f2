// SPDX-License-Identifier: Apache-2.0
// Waits that would never end, across gates and processes.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/all_any.hpp>
#include <holdfast/deadlock.hpp>
#include <holdfast/gates.hpp>
#include <holdfast/hold.hpp>
#include <holdfast/semaphore.hpp>
#include <holdfast/this_task.hpp>

#include "gate_processes.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;

/// Opened by the test.
class Signal {
 public:
  Signal() : closed_(*room_.try_acquire()) {}
  void open() { closed_.release(); }
  [[nodiscard]] auto opened() { return room_.acquire(); }

 private:
  Semaphore room_{1};
  Hold closed_;
};

class GateDeadlock : public GateProcesses {
 protected:
  /// Takes one lock, then, when it is told to, another.
  static Task<std::string> take_both(Process& in, const char* first, const char* second,
                                     Signal& go_on, std::size_t yields = 0) {
    DurableMutex one = in.gates->mutex(first);
    DurableMutex other = in.gates->mutex(second);
    const AcquireOptions as{.holder = first};
    DurableHold first_hold = co_await one.acquire(as);
    const Hold told = co_await go_on.opened();
    for (std::size_t i = 0; i < yields; ++i) {
      co_await this_task::yield();
    }
    std::string error;
    try {
      DurableHold second_hold = co_await other.acquire(as);
      static_cast<void>(co_await second_hold.release());
    } catch (const DeadlockError& deadlock) {
      error = deadlock.what();
    }
    static_cast<void>(co_await first_hold.release());
    co_return error;
  }
};

TEST_F(GateDeadlock, TwoProcessesThatTakeTwoLocksInBothOrders) {
  Process& one = process(1);
  Process& two = process(2);
  Signal go_one;
  Signal go_two;
  auto first = start(one, take_both(one, "a", "b", go_one));
  auto second = start(two, take_both(two, "b", "a", go_two));
  go_one.open();
  settle();
  ASSERT_FALSE(first.ended());
  go_two.open();
  settle();
  ASSERT_TRUE(second.ended()) << "without a tick of the clock";
  EXPECT_EQ(second.get(), "deadlock: 'b' waits for a, held by 'a', which waits for b, held by 'b'");
  ASSERT_TRUE(first.ended()) << "the other one goes on";
  EXPECT_EQ(first.get(), "");
  EXPECT_TRUE(inspect("a").holders.empty());
  EXPECT_EQ(inspect("a").waiter_count, 0U);
  EXPECT_EQ(inspect("b").waiter_count, 0U);
}

TEST_F(GateDeadlock, TasksOfOneProcessAreToldApart) {
  Process& one = process(1);
  Signal go_one;
  Signal go_two;
  auto first = start(one, take_both(one, "a", "b", go_one));
  auto second = start(one, take_both(one, "b", "a", go_two));
  go_one.open();
  settle();
  go_two.open();
  settle();
  EXPECT_NE(second.get(), "");
  EXPECT_EQ(first.get(), "");
}

TEST_F(GateDeadlock, ACircleOfFiveIsShownWhole) {
  std::deque<Signal> signals(5);
  std::vector<Spawned<std::string>> running;
  const char* names[] = {"a", "b", "c", "d", "e"};
  for (std::size_t i = 0; i < 5; ++i) {
    Process& in = process(i + 1);
    running.push_back(start(in, take_both(in, names[i], names[(i + 1) % 5], signals[i])));
  }
  for (Signal& signal : signals) {
    signal.open();
    settle();
  }
  EXPECT_EQ(
      running[4].get(),
      "deadlock: 'e' waits for a, held by 'a', which waits for b, held by 'b', which waits for "
      "c, held by 'c', which waits for d, held by 'd', which waits for e, held by 'e'");
  for (std::size_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(running[i].ended());
    EXPECT_EQ(running[i].get(), "");
  }
}

/// Holds one lock, is refused another one, and asks for that again later.
Task<void> ask_again(Gates& gates, Signal& go_on) {
  DurableMutex held = gates.mutex("held");
  const DurableHold hold = co_await held.acquire();
  DurableMutex passed_on = gates.mutex("passed on");
  const std::optional<DurableHold> refused = co_await passed_on.try_acquire();
  EXPECT_FALSE(refused.has_value());
  const Hold told = co_await go_on.opened();
  const DurableHold got = co_await passed_on.acquire();
}

/// Lets go of one lock, keeps another one, and waits for what the other one holds.
Task<void> pass_on(Gates& gates, Signal& go_on) {
  DurableMutex kept = gates.mutex("kept");
  const DurableHold keeps = co_await kept.acquire();
  DurableMutex passed_on = gates.mutex("passed on");
  DurableHold hold = co_await passed_on.acquire();
  const Hold told = co_await go_on.opened();
  static_cast<void>(co_await hold.release());
  DurableMutex held = gates.mutex("held");
  const DurableHold got = co_await held.acquire();
}

TEST_F(GateDeadlock, WhoeverHasLetGoIsNoPartOfACircle) {
  Process& one = process(1);
  Process& two = process(2);
  Signal go_one;
  Signal go_two;
  auto passes = start(two, pass_on(*two.gates, go_two));
  settle();
  auto asks = start(one, ask_again(*one.gates, go_one));
  settle();
  go_two.open();
  settle();
  ASSERT_FALSE(passes.ended());
  go_one.open();  // It knew who held the other one before.
  settle();
  ASSERT_TRUE(asks.ended());
  EXPECT_NO_THROW(asks.get());
  settle();
  ASSERT_TRUE(passes.ended());
  EXPECT_NO_THROW(passes.get());
}

TEST_F(GateDeadlock, WhoWaitsForWhatItHolds) {
  Process& one = process(1);
  const auto twice = [](Process& in) -> Task<bool> {
    DurableMutex mutex = in.gates->mutex("m");
    DurableHold hold = co_await mutex.acquire();
    bool found = false;
    try {
      DurableHold again = co_await mutex.acquire();
    } catch (const DeadlockError& error) {
      found = error.cycle().size() == 1;
    }
    static_cast<void>(co_await hold.release());
    co_return found;
  };
  EXPECT_TRUE(run(one, twice(one)));
  EXPECT_EQ(inspect("m").waiter_count, 0U);
}

TEST_F(GateDeadlock, ABranchThatWaitsForWhatItsTaskHolds) {
  Process& one = process(1);
  const auto branch = [](Process& in) -> Task<bool> {
    DurableMutex mutex = in.gates->mutex("m");
    bool found = false;
    try {
      DurableHold hold = co_await mutex.acquire();
    } catch (const DeadlockError&) {
      found = true;
    }
    co_return found;
  };
  const auto nothing = []() -> Task<bool> { co_return true; };
  const auto both = [&](Process& in) -> Task<bool> {
    DurableMutex mutex = in.gates->mutex("m");
    DurableHold hold = co_await mutex.acquire();
    const auto [found, other] = co_await all(branch(in), nothing());
    static_cast<void>(co_await hold.release());
    co_return found&& other;
  };
  EXPECT_TRUE(run(one, both(one)));
}

TEST_F(GateDeadlock, NamedActorsAreOneInAllProcesses) {
  Process& outer = process(1);
  Process& inner = process(2);
  DurableHold hold = acquire(outer, "m", {.holder = "outer", .actor = "job-7"});
  auto nested = ask(inner, "m", {.holder = "inner", .actor = "job-7"});
  ASSERT_TRUE(nested.ended());
  EXPECT_THROW(static_cast<void>(nested.get()), DeadlockError);
  auto stranger = ask(inner, "m", {.actor = "job-8"});
  EXPECT_FALSE(stranger.ended());
  stranger.request_stop();
  settle();
}

/// Takes permits of a semaphore, then waits for a mutex.
Task<bool> permit_then_mutex(Process& in, std::uint64_t permits, Signal& go_on) {
  DurableSemaphore pool = in.gates->semaphore("pool", 2);
  DurableMutex mutex = in.gates->mutex("m");
  const AcquireOptions so_many{.weight = permits};
  DurableHold permit = co_await pool.acquire(so_many);
  const Hold told = co_await go_on.opened();
  DurableHold hold = co_await mutex.acquire();
  co_return true;
}

Task<bool> mutex_then_permit(Process& in, Signal& go_on) {
  DurableSemaphore pool = in.gates->semaphore("pool", 2);
  DurableMutex mutex = in.gates->mutex("m");
  DurableHold hold = co_await mutex.acquire();
  const Hold told = co_await go_on.opened();
  bool found = false;
  try {
    DurableHold permit = co_await pool.acquire();
  } catch (const DeadlockError&) {
    found = true;
  }
  co_return found;
}

TEST_F(GateDeadlock, APermitThatAnotherCanGiveBackIsWaitedFor) {
  Process& one = process(1);
  Signal go_on[3];
  auto waits = start(one, permit_then_mutex(one, 1, go_on[0]));
  auto holds = start(one, permit_then_mutex(one, 1, go_on[1]));
  auto asks = start(one, mutex_then_permit(one, go_on[2]));
  go_on[0].open();
  settle();
  go_on[2].open();
  settle();
  EXPECT_FALSE(asks.ended()) << "the second permit may come back";
  go_on[1].open();
  settle();
  EXPECT_THROW(static_cast<void>(holds.get()), DeadlockError)
      << "and now it cannot: this wait closes the circle";
  settle();
  ASSERT_TRUE(asks.ended());
  EXPECT_FALSE(asks.get());
  EXPECT_TRUE(waits.get());
}

TEST_F(GateDeadlock, ReadersDoNotWaitForEachOther) {
  Process& one = process(1);
  const auto read_twice = [](Process& in, const char* first, const char* second,
                             Signal& go_on) -> Task<bool> {
    DurableSharedMutex a = in.gates->shared_mutex(first);
    DurableSharedMutex b = in.gates->shared_mutex(second);
    DurableHold one_hold = co_await a.acquire_shared();
    const Hold told = co_await go_on.opened();
    DurableHold other_hold = co_await b.acquire_shared();
    co_return true;
  };
  Signal go_on[2];
  auto first = start(one, read_twice(one, "a", "b", go_on[0]));
  auto second = start(one, read_twice(one, "b", "a", go_on[1]));
  go_on[0].open();
  go_on[1].open();
  settle();
  EXPECT_TRUE(first.get());
  EXPECT_TRUE(second.get());
}

TEST_F(GateDeadlock, AReaderBehindAWriterIsPartOfTheCircle) {
  Process& one = process(1);
  // The reader of `a` wants `m`; whoever has `m` wants to read `a`, and a writer is before it.
  const auto reader = [](Process& in, Signal& go_on) -> Task<bool> {
    DurableSharedMutex a = in.gates->shared_mutex("a");
    DurableMutex m = in.gates->mutex("m");
    DurableHold read = co_await a.acquire_shared();
    const Hold told = co_await go_on.opened();
    DurableHold hold = co_await m.acquire();
    co_return true;
  };
  const auto writer = [](Process& in) -> Task<bool> {
    DurableSharedMutex a = in.gates->shared_mutex("a");
    DurableHold write = co_await a.acquire();
    co_return true;
  };
  const auto late_reader = [](Process& in) -> Task<bool> {
    DurableSharedMutex a = in.gates->shared_mutex("a");
    DurableMutex m = in.gates->mutex("m");
    DurableHold hold = co_await m.acquire();
    bool found = false;
    try {
      DurableHold read = co_await a.acquire_shared();
    } catch (const DeadlockError&) {
      found = true;
    }
    co_return found;
  };
  Signal go_on;
  auto first = start(one, reader(one, go_on));
  auto second = start(one, writer(one));
  auto third = start(one, late_reader(one));
  ASSERT_FALSE(third.ended()) << "the first reader may let go still";
  go_on.open();
  settle();
  EXPECT_THROW(static_cast<void>(first.get()), DeadlockError);
  settle();
  EXPECT_TRUE(second.get());
  EXPECT_FALSE(third.get());
}

TEST_F(GateDeadlock, TheDeadDoNotMakeACircle) {
  Process& one = process(1);
  Process& two = process(2);
  Signal go_one;
  Signal go_two;
  auto first = start(one, take_both(one, "a", "b", go_one));
  auto second = start(two, take_both(two, "b", "a", go_two));
  go_one.open();
  settle();
  one.stopped = true;
  advance(2 * kTtl);
  go_two.open();
  settle();
  ASSERT_TRUE(second.ended());
  EXPECT_EQ(second.get(), "");
}

/// Many tasks of several processes take two locks each, in any order: whatever happens, it ends.
TEST_F(GateDeadlock, WhateverTheOrderItEnds) {
  std::uint64_t found = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::minstd_rand random(static_cast<std::minstd_rand::result_type>(seed));
    processes_.clear();
    disk_ = std::make_shared<MemoryDisk>(clock_);
    store_ = open_memory_store(disk_);
    const char* names[] = {"a", "b", "c", "d"};
    std::deque<Signal> signals;
    std::vector<Spawned<std::string>> running;
    for (std::uint64_t i = 1; i <= 3; ++i) {
      process(i);
    }
    for (std::size_t i = 0; i < 12; ++i) {
      Process& in = processes_[random() % processes_.size()];
      const std::size_t first = random() % 4;
      const std::size_t second = (first + 1 + random() % 3) % 4;
      signals.emplace_back().open();
      running.push_back(spawn(
          in.executor, take_both(in, names[first], names[second], signals.back(), random() % 20)));
    }
    // The processes go on step by step, in any order, so that waits meet in the middle of commits.
    for (std::size_t idle = 0; idle < 64;) {
      Process& in = processes_[random() % processes_.size()];
      idle = in.executor.run_one() ? 0 : idle + 1;
    }
    advance(5s);
    for (auto& one : running) {
      ASSERT_TRUE(one.ended()) << "it hangs";
      found += one.get().empty() ? 0U : 1U;
    }
    for (const char* name : names) {
      EXPECT_TRUE(inspect(name).holders.empty());
    }
  }
  EXPECT_GT(found, 0U);
}

}  // namespace
}  // namespace holdfast
