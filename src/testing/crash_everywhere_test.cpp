// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <stdexcept>
#include <string>

#include <holdfast/testing.hpp>

#include "coro/test_world.hpp"

namespace holdfast::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

Task<int> pay_and_tell(Context& ctx, int cents) {
  auto paying = ctx.run("pay", [] {});
  co_await paying;
  co_await ctx.sleep(1h);
  const int tip = co_await ctx.signal<int>("tip");
  auto total = ctx.state<int>("total");
  auto adding = total.update([&](int& sum) { sum += cents + tip; });
  co_await adding;
  const int sum = co_await total.get();
  co_return sum;
}
const auto kPay = workflow("pay_and_tell", pay_and_tell);

/// A bank that does what it is asked, each time.
struct Bank {
  std::size_t charges = 0;
};
/// One that knows keys.
struct CarefulBank {
  std::set<std::string> keys;
};

std::string charged(std::size_t times) {
  return std::string("charged ").append(std::to_string(times)).append(" times");
}

void check(bool holds, const std::string& what) {
  if (!holds) {
    throw std::runtime_error(what);
  }
}

void pay_once(TestEngine& world) {
  CarefulBank bank;
  world.fake_step("pay", [&](StepCall& call) { bank.keys.insert(call.idempotency_key()); });
  const auto run = world.start(kPay, 10, {.id = "order-1"});
  world.skip(30min);
  world.signal(run, "tip", 5);
  check(world.result(run) == 15, "the sum is wrong");
  check(bank.keys.size() == 1, charged(bank.keys.size()));
}

void pay_blindly(TestEngine& world) {
  Bank bank;
  world.fake_step("pay", [&] { ++bank.charges; });
  const auto run = world.start(kPay, 10);
  world.signal(run, "tip", 5);
  check(world.result(run) == 15, "the sum is wrong");
  check(bank.charges == 1, charged(bank.charges));
}

TEST(CrashEverywhereTest, AWorkflowThatIsRightStandsEveryCrash) {
  const CrashReport report = crash_everywhere({kPay}, pay_once);
  EXPECT_GE(report.commits, 5U);
  EXPECT_EQ(report.crashes, 2 * report.commits) << "each commit is lost, and is made unanswered";
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    EXPECT_NO_THROW(crash_everywhere({kPay}, {.seed = seed, .shuffle = true}, pay_once));
    EXPECT_NO_THROW(crash_everywhere({kPay}, {.seed = seed, .forget_waiting = false}, pay_once));
  }
}

TEST(CrashEverywhereTest, AnEffectThatHappensTwiceIsFoundAndCanBeRepeated) {
  const std::string text =
      error_text<CrashFound>([] { crash_everywhere({kPay}, {.seed = 3}, pay_blindly); });
  EXPECT_THAT(text, HasSubstr("charged 2 times"));
  EXPECT_THAT(text, HasSubstr("{.seed = 3}); world.crash_at_commit("));
  EXPECT_THAT(text, HasSubstr("the process has died"));
  const std::string call = "world.crash_at_commit(";
  const std::size_t at = text.find(call) + call.size();
  TestEngine world({kPay}, {.seed = 3});
  world.crash_at_commit(std::stoull(text.substr(at)), text.find("kLost", at) != std::string::npos
                                                          ? CrashOutcome::kLost
                                                          : CrashOutcome::kUnanswered);
  EXPECT_EQ(error_text<std::runtime_error>([&] { pay_blindly(world); }), "charged 2 times");
}

TEST(CrashEverywhereTest, BothOutcomesOfACommitAreWhatTheySay) {
  for (const CrashOutcome outcome : {CrashOutcome::kLost, CrashOutcome::kUnanswered}) {
    TestEngine world({kPay});
    world.fake_step("pay", [] {});
    const auto run = world.start(kPay, 1);
    EXPECT_EQ(world.calls("pay"), 1U);
    // The next step's end is the first commit after its call: lost, the step is done again.
    const auto other = world.run([](Engine& engine) {
      return engine.start_run("pay_and_tell", 1, {.id = "other", .idempotency_key = "other"});
    });
    EXPECT_EQ(world.calls("pay"), 2U);
    world.crash_at_commit(2, outcome);
    world.start(kPay, 1, {.id = "third"});
    EXPECT_EQ(world.crashes(), 1U);
    EXPECT_EQ(world.calls("pay"), outcome == CrashOutcome::kLost ? 4U : 3U);
    EXPECT_FALSE(world.has_ended(run));
    EXPECT_FALSE(world.has_ended(other));
  }
}

TEST(CrashEverywhereTest, AScenarioThatFailsWithoutACrashSaysSo) {
  const Scenario wrong = [](TestEngine& /*world*/) { throw std::runtime_error("wrong anyway"); };
  EXPECT_THAT(error_text<CrashFound>([&] { crash_everywhere({kPay}, wrong); }),
              HasSubstr("goes wrong without any crash: wrong anyway"));
}

bool has_noted_a_failure = false;

TEST(CrashEverywhereTest, ChecksThatDoNotThrowAreHeard) {
  has_noted_a_failure = false;
  const Scenario scenario = [](TestEngine& world) {
    int charges = 0;
    world.fake_step("pay", [&] { ++charges; });
    const auto run = world.start(kPay, 10);
    world.signal(run, "tip", 5);
    world.result(run);
    has_noted_a_failure = has_noted_a_failure || charges != 1;
  };
  EXPECT_THAT(error_text<CrashFound>([&] {
                crash_everywhere({kPay}, scenario,
                                 {.has_failed = [] { return has_noted_a_failure; }});
              }),
              HasSubstr("a check has failed"));
}

TEST(CrashEverywhereTest, AScenarioMayCrashBesides) {
  const Scenario scenario = [](TestEngine& world) {
    world.fake_step("pay", [] {});
    const auto run = world.start(kPay, 10);
    world.crash();
    world.signal(run, "tip", 5);
    check(world.result(run) == 15, "the sum is wrong");
  };
  EXPECT_GE(crash_everywhere({kPay}, scenario).commits, 5U);
}

TEST(CrashEverywhereTest, ACrashIsNoReasonForTimeToPass) {
  TestEngine world({kPay});
  world.fake_step("pay", [] {});
  const StoreTime began = world.now();
  const auto run = world.start(kPay, 10);
  world.crash();
  EXPECT_EQ(world.now(), began);
  world.signal(run, "tip", 5);
  world.skip(1h - 1ns);
  EXPECT_FALSE(world.has_ended(run));
  world.skip(1ns);
  EXPECT_TRUE(world.has_ended(run));
}

}  // namespace
}  // namespace holdfast::testing
