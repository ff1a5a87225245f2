// SPDX-License-Identifier: Apache-2.0
// Holds that are let go of while another task of the session is about to change the gate.
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>

#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>
#include <holdfast/executor.hpp>
#include <holdfast/gate_inspection.hpp>
#include <holdfast/gates.hpp>
#include <holdfast/memory_store.hpp>
#include <holdfast/session.hpp>
#include <holdfast/spawn.hpp>

#include "session_far_store.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;

class LettingGo : public ::testing::Test {
 protected:
  static constexpr Duration kOnTheWay = 10ms;

  LettingGo() {
    far_.can.notifies = true;  // Nobody waits here to be told of anything.
    gates_.emplace(*session_, &executor_);
  }
  ~LettingGo() override {
    gates_.reset();
    session_.reset();
    executor_.drain();
  }

  /// What is asked of the store from now on takes a while to get there.
  void slow_down() {
    far_.broken_from = clock_.now();
    far_.broken_until = clock_.now() + kOnTheWay;
  }
  void let_it_arrive() {
    clock_.advance(kOnTheWay);
    executor_.drain();
  }
  Spawned<DurableHold> ask() {
    auto asking = spawn(executor_, gates_->semaphore("s", 3).acquire());
    executor_.drain();
    return asking;
  }
  std::size_t holders() {
    return sync_wait(executor_, inspect_gate(*near_, "s")).value().holders.size();
  }

  VirtualClock clock_;
  ManualExecutor executor_{clock_};
  std::unique_ptr<Store> near_ = open_memory_store(std::make_shared<MemoryDisk>(clock_));
  testing::FarStore far_{*near_};
  std::unique_ptr<Session> session_ = sync_wait(
      executor_,
      Session::open(far_, {.ttl = 30s, .name = "worker", .executor = &executor_, .seed = 1}));
  std::optional<Gates> gates_;
};

TEST_F(LettingGo, WhileAnotherChangesTheGateIsSeenToAfterIt) {
  std::optional<DurableHold> first(ask().get());
  slow_down();
  auto second = ask();
  ASSERT_FALSE(second.ended()) << "it is on its way to the store";
  first.reset();
  let_it_arrive();
  ASSERT_TRUE(second.ended());
  const DurableHold held = second.get();
  EXPECT_EQ(holders(), 1U);
}

TEST_F(LettingGo, IsSeenToThoughTheOneWhoWasNextDoesNotWantTheTurnAnyMore) {
  std::optional<DurableHold> first(ask().get());
  slow_down();
  auto second = ask();
  auto third = ask();
  first.reset();
  third.request_stop();
  let_it_arrive();
  ASSERT_TRUE(second.ended());
  const DurableHold held = second.get();
  ASSERT_TRUE(third.ended());
  EXPECT_THROW(static_cast<void>(third.get()), Cancelled);
  EXPECT_EQ(holders(), 1U);
}

}  // namespace
}  // namespace holdfast
