// SPDX-License-Identifier: Apache-2.0
// The code of a run between its waits, without a store.
#include "run_machine.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/workflow.hpp>

#include "run_payload.hpp"

namespace holdfast::detail {
namespace {

using namespace std::chrono_literals;
using Event = record::RunEvent;

using Body = std::function<Task<boost::json::value>(Context&, boost::json::value)>;

class CodeOf final : public WorkflowCode {
 public:
  explicit CodeOf(Body body) : body_(std::move(body)) {}
  [[nodiscard]] Task<boost::json::value> run(Context& context,
                                             boost::json::value input) const override {
    return body_(context, std::move(input));
  }

 private:
  Body body_;
};

Event started() {
  Event event;
  event.set_kind(Event::STARTED);
  return event;
}
Event ended(std::uint64_t operation, const boost::json::value& value) {
  Event event;
  event.set_kind(Event::STEP_ENDED);
  event.set_operation(operation);
  event.set_payload(payload_text(value));
  return event;
}
Event failed(std::uint64_t operation, const char* message) {
  Event event;
  event.set_kind(Event::STEP_ENDED);
  event.set_operation(operation);
  event.mutable_failure()->set_message(message);
  return event;
}
Event fired(std::uint64_t operation) {
  Event event;
  event.set_kind(Event::TIMER_FIRED);
  event.set_operation(operation);
  return event;
}
Event signalled(const char* name, const boost::json::value& value) {
  Event event;
  event.set_kind(Event::SIGNALLED);
  event.set_name(name);
  event.set_payload(payload_text(value));
  return event;
}
Event cancel() {
  Event event;
  event.set_kind(Event::CANCEL_REQUESTED);
  return event;
}

StoreTime at(Duration time) { return StoreTime(1h + time); }

/// A run that keeps its journal.
class Machine {
 public:
  explicit Machine(Body body, boost::json::value input = nullptr)
      : code_(std::move(body)), machine_(code_, {"run-1", "test", std::move(input)}) {}

  Activated step(Event event, Duration now = 0s) {
    return step(std::vector{std::move(event)}, now);
  }
  Activated step(std::vector<Event> events, Duration now = 0s) {
    Activated activated = machine_.activate(at(now), std::move(events));
    journal.push_back(activated.record);
    return activated;
  }

  std::vector<record::Activation> journal;

 private:
  CodeOf code_;
  RunMachine machine_;
};

/// Goes over a journal with some code; what the last row came to.
Activated replay(const std::vector<record::Activation>& journal, Body body,
                 boost::json::value input = nullptr) {
  const CodeOf code(std::move(body));
  RunMachine machine(code, {"run-1", "test", std::move(input)});
  Activated last;
  for (const record::Activation& row : journal) {
    last = machine.replay(row);
  }
  return last;
}

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

std::string complaint(const std::vector<record::Activation>& journal, const Body& body) {
  try {
    static_cast<void>(replay(journal, body));
  } catch (const NondeterminismError& error) {
    return error.what();
  }
  return "none";
}

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
    Machine machine(body);
    machine.step(started());
    EXPECT_EQ(destroyed, 0);
  }
  EXPECT_EQ(destroyed, 1);
  EXPECT_EQ(went_on, 0);
}

}  // namespace
}  // namespace holdfast::detail
