// SPDX-License-Identifier: Apache-2.0
// Steps, and children: what a run asks others to do.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <holdfast/executor.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/workflow.hpp>

#include "coro/test_world.hpp"
#include "run_by_hand.hpp"
#include "run_failure.hpp"

namespace holdfast::detail {
namespace {

Body one_step(const StepOptions& options) {
  return [options](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    auto step = ctx.run("pay", [] { return 1; }, options);
    const int paid = co_await step;
    co_return paid;
  };
}

TEST(RunSteps, KeepTheirOptions) {
  std::string key("my key");
  StepOptions options{.retry = {.attempts_max = 3, .pause_first = 2s, .factor = 1.5},
                      .attempt_timeout = 4s,
                      .timeout = 5s,
                      .heartbeat_timeout = 6s,
                      .side_effect_free = true,
                      .idempotency_key = key};
  Machine machine(one_step(options));
  const Activated activated = machine.step(started());
  const StepTerms& terms = activated.steps.at(0).terms;
  key = "other";
  EXPECT_EQ(terms.idempotency_key, "my key") << "a view is copied";
  EXPECT_EQ(terms.options.retry.attempts_max, 3U);
  EXPECT_EQ(terms.options.retry.pause_first, 2s);
  EXPECT_EQ(terms.options.attempt_timeout, 4s);
  EXPECT_EQ(terms.options.timeout, 5s);
  EXPECT_EQ(terms.options.heartbeat_timeout, 6s);
  EXPECT_TRUE(terms.options.side_effect_free);
  key = "my key";
}

TEST(RunSteps, AreUnderTheLimitsOfTheRunAndTheirOwnInTheOrderOfTheirNames) {
  std::optional<Limit> own;
  own.emplace("m", 3);
  RunMachine::Facts facts{"run-1", "test", nullptr};
  facts.step_limits = {Limit("z", 1), Limit("a", 2)};
  Machine machine(one_step({.limit = &*own, .limit_weight = 2, .limit_priority = 7}), facts);
  const Activated activated = machine.step(started());
  const StepLimits limits = activated.steps.at(0).limits;
  ASSERT_EQ(limits.wanted.size(), 3U);
  EXPECT_EQ(limits.wanted[0].gate, "a");
  EXPECT_EQ(limits.wanted[1].gate, "m");
  EXPECT_EQ(limits.wanted[2].gate, "z");
  EXPECT_EQ(limits.own, 1U);
  EXPECT_EQ(limits.wanted[1].weight, 2U);
  EXPECT_EQ(limits.wanted[1].priority, 7);
  EXPECT_EQ(limits.wanted[1].definition.capacity, 3U);
  EXPECT_EQ(limits.wanted[0].weight, 1U);
  EXPECT_EQ(activated.record.operations(0).limits_size(), 3) << "the journal knows which";
}

TEST(RunSteps, OneThatNamesALimitOfTheRunIsUnderItOnce) {
  const Limit own("z", 1);
  RunMachine::Facts facts{"run-1", "test", nullptr};
  facts.step_limits = {Limit("z", 1)};
  Machine machine(one_step({.limit = &own, .limit_priority = 7}), facts);
  const StepLimits limits = machine.step(started()).steps.at(0).limits;
  ASSERT_EQ(limits.wanted.size(), 1U);
  EXPECT_EQ(limits.wanted[0].priority, 7);
}

TEST(RunSteps, TakeThePermitOfAKeyBeforeThatOfAll) {
  const Limit own("admission/b", 1);
  RunMachine::Facts facts{"run-1", "test", nullptr};
  facts.step_limits = {Limit("admission/a/key", 1), Limit("admission/a", 2)};
  facts.step_priority = 5;
  Machine machine(one_step({.limit = &own}), facts);
  const StepLimits limits = machine.step(started()).steps.at(0).limits;
  ASSERT_EQ(limits.wanted.size(), 3U);
  EXPECT_EQ(limits.wanted[0].gate, "admission/a/key");
  EXPECT_EQ(limits.wanted[1].gate, "admission/a");
  EXPECT_EQ(limits.wanted[2].gate, "admission/b");
  EXPECT_EQ(limits.own, 2U);
  EXPECT_EQ(limits.wanted[0].priority, 5);
  EXPECT_EQ(limits.wanted[2].priority, 0);
  Machine without_own(one_step({}), facts);
  EXPECT_EQ(without_own.step(started()).steps.at(0).limits.own, 0U) << "that of the key";
}

TEST(RunSteps, HaveAKeyOfTheRunAndTheirNumber) {
  Machine machine(one_step({}), RunMachine::Facts{"run-1", "test", nullptr, "uid-7"});
  EXPECT_EQ(machine.step(started()).steps.at(0).terms.idempotency_key, "uid-7:0");
}

std::string refusal(const StepOptions& options) {
  Machine machine(one_step(options));
  const Activated activated = machine.step(started());
  EXPECT_TRUE(activated.steps.empty());
  EXPECT_EQ(machine.journal.back().operations_size(), 0) << "it changes nothing";
  return failure<InvalidArgument>(activated);
}

TEST(RunSteps, RefuseOptionsThatCannotBe) {
  EXPECT_EQ(refusal({.attempt_timeout = -1s}),
            "step 'pay': attempt_timeout is -1 s; give a time, or zero for none");
  EXPECT_NE(refusal({.timeout = -1ms}).find("timeout is -0.001 s"), std::string::npos);
  EXPECT_NE(refusal({.heartbeat_timeout = -1s}).find("heartbeat_timeout"), std::string::npos);
  EXPECT_NE(refusal({.retry = {.pause_first = -1s}}).find("retry.pause_first is -1"),
            std::string::npos);
  EXPECT_NE(refusal({.retry = {.pause_max = -1s}}).find("retry.pause_max is -1"),
            std::string::npos);
  EXPECT_NE(refusal({.retry = {.factor = 0.5}}).find("retry.factor is 0.5"), std::string::npos);
  EXPECT_NE(refusal({.retry = {.factor = std::numeric_limits<double>::infinity()}})
                .find("retry.factor is inf"),
            std::string::npos);
  EXPECT_NE(refusal({.retry = {.factor = std::nan("")}}).find("retry.factor"), std::string::npos);
  EXPECT_EQ(refusal({.retry = {.pause_first = 2s, .pause_max = 1s}}),
            "step 'pay': retry.pause_first is 2 s, and retry.pause_max 1 s: the first pause is not "
            "longer than the longest");
}

TEST(RunSteps, RefuseNamesThatCannotBe) {
  const auto named = [](std::string name) -> Body {
    return [name](Context& ctx, boost::json::value) -> Task<boost::json::value> {
      auto step = ctx.run(name, [] {});
      co_await step;
      co_return nullptr;
    };
  };
  EXPECT_NE(failure<InvalidArgument>(Machine(named("")).step(started())).find("has 0 bytes"),
            std::string::npos);
  EXPECT_NE(failure<InvalidArgument>(Machine(named(std::string(256, 'x'))).step(started()))
                .find("has 256 bytes; give 1 to 255"),
            std::string::npos);
}

// --- What a step is told -------------------------------------------------------------------------

class Heartbeats final : public StepLink {
 public:
  void heartbeat(std::string progress) override { beats.push_back(std::move(progress)); }
  std::vector<std::string> beats;
};

TEST(StepContextTest, PassesOnHeartbeats) {
  Heartbeats heard;
  StepContext step("key", 1, {}, {.link = &heard});
  step.heartbeat();
  step.heartbeat(7);
  step.heartbeat(std::vector<std::string>{"a"});
  EXPECT_EQ(heard.beats, (std::vector<std::string>{"", "7", "[\"a\"]"}));
  EXPECT_THROW(step.heartbeat(std::string(kPayloadBytesMax, 'x')), BadPayload);
  StepContext alone("key", 1, {});
  alone.heartbeat(7);
}

TEST(StepContextTest, KnowsWhatTheAttemptBeforeReported) {
  const StepContext first("key", 1, {});
  EXPECT_EQ(first.last_progress<int>(), std::nullopt);
  const StepContext second("key", 2, {}, {.last_progress = "7"});
  EXPECT_EQ(second.last_progress<int>(), 7);
  EXPECT_THROW(static_cast<void>(second.last_progress<std::string>()), BadPayload);
}

TEST(StepContextTest, KnowsWhetherItMayHaveRun) {
  EXPECT_FALSE(StepContext("key", 1, {}).may_have_run());
  EXPECT_TRUE(StepContext("key", 2, {}).may_have_run());
  EXPECT_TRUE(StepContext("key", 1, {}, {.recovered = true}).may_have_run());
}

template <typename Function>
boost::json::value run_attempt(Function function, StepContext step) {
  testing::World world;
  StepCodeOf<Function> code(std::move(function));
  return world.run(code.run(step));
}

TEST(WithVerify, AsksBeforeAllAttemptsButTheFirst) {
  int asked = 0;
  std::optional<int> known;
  const auto step = with_verify([] { return 1; },
                                [&](StepContext&) {
                                  ++asked;
                                  return known;
                                });
  EXPECT_EQ(run_attempt(step, {"key", 1, {}}), 1);
  EXPECT_EQ(asked, 0);
  EXPECT_EQ(run_attempt(step, {"key", 2, {}}), 1) << "it has not happened";
  EXPECT_EQ(asked, 1);
  known = 7;
  EXPECT_EQ(run_attempt(step, {"key", 2, {}}), 7) << "it has";
  EXPECT_EQ(run_attempt(step, {"key", 1, {}, {.recovered = true}}), 7);
}

TEST(WithVerify, TakesTasksAndStepsWithoutAValue) {
  bool known = false;
  int done = 0;
  const auto plain = with_verify([&] { ++done; }, [&] { return known; });
  static_cast<void>(run_attempt(plain, {"key", 2, {}}));
  EXPECT_EQ(done, 1);
  known = true;
  static_cast<void>(run_attempt(plain, {"key", 2, {}}));
  EXPECT_EQ(done, 1);
  const auto task = with_verify([]() -> Task<int> { co_return 1; },
                                []() -> Task<std::optional<int>> { co_return 8; });
  EXPECT_EQ(run_attempt(task, {"key", 1, {}}), 1);
  EXPECT_EQ(run_attempt(task, {"key", 2, {}}), 8);
  const auto mixed = with_verify([]() -> Task<void> { co_return; }, [&] { return known; });
  EXPECT_EQ(run_attempt(mixed, {"key", 2, {}}), nullptr);
}

// --- Failures ------------------------------------------------------------------------------------

struct OwnError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

TEST(RunFailures, KeepTypeMessageAndCode) {
  const auto recorded = [](const auto& error) {
    return failure_of(std::make_exception_ptr(error));
  };
  EXPECT_EQ(recorded(std::runtime_error("x")).type(), "std::runtime_error");
  EXPECT_EQ(recorded(std::runtime_error("x")).message(), "x");
  EXPECT_EQ(recorded(std::runtime_error("x")).code(), 0);
  EXPECT_NE(recorded(OwnError("x")).type().find("OwnError"), std::string::npos);
  EXPECT_EQ(recorded(PermanentFailure("x")).type(), "holdfast::PermanentFailure");
  EXPECT_EQ(recorded(PermanentFailure("x")).code(), 407);
  EXPECT_EQ(recorded(7).type(), "int");
}

TEST(RunFailures, ComeBackAsStepFailed) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    auto step = ctx.run("pay", [] {});
    std::string text;
    try {
      co_await step;
    } catch (const StepFailed& error) {
      text = error.type() + ":" + error.what() + ":" + std::to_string(error.original_code());
    }
    co_return boost::json::value(text);
  };
  Machine machine(body);
  machine.step(started());
  Event event = event_of(Event::STEP_ENDED, 0);
  *event.mutable_failure() = failure_of(std::make_exception_ptr(PermanentFailure("no money")));
  EXPECT_EQ(machine.step(event).end->value, "holdfast::PermanentFailure:no money:407");
}

// --- Children ------------------------------------------------------------------------------------

Task<std::string> greet(Context& ctx, std::string name) {
  co_await ctx.sleep(1s);
  co_return "hello " + name;
}
Task<void> tick(Context& ctx) { co_await ctx.sleep(1s); }
const auto kGreeting = workflow("greet", greet);
const auto kTicking = workflow("tick", tick);

Task<boost::json::value> parent(Context& ctx, boost::json::value) {
  auto child =
      ctx.child(kGreeting, "you", {.id = "child-1", .parent_close = ParentClose::kAbandon});
  auto other = ctx.child<std::string>("elsewhere", std::string("me"));
  co_await ctx.child(kTicking, {.timeout = 5s});
  std::string text = co_await child;
  text += co_await other;
  co_return boost::json::value(text);
}

TEST(RunChildren, AreBegunWithTheirInputAndTerms) {
  Machine machine(parent);
  const Activated activated = machine.step(started());
  ASSERT_EQ(activated.children.size(), 3U);
  EXPECT_EQ(activated.children[0].type, "greet");
  EXPECT_EQ(activated.children[0].input, "you");
  EXPECT_EQ(activated.children[0].terms.id, "child-1");
  EXPECT_EQ(activated.children[0].terms.parent_close, ParentClose::kAbandon);
  EXPECT_EQ(activated.children[1].type, "elsewhere");
  EXPECT_EQ(activated.children[1].input, "me");
  EXPECT_EQ(activated.children[2].type, "tick");
  EXPECT_EQ(activated.children[2].input, nullptr);
  EXPECT_EQ(activated.children[2].terms.timeout, 5s);
  machine.step({child_ended(1, "b"), child_ended(2, nullptr)});
  EXPECT_EQ(machine.step(child_ended(0, "a")).end->value, "ab");
}

TEST(RunChildren, ThatFailThrow) {
  Machine machine(parent);
  machine.step(started());
  const Activated activated =
      machine.step(with_failure(event_of(Event::CHILD_ENDED, 2), "it was broken"));
  EXPECT_EQ(failure<RunFailed>(activated), "it was broken");
}

TEST(RunChildren, AreGivenUpWithTheWait) {
  Machine machine(parent);
  machine.step(started());
  const Activated activated = machine.step(cancel());
  EXPECT_EQ(activated.given_up, std::vector<std::uint64_t>{2})
      << "the others were under way, and nobody waited for them";
  EXPECT_NE(failure<Cancelled>(activated).find("tick"), std::string::npos);
}

TEST(RunChildren, RefuseInputsAndOptionsThatCannotBe) {
  const Body late = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    co_await ctx.child(kTicking, {.timeout = -1s});
    co_return nullptr;
  };
  EXPECT_NE(failure<InvalidArgument>(Machine(late).step(started())).find("timeout is -1 s"),
            std::string::npos);
  const Body big = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    const std::string input(kPayloadBytesMax, 'x');
    const auto text = co_await ctx.child(kGreeting, input);
    co_return boost::json::value(text);
  };
  EXPECT_NE(failure<BadPayload>(Machine(big).step(started())).find("child 'greet' has 1048578"),
            std::string::npos);
}

TEST(RunChildren, OfAnotherTypeAreTold) {
  Machine machine(parent);
  machine.step(started());
  const Body changed = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    co_await ctx.child(kTicking);
    co_return nullptr;
  };
  EXPECT_NE(complaint(machine.journal, changed)
                .find("it has child 'greet', and the code comes to child 'tick'"),
            std::string::npos);
}

TEST(RunSteps, ThatAreUnderWayEndBeforeTheirWaitDoes) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    auto step = ctx.run("slow", [] { return 1; });
    auto waited = co_await ctx.attempt(step);
    const std::string text = waited ? std::to_string(waited.value()) : waited.message();
    co_return boost::json::value(text);
  };
  Machine stopped(body);
  stopped.step(started());
  EXPECT_EQ(stopped.step(cancel()).unwanted, std::vector<std::uint64_t>{0});
  const Activated late = stopped.step(failed(0, "stopped"));
  EXPECT_NE(late.end->value.as_string().find("asked to stop"), std::string::npos);

  Machine done(body);
  done.step(started());
  EXPECT_FALSE(done.step(cancel()).end);
  EXPECT_EQ(done.step(ended(0, 1)).end->value, "1") << "what was done is not forgotten";

  Machine not_begun(body);
  EXPECT_TRUE(not_begun.step({started(), cancel()}).end) << "it had not begun";
}

}  // namespace
}  // namespace holdfast::detail
