// SPDX-License-Identifier: Apache-2.0
// Charging a card under a mutex, and moving money between two accounts in both orders, with a crash
// at every commit.
#include <boost/describe/class.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <set>
#include <stdexcept>
#include <string>

#include <holdfast/state.hpp>
#include <holdfast/testing.hpp>

namespace {

using holdfast::Context;
using holdfast::RunLock;
using holdfast::StepContext;
using holdfast::Task;
using holdfast::testing::StepCall;
using holdfast::testing::TestEngine;
using namespace std::chrono_literals;

std::int64_t charge_card(const std::string& card, std::int64_t cents, std::uint64_t fence,
                         const std::string& key);

struct Payment {
  std::string card;
  std::int64_t cents = 0;
};
BOOST_DESCRIBE_STRUCT(Payment, (), (card, cents))

// [charge]
/// One charge of a card at a time, over all processes: the limit is read, compared and used up by
/// one run before another one reads it.
Task<bool> charge(Context& ctx, Payment payment) {
  const RunLock lock = co_await ctx.lock("card:" + payment.card);
  auto spent = ctx.global().cell<std::int64_t>("spent on " + payment.card);
  const std::int64_t before = co_await spent.get();
  if (before + payment.cents > 10'000) {
    co_return false;
  }
  auto charging = ctx.run("charge", [&](StepContext& step) {
    return charge_card(payment.card, payment.cents, lock.fence(), step.idempotency_key());
  });
  co_await charging;
  co_await spent.set(before + payment.cents);
  co_return true;
}  // What was spent and the release of the lock are one commit.
const auto kCharge = holdfast::workflow("charge", charge);
// [charge]

std::int64_t charge_card(const std::string& /*card*/, std::int64_t /*cents*/,
                         std::uint64_t /*fence*/, const std::string& /*key*/) {
  throw std::logic_error("a test must not take money");
}

struct Move {
  std::string from;
  std::string to;
  std::int64_t amount = 0;
};
BOOST_DESCRIBE_STRUCT(Move, (), (from, to, amount))

// [both_orders]
/// Takes the locks as they come, so that two of them can wait for each other: the one who would
/// close the circle is told, lets go of what it has, and begins anew.
Task<std::int64_t> move(Context& ctx, Move order) {
  for (;;) {
    RunLock first = co_await ctx.lock("account:" + order.from);
    co_await ctx.sleep(1s);  // As if something had to be looked up between the two.
    auto wait = ctx.lock("account:" + order.to);
    auto second = co_await ctx.attempt(wait);
    if (!second) {
      first.release();
      co_await ctx.sleep(5s);
      continue;
    }
    auto from = ctx.global().cell<std::int64_t>(order.from, 100);
    auto to = ctx.global().cell<std::int64_t>(order.to, 100);
    const std::int64_t left = co_await from.get();
    const std::int64_t other = co_await to.get();
    co_await from.set(left - order.amount);
    co_await to.set(other + order.amount);
    co_return left - order.amount;
  }
}
const auto kMove = holdfast::workflow("move", move);
// [both_orders]

void check(bool holds, const char* what) {
  if (!holds) {
    throw std::runtime_error(what);
  }
}

std::int64_t cell_of(TestEngine& world, const std::string& name, std::int64_t initial) {
  return world.run([name, initial, &world](holdfast::Engine&) {
    holdfast::State state(world.store());
    return state.global().cell<std::int64_t>(name, initial).get();
  });
}

void charge_three_times(TestEngine& world) {
  std::set<std::string> charges;  // The bank knows keys.
  world.fake_step("charge", [&](StepCall& call) {
    charges.insert(call.idempotency_key());
    return std::int64_t{0};
  });
  const auto one = world.start(kCharge, {.card = "4711", .cents = 6'000});
  const auto two = world.start(kCharge, {.card = "4711", .cents = 6'000});
  const auto three = world.start(kCharge, {.card = "4711", .cents = 3'000});
  const bool first = world.result(one);
  const bool second = world.result(two);
  const bool third = world.result(three);
  check(first && !second && third, "what is too much is not charged");
  check(charges.size() == 2, "and the others once each");
  check(cell_of(world, "spent on 4711", 0) == 9'000, "all of it is written down");
}

void move_in_both_orders(TestEngine& world) {
  const auto there = world.start(kMove, {.from = "savings", .to = "rent", .amount = 10});
  const auto back = world.start(kMove, {.from = "rent", .to = "savings", .amount = 30});
  static_cast<void>(world.result(there));
  static_cast<void>(world.result(back));
  check(cell_of(world, "savings", 100) == 120, "both were made");
  check(cell_of(world, "rent", 100) == 80, "once each");
}

}  // namespace

int main() {
  try {
    const auto charged = holdfast::testing::crash_everywhere({kCharge}, charge_three_times);
    std::printf("charged once each, with %d crashes\n", static_cast<int>(charged.crashes));
    const auto moved = holdfast::testing::crash_everywhere({kMove}, move_in_both_orders);
    std::printf("moved in both orders, with %d crashes\n", static_cast<int>(moved.crashes));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
