// SPDX-License-Identifier: Apache-2.0
#include <holdfast/testing.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/describe/class.hpp>

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include <holdfast/mutex.hpp>
#include <holdfast/this_task.hpp>

#include "coro/test_world.hpp"

namespace holdfast::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Order {
  std::string item;
  int cents = 0;
};
BOOST_DESCRIBE_STRUCT(Order, (), (item, cents))

int real_calls = 0;

Task<std::string> sell(Context& ctx, Order order) {
  auto charging = ctx.run("charge", [&] {
    ++real_calls;
    return std::string("really charged ").append(std::to_string(order.cents));
  });
  std::string receipt = co_await charging;
  co_await ctx.sleep(24h);
  const bool approved = co_await ctx.signal<bool>("approved");
  if (!approved) {
    co_return "refused";
  }
  auto shipping = ctx.run("ship", [&] { return "really shipped " + order.item; });
  std::string parcel = co_await shipping;
  co_return receipt + ", " + parcel;
}
const auto kSell = workflow("sell", sell);

Task<int> take_stock(Context& ctx, std::string item) {
  auto taking = ctx.transact("take stock", [item](Transaction&) { return 1; });
  const int left = co_await taking;
  co_return left;
}
const auto kTakeStock = workflow("take_stock", take_stock);

std::vector<std::string> rung;
Task<void> ring_later(Context& ctx, int hours) {
  co_await ctx.sleep(std::chrono::hours(hours));
  auto ringing = ctx.run("ring", [] {});
  co_await ringing;
}
const auto kRing = workflow("ring_later", ring_later);

const StepOptions kHasty{.retry = {.attempts_max = 3, .pause_first = 10s, .factor = 1},
                         .attempt_timeout = 1min,
                         .heartbeat_timeout = 20s};
Task<int> tries_thrice(Context& ctx) {
  auto trying = ctx.run("flaky", [] { return 1; }, kHasty);
  const int value = co_await trying;
  co_return value;
}
const auto kTriesThrice = workflow("tries_thrice", tries_thrice);

Task<int> tries_for_ever(Context& ctx) {
  auto trying = ctx.run("flaky", [] { return 1; });
  const int value = co_await trying;
  co_return value;
}
const auto kTriesForEver = workflow("tries_for_ever", tries_for_ever);

Task<int> counts(Context& ctx) {
  int sum = 0;
  ctx.on_query<int>("sum", [&] { return sum; });
  ctx.on_update<int, int>("add", [&](int by) { return sum += by; });
  ctx.on_signal<int>("poke", [&](int by) { sum += by; });
  auto enough = ctx.wait_until([&] { return sum >= 10; });
  co_await enough;
  co_return sum;
}
const auto kCounts = workflow("counts", counts);

Task<int> parent(Context& ctx) {
  auto child = ctx.child(kCounts, {.id = "the child"});
  const int sum = co_await child;
  co_return sum;
}
const auto kParent = workflow("parent", parent);

int goes_astray = 0;
Task<int> astray(Context& ctx) {
  if (goes_astray++ == 0) {
    co_await ctx.sleep(1h);
  } else {
    const int number = co_await ctx.signal<int>("other");
    co_return number;
  }
  co_return 1;
}
const auto kAstray = workflow("astray", astray);

TEST(TestEngineTest, PlaysARunWithFakesSignalsAndTime) {
  real_calls = 0;
  TestEngine world({kSell});
  world.fake_step("charge", [](StepCall& call) {
    const auto order = call.run_input<Order>();
    return std::string(call.run_id()).append(" paid ").append(std::to_string(order.cents));
  });
  const auto run = world.start(kSell, {.item = "lamp", .cents = 42}, {.id = "order-1"});
  EXPECT_EQ(world.calls("charge"), 1U) << "what can happen at once has happened";
  world.signal(run, "approved", true);
  EXPECT_EQ(world.calls("ship"), 0U) << "it sleeps still";
  world.skip(24h - 1ns);
  EXPECT_FALSE(world.has_ended(run));
  world.skip(1ns);
  EXPECT_TRUE(world.has_ended(run));
  EXPECT_EQ(world.result(run), "order-1 paid 42, really shipped lamp");
  EXPECT_EQ(world.calls("charge"), 1U);
  EXPECT_EQ(real_calls, 0);
  EXPECT_EQ(world.describe(run).state, RunState::kCompleted);
}

TEST(TestEngineTest, AFakeMayBeAValue) {
  TestEngine world({kSell});
  world.fake_step("charge", "paid");
  world.fake_step("ship", std::string("parcel"));
  world.fake_step("shpi", "a misspelt one");
  const auto run = world.start(kSell, {.item = "lamp", .cents = 1});
  world.signal(run, "approved", true);
  EXPECT_EQ(world.result(run), "paid, parcel");
  EXPECT_THAT(world.unused_fakes(), ElementsAre("shpi"));
}

TEST(TestEngineTest, ATransactionMayBeFakedAndOtherwiseSaysThatThereIsNoDatabase) {
  TestEngine world({kTakeStock});
  const auto real = world.start(kTakeStock, "lamp");
  EXPECT_THROW(world.result(real), RunFailed);
  EXPECT_THAT(world.describe(real).failure, HasSubstr("fake it"));
  world.fake_step("take stock", 7);
  EXPECT_EQ(world.result(world.start(kTakeStock, "lamp")), 7);
}

TEST(TestEngineTest, AMonthOrTenYearsPassAtOnce) {
  TestEngine world({kRing});
  const auto run = world.start(kRing, 30 * 24);
  world.skip(31 * 24h);
  EXPECT_TRUE(world.has_ended(run));
  world.result(world.start(kRing, 366 * 24));
  world.skip(10 * 366 * 24h);
  EXPECT_EQ(world.calls("ring"), 2U);
  const auto sessions = world.run([&](Engine& /*engine*/) { return list_sessions(world.store()); });
  ASSERT_EQ(sessions.size(), 1U);
  EXPECT_TRUE(sessions[0].live) << "it was renewed all the time";
}

TEST(TestEngineTest, TimersFireInTheOrderInWhichTheyAreDueEachAtItsMoment) {
  rung.clear();
  TestEngine world({kRing});
  const StoreTime began = world.now();
  world.fake_step("ring", [&](StepCall& call) {
    const auto hours = (world.now() - began) / 1h;
    rung.push_back(std::string(call.run_id()).append(" at ").append(std::to_string(hours)));
  });
  for (const int hours : {5, 3, 9, 1, 7}) {
    const std::string id = std::string("r").append(std::to_string(hours));
    world.start(kRing, hours, {.id = id});
  }
  world.skip(7h);
  EXPECT_THAT(rung, ElementsAre("r1 at 1", "r3 at 3", "r5 at 5", "r7 at 7"));
  EXPECT_EQ(world.now() - began, 7h);
}

TEST(TestEngineTest, FakesThatFailAreTriedAgainAsTheOptionsSay) {
  TestEngine world({kTriesThrice});
  world.fake_step("flaky", fail_times(2, "no truck").then(7));
  const StoreTime began = world.now();
  EXPECT_EQ(world.result(world.start(kTriesThrice)), 7);
  EXPECT_EQ(world.calls("flaky"), 3U);
  EXPECT_EQ(world.now() - began, 20s) << "two pauses";
  world.fake_step("flaky", fail_always("no road"));
  const auto run = world.start(kTriesThrice);
  EXPECT_THAT(error_text<RunFailed>([&] { world.result(run); }), HasSubstr("no road"));
  EXPECT_EQ(world.calls("flaky"), 6U);
}

TEST(TestEngineTest, FakesThatTakeTooLongOrAreSilentTimeOut) {
  TestEngine world({kTriesThrice});
  world.fake_step("flaky", [](StepCall& call) -> Task<int> {
    if (call.attempt() == 1) {
      co_await this_task::sleep_for(30s);  // Silent for longer than it may be.
    } else {
      for (int i = 0; i < 4; ++i) {
        co_await this_task::sleep_for(10s);
        call.context().heartbeat(i);
      }
    }
    co_return static_cast<int>(call.attempt());
  });
  const StoreTime began = world.now();
  EXPECT_EQ(world.result(world.start(kTriesThrice)), 2);
  EXPECT_EQ(world.now() - began, 20s + 10s + 40s);
}

TEST(TestEngineTest, AskingAndTelling) {
  TestEngine world({kCounts});
  const auto run = world.start(kCounts, {.id = "sum"});
  EXPECT_EQ(world.query<int>(run, "sum"), 0);
  EXPECT_EQ(world.update<int>(run, "add", 4), 4);
  world.signal("sum", "poke", 5);
  EXPECT_EQ(world.query<int>("sum", "sum"), 9);
  EXPECT_THROW(world.query<int>(run, "smu"), NoSuchHandler);
  EXPECT_EQ(world.update<int>(run, "add", 1), 10);
  EXPECT_EQ(world.result(run), 10);
  EXPECT_THROW(world.signal(run, "poke", 1), NoSuchRun);
  EXPECT_THROW(static_cast<void>(world.describe("nobody")), NoSuchRun);
  const auto stopped = world.start(kCounts);
  world.cancel(stopped);
  EXPECT_EQ(world.describe(stopped).state, RunState::kCancelled);
  const auto ended = world.start(kCounts);
  world.terminate(ended, "enough");
  EXPECT_EQ(world.describe(ended).failure, "enough");
  EXPECT_EQ(world.run([](Engine& engine) { return engine.purge(0s); }), 3U);
}

TEST(TestEngineTest, ARunThatCannotGoOnSaysWhatItWaitsFor) {
  TestEngine world({kSell, kCounts, kParent, kTriesForEver});
  const auto sold = world.start(kSell, {.item = "lamp", .cents = 1}, {.id = "order-1"});
  EXPECT_THAT(error_text<StuckRun>([&] { world.result(sold); }),
              HasSubstr("run 'order-1' (sell) waits for signal 'approved'"));
  world.signal(sold, "approved", false);
  EXPECT_EQ(world.result(sold), "refused") << "nothing was broken by it";
  EXPECT_THAT(error_text<StuckRun>([&] { world.result(world.start(kParent)); }),
              AllOf(HasSubstr("its child: run 'the child' (counts) waits for a wait_until"),
                    HasSubstr("a signal 'poke' might change")));
  Mutex mutex;
  const auto held = mutex.try_lock();
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-capturing-lambda-coroutines): the world keeps it
  world.fake_step("flaky", [&mutex](StepContext& /*step*/) -> Task<int> {
    const Hold hold = co_await mutex.lock();
    co_return 1;
  });
  EXPECT_THAT(error_text<StuckRun>([&] { world.result(world.start(kTriesForEver)); }),
              HasSubstr("waits for step 'flaky', which is under way: nothing else is"));
  EXPECT_THROW(world.result(world.find(kSell, "nobody")), NoSuchRun);
}

TEST(TestEngineTest, AStepThatFailsForEverIsNamed) {
  TestEngine world({kTriesForEver}, {.attempts_max = 100});
  world.fake_step("flaky", fail_always("never"));
  const auto run = world.start(kTriesForEver, {.id = "stubborn"});
  EXPECT_THAT(error_text<StuckRun>([&] { world.result(run); }),
              AllOf(HasSubstr("which is tried again later"),
                    HasSubstr("step 'flaky' of run 'stubborn' (tries_for_ever) has failed 100")));
}

TEST(TestEngineTest, PatienceHasAnEnd) {
  TestEngine world({kRing}, {.patience = 24h});
  const auto run = world.start(kRing, 25);
  EXPECT_THAT(error_text<StuckRun>([&] { world.result(run); }),
              HasSubstr("patience of this test, 86400 s"));
  world.result(world.start(kRing, 24));
}

TEST(TestEngineTest, BadUseIsRefused) {
  EXPECT_THAT(error_text<InvalidArgument>([] { TestEngine({kRing}, {.seed = 0}); }),
              HasSubstr("TestOptions::seed is 0"));
  EXPECT_THAT(error_text<InvalidArgument>([] { TestEngine({kRing, kRing}); }),
              HasSubstr("two workflows are called 'ring_later'"));
  TestEngine world({kRing});
  EXPECT_THROW(world.crash_at_commit(0), InvalidArgument);
  EXPECT_THROW(world.skip(-1s), InvalidArgument);
  EXPECT_THROW(world.fake_step("", 1), InvalidArgument);
  world.crash_at_commit(1'000);
  EXPECT_THROW(world.crash_at_commit(1), WrongContext);
}

TEST(TestEngineTest, RealStepsCanBeForbidden) {
  real_calls = 0;
  TestEngine world({kSell});
  world.forbid_real_steps();
  EXPECT_THAT(error_text<WrongContext>(
                  [&] { world.start(kSell, {.item = "lamp", .cents = 1}, {.id = "order-1"}); }),
              HasSubstr("step 'charge' of run 'order-1' (sell) has no fake"));
  EXPECT_EQ(real_calls, 0);
}

TEST(TestEngineTest, CodeThatIsNotTheSameAgainIsFoundByItsFirstSleep) {
  goes_astray = 0;
  TestEngine world({kAstray});
  const auto run = world.start(kAstray);
  EXPECT_THAT(error_text<StuckRun>([&] { world.result(run); }),
              AllOf(HasSubstr("stands still"), HasSubstr("a sleep")));
  goes_astray = 0;
  TestEngine lenient({kAstray}, {.forget_waiting = false});
  EXPECT_EQ(lenient.result(lenient.start(kAstray)), 1);
}

std::string trace_of(const TestOptions& options) {
  TestEngine world({kRing, kSell}, options);
  for (const int hours : {2, 1, 2, 2, 1}) {
    world.start(kRing, hours);
  }
  const auto run = world.start(kSell, {.item = "lamp", .cents = 1});
  world.crash_at_commit(9);
  world.skip(2h);
  world.signal(run, "approved", true);
  world.result(run);
  EXPECT_EQ(world.crashes(), 1U);
  return world.trace();
}

TEST(TestEngineTest, TheSameSeedMakesTheSameTrace) {
  const std::string first = trace_of({.seed = 7});
  EXPECT_EQ(trace_of({.seed = 7}), first);
  EXPECT_NE(trace_of({.seed = 8}), first) << "other ids";
  EXPECT_THAT(first, HasSubstr("86400 s: step 'ship' of run"));
  EXPECT_EQ(trace_of({.seed = 7, .shuffle = true}), trace_of({.seed = 7, .shuffle = true}));
}

TEST(TestEngineTest, RecordedRunsFitTheirCodeAndStrayFromOther) {
  TestEngine world({kSell});
  const auto run = world.start(kSell, {.item = "lamp", .cents = 1}, {.id = "order-1"});
  world.skip(24h);
  const RecordedRun recorded = RecordedRun::from_text(world.record(run).to_text());
  EXPECT_EQ(recorded.id, "order-1");
  const ReplayVerdict verdict = check_replay(kSell, recorded);
  EXPECT_TRUE(verdict.fits) << verdict.complaint;
  EXPECT_FALSE(verdict.ended);
  EXPECT_EQ(verdict.rows, recorded.rows.size());
  const auto changed = workflow("sell", [](Context& ctx, Order /*order*/) -> Task<std::string> {
    co_await ctx.sleep(24h);
    co_return "";
  });
  const ReplayVerdict strays = check_replay(changed, recorded);
  EXPECT_FALSE(strays.fits);
  EXPECT_THAT(strays.complaint, AllOf(HasSubstr("step 'charge'"), HasSubstr("a sleep")));
  world.signal(run, "approved", false);
  world.result(run);
  EXPECT_TRUE(check_replay(kSell, world.record(run)).ended);
  EXPECT_THROW(static_cast<void>(world.record("nobody")), NoSuchRun);
}

}  // namespace
}  // namespace holdfast::testing
