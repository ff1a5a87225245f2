// SPDX-License-Identifier: Apache-2.0
// How an author of a workflow tests it: virtual time, faked steps, a crash at every commit. It
// needs no test framework; with one, `check` is what that has.
#include <boost/describe/class.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include <holdfast/testing.hpp>

namespace {

using holdfast::Context;
using holdfast::StepContext;
using holdfast::Task;
using holdfast::testing::fail_times;
using holdfast::testing::StepCall;
using holdfast::testing::TestEngine;
using namespace std::chrono_literals;

// [workflow]
struct Order {
  std::string item;
  std::int64_t cents = 0;
};
BOOST_DESCRIBE_STRUCT(Order, (), (item, cents))

std::string charge(const Order& order, const std::string& key);
std::string ship(const Order& order);

Task<std::string> sell(Context& ctx, Order order) {
  auto charging =
      ctx.run("charge", [&](StepContext& step) { return charge(order, step.idempotency_key()); });
  const std::string receipt = co_await charging;
  auto approved = ctx.signal<bool>("approved");
  const std::variant<bool, std::monostate> first = co_await ctx.any(approved, ctx.sleep(72h));
  if (first.index() == 1) {
    co_return receipt + ", and nobody approved it";
  }
  auto shipping = ctx.run("ship", [&] { return ship(order); });
  const std::string parcel = co_await shipping;
  co_return receipt + ", " + parcel;
}
const auto kSell = holdfast::workflow("sell", sell);
// [workflow]

std::string charge(const Order& /*order*/, const std::string& /*key*/) {
  throw std::logic_error("a test must not take money");
}
std::string ship(const Order& /*order*/) { throw std::logic_error("nor send parcels"); }

void check(bool holds, const char* what) {
  if (!holds) {
    throw std::runtime_error(what);
  }
}

// [world]
void an_order_that_is_approved_is_shipped() {
  TestEngine world({kSell});
  world.forbid_real_steps();
  world.fake_step("charge",
                  [](StepCall& call) { return "charged for " + call.run_input<Order>().item; });
  world.fake_step("ship", fail_times(2, "no truck").then("parcel 1"));

  const auto run = world.start(kSell, {.item = "lamp", .cents = 4'200}, {.id = "order-1"});
  check(world.calls("charge") == 1, "it is charged at once");
  world.skip(48h);  // Two days, at no cost.
  world.signal(run, "approved", true);
  check(world.result(run) == "charged for lamp, parcel 1", "it is shipped, at the third attempt");
  check(world.calls("ship") == 3 && world.unused_fakes().empty(), "all fakes were of use");
}

void an_order_that_nobody_approves_ends_after_three_days() {
  TestEngine world({kSell});
  world.fake_step("charge", "charged");
  const auto began = world.now();
  const auto run = world.start(kSell, {.item = "lamp", .cents = 4'200});
  check(world.result(run) == "charged, and nobody approved it", "it ends");
  check(world.now() - began == 72h, "when its time is up, and not before");
}
// [world]

// [crash]
/// It is played once without a crash, then twice for each commit that it has.
void pay_once(TestEngine& world) {
  std::set<std::string> payments;  // What a bank does that knows keys.
  world.fake_step("charge", [&](StepCall& call) {
    payments.insert(call.idempotency_key());
    return std::string("charged");
  });
  world.fake_step("ship", "parcel 1");
  const auto run = world.start(kSell, {.item = "lamp", .cents = 4'200});
  world.signal(run, "approved", true);
  check(world.result(run) == "charged, parcel 1", "whatever died, it is shipped");
  check(payments.size() == 1, "and paid once");
}

void whatever_dies_when_it_is_paid_once() {
  const auto report = holdfast::testing::crash_everywhere({kSell}, pay_once);
  std::printf("it died %d times, and was paid once each\n", static_cast<int>(report.crashes));
}
// [crash]

/// The same against a bank that knows no keys.
void pay_blindly(TestEngine& world) {
  int payments = 0;
  world.fake_step("charge", [&] {
    ++payments;
    return std::string("charged");
  });
  world.fake_step("ship", "parcel 1");
  const auto run = world.start(kSell, {.item = "lamp", .cents = 4'200});
  world.signal(run, "approved", true);
  static_cast<void>(world.result(run));
  check(payments == 1, "paid more than once");
}

void a_bank_that_knows_no_keys_is_found_out() {
  try {
    holdfast::testing::crash_everywhere({kSell}, pay_blindly);
  } catch (const holdfast::testing::CrashFound& found) {
    std::printf("%s", found.what());
    return;
  }
  throw std::runtime_error("it was not found");
}

// [copy]
void what_if_it_is_approved_too_late() {
  TestEngine world({kSell});
  world.fake_step("charge", "charged");
  world.fake_step("ship", "parcel 1");
  const auto run = world.start(kSell, {.item = "lamp", .cents = 4'200});
  world.skip(71h);
  TestEngine in_time = world.copy();
  in_time.signal(run, "approved", true);
  check(in_time.result(run) == "charged, parcel 1", "an hour before the end is in time");
  world.skip(1h);
  check(world.result(run) == "charged, and nobody approved it", "an hour later it is not");
}
// [copy]

// [record]
Task<std::string> sell_faster(Context& ctx, Order order) {
  auto shipping = ctx.run("ship", [&] { return ship(order); });  // Before it is charged?
  std::string parcel = co_await shipping;
  co_return parcel;
}

void code_that_has_changed_fits_runs_that_are_under_way() {
  TestEngine world({kSell});
  world.fake_step("charge", "charged");
  const auto run = world.start(kSell, {.item = "lamp", .cents = 4'200}, {.id = "order-1"});
  // In production: engine.record("order-1"), and to_text() of it into a file beside the tests.
  const holdfast::RecordedRun recorded = world.record(run);
  check(holdfast::check_replay(kSell, recorded).fits, "it fits itself");
  const auto changed = holdfast::workflow("sell", sell_faster);
  const holdfast::ReplayVerdict verdict = holdfast::check_replay(changed, recorded);
  check(!verdict.fits, "and this must not be deployed");
  std::printf("%s\n", verdict.complaint.c_str());
}
// [record]

}  // namespace

int main() {
  try {
    an_order_that_is_approved_is_shipped();
    an_order_that_nobody_approves_ends_after_three_days();
    whatever_dies_when_it_is_paid_once();
    a_bank_that_knows_no_keys_is_found_out();
    what_if_it_is_approved_too_late();
    code_that_has_changed_fits_runs_that_are_under_way();
    std::puts("all is well");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
