// SPDX-License-Identifier: Apache-2.0
// How runs end: failures that are looked at, what a cancel does not stop, what is undone, and what
// goes on as a new run.
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include <holdfast/saga.hpp>
#include <holdfast/workflow.hpp>

#include "run_by_hand.hpp"

namespace holdfast::detail {
namespace {

using Numbers = std::vector<std::uint64_t>;

Task<int> number(Context& ctx, std::string name) {
  auto step = ctx.run(name, [] { return 0; });
  const int value = co_await step;
  co_return value;
}

// --- Attempts ------------------------------------------------------------------------------------

Task<boost::json::value> try_both(Context& ctx, boost::json::value) {
  auto step = ctx.run("step", [] { return 0; });
  auto first = co_await ctx.attempt(step);
  auto second = co_await ctx.attempt(number(ctx, "part"));
  auto third = co_await ctx.attempt(ctx.sleep(1s));
  third.rethrow();
  std::string text = first ? std::to_string(first.value()) : first.message();
  text += second ? std::to_string(second.value()) : second.message();
  co_return boost::json::value(text);
}

TEST(RunAttempt, HasTheValueOrTheFailure) {
  Machine machine(try_both);
  machine.step(started());
  machine.step(ended(0, 4));
  machine.step(failed(1, "broken"));
  EXPECT_EQ(machine.step(fired(2)).end->value, "4broken");
}

TEST(RunAttempt, OfAValueHasNoError) {
  Result<int> seven;
  seven.set_value(7);
  Outcome<int> good(std::move(seven));
  EXPECT_TRUE(good);
  EXPECT_EQ(good.error(), nullptr);
  EXPECT_EQ(good.message(), "");
  good.rethrow();
  EXPECT_EQ(good.value(), 7);
  Result<int> broken;
  broken.set_exception(std::make_exception_ptr(std::runtime_error("broken")));
  Outcome<int> bad(std::move(broken));
  EXPECT_FALSE(bad);
  EXPECT_EQ(bad.message(), "broken");
  EXPECT_THROW(static_cast<void>(bad.value()), std::runtime_error);
  EXPECT_THROW(bad.rethrow(), std::runtime_error);
}

TEST(RunAttempt, LetsContinueAsNewPass) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    const auto part = [](Context& context) -> Task<void> {
      co_await context.sleep(0s);
      context.continue_as_new(7);
    };
    static_cast<void>(co_await ctx.attempt(part(ctx)));
    co_return nullptr;
  };
  EXPECT_EQ(Machine(body).step(started()).end->continue_with, boost::json::value(7));
}

// --- Shields -------------------------------------------------------------------------------------

TEST(RunShield, GoesOnThoughTheRunIsCancelled) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    const int value = co_await ctx.shielded(number(ctx, "important"));
    auto after = co_await ctx.attempt(ctx.sleep(1s));
    EXPECT_THROW(after.rethrow(), Cancelled) << "what comes after it is stopped";
    co_return value;
  };
  Machine machine(body);
  machine.step(started());
  const Activated cancelled = machine.step(cancel());
  EXPECT_FALSE(cancelled.end);
  EXPECT_TRUE(cancelled.given_up.empty());
  EXPECT_EQ(machine.step(ended(0, 7)).end->value, 7);
}

TEST(RunShield, ThrowsWhatItsTaskThrows) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    const int value = co_await ctx.shielded(number(ctx, "important"));
    co_return value;
  };
  Machine machine(body);
  machine.step(started());
  EXPECT_EQ(failure<StepFailed>(machine.step(failed(0, "broken"))), "broken");
}

TEST(RunShield, GoesWithTheMachine) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    const int value = co_await ctx.shielded(number(ctx, "important"));
    co_return value;
  };
  Machine machine(body);
  machine.step(started());
}

// --- Sagas ---------------------------------------------------------------------------------------

Task<boost::json::value> book_trip(Context& ctx, boost::json::value) {
  const auto book = [](Context& context, Saga& saga) -> Task<int> {
    const int flight = co_await number(context, "book flight");
    saga.undo("cancel flight", [flight] { return flight; });
    const int hotel = co_await number(context, "book hotel");
    saga.undo("cancel hotel", [] {}, {.idempotency_key = "hotel"});
    const int car = co_await number(context, "book car");
    co_return flight + hotel + car;
  };
  const int trip = co_await run_saga(ctx, book);
  co_return trip;
}

TEST(RunSaga, ThatWorksUndoesNothing) {
  Machine machine(book_trip);
  machine.step(started());
  machine.step(ended(0, 1));
  machine.step(ended(1, 2));
  const Activated activated = machine.step(ended(2, 3));
  EXPECT_EQ(activated.end->value, 6);
  EXPECT_TRUE(activated.steps.empty());
}

TEST(RunSaga, ThatFailsIsUndoneInReverse) {
  Machine machine(book_trip);
  machine.step(started());
  machine.step(ended(0, 1));
  machine.step(ended(1, 2));
  Activated activated = machine.step(failed(2, "no car"));
  ASSERT_EQ(activated.steps.size(), 1U);
  EXPECT_EQ(activated.steps[0].name, "cancel hotel");
  EXPECT_EQ(activated.steps[0].terms.idempotency_key, "hotel");
  activated = machine.step(ended(3, nullptr));
  ASSERT_EQ(activated.steps.size(), 1U);
  EXPECT_EQ(activated.steps[0].name, "cancel flight");
  EXPECT_EQ(failure<StepFailed>(machine.step(ended(4, 1))), "no car");
}

TEST(RunSaga, IsUndoneWhereverItIsCancelled) {
  for (std::uint64_t done = 0; done < 3; ++done) {
    Machine machine(book_trip);
    machine.step(started());
    for (std::uint64_t i = 0; i < done; ++i) {
      machine.step(ended(i, 1));
    }
    Activated activated = machine.step(cancel());
    EXPECT_EQ(activated.unwanted, Numbers{done});
    EXPECT_TRUE(activated.steps.empty()) << "nothing is undone while it is under way";
    activated = machine.step(failed(done, "stopped"));
    std::uint64_t undone = 0;
    while (!activated.end) {
      ASSERT_EQ(activated.steps.size(), 1U);
      ++undone;
      activated = machine.step({cancel(), ended(activated.steps[0].operation, 1)});
    }
    EXPECT_EQ(undone, done) << "each once, though it is cancelled again and again";
    EXPECT_THROW(std::rethrow_exception(activated.end->error), Cancelled);
  }
}

TEST(RunSaga, WhatCannotBeUndoneIsToldAndTheRestIsUndone) {
  Machine machine(book_trip);
  machine.step(started());
  machine.step(ended(0, 1));
  machine.step(ended(1, 2));
  machine.step(failed(2, "no car"));
  EXPECT_EQ(machine.step(failed(3, "hotel is closed")).steps.at(0).name, "cancel flight");
  EXPECT_EQ(failure<StepFailed>(machine.step(ended(4, 1))),
            "no car; and to undo what was done before failed, too: hotel is closed");
}

TEST(RunSaga, ByHandAndWithoutAValue) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    Saga saga(ctx);
    saga.undo("undo", [] {});
    co_await saga.compensate();
    co_await saga.compensate();
    const auto nothing = [](Context& context, Saga&) -> Task<void> { co_await context.sleep(0s); };
    co_await run_saga(ctx, nothing);
    EXPECT_THROW(saga.undo("undo", [] {}, {.timeout = -1s}), InvalidArgument);
    co_return true;
  };
  Machine machine(body);
  EXPECT_EQ(machine.step(started()).steps.size(), 1U);
  EXPECT_EQ(machine.step(ended(0, nullptr)).end->value, true);
}

// --- Going on as a new run -----------------------------------------------------------------------

TEST(RunContinue, EndsWithTheInputAndTheSignalsThatNobodyTook) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    const int first = co_await ctx.signal<int>("a");
    ctx.continue_as_new(first);
  };
  Machine machine(body);
  machine.step({started(), signalled("b", 1, "r1"), signalled("c", 2), signalled("b", 3)});
  const Activated activated = machine.step({signalled("a", 7), signalled("a", 8)});
  ASSERT_TRUE(activated.end);
  EXPECT_EQ(activated.end->continue_with, boost::json::value(7));
  EXPECT_EQ(activated.end->error, nullptr);
  EXPECT_EQ(activated.record.events_size(), 1) << "what is behind its end is for the next one";
  ASSERT_EQ(activated.end->signals_left.size(), 3U);
  EXPECT_EQ(activated.end->signals_left[0].name(), "b");
  EXPECT_EQ(activated.end->signals_left[0].payload(), "1");
  EXPECT_EQ(activated.end->signals_left[0].request(), "r1");
  EXPECT_EQ(activated.end->signals_left[1].name(), "c");
  EXPECT_EQ(activated.end->signals_left[2].payload(), "3");
}

TEST(RunContinue, CannotBeSwallowed) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    try {
      ctx.continue_as_new();
    } catch (const std::exception&) {
      co_return "swallowed";
    } catch (...) {
    }
    co_await ctx.sleep(1h);
    co_return "swallowed";
  };
  const Activated activated = Machine(body).step(started());
  EXPECT_EQ(activated.end->continue_with, boost::json::value(nullptr));
  EXPECT_TRUE(activated.timers.empty());
}

TEST(RunContinue, FromOneOfSeveralGivesUpTheOthers) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    const auto go_on = [](Context& context) -> Task<void> {
      co_await context.sleep(1s);
      context.continue_as_new(1);
    };
    static_cast<void>(co_await ctx.all(go_on(ctx), number(ctx, "other")));
    co_return nullptr;
  };
  Machine machine(body);
  machine.step(started());
  EXPECT_EQ(machine.step(fired(0)).unwanted, Numbers{1});
  EXPECT_EQ(machine.step(ended(1, 1)).end->continue_with, boost::json::value(1));
}

TEST(RunContinue, RefusesAnInputThatIsTooLong) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    const std::string input(kPayloadBytesMax, 'x');
    ctx.continue_as_new(input);
    co_return nullptr;
  };
  const Activated activated = Machine(body).step(started());
  EXPECT_FALSE(activated.end->continue_with);
  EXPECT_NE(failure<BadPayload>(activated).find("continue_as_new has 1048578 bytes"),
            std::string::npos);
}

}  // namespace
}  // namespace holdfast::detail
