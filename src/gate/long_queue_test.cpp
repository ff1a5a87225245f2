// SPDX-License-Identifier: Apache-2.0
// Queues of which only the first waiters are known in memory, and gates that others change.
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <holdfast/error.hpp>
#include <holdfast/gate_control.hpp>

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

  /// How the waiters behind the first ones are known.
  enum class Known : std::uint8_t { kSinceTheyCame, kRead };
  /// Changes the gate from elsewhere, so that it is read again, and of the waiters only the first.
  void disturb() {
    GateControl control(*store_);
    const OperatorNote note{.by = "someone", .reason = "to disturb"};
    sync_wait(observer_, control.pause("m", note));
    sync_wait(observer_, control.resume("m", note));
  }
  void serve_while_others_come_and_leave(Known how) {
    constexpr std::size_t kCount = 200;
    hold_.emplace(acquire(one_, "m"));
    std::vector<Spawned<DurableHold>> waits;
    for (std::size_t i = 0; i < kCount; ++i) {
      waits.push_back(ask(one_, "m"));
    }
    if (how == Known::kRead) {
      disturb();
      advance(1s);
    }
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

  Process& one_ = process(1);
  std::optional<DurableHold> hold_;
};

TEST_F(LongQueue, IsServedInItsOrderWhoeverComesAndLeavesMeanwhile) {
  serve_while_others_come_and_leave(Known::kSinceTheyCame);
}

TEST_F(LongQueue, IsServedInItsOrderAfterItWasReadAgain) {
  serve_while_others_come_and_leave(Known::kRead);
}

TEST_F(LongQueue, IsServedInItsOrderThoughSomeAreRefusedAndOthersComeLater) {
  constexpr std::size_t kCount = 150;
  hold_.emplace(acquire(one_, "m"));
  std::vector<Spawned<DurableHold>> waits;
  for (std::size_t i = 0; i < kCount; ++i) {
    waits.push_back(ask(one_, "m"));
  }
  for (std::size_t next = 0; next < waits.size(); ++next) {
    if (next % 10 == 0) {
      auto refused = ask(one_, "m", {.queue_max = 1});
      ASSERT_TRUE(refused.ended());
      EXPECT_THROW(static_cast<void>(refused.get()), QueueFull);
    }
    if (next < kCount) {
      waits.push_back(ask(one_, "m"));
    }
    pass_on_to(waits[next]);
  }
  EXPECT_EQ(waits.size(), 2 * kCount);
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
