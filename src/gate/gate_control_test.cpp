// SPDX-License-Identifier: Apache-2.0
// What operators do, and what is kept of it and of holds that have ended.
#include <holdfast/gate_control.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <holdfast/error.hpp>
#include <holdfast/gate_inspection.hpp>
#include <holdfast/gates.hpp>

#include "gate_processes.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;

constexpr OperatorNote kNote{.by = "ada", .reason = "a test"};

class GateControls : public GateProcesses {
 protected:
  template <typename T>
  T operate(Task<T> task) {
    if constexpr (std::is_void_v<T>) {
      sync_wait(observer_, std::move(task));
      settle();
    } else {
      T result = sync_wait(observer_, std::move(task));
      settle();
      return result;
    }
  }
  Spawned<DurableHold> ask_permit(Process& in, const AcquireOptions& options = {}) {
    return start(in, in.gates->semaphore("pool", 2).acquire(options));
  }
  std::vector<OperatorChangeInfo> changes(const char* name) {
    return sync_wait(observer_, operator_changes(*store_, name));
  }
  std::vector<GateGrantInfo> history(const char* name) {
    return sync_wait(observer_, gate_history(*store_, name));
  }

  GateControl control_{*store_};
};

TEST_F(GateControls, MoreCapacityLetsWaitersInAtOnce) {
  Process& one = process(1);
  auto a = ask_permit(one);
  auto b = ask_permit(one);
  auto c = ask_permit(one);
  auto d = ask_permit(one);
  ASSERT_FALSE(c.ended());
  operate(control_.set_capacity("pool", 4, kNote));
  EXPECT_TRUE(c.ended()) << "woken by the operator's commit";
  EXPECT_TRUE(d.ended());
  EXPECT_EQ(inspect("pool").capacity, 4U);
  EXPECT_EQ(inspect("pool").definition.capacity, 2U) << "what programs say stays as it was";
  ASSERT_EQ(changes("pool").size(), 1U);
  EXPECT_EQ(changes("pool")[0].what, "capacity 2 -> 4");
  EXPECT_EQ(changes("pool")[0].by, "ada");
  EXPECT_EQ(changes("pool")[0].reason, "a test");
}

TEST_F(GateControls, LessCapacityPutsNobodyOut) {
  Process& one = process(1);
  auto a = ask_permit(one);
  auto b = ask_permit(one);
  operate(control_.set_capacity("pool", 1, kNote));
  DurableHold first = a.get();
  DurableHold second = b.get();
  EXPECT_TRUE(first.valid());
  EXPECT_TRUE(second.valid());
  auto c = ask_permit(one);
  EXPECT_TRUE(release(one, first));
  EXPECT_FALSE(c.ended()) << "one is in, and there is room for one";
  EXPECT_TRUE(release(one, second));
  EXPECT_TRUE(c.ended());
  operate(control_.set_capacity("pool", std::nullopt, kNote));
  EXPECT_EQ(inspect("pool").capacity, 2U) << "as it is defined";
}

TEST_F(GateControls, WhoPausedItLetsNobodyInUntilItIsResumed) {
  Process& one = process(1);
  auto a = ask_permit(one);
  operate(control_.pause("pool", kNote));
  auto b = ask_permit(one);
  EXPECT_FALSE(b.ended());
  ASSERT_EQ(inspect("pool").waiters.size(), 1U);
  EXPECT_EQ(inspect("pool").waiters[0].why.kind, WhyNot::Kind::kPaused);
  EXPECT_TRUE(inspect("pool").paused);
  operate(control_.resume("pool", kNote));
  EXPECT_TRUE(b.ended());
}

TEST_F(GateControls, WhatIsDrainedRefusesWhoeverComes) {
  Process& one = process(1);
  auto a = ask_permit(one, {.weight = 2});
  auto waiting = ask_permit(one);
  operate(control_.drain("pool", kNote));
  auto late = ask_permit(one);
  ASSERT_TRUE(late.ended());
  EXPECT_THROW(static_cast<void>(late.get()), QueueFull);
  DurableHold hold = a.get();
  EXPECT_TRUE(release(one, hold));
  EXPECT_FALSE(waiting.ended());
  EXPECT_TRUE(inspect("pool").holders.empty()) << "now it can be mended";
  operate(control_.resume("pool", kNote));
  EXPECT_TRUE(waiting.ended());
}

TEST_F(GateControls, ABrokenSlotIsGivenToNobody) {
  Process& one = process(1);
  auto a = ask_permit(one);
  DurableHold hold = a.get();
  ASSERT_EQ(hold.slots(), std::vector<std::uint64_t>{0});
  operate(control_.disable_slot("pool", 0, kNote));
  EXPECT_TRUE(hold.valid()) << "who has it keeps it";
  EXPECT_TRUE(release(one, hold));
  auto b = ask_permit(one);
  DurableHold other = b.get();
  EXPECT_EQ(other.slots(), std::vector<std::uint64_t>{1});
  auto c = ask_permit(one);
  EXPECT_FALSE(c.ended());
  EXPECT_EQ(inspect("pool").disabled_slots, std::vector<std::uint64_t>{0});
  EXPECT_THROW(operate(control_.disable_slot("pool", 1, kNote)), InvalidArgument) << "the last one";
  operate(control_.enable_slot("pool", 0, kNote));
  ASSERT_TRUE(c.ended());
  EXPECT_EQ(c.get().slots(), std::vector<std::uint64_t>{0});
}

TEST_F(GateControls, AHoldCanBeEndedByForce) {
  Process& one = process(1);
  Process& two = process(2);
  DurableHold stuck = acquire(one, "m", {.holder = "stuck job"});
  auto next = ask(two, "m");
  const auto ended = operate(control_.force_release("m", stuck.fence(), kNote));
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->holder, "stuck job");
  EXPECT_EQ(ended->fence, stuck.fence());
  ASSERT_TRUE(next.ended());
  EXPECT_GT(next.get().fence(), stuck.fence());
  Batch batch;
  stuck.guard(batch).put("resource", "stale");
  EXPECT_NE(commit(std::move(batch)).fenced(), nullptr) << "its fence is refused";
  EXPECT_FALSE(release(one, stuck)) << "and its release says so";
  ASSERT_GE(history("m").size(), 1U);
  const GateGrantInfo last = history("m").back();
  EXPECT_EQ(last.end, GateGrantInfo::End::kForced);
  EXPECT_EQ(last.ended_by, "ada");
  EXPECT_EQ(last.reason, "a test");
  EXPECT_FALSE(operate(control_.force_release("m", stuck.fence(), kNote))) << "nothing any more";
}

TEST_F(GateControls, AHoldThatEndsBeforeItIsSeenIsTold) {
  Process& one = process(1);
  Process& two = process(2);
  DurableHold first = acquire(one, "m");
  auto second = ask(two, "m");
  two.stopped = true;
  EXPECT_TRUE(release(one, first));
  ASSERT_EQ(inspect("m").holders.size(), 1U);
  ASSERT_TRUE(operate(control_.force_release("m", inspect("m").holders[0].fence, kNote)));
  two.stopped = false;
  advance(5s);
  ASSERT_TRUE(second.ended()) << "it would wait for ever";
  EXPECT_THROW(static_cast<void>(second.get()), Dropped);
}

TEST_F(GateControls, AForcedEndOfALeaseLeavesNothing) {
  const LeasedGate gate(*store_, "m");
  const LeasedGrant grant = sync_wait(
      observer_, gate.try_acquire({.holder = "a", .now = StoreTime(1h), .lease = 24h * 365}));
  ASSERT_TRUE(operate(control_.force_release("m", grant.fence, kNote)));
  EXPECT_TRUE(sync_wait(observer_, store_->scan("gate/m/lease/")).entries.empty());
}

TEST_F(GateControls, WhatIsSoAlreadyIsNoChange) {
  Process& one = process(1);
  auto a = ask_permit(one);
  const Version before = sync_wait(observer_, store_->stats()).last_version;
  operate(control_.resume("pool", kNote));
  operate(control_.set_capacity("pool", 2, kNote));
  operate(control_.enable_slot("pool", 1, kNote));
  operate(control_.keep_grants_for("pool", kGateGrantsKeptFor, kNote));
  EXPECT_TRUE(changes("pool").empty());
  EXPECT_EQ(sync_wait(observer_, store_->stats()).last_version, before);
}

TEST_F(GateControls, BadInputChangesNothing) {
  Process& one = process(1);
  auto a = ask_permit(one);
  const Version before = sync_wait(observer_, store_->stats()).last_version;
  EXPECT_THROW(operate(control_.pause("nowhere", kNote)), NoSuchGate);
  EXPECT_THROW(operate(control_.set_capacity("pool", 0, kNote)), InvalidArgument);
  EXPECT_THROW(operate(control_.set_capacity("pool", kGateCapacityMax + 1, kNote)),
               InvalidArgument);
  EXPECT_THROW(operate(control_.disable_slot("pool", 2, kNote)), InvalidArgument);
  EXPECT_THROW(operate(control_.keep_grants_for("pool", Duration::zero(), kNote)), InvalidArgument);
  EXPECT_THROW(operate(control_.pause("pool", {.by = ""})), InvalidArgument);
  auto read = start(one, one.gates->shared_mutex("rw").acquire_shared());
  EXPECT_THROW(operate(control_.disable_slot("rw", 0, kNote)), InvalidArgument);
  EXPECT_TRUE(changes("pool").empty());
  EXPECT_FALSE(inspect("pool").paused);
  EXPECT_EQ(inspect("pool").capacity, 2U);
  EXPECT_GT(sync_wait(observer_, store_->stats()).last_version, before) << "by the reader alone";
}

TEST_F(GateControls, AnOperatorTakesOverFromTheDeadOnTheWay) {
  Process& one = process(1);
  Process& two = process(2);
  DurableHold dead = acquire(one, "m");
  auto next = ask(two, "m");
  operate(control_.pause("m", kNote));
  one.stopped = true;
  advance(2 * kTtl);
  ASSERT_FALSE(next.ended());
  operate(control_.resume("m", kNote));
  EXPECT_TRUE(next.ended());
}

TEST_F(GateControls, HistoryTellsHowHoldsEnded) {
  Process& one = process(1);
  Process& two = process(2);
  DurableHold first = acquire(one, "m", {.holder = "first", .reason = "because"});
  advance(3s);
  auto second = ask(two, "m", {.holder = "second"});
  advance(2s);
  EXPECT_TRUE(release(one, first));
  two.stopped = true;
  auto third = ask(one, "m", {.holder = "third"});
  advance(2 * kTtl);
  ASSERT_TRUE(third.ended());
  const auto grants = history("m");
  ASSERT_EQ(grants.size(), 2U);
  EXPECT_EQ(grants[1].holder, "first");
  EXPECT_EQ(grants[1].number, 0U);
  EXPECT_EQ(grants[1].reason, "because");
  EXPECT_EQ(grants[1].end, GateGrantInfo::End::kReleased);
  EXPECT_EQ(grants[1].ended_at - grants[1].granted_at, 5s);
  EXPECT_EQ(grants[0].holder, "second");
  EXPECT_EQ(grants[0].granted_at - grants[0].asked_at, 2s);
  EXPECT_EQ(grants[0].end, GateGrantInfo::End::kExpired);
  EXPECT_EQ(to_string(grants[0].end), "expired");
}

TEST_F(GateControls, HistoryIsKeptForItsTimeAndInItsNumber) {
  Process& one = process(1);
  const auto use = [&] {
    DurableHold hold = acquire(one, "m");
    release(one, hold);
  };
  for (int i = 0; i < 10; ++i) {
    use();
  }
  operate(control_.keep_grants_for("m", 1h, kNote));
  EXPECT_EQ(inspect("m").grants_kept_for, 1h);
  advance(59min);
  use();
  EXPECT_EQ(history("m").size(), 11U);
  advance(2min);
  use();
  use();
  auto kept = history("m");
  ASSERT_EQ(kept.size(), 3U) << "the first ten are older than an hour";
  EXPECT_EQ(kept.back().number, 10U);
  advance(2h);
  use();
  kept = history("m");
  ASSERT_EQ(kept.size(), 1U) << "all but the one that ended just now";
  EXPECT_EQ(kept[0].number, 13U);
  for (std::uint64_t i = 0; i < kGateGrantsKept + 5; ++i) {
    use();
  }
  kept = history("m");
  EXPECT_EQ(kept.size(), kGateGrantsKept);
  EXPECT_EQ(kept.front().number, 14U + kGateGrantsKept + 4);
  EXPECT_EQ(kept.back().number, kept.front().number - (kGateGrantsKept - 1));
  advance(2h);
  for (std::uint64_t i = 0; i < kGateGrantsKept / 4; ++i) {
    use();
  }
  EXPECT_EQ(history("m").size(), kGateGrantsKept / 4) << "a few go with each commit";
}

// --- Several at once -----------------------------------------------------------------------------

class SeveralGates : public GateControls {};

Task<std::vector<std::uint64_t>> fences_of_both(DurableMutex a, DurableMutex b) {
  std::vector<DurableRequest> requests{b.request(), a.request()};
  std::vector<DurableHold> holds = co_await acquire_all(std::move(requests));
  std::vector<std::uint64_t> fences;
  for (DurableHold& hold : holds) {
    fences.push_back(hold.fence());
  }
  for (DurableHold& hold : holds) {
    static_cast<void>(co_await hold.release());
  }
  co_return fences;
}

TEST_F(SeveralGates, AllAreTakenInTheOrderOfTheirNames) {
  Process& one = process(1);
  const auto fences = run(one, fences_of_both(one.gates->mutex("a"), one.gates->mutex("b")));
  ASSERT_EQ(fences.size(), 2U);
  EXPECT_GT(fences[0], fences[1]) << "b was asked for first, and a taken first";
}

TEST_F(SeveralGates, ATimeOutGivesBackWhatWasTaken) {
  Process& one = process(1);
  DurableHold b = acquire(one, "b");
  std::vector<DurableRequest> requests{one.gates->mutex("a").request(),
                                       one.gates->mutex("b").request()};
  auto waits = start(one, acquire_all(std::move(requests), {.timeout = 10s}));
  EXPECT_EQ(inspect("a").holders.size(), 1U);
  advance(10s);
  ASSERT_TRUE(waits.ended());
  EXPECT_THROW(static_cast<void>(waits.get()), TimedOut);
  settle();
  EXPECT_TRUE(inspect("a").holders.empty());
  EXPECT_EQ(inspect("b").holders.size(), 1U);
  EXPECT_EQ(inspect("b").waiter_count, 0U);
}

TEST_F(SeveralGates, AllOrNothingAtOnce) {
  Process& one = process(1);
  DurableHold b = acquire(one, "b");
  const auto try_both = [&] {
    std::vector<DurableRequest> requests{one.gates->mutex("a").request(),
                                         one.gates->mutex("b").request()};
    return run(one, try_acquire_all(std::move(requests)));
  };
  EXPECT_FALSE(try_both());
  EXPECT_TRUE(inspect("a").holders.empty());
  EXPECT_TRUE(release(one, b));
  const auto both = try_both();
  ASSERT_TRUE(both);
  EXPECT_EQ((*both)[1].name(), "b");
}

TEST_F(SeveralGates, ReadersWeightsAndTheSameTwice) {
  Process& one = process(1);
  std::vector<DurableRequest> requests{one.gates->semaphore("pool", 4).request(3),
                                       one.gates->shared_mutex("rw").shared_request()};
  const auto holds = run(one, acquire_all(std::move(requests)));
  EXPECT_EQ(holds[0].slots().size(), 3U);
  EXPECT_TRUE(inspect("rw").holders.at(0).shared);
  std::vector<DurableRequest> twice{one.gates->mutex("a").request(),
                                    one.gates->mutex("a").request()};
  EXPECT_THROW(static_cast<void>(run(one, acquire_all(std::move(twice)))), InvalidArgument);
  EXPECT_FALSE(sync_wait(observer_, inspect_gate(*store_, "a")));
}

}  // namespace
}  // namespace holdfast
