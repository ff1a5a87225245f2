// SPDX-License-Identifier: Apache-2.0
// The plain operations: no session, and no other time than the one that is given.
#include <holdfast/leased_gate.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <holdfast/error.hpp>

#include "gate_processes.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;

class LeasedGates : public GateProcesses {
 protected:
  [[nodiscard]] static StoreTime at(Duration time) { return StoreTime(1h + time); }

  LeasedGrant acquire(const LeasedGate& gate, const char* holder, Duration now,
                      Duration lease = 10s) {
    return sync_wait(observer_,
                     gate.try_acquire({.holder = holder, .now = at(now), .lease = lease}));
  }
  bool release(const LeasedGate& gate, const char* holder, std::uint64_t fence, Duration now) {
    return sync_wait(observer_, gate.release({.holder = holder, .fence = fence, .now = at(now)}));
  }
  bool renew(const LeasedGate& gate, const char* holder, std::uint64_t fence, Duration now,
             Duration lease = 10s) {
    return sync_wait(observer_,
                     gate.renew({.holder = holder, .fence = fence, .now = at(now)}, lease));
  }
  bool withdraw(const LeasedGate& gate, const char* holder, Duration now) {
    return sync_wait(observer_, gate.withdraw(holder, at(now)));
  }
  [[nodiscard]] LeasedGate permits(std::uint64_t capacity) {
    GateDefinition definition;
    definition.capacity = capacity;
    return {*store_, "g", definition};
  }
};

TEST_F(LeasedGates, PositionsAreThoseOfTheQueue) {
  const LeasedGate gate(*store_, "g");
  const LeasedGrant first = acquire(gate, "a", 0s);
  EXPECT_TRUE(first.acquired);
  EXPECT_EQ(first.position, -1);
  EXPECT_GT(first.fence, 0U);
  const LeasedGrant second = acquire(gate, "b", 0s);
  EXPECT_FALSE(second.acquired);
  EXPECT_EQ(second.position, 0);
  EXPECT_EQ(second.fence, 0U);
  ASSERT_TRUE(second.why);
  EXPECT_EQ(second.why->kind, WhyNot::Kind::kFull);
  EXPECT_EQ(acquire(gate, "c", 0s).position, 1);
  EXPECT_EQ(acquire(gate, "b", 1s).position, 0) << "asked again, it keeps its place";
  EXPECT_EQ(inspect("g").waiter_count, 2U);
}

TEST_F(LeasedGates, ThePositionOfOneFarBackIsCounted) {
  const LeasedGate gate(*store_, "g");
  acquire(gate, "holder", 0s, 1h);
  for (int i = 0; i < 100; ++i) {
    const std::string name = std::string("w").append(std::to_string(i));
    EXPECT_EQ(acquire(gate, name.c_str(), 0s, 1h).position, i);
  }
  EXPECT_EQ(acquire(gate, "w99", 1s, 1h).position, 99);
  EXPECT_TRUE(withdraw(gate, "w98", 1s));
  EXPECT_EQ(acquire(gate, "w99", 1s, 1h).position, 98);
}

TEST_F(LeasedGates, AskedAgainTheHolderHasTheSameGrantAndANewLease) {
  const LeasedGate gate(*store_, "g");
  const LeasedGrant first = acquire(gate, "a", 0s);
  const LeasedGrant again = acquire(gate, "a", 8s);
  EXPECT_TRUE(again.acquired);
  EXPECT_EQ(again.fence, first.fence);
  EXPECT_FALSE(acquire(gate, "b", 12s).acquired) << "it began anew at 8 s";
  EXPECT_EQ(inspect("g").holders.size(), 1U);
}

TEST_F(LeasedGates, AReleaseLetsTheNextOneInAtOnce) {
  const LeasedGate gate(*store_, "g");
  const LeasedGrant first = acquire(gate, "a", 0s);
  acquire(gate, "b", 0s);
  EXPECT_TRUE(release(gate, "a", first.fence, 1s));
  ASSERT_EQ(inspect("g").holders.size(), 1U);
  EXPECT_EQ(inspect("g").holders[0].holder, "b") << "before it asks again";
  const LeasedGrant second = acquire(gate, "b", 1s);
  EXPECT_TRUE(second.acquired);
  EXPECT_GT(second.fence, first.fence);
  EXPECT_FALSE(release(gate, "a", first.fence, 1s)) << "idempotent, and pinned to its grant";
  EXPECT_EQ(inspect("g").holders.size(), 1U);
}

TEST_F(LeasedGates, ALeaseIsOverAtItsExpiryAndNotBefore) {
  const LeasedGate gate(*store_, "g");
  const LeasedGrant first = acquire(gate, "a", 0s, 10s);
  EXPECT_FALSE(acquire(gate, "b", 10s - 1ns).acquired);
  const LeasedGrant second = acquire(gate, "b", 10s);
  EXPECT_TRUE(second.acquired);
  EXPECT_GT(second.fence, first.fence);
  EXPECT_FALSE(release(gate, "a", first.fence, 10s)) << "a late release frees nothing";
  EXPECT_FALSE(renew(gate, "a", first.fence, 10s));
  ASSERT_EQ(inspect("g").holders.size(), 1U);
  EXPECT_EQ(inspect("g").holders[0].holder, "b");
}

TEST_F(LeasedGates, NoOtherTimeCountsThanTheOneThatIsGiven) {
  advance(100h);
  const LeasedGate gate(*store_, "g");
  acquire(gate, "a", 0s, 10s);
  EXPECT_FALSE(acquire(gate, "b", 9s).acquired) << "though it is long past by the store's clock";
  EXPECT_TRUE(acquire(gate, "b", 10s).acquired);
}

TEST_F(LeasedGates, RenewalExtendsAndNeverRevives) {
  const LeasedGate gate(*store_, "g");
  const LeasedGrant grant = acquire(gate, "a", 0s, 10s);
  EXPECT_TRUE(renew(gate, "a", grant.fence, 9s, 10s));
  EXPECT_FALSE(acquire(gate, "b", 18s).acquired);
  EXPECT_FALSE(renew(gate, "a", grant.fence + 1, 18s)) << "of another grant";
  EXPECT_FALSE(renew(gate, "b", grant.fence, 18s)) << "by a stranger";
  EXPECT_FALSE(renew(gate, "a", grant.fence, 19s)) << "it is over at this very moment";
  const LeasedGrant again = acquire(gate, "b", 19s);
  EXPECT_TRUE(again.acquired);
}

TEST_F(LeasedGates, WhoComesBackAfterItsLeaseIsNewAndHasANewFence) {
  const LeasedGate gate(*store_, "g");
  const LeasedGrant first = acquire(gate, "a", 0s, 10s);
  const LeasedGrant again = acquire(gate, "a", 20s, 10s);
  EXPECT_TRUE(again.acquired);
  EXPECT_GT(again.fence, first.fence);
  EXPECT_FALSE(release(gate, "a", first.fence, 21s)) << "the release of its former self";
  EXPECT_EQ(inspect("g").holders.size(), 1U);
  const auto history = sync_wait(observer_, gate_history(*store_, "g"));
  ASSERT_EQ(history.size(), 1U);
  EXPECT_EQ(history[0].end, GateGrantInfo::End::kExpired);
}

TEST_F(LeasedGates, AWaiterThatIsSilentForItsLeaseIsPassedOver) {
  const LeasedGate gate(*store_, "g");
  const LeasedGrant first = acquire(gate, "a", 0s, 1h);
  acquire(gate, "silent", 0s, 10s);
  acquire(gate, "c", 0s, 1h);
  EXPECT_TRUE(release(gate, "a", first.fence, 30s));
  EXPECT_TRUE(acquire(gate, "c", 30s).acquired);
  EXPECT_EQ(acquire(gate, "silent", 30s).position, 0) << "it is a new one, at the end";
}

TEST_F(LeasedGates, AReleaseByAStrangerFreesNothing) {
  const LeasedGate gate(*store_, "g");
  const LeasedGrant grant = acquire(gate, "a", 0s);
  EXPECT_FALSE(release(gate, "b", grant.fence, 0s));
  EXPECT_FALSE(acquire(gate, "b", 0s).acquired);
}

TEST_F(LeasedGates, WithdrawalGivesBackWhateverThereIs) {
  const LeasedGate gate(*store_, "g");
  EXPECT_FALSE(withdraw(gate, "a", 0s));
  acquire(gate, "a", 0s);
  acquire(gate, "b", 0s);
  EXPECT_TRUE(withdraw(gate, "b", 0s));
  EXPECT_EQ(inspect("g").waiter_count, 0U);
  EXPECT_TRUE(withdraw(gate, "a", 0s));
  EXPECT_TRUE(inspect("g").holders.empty());
  EXPECT_EQ(sync_wait(observer_, store_->scan("gate/g/lease/")).entries.size(), 0U)
      << "nothing is left behind";
}

TEST_F(LeasedGates, WhoMayNotWaitLeavesNothingBehind) {
  const LeasedGate gate(*store_, "g");
  acquire(gate, "a", 0s);
  const LeasedGrant refused =
      sync_wait(observer_, gate.try_acquire({.holder = "b", .now = at(0s), .queue_max = 0}));
  EXPECT_FALSE(refused.acquired);
  EXPECT_EQ(refused.position, -1);
  EXPECT_TRUE(refused.why);
  EXPECT_EQ(inspect("g").waiter_count, 0U);
  EXPECT_EQ(sync_wait(observer_, store_->scan("gate/g/lease/")).entries.size(), 1U);
}

TEST_F(LeasedGates, PermitsHaveSlots) {
  const LeasedGate gate = permits(2);
  EXPECT_EQ(acquire(gate, "a", 0s).slots, std::vector<std::uint64_t>{0});
  EXPECT_EQ(acquire(gate, "b", 0s).slots, std::vector<std::uint64_t>{1});
  EXPECT_FALSE(acquire(gate, "c", 0s).acquired);
}

TEST_F(LeasedGates, SessionsAndLeasesShareAGate) {
  Process& one = process(1);
  DurableHold hold = GateProcesses::acquire(one, "g");
  const LeasedGate gate = one.gates->mutex("g").leased();
  EXPECT_EQ(acquire(gate, "far future", 24h * 365).position, 0)
      << "a session is judged by the store's clock, whatever time is given";
  EXPECT_TRUE(hold.valid());
  EXPECT_TRUE(GateProcesses::release(one, hold));
  EXPECT_EQ(inspect("g").holders.at(0).holder, "far future");
  auto waits = ask(one, "g");
  EXPECT_FALSE(waits.ended());
  const LeasedGrant grant = acquire(gate, "far future", 24h * 365);
  EXPECT_TRUE(release(gate, "far future", grant.fence, 24h * 365));
  settle();
  EXPECT_TRUE(waits.ended()) << "a session is woken by it";
}

TEST_F(LeasedGates, ASessionTakesOverFromALeaseThatRanOut) {
  Process& one = process(1);
  const LeasedGate gate(*store_, "g");
  const StoreTime now = sync_wait(observer_, store_->time());
  const LeasedGrant grant =
      sync_wait(observer_, gate.try_acquire({.holder = "a", .now = now, .lease = 10s}));
  auto waits = ask(one, "g");
  advance(9s);
  EXPECT_FALSE(waits.ended());
  advance(2s);
  ASSERT_TRUE(waits.ended());
  EXPECT_GT(waits.get().fence(), grant.fence);
}

TEST_F(LeasedGates, WhatCannotBeIsRefusedBeforeAnythingIsWritten) {
  GateDefinition none;
  none.capacity = 0;
  EXPECT_THROW(LeasedGate(*store_, "g", none), InvalidArgument);
  EXPECT_THROW(LeasedGate(*store_, ""), InvalidArgument);
  const LeasedGate gate(*store_, "g");
  EXPECT_THROW(static_cast<void>(acquire(gate, "a", 0s, 0s)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(acquire(gate, "a", 0s, -1s)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(acquire(gate, "", 0s)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(release(gate, "a", 0, 0s)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(renew(gate, "a", 1, 0s, 0s)), InvalidArgument);
  EXPECT_FALSE(sync_wait(observer_, gate.inspect()));
  EXPECT_TRUE(sync_wait(observer_, store_->scan("")).entries.empty());
}

TEST_F(LeasedGates, AnotherDefinitionIsTold) {
  acquire(permits(2), "a", 0s);
  const LeasedGate other = permits(3);
  EXPECT_THROW(static_cast<void>(acquire(other, "b", 0s)), DefinitionMismatch);
}

/// Holders of two processes at one gate, with clocks of their own making, in any order: never more
/// than the capacity, and fences that only grow.
TEST_F(LeasedGates, NeverMoreThanTheCapacity) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::minstd_rand random(static_cast<std::minstd_rand::result_type>(seed));
    const std::string name = std::string("g").append(std::to_string(seed));
    GateDefinition definition;
    definition.capacity = 2;
    const auto other_store = open_memory_store(disk_);
    const LeasedGate gates[] = {{*store_, name, definition}, {*other_store, name, definition}};
    const char* holders[] = {"a", "b", "c", "d", "e"};
    std::uint64_t fences[5] = {};
    Duration until[5] = {};
    std::uint64_t greatest = 0;
    Duration now = 0s;
    for (int step = 0; step < 200; ++step) {
      now += Duration(random() % 2'000'000'000);
      const std::size_t i = random() % 5;
      const LeasedGate& gate = gates[random() % 2];
      switch (random() % 3) {
        case 0: {
          const LeasedGrant grant = acquire(gate, holders[i], now, 5s);
          if (grant.acquired) {
            if (until[i] <= now || grant.fence != fences[i]) {
              EXPECT_TRUE(grant.fence > greatest || grant.fence != fences[i]);
            }
            greatest = std::max(greatest, grant.fence);
            fences[i] = grant.fence;
            until[i] = now + 5s;
          } else {
            EXPECT_LE(until[i], now) << "it was put out before its time";
          }
          break;
        }
        case 1: {
          const bool released = fences[i] != 0 && release(gate, holders[i], fences[i], now);
          EXPECT_EQ(released, until[i] > now);
          until[i] = 0s;
          break;
        }
        default: {
          const bool renewed = fences[i] != 0 && renew(gate, holders[i], fences[i], now, 5s);
          EXPECT_EQ(renewed, until[i] > now);
          until[i] = renewed ? now + 5s : 0s;
        }
      }
      EXPECT_LE(std::ranges::count_if(until, [&](Duration end) { return end > now; }), 2);
      const GateInfo info = inspect(name);
      EXPECT_LE(info.holders.size(), 2U);
    }
  }
}

}  // namespace
}  // namespace holdfast
