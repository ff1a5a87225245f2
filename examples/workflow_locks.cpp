// SPDX-License-Identifier: Apache-2.0
// Workflows that hold durable locks: transfers between accounts, in both directions, each of which
// is told to a bank that takes three calls at a time.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <boost/describe/class.hpp>

#include <holdfast/engine.hpp>
#include <holdfast/executor.hpp>
#include <holdfast/open_store.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/state.hpp>

namespace {

using holdfast::Context;
using holdfast::Limit;
using holdfast::RunLock;
using holdfast::Task;

constexpr int kTransfers = 40;
constexpr std::int64_t kAtFirst = 100;

std::atomic<int> calls = 0;
std::atomic<int> calls_most = 0;

void tell_the_bank() {
  const int now = ++calls;
  int most = calls_most;
  while (now > most && !calls_most.compare_exchange_weak(most, now)) {
  }
  --calls;
}

struct Transfer {
  std::string from;
  std::string to;
  std::int64_t amount = 0;
};
BOOST_DESCRIBE_STRUCT(Transfer, (), (from, to, amount))

// [transfer]
Task<std::int64_t> transfer(Context& ctx, Transfer order) {
  // In the order of their names, whichever comes first here: two transfers never wait for each
  // other.
  std::vector<Limit> accounts{Limit("account:" + order.from, 1), Limit("account:" + order.to, 1)};
  const std::vector<RunLock> both = co_await lock_all(ctx, accounts);

  auto from = ctx.global().cell<std::int64_t>(order.from, kAtFirst);
  auto to = ctx.global().cell<std::int64_t>(order.to, kAtFirst);
  const std::int64_t balance = co_await from.get();
  const std::int64_t other = co_await to.get();
  co_await from.set(balance - order.amount);
  co_await to.set(other + order.amount);
  co_return balance - order.amount;
}  // The commit that ends the run lets go of both, and wakes whoever is next.
const auto kTransfer = holdfast::workflow("transfer", transfer);
// [transfer]

// [limit]
const Limit kBank("bank api", 3);

Task<std::int64_t> pay(Context& ctx, Transfer order) {
  const std::int64_t left = co_await ctx.child(kTransfer, order);
  const RunLock call = co_await ctx.acquire(kBank);  // Waits for days if it must, at no cost.
  auto tell = ctx.run("tell the bank", tell_the_bank);
  co_await tell;
  co_return left;
}
const auto kPay = holdfast::workflow("pay", pay);
// [limit]

Task<void> order(holdfast::Engine& engine, int number) {
  Transfer wanted{"savings", "rent", 1 + number % 7};
  if (number % 2 == 0) {
    std::swap(wanted.from, wanted.to);
  }
  const auto run = co_await engine.start(kPay, wanted);
  static_cast<void>(co_await run.result());
}

Task<std::int64_t> balance_of(holdfast::Store& store, std::string account) {
  holdfast::State state(store);
  auto cell = state.global().cell<std::int64_t>(account, kAtFirst);
  const std::int64_t balance = co_await cell.get();
  co_return balance;
}

std::int64_t pay_all(holdfast::Store& store) {
  holdfast::ThreadPool pool(2);
  const auto session = holdfast::sync_wait(pool, holdfast::Session::open(store));
  holdfast::Engine engine(*session, {.executor = &pool});
  engine.add(kTransfer);
  engine.add(kPay);
  holdfast::sync_wait(pool, engine.begin());
  std::vector<holdfast::Spawned<void>> orders;
  for (int number = 1; number <= kTransfers; ++number) {
    orders.push_back(holdfast::spawn(pool, order(engine, number)));
  }
  for (auto& one : orders) {
    one.get();
  }
  holdfast::sync_wait(pool, engine.stop());
  holdfast::sync_wait(pool, session->close());
  const std::int64_t savings = holdfast::sync_wait(pool, balance_of(store, "savings"));
  const std::int64_t rent = holdfast::sync_wait(pool, balance_of(store, "rent"));
  return savings + rent;
}

}  // namespace

int main() {
  try {
    const auto store = holdfast::open_store("memory:");
    const std::int64_t sum = pay_all(*store);
    std::printf("%d transfers in both directions, %lld euros; at most %d calls at a time: %s\n",
                kTransfers, static_cast<long long>(sum), 3, calls_most <= 3 ? "yes" : "NO");
    return sum == 2 * kAtFirst && calls_most <= 3 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
