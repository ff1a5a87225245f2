// SPDX-License-Identifier: Apache-2.0
// The code of a run between its waits, without a store.
#include "run_machine.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include <holdfast/workflow.hpp>

#include "run_by_hand.hpp"

namespace holdfast::detail {
namespace {

Task<boost::json::value> two_steps(Context& ctx, boost::json::value input) {
  auto first = ctx.run("first", [] { return 1; });
  const int one = co_await first;
  auto second = ctx.run("second", [] { return 2; });
  const int two = co_await second;
  co_return one + two + input.to_number<int>();
}

TEST(RunMachineTest, GoesFromWaitToWait) {
  Machine machine(two_steps, 10);
  Activated activated = machine.step(started());
  ASSERT_EQ(activated.steps.size(), 1U);
  EXPECT_EQ(activated.steps[0].name, "first");
  EXPECT_EQ(activated.steps[0].operation, 0U);
  EXPECT_FALSE(activated.end);
  activated = machine.step(ended(0, 5));
  ASSERT_EQ(activated.steps.size(), 1U);
  EXPECT_EQ(activated.steps[0].operation, 1U);
  activated = machine.step(ended(1, 6));
  ASSERT_TRUE(activated.end);
  EXPECT_EQ(activated.end->value, 21);
}

TEST(RunMachineTest, AReplayComesToTheSamePlace) {
  Machine machine(two_steps, 10);
  machine.step(started());
  machine.step(ended(0, 5));
  const Activated open = replay(machine.journal, two_steps, 10);
  ASSERT_EQ(open.steps.size(), 1U) << "what was under way is under way again";
  EXPECT_EQ(open.steps[0].name, "second");
  machine.step(ended(1, 6));
  const Activated all = replay(machine.journal, two_steps, 10);
  ASSERT_TRUE(all.end);
  EXPECT_EQ(all.end->value, 21);
}

TEST(RunMachineTest, OperationsGoOnFromTheMomentTheyAreMade) {
  const Body both = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    auto first = ctx.run("first", [] { return 1; });
    auto second = ctx.run("second", [] { return 2; });
    const int two = co_await second;
    const int one = co_await first;
    co_return 10 * two + one;
  };
  Machine machine(both);
  EXPECT_EQ(machine.step(started()).steps.size(), 2U);
  EXPECT_FALSE(machine.step(ended(0, 3)).end);
  EXPECT_EQ(machine.step(ended(1, 4)).end->value, 43);
}

TEST(RunMachineTest, AStepThatFailsThrows) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    auto pay = ctx.run("pay", [] { return 1; });
    std::string text;
    try {
      static_cast<void>(co_await pay);
    } catch (const StepFailed& error) {
      text = error.what();
    }
    co_return boost::json::value(text);
  };
  Machine machine(body);
  machine.step(started());
  EXPECT_EQ(machine.step(failed(0, "no money")).end->value, "no money");
}

TEST(RunMachineTest, WhatTheCodeThrowsIsTheEnd) {
  const Body body = [](Context&, boost::json::value) -> Task<boost::json::value> {
    throw std::runtime_error("broken");
    co_return nullptr;
  };
  Machine machine(body);
  const Activated activated = machine.step(started());
  ASSERT_TRUE(activated.end);
  EXPECT_THROW(std::rethrow_exception(activated.end->error), std::runtime_error);
}

Task<boost::json::value> wait_a_day(Context& ctx, boost::json::value) {
  co_await ctx.sleep(24h);
  co_return (ctx.now() - at(0s)) / 1h;
}

TEST(RunMachineTest, TimersHaveADueTimeAndNowIsThatOfTheActivation) {
  Machine machine(wait_a_day);
  const Activated activated = machine.step(started());
  ASSERT_EQ(activated.timers.size(), 1U);
  EXPECT_EQ(activated.timers[0].due, at(24h));
  EXPECT_EQ(machine.step(fired(0), 25h).end->value, 25);
  EXPECT_EQ(replay(machine.journal, wait_a_day).end->value, 25);
}

TEST(RunMachineTest, ASleepOfNothingIsOverAtOnce) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    co_await ctx.sleep(0s);
    co_await ctx.sleep(-1s);
    co_return true;
  };
  Machine machine(body);
  const Activated activated = machine.step(started());
  EXPECT_TRUE(activated.timers.empty());
  EXPECT_TRUE(activated.end);
}

TEST(RunMachineTest, SignalsAreKeptInTheirOrder) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    const auto first = co_await ctx.signal<std::string>("go");
    co_await ctx.sleep(1s);
    const auto second = co_await ctx.signal<std::string>("go");
    co_return boost::json::value(first + second);
  };
  Machine machine(body);
  machine.step(started());
  machine.step({signalled("other", "x"), signalled("go", "a"), signalled("go", "b")});
  EXPECT_EQ(machine.step(fired(1)).end->value, "ab") << "one that came early is kept";
  EXPECT_EQ(replay(machine.journal, body).end->value, "ab");
}

TEST(RunMachineTest, ASignalOfAnotherTypeFailsTheWait) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    const int number = co_await ctx.signal<int>("go");
    co_return number;
  };
  Machine machine(body);
  machine.step(started());
  const Activated activated = machine.step(signalled("go", "no number"));
  ASSERT_TRUE(activated.end);
  EXPECT_THROW(std::rethrow_exception(activated.end->error), BadPayload);
}

TEST(RunMachineTest, ACancelledWaitThrowsAndASignalThatComesLaterIsKept) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    bool cancelled = false;
    try {
      static_cast<void>(co_await ctx.signal<int>("go"));
    } catch (const Cancelled&) {
      cancelled = true;
    }
    co_return cancelled;
  };
  Machine machine(body);
  machine.step(started());
  EXPECT_EQ(machine.step(cancel()).end->value, true);
  EXPECT_EQ(replay(machine.journal, body).end->value, true);
}

Task<int> add(Context& ctx, int a, int b) {
  auto step = ctx.run("add", [&] { return a + b; });
  const int sum = co_await step;
  co_return sum;
}

TEST(RunMachineTest, PartsOfAWorkflowTakeTheContext) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    const int three = co_await add(ctx, 1, 2);
    const int seven = co_await add(ctx, three, 4);
    co_return seven;
  };
  Machine machine(body);
  machine.step(started());
  machine.step(ended(0, 3));
  EXPECT_EQ(machine.step(ended(1, 7)).end->value, 7);
}

TEST(RunMachineTest, ATaskWithoutTheContextIsRefused) {
  const Body body = [](Context&, boost::json::value) -> Task<boost::json::value> {
    const auto stranger = []() -> Task<int> { co_return 1; };
    const int one = co_await stranger();
    co_return one;
  };
  Machine machine(body);
  const Activated activated = machine.step(started());
  ASSERT_TRUE(activated.end);
  EXPECT_THROW(std::rethrow_exception(activated.end->error), WrongContext);
}

// --- Code that does not fit its journal ----------------------------------------------------------

Task<boost::json::value> renamed(Context& ctx, boost::json::value) {
  auto first = ctx.run("erste", [] { return 1; });
  const int one = co_await first;
  co_return one;
}

class Journal : public ::testing::Test {
 protected:
  void SetUp() override {
    machine_.step(started());
    machine_.step(ended(0, 5));
    machine_.step(ended(1, 6));
  }
  Machine machine_{two_steps, 0};
};

TEST_F(Journal, OfAnotherStepIsTold) {
  EXPECT_EQ(
      complaint(machine_.journal, renamed),
      "run 'run-1' (test): at row 0 of the journal, operation 0, it has step 'first', and the "
      "code comes to step 'erste'");
}

TEST_F(Journal, OfAnotherKindIsTold) {
  EXPECT_EQ(
      complaint(machine_.journal, wait_a_day),
      "run 'run-1' (test): at row 0 of the journal, operation 0, it has step 'first', and the "
      "code comes to a sleep");
}

TEST_F(Journal, OfMoreThanTheCodeDoesIsTold) {
  const Body nothing = [](Context&, boost::json::value) -> Task<boost::json::value> {
    co_return nullptr;
  };
  EXPECT_EQ(
      complaint(machine_.journal, nothing),
      "run 'run-1' (test): at row 0 of the journal, operation 0, it has step 'first', and the "
      "code comes to nothing");
}

TEST_F(Journal, OfLessThanTheCodeDoesIsTold) {
  const Body more = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    auto first = ctx.run("first", [] { return 1; });
    auto extra = ctx.run("extra", [] { return 1; });
    const int one = co_await first;
    co_return one;
  };
  EXPECT_EQ(
      complaint(machine_.journal, more),
      "run 'run-1' (test): at row 0 of the journal, operation 1, it has nothing more, and the "
      "code comes to step 'extra'");
}

TEST_F(Journal, ThatGoesOnAfterTheEndOfTheCodeIsTold) {
  const Body shorter = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    auto first = ctx.run("first", [] { return 1; });
    const int one = co_await first;
    co_return one;
  };
  EXPECT_NE(complaint(machine_.journal, shorter), "none");
}

TEST_F(Journal, CannotBeSwallowedByTheCode) {
  const Body catches_all = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    for (int i = 0; i < 3; ++i) {
      try {
        auto step = ctx.run("other", [] { return 1; });
        static_cast<void>(co_await step);
      } catch (const std::exception&) {
      }
    }
    co_return nullptr;
  };
  EXPECT_NE(complaint(machine_.journal, catches_all), "none");
}

TEST_F(Journal, OfBeforeAVersionKeepsTheOldWay) {
  const Body versioned = [](Context& ctx, boost::json::value input) -> Task<boost::json::value> {
    auto first = ctx.run("first", [] { return 1; });
    const int one = co_await first;
    int two = 0;
    const std::int64_t version = ctx.version("faster", 0, 1);
    if (version == 0) {
      auto second = ctx.run("second", [] { return 2; });
      two = co_await second;
    } else {
      auto better = ctx.run("better", [] { return 2; });
      two = co_await better;
    }
    co_return one + two + input.to_number<int>();
  };
  EXPECT_EQ(replay(machine_.journal, versioned, 0).end->value, 11) << "a run of before";
  Machine now(versioned, 0);
  now.step(started());
  const Activated activated = now.step(ended(0, 1));
  ASSERT_EQ(activated.steps.size(), 1U);
  EXPECT_EQ(activated.steps[0].name, "better") << "and one of now";
  now.step(ended(2, 3));
  EXPECT_EQ(replay(now.journal, versioned, 0).end->value, 4);
}

// --- What is the same each time ------------------------------------------------------------------

TEST(RunMachineTest, RandomNumbersAreTheSameInAReplay) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    const std::string first = ctx.uuid();
    co_await ctx.sleep(1s);
    const std::string second = ctx.uuid();
    EXPECT_NE(first, second);
    EXPECT_EQ(first.size(), 36U);
    EXPECT_EQ(first[14], '4');
    co_return boost::json::value(first + second);
  };
  Machine machine(body);
  machine.step(started());
  const boost::json::value value = machine.step(fired(0)).end->value;
  EXPECT_EQ(replay(machine.journal, body).end->value, value);
}

TEST(RunMachineTest, AnEventForWhatHasEndedIsPassedOver) {
  Machine machine(two_steps, 0);
  machine.step(started());
  machine.step(ended(0, 5));
  const Activated again = machine.step(ended(0, 7));
  EXPECT_TRUE(again.steps.empty());
  EXPECT_EQ(machine.step(ended(1, 6)).end->value, 11);
}

TEST(RunMachineTest, AnEventOfALaterVersionIsRefusedAndChangesNothing) {
  Machine machine(two_steps, 0);
  machine.step(started());
  Event later = ended(0, 5);
  later.set_kind(static_cast<Event::Kind>(99));
  EXPECT_THROW(static_cast<void>(machine.inner().activate(at(0s), {ended(0, 5), later})),
               NewerFormat);
  machine.step(ended(0, 5));
  EXPECT_EQ(machine.step(ended(1, 6)).end->value, 11);
}

TEST(RunMachineTest, ASecondCancelDoesNothing) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    int cancelled = 0;
    for (int i = 0; i < 2; ++i) {
      try {
        co_await ctx.sleep(1h);
      } catch (const Cancelled&) {
        ++cancelled;
      }
    }
    co_await ctx.shielded(ctx.sleep(1s));
    co_return cancelled;
  };
  Machine machine(body);
  machine.step(started());
  const Activated activated = machine.step({cancel(), cancel()});
  EXPECT_EQ(activated.given_up, std::vector<std::uint64_t>{0});
  ASSERT_EQ(activated.timers.size(), 1U) << "one that is cancelled at once is never set";
  EXPECT_EQ(activated.timers[0].operation, 2U);
  machine.step(cancel());
  EXPECT_EQ(machine.step(fired(2)).end->value, 2);
}

TEST(RunMachineTest, AnOperationIsAwaitedOnce) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    auto step = ctx.run("step", [] { return 1; });
    const int one = co_await step;
    const int two = co_await step;
    co_return one + two;
  };
  Machine machine(body);
  machine.step(started());
  EXPECT_NE(failure<WrongContext>(machine.step(ended(0, 1))).find("'step' is awaited twice"),
            std::string::npos);
}

TEST(RunMachineTest, HeldEventsComeFirstAndAreRecordedOnce) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    std::string order;
    auto first = ctx.signal<std::string>("go");
    order += co_await first;
    auto second = ctx.signal<std::string>("go");
    order += co_await second;
    co_return boost::json::value(order);
  };
  Machine machine(body);
  machine.step(started());
  EXPECT_FALSE(machine.inner().has_held());
  machine.hold({signalled("go", "held")});
  EXPECT_TRUE(machine.inner().has_held());
  const Activated activated = machine.step(signalled("go", "next"));
  EXPECT_FALSE(machine.inner().has_held());
  EXPECT_EQ(activated.end->value, "heldnext");
  EXPECT_EQ(machine.journal.back().events_size(), 1);
  EXPECT_EQ(machine.journal.front().held_size(), 1);
  EXPECT_EQ(replay(machine.journal, body).end->value, "heldnext");
}

TEST(RunMachineTest, AReplayedRowIsHeldForTheNextActivation) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    const auto word = co_await ctx.signal<std::string>("go");
    co_return boost::json::value(word);
  };
  Machine machine(body);
  machine.step(started());
  machine.hold({signalled("go", "held")});
  const CodeOf code(body);
  RunMachine again(code, {"run-1", "test", nullptr});
  static_cast<void>(again.replay(machine.journal[0]));
  EXPECT_TRUE(again.has_held());
  EXPECT_EQ(again.activate(at(0s), {}).end->value, "held");
}

TEST(RunMachineTest, ALoopWithoutAnEndFailsTheRun) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    for (;;) {
      co_await ctx.sleep(0s);
    }
  };
  const Activated activated = Machine(body).step(started());
  EXPECT_NE(failure<Unsatisfiable>(activated).find("begins more than 100000 operations"),
            std::string::npos);
}

TEST(RunMachineTest, AResultThatIsTooLongFailsTheRun) {
  const Body body = [](Context&, boost::json::value) -> Task<boost::json::value> {
    co_return boost::json::value(std::string(kPayloadBytesMax, 'x'));
  };
  const Activated activated = Machine(body).step(started());
  EXPECT_NE(failure<BadPayload>(activated).find("the result of the run has 1048578 bytes"),
            std::string::npos);
}

TEST(RunMachineTest, TheFactsOfARun) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    co_return boost::json::value(ctx.run_id() + " " + ctx.run_uid() + " " + ctx.root_id() + " " +
                                 ctx.parent_id() + " " + ctx.type() + " " +
                                 std::to_string(ctx.started_at().time_since_epoch() / 1s));
  };
  Machine child(body,
                RunMachine::Facts{"run-1", "test", nullptr, "uid", "top", "over", StoreTime(7s)});
  EXPECT_EQ(child.step(started()).end->value, "run-1 uid top over test 7");
  Machine top(body);
  EXPECT_EQ(top.step(started()).end->value, "run-1 run-1 run-1  test 0");
}

TEST(RunMachineTest, RandomNumbersFollowFromTheUid) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    co_return ctx.random();
  };
  const auto first_number = [&](const char* uid) {
    Machine machine(body, RunMachine::Facts{"run-1", "test", nullptr, uid});
    return machine.step(started()).end->value;
  };
  EXPECT_EQ(first_number("a"), first_number("a"));
  EXPECT_NE(first_number("a"), first_number("b"));
}

/// What frames hold is destroyed with the machine, and the code does not go on.
TEST(RunMachineTest, OneThatIsPutAwayDoesNotGoOn) {
  int destroyed = 0;
  int went_on = 0;
  struct Counted {
    explicit Counted(int& counter) : count(counter) {}
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;
    ~Counted() { ++count; }
    int& count;
  };
  const Body body = [&](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    const Counted counted(destroyed);
    co_await ctx.sleep(1h);
    ++went_on;
    co_return nullptr;
  };
  {
    const CodeOf code(body);
    RunMachine machine(code, {"run-1", "test", nullptr});
    static_cast<void>(machine.activate(at(0s), {started()}));
    EXPECT_EQ(destroyed, 0);
  }
  EXPECT_EQ(destroyed, 1);
  EXPECT_EQ(went_on, 0);
}

}  // namespace
}  // namespace holdfast::detail
