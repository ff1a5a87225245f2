// SPDX-License-Identifier: Apache-2.0
// Queues of which only the first waiters are known in memory, and gates that others change.
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "gate_processes.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;

class LongQueue : public GateProcesses {
 protected:
  /// Ends the hold that there is; `next` has it then.
  void pass_on_to(Spawned<DurableHold>& next) {
    ASSERT_TRUE(release(one_, *hold_));
    ASSERT_TRUE(next.ended()) << "without a tick of the clock";
    hold_.emplace(next.get());
  }

  Process& one_ = process(1);
  std::optional<DurableHold> hold_;
};

TEST_F(LongQueue, IsServedInItsOrderWhoeverComesAndLeavesMeanwhile) {
  constexpr std::size_t kCount = 200;
  hold_.emplace(acquire(one_, "m"));
  std::vector<Spawned<DurableHold>> waits;
  for (std::size_t i = 0; i < kCount; ++i) {
    waits.push_back(ask(one_, "m"));
  }
  advance(1s);  // The sweep reads the gate again, and of the waiters only the first.
  std::size_t next = 0;
  const auto pass_on_until = [&](std::size_t end) {
    for (; next < end; ++next) {
      pass_on_to(waits[next]);
    }
  };
  pass_on_until(70);
  waits[100].request_stop();
  settle();
  EXPECT_THROW(static_cast<void>(waits[100].get()), Cancelled);
  pass_on_until(72);
  // Its ticket is the 200th, and it comes before as many as it may overtake.
  auto overtakes = ask(one_, "m", {.priority = 1});
  pass_on_until(74);
  auto comes_last = ask(one_, "m");
  pass_on_until(100);
  next = 101;
  pass_on_until(kCount - kGateOvertakesPerStep + 1);
  pass_on_to(overtakes);
  pass_on_until(kCount);
  EXPECT_FALSE(comes_last.ended());
  pass_on_to(comes_last);
  EXPECT_EQ(inspect("m").waiter_count, 0U);
}

TEST_F(LongQueue, OfOneIsToldOfAGrantThoughItsSessionChangedTheGateBeforeItLooked) {
  Process& two = process(2);
  hold_.emplace(acquire(one_, "m"));
  auto waits = ask(two, "m");
  auto asks_later = spawn(two.executor, two.gates->mutex("m").acquire());
  auto releasing = spawn(one_.executor, hold_->release());
  one_.executor.drain();
  EXPECT_FALSE(waits.ended()) << "it was let in, and nobody has told it yet";
  settle();
  EXPECT_TRUE(releasing.get());
  ASSERT_TRUE(waits.ended()) << "without a tick of the clock";
  EXPECT_TRUE(waits.get().valid());
  settle();
  ASSERT_TRUE(asks_later.ended());
  EXPECT_TRUE(asks_later.get().valid());
}

}  // namespace
}  // namespace holdfast
