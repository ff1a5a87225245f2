// SPDX-License-Identifier: Apache-2.0
// The rules of a gate, on rows in a map, against a plain model that does everything the slow way.
#include "gate_rules.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gate_in_a_table.hpp"

namespace holdfast::detail {
namespace {

using testing::at;
using testing::Gate;
using testing::permits;
using testing::request;

using Names = std::vector<std::string>;

TEST(GateRules, TheFirstIsLetInAndTheOthersWaitInTheirOrder) {
  Gate gate(permits(1));
  gate.live_until(1, 100);
  const Asked first = gate.ask(request(1, "a"), 0);
  EXPECT_EQ(first.outcome, Asked::Outcome::kHeld);
  EXPECT_EQ(gate.ask(request(1, "b"), 1).outcome, Asked::Outcome::kWaits);
  EXPECT_EQ(gate.ask(request(1, "c"), 2).outcome, Asked::Outcome::kWaits);
  EXPECT_EQ(gate.waiters(), (Names{"b", "c"}));
  EXPECT_TRUE(gate.release(first.key, 3));
  EXPECT_EQ(gate.holders(), Names{"b"}) << "release is a grant";
  EXPECT_FALSE(gate.release(first.key, 4)) << "a late release frees nothing";
  EXPECT_EQ(gate.holders(), Names{"b"});
}

TEST(GateRules, EachFenceIsGreaterThanAllBefore) {
  Gate gate(permits(1));
  gate.live_until(1, 1'000);
  Version last = 0;
  for (int i = 0; i < 10; ++i) {
    const Asked asked = gate.ask(request(1, std::to_string(i)), i);
    EXPECT_GT(gate.fence(asked.key), last);
    last = gate.fence(asked.key);
    EXPECT_TRUE(gate.release(asked.key, i));
  }
}

TEST(GateRules, WhatIsKeptOfPastGrantsIsBounded) {
  Gate gate(permits(1));
  gate.live_until(1, 1'000);
  const int count = static_cast<int>(kGateGrantsKept) + 10;
  for (int i = 0; i < count; ++i) {
    ASSERT_TRUE(gate.release(gate.ask(request(1, std::to_string(i)), 0).key, 0));
  }
  std::set<std::string> kept;
  for (const record::GateGrant& grant : gate.ended()) {
    kept.insert(grant.holder());
  }
  EXPECT_EQ(kept.size(), kGateGrantsKept);
  EXPECT_TRUE(kept.contains(std::to_string(count - 1)));
  EXPECT_FALSE(kept.contains("9")) << "the oldest go first";
}

TEST(GateRules, AskedAgainItIsTheSame) {
  Gate gate(permits(2));
  gate.live_until(1, 100);
  const Asked first = gate.ask(request(1, "a"), 0);
  const Version fence = gate.fence(first.key);
  EXPECT_EQ(gate.ask(request(1, "a"), 1).outcome, Asked::Outcome::kHeld);
  EXPECT_EQ(gate.fence(first.key), fence);
  EXPECT_EQ(gate.holders(), Names{"a"});
}

TEST(GateRules, ALeaseIsOverAtItsVeryEndAndNotBefore) {
  Gate gate(permits(1));
  gate.live_until(1, 50);
  gate.live_until(2, 100);
  ASSERT_EQ(gate.ask(request(1, "dies"), 0).outcome, Asked::Outcome::kHeld);
  const Asked waits = gate.ask(request(2, "next"), 49);
  EXPECT_EQ(waits.outcome, Asked::Outcome::kWaits);
  EXPECT_EQ(waits.served.look_again_at, at(50));
  EXPECT_TRUE(gate.serve(49).admitted.empty());
  EXPECT_EQ(gate.serve(50).admitted.size(), 1U);
  EXPECT_EQ(gate.holders(), Names{"next"});
  ASSERT_EQ(gate.ended().size(), 1U);
  EXPECT_EQ(gate.ended()[0].end(), record::GateGrant::EXPIRED);
  EXPECT_FALSE(gate.has_row(1)) << "a renewal that was on its way would revive it";
}

TEST(GateRules, ADeadWaiterAtTheFrontIsPassedOver) {
  Gate gate(permits(1));
  gate.live_until(1, 100);
  gate.live_until(2, 10);
  const Asked first = gate.ask(request(1, "a"), 0);
  gate.ask(request(2, "dies"), 1);
  gate.ask(request(1, "b"), 2);
  EXPECT_TRUE(gate.has_row(2));
  EXPECT_TRUE(gate.release(first.key, 10));
  EXPECT_EQ(gate.holders(), Names{"b"});
  EXPECT_TRUE(gate.waiters().empty());
  EXPECT_FALSE(gate.has_row(2)) << "a renewal that was on its way would revive it";
}

TEST(GateRules, WhoIsTooLateIsNotLetIn) {
  Gate gate(permits(1));
  gate.live_until(1, 100);
  const Asked first = gate.ask(request(1, "a"), 0);
  GateRequest hurried = request(1, "b");
  hurried.deadline = at(5);
  gate.ask(hurried, 1);
  gate.ask(request(1, "c"), 2);
  EXPECT_TRUE(gate.release(first.key, 5));
  EXPECT_EQ(gate.holders(), Names{"c"});
}

TEST(GateRules, PriorityGoesFirstButNotForEver) {
  Gate gate(permits(1));
  gate.live_until(1, 100'000);
  std::string held = gate.ask(request(1, "first"), 0).key;
  gate.ask(request(1, "patient"), 1);
  std::uint64_t overtakes = 0;
  for (int i = 0; i < 1'000; ++i) {
    GateRequest urgent = request(1, std::to_string(i));
    urgent.priority = 1;
    gate.ask(urgent, 2);
    EXPECT_TRUE(gate.release(held, 3));
    if (gate.holders() == Names{"patient"}) {
      break;
    }
    held = gate.any_holder_key();
    ++overtakes;
  }
  EXPECT_LE(overtakes, kGateOvertakesPerStep);
  EXPECT_GE(overtakes, kGateOvertakesPerStep - 1);
}

TEST(GateRules, OneThatMayNotWaitKeepsNobodyFromGoingIn) {
  Gate gate(permits(2));
  gate.live_until(1, 100);
  gate.live_until(2, 10);
  gate.ask(request(1, "stays"), 0);
  gate.ask(request(2, "dies"), 1);
  gate.ask(request(1, "next"), 2);
  GateRequest both = request(1, "both");
  both.weight = 2;
  both.priority = 1;
  both.queue_max = 0;
  const Asked asked = gate.ask(both, 10);
  EXPECT_EQ(asked.outcome, Asked::Outcome::kRefused);
  EXPECT_EQ(asked.served.admitted.size(), 1U);
  EXPECT_EQ(gate.holders(), (Names{"next", "stays"})) << "it was not kept by one who did not wait";
  EXPECT_TRUE(gate.waiters().empty());
}

TEST(GateRules, AHeavyOneAtTheFrontKeepsLightOnesFromPassing) {
  Gate gate(permits(3));
  gate.live_until(1, 100);
  GateRequest two = request(1, "two");
  two.weight = 2;
  const Asked first = gate.ask(two, 0);
  GateRequest three = request(1, "three");
  three.weight = 3;
  EXPECT_EQ(gate.ask(three, 1).outcome, Asked::Outcome::kWaits);
  const Asked light = gate.ask(request(1, "light"), 2);
  EXPECT_EQ(light.outcome, Asked::Outcome::kWaits);
  EXPECT_EQ(light.why->kind, WhyNot::Kind::kBehind);
  EXPECT_TRUE(gate.release(first.key, 3));
  EXPECT_EQ(gate.holders(), Names{"three"});
}

TEST(GateRules, AWriterWaitsForReadersAndLaterReadersForTheWriter) {
  GateDefinition definition = permits(10);
  definition.kind = GateDefinition::Kind::kReadWrite;
  Gate gate(definition);
  gate.live_until(1, 100);
  const auto reader = [&](const std::string& name) {
    GateRequest shared = request(1, name);
    shared.shared = true;
    return shared;
  };
  const Asked one = gate.ask(reader("r1"), 0);
  const Asked two = gate.ask(reader("r2"), 0);
  EXPECT_EQ(two.outcome, Asked::Outcome::kHeld);
  EXPECT_EQ(gate.ask(request(1, "w"), 1).outcome, Asked::Outcome::kWaits);
  EXPECT_EQ(gate.ask(reader("r3"), 2).outcome, Asked::Outcome::kWaits) << "the writer came first";
  gate.ask(reader("r4"), 2);
  gate.release(one.key, 3);
  EXPECT_EQ(gate.holders(), Names{"r2"});
  gate.release(two.key, 3);
  EXPECT_EQ(gate.holders(), Names{"w"});
  gate.release(gate.any_holder_key(), 4);
  EXPECT_EQ(gate.holders(), (Names{"r3", "r4"})) << "readers go in together";
}

TEST(GateRules, ShrinkingRevokesNothingAndGrowingLetsIn) {
  Gate gate(permits(2));
  gate.live_until(1, 100);
  const Asked a = gate.ask(request(1, "a"), 0);
  const Asked b = gate.ask(request(1, "b"), 0);
  gate.ask(request(1, "c"), 1);
  gate.set(2, [](record::GateHead& head) { head.set_capacity_override(1); });
  EXPECT_EQ(gate.holders(), (Names{"a", "b"}));
  gate.release(a.key, 3);
  EXPECT_EQ(gate.holders(), Names{"b"}) << "one is enough now";
  gate.set(4, [](record::GateHead& head) { head.set_capacity_override(3); });
  EXPECT_EQ(gate.holders(), (Names{"b", "c"}));
  EXPECT_EQ(gate.rows().holders().size(), 2U);
  EXPECT_TRUE(gate.release(b.key, 5));
}

TEST(GateRules, WhoIsTooHeavyForNowIsPassedOverUntilThereIsMore) {
  Gate gate(permits(2));
  gate.live_until(1, 100);
  const Asked a = gate.ask(request(1, "a"), 0);
  GateRequest heavy = request(1, "heavy");
  heavy.weight = 2;
  gate.ask(heavy, 1);
  gate.set(2, [](record::GateHead& head) { head.set_capacity_override(1); });
  gate.release(a.key, 3);
  EXPECT_TRUE(gate.holders().empty());
  EXPECT_EQ(gate.ask(request(1, "light"), 4).outcome, Asked::Outcome::kHeld);
  gate.release(gate.any_holder_key(), 5);
  gate.set(6, [](record::GateHead& head) { head.set_capacity_override(0); });
  EXPECT_EQ(gate.holders(), Names{"heavy"});
}

TEST(GateRules, SlotsAreTheLowestFreeAndNoneThatIsDisabled) {
  Gate gate(permits(3));
  gate.live_until(1, 100);
  gate.set(0, [](record::GateHead& head) { head.add_disabled_slots(1); });
  const auto slots_of = [&](const Asked& asked) {
    const GateRows rows = gate.rows();
    const auto& slots = rows.holders().at(asked.key).slots;
    return std::vector<std::uint64_t>(slots.begin(), slots.end());
  };
  const Asked a = gate.ask(request(1, "a"), 1);
  const Asked b = gate.ask(request(1, "b"), 1);
  EXPECT_EQ(slots_of(a), std::vector<std::uint64_t>{0});
  EXPECT_EQ(slots_of(b), std::vector<std::uint64_t>{2});
  EXPECT_EQ(gate.ask(request(1, "c"), 2).outcome, Asked::Outcome::kWaits);
  gate.release(a.key, 3);
  const GateRows rows = gate.rows();
  std::set<std::uint64_t> taken;
  for (const auto& [key, holder] : rows.holders()) {
    taken.insert(holder.slots.begin(), holder.slots.end());
  }
  EXPECT_EQ(taken, (std::set<std::uint64_t>{0, 2}));
}

TEST(GateRules, BySeedAnyFreeSlotIsGivenAndNoneThatIsDisabledTakenOrBeyondTheCapacity) {
  std::set<std::uint64_t> given;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Gate gate(permits(6));
    gate.live_until(1, 100);
    ASSERT_EQ(gate.ask(request(1, "lowest"), 1).outcome, Asked::Outcome::kHeld);
    gate.set(2, [](record::GateHead& head) {
      head.add_disabled_slots(2);
      head.set_capacity_override(5);
    });
    GateRequest any = request(1, "any");
    any.weight = 2;
    any.slot_seed = seed;
    const Asked asked = gate.ask(any, 3);
    ASSERT_EQ(asked.outcome, Asked::Outcome::kHeld);
    const GateRows rows = gate.rows();
    const auto& slots = rows.holders().at(asked.key).slots;
    EXPECT_NE(slots[0], slots[1]);
    given.insert(slots.begin(), slots.end());
  }
  EXPECT_EQ(given, (std::set<std::uint64_t>{1, 3, 4}));
}

TEST(GateRules, ASeedIsKeptWhileItWaitsAndSlotsBeyondALoweredCapacityAreInNobodysWay) {
  Gate gate(permits(4));
  gate.live_until(1, 100);
  const Asked low = gate.ask(request(1, "0"), 1);
  ASSERT_EQ(gate.ask(request(1, "1"), 1).outcome, Asked::Outcome::kHeld);
  const Asked high = gate.ask(request(1, "2"), 1);
  gate.set(2, [](record::GateHead& head) { head.set_capacity_override(2); });
  GateRequest any = request(1, "any");
  any.slot_seed = 1;
  ASSERT_EQ(gate.ask(any, 3).outcome, Asked::Outcome::kWaits);
  EXPECT_TRUE(gate.release(low.key, 4));
  EXPECT_EQ(gate.waiters(), Names{"any"}) << "there are still two";
  EXPECT_TRUE(gate.release(high.key, 5));
  const GateRows rows = gate.rows();
  const std::string key = rows.keys().holder(any.asker->owner, any.request_id);
  ASSERT_TRUE(rows.holders().contains(key));
  EXPECT_EQ(rows.holders().at(key).slots.at(0), 0U) << "the only one below the capacity";
}

TEST(GateRules, ARateLetsInABurstAndThenOneByOne) {
  GateDefinition definition = permits(100);
  definition.rate_count = 2;
  definition.rate_period = Duration(100);
  Gate gate(definition);
  gate.live_until(1, 10'000);
  EXPECT_EQ(gate.ask(request(1, "a"), 1'000).outcome, Asked::Outcome::kHeld);
  EXPECT_EQ(gate.ask(request(1, "b"), 1'000).outcome, Asked::Outcome::kHeld);
  const Asked third = gate.ask(request(1, "c"), 1'000);
  EXPECT_EQ(third.outcome, Asked::Outcome::kWaits);
  EXPECT_EQ(third.why->kind, WhyNot::Kind::kRate);
  EXPECT_EQ(third.served.look_again_at, at(1'050));
  EXPECT_TRUE(gate.serve(1'049).admitted.empty());
  EXPECT_EQ(gate.serve(1'050).admitted.size(), 1U);
}

TEST(GateRules, ABoundedQueueRefusesOneTooManyAndKeepsTheOthers) {
  Gate gate(permits(1));
  gate.live_until(1, 100);
  gate.ask(request(1, "a"), 0);
  GateRequest bounded = request(1, "b");
  bounded.queue_max = 1;
  EXPECT_EQ(gate.ask(bounded, 1).outcome, Asked::Outcome::kWaits);
  bounded = request(1, "c");
  bounded.queue_max = 1;
  const Asked refused = gate.ask(bounded, 2);
  EXPECT_EQ(refused.outcome, Asked::Outcome::kRefused);
  EXPECT_EQ(refused.why->kind, WhyNot::Kind::kFull);
  EXPECT_EQ(gate.waiters(), Names{"b"});
}

TEST(GateRules, PausedItLetsNobodyInAndDrainedNobodyWaits) {
  Gate gate(permits(1));
  gate.live_until(1, 100);
  gate.set(0, [](record::GateHead& head) { head.set_paused(true); });
  EXPECT_EQ(gate.ask(request(1, "a"), 1).why->kind, WhyNot::Kind::kPaused);
  gate.set(2, [](record::GateHead& head) {
    head.set_paused(false);
    head.set_draining(true);
  });
  EXPECT_EQ(gate.ask(request(1, "b"), 3).outcome, Asked::Outcome::kRefused);
  gate.set(4, [](record::GateHead& head) { head.set_draining(false); });
  EXPECT_EQ(gate.holders(), Names{"a"});
}

TEST(GateRules, AnotherDefinitionIsRefusedAndChangesNothing) {
  Gate gate(permits(1));
  gate.live_until(1, 100);
  gate.ask(request(1, "a"), 0);
  GateRows rows = gate.rows();
  EXPECT_THROW(define(rows, permits(2)), DefinitionMismatch);
  EXPECT_FALSE(rows.changed());
}

TEST(GateRules, WhatCanNeverBeIsRefusedAtOnce) {
  Gate gate(permits(2));
  GateRequest heavy = request(1, "a");
  heavy.weight = 3;
  EXPECT_THROW(gate.ask(heavy, 0), Unsatisfiable);
  heavy.weight = 0;
  EXPECT_THROW(gate.ask(heavy, 0), InvalidArgument);
  GateRequest urgent = request(1, "a");
  urgent.priority = kGatePriorityMax + 1;
  EXPECT_THROW(gate.ask(urgent, 0), InvalidArgument);
  EXPECT_THROW(check_definition("x", permits(0)), InvalidArgument);
  EXPECT_FALSE(gate.rows().exists());
}

TEST(GateRules, ADamagedRowFailsClosed) {
  GateRows rows{GateKeys("x")};
  EXPECT_THROW(rows.read_head({"gate/x/head", "\xff\xff", 1}), StoreCorrupt);
  EXPECT_THROW(rows.read_holder({"gate/x/holder/1/a", "", 1}), StoreCorrupt);
  record::GateHead newer;
  newer.set_format(2);
  EXPECT_THROW(rows.read_head({"gate/x/head", newer.SerializeAsString(), 1}), NewerFormat);
}

}  // namespace
}  // namespace holdfast::detail
