// SPDX-License-Identifier: Apache-2.0
// Money moves between accounts in both directions at once. Taking two locks one after the other
// is how programs come to hang; `lock_all` cannot, and a detector finds where it was done by hand.
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <holdfast/holdfast.hpp>

#include "scenario.hpp"

namespace examples {

namespace {

using namespace std::chrono_literals;

struct Account {
  explicit Account(const std::string& name, holdfast::DeadlockDetector* detector = nullptr)
      : mutex({.name = name, .detector = detector}) {}

  holdfast::Mutex mutex;
  std::int64_t cents = 100'000;
};

holdfast::Task<void> write_ledger() { co_await holdfast::this_task::sleep_for(1ms); }

// [transfer]
holdfast::Task<void> move_money(Account& from, Account& to, std::int64_t cents) {
  // Both or none, in one order for everyone: whoever moves money the other way cannot be in the
  // middle of it while we wait.
  const auto holds = co_await holdfast::lock_all(from.mutex, to.mutex);
  from.cents -= cents;
  co_await write_ledger();
  to.cents += cents;
}
// [transfer]

// [nested]
holdfast::Task<void> move_money_nested(Account& from, Account& to, std::int64_t cents) {
  const holdfast::Hold from_hold = co_await from.mutex.lock();
  co_await write_ledger();
  const holdfast::Hold to_hold = co_await to.mutex.lock();  // The other one holds it, and waits.
  from.cents -= cents;
  to.cents += cents;
}
// [nested]

struct Bank {
  std::array<Account, 3> accounts{Account("savings"), Account("current"), Account("rent")};
  std::atomic<std::size_t> moved = 0;
};

constexpr int kTransfers = 300;
constexpr int kAudits = 20;

holdfast::Task<void> move_and_count(Stage& stage, Bank& bank, std::size_t number) {
  // 0 to 1, 1 to 0, 1 to 2, 2 to 1, 2 to 0, 0 to 2, and again.
  const std::size_t low = number / 2 % 3;
  const std::size_t high = (low + 1) % 3;
  const bool back = number % 2 == 1;
  Account& from = bank.accounts[back ? high : low];
  Account& to = bank.accounts[back ? low : high];
  co_await move_money(from, to, static_cast<std::int64_t>(number));
  stage.progress(++bank.moved, kTransfers);
}

/// Adds up all accounts while the transfers go on; how many times the sum was wrong.
holdfast::Task<void> audit(Bank& bank, std::int64_t expected, int& wrong) {
  auto& [a, b, c] = bank.accounts;
  for (int i = 0; i < kAudits; ++i) {
    {
      const auto holds = co_await holdfast::lock_all(c.mutex, b.mutex, a.mutex);
      wrong += a.cents + b.cents + c.cents == expected ? 0 : 1;
    }
    co_await holdfast::this_task::sleep_for(5ms);
  }
}

void play_right(Stage& stage) {
  Bank bank;
  auto& [a, b, c] = bank.accounts;
  const std::int64_t expected = a.cents + b.cents + c.cents;
  int wrong = 0;
  std::vector<holdfast::Task<void>> tasks;
  tasks.push_back(audit(bank, expected, wrong));
  for (std::size_t i = 0; i < kTransfers; ++i) {
    tasks.push_back(move_and_count(stage, bank, i));
  }
  stage.say(fmt::format("{} transfers between {} accounts, in both directions at once", kTransfers,
                        bank.accounts.size()));
  holdfast::ThreadPool pool(4);
  holdfast::sync_wait(pool, holdfast::all(std::move(tasks)), {}, stage.stop());

  stage.check(fmt::format("all {} transfers came to their end", kTransfers),
              bank.moved == kTransfers);
  stage.check("the sum of the money stayed the same", a.cents + b.cents + c.cents == expected);
  stage.check(fmt::format("and each of {} audits in between saw that sum", kAudits), wrong == 0);
}

/// The error that ended a transfer, if it was a deadlock.
std::optional<holdfast::DeadlockError> deadlock_of(holdfast::Spawned<void>& transfer) {
  try {
    transfer.get();
  } catch (const holdfast::DeadlockError& error) {
    return error;
  }
  return std::nullopt;
}

void play_wrong(Stage& stage) {
  holdfast::DeadlockDetector detector;
  Account savings("savings", &detector);
  Account rent("rent", &detector);
  // One thread and a virtual clock: the same unlucky moment every time.
  holdfast::VirtualClock clock;
  holdfast::ManualExecutor executor(clock);

  // One after the other nothing happens, but the detector has seen both orders.
  holdfast::sync_wait(executor, move_money_nested(savings, rent, 500), {.name = "pay the rent"});
  holdfast::sync_wait(executor, move_money_nested(rent, savings, 500), {.name = "refund"});
  const auto inversions = detector.inversions();
  if (!inversions.empty()) {
    stage.say(inversions.front().text());
  }
  stage.check("nested locks: the detector warns of the order before anything hangs",
              inversions.size() == 1 && inversions.front().owner == "refund");

  // At the same time each gets its first lock, and waits for the other's.
  auto pay =
      holdfast::spawn(executor, move_money_nested(savings, rent, 500), {.name = "pay the rent"});
  auto refund =
      holdfast::spawn(executor, move_money_nested(rent, savings, 500), {.name = "refund"});
  executor.drive_until([&] { return pay.ended() && refund.ended(); });
  const auto first = deadlock_of(pay);
  const auto second = deadlock_of(refund);
  const auto& deadlock = first ? first : second;
  if (deadlock) {
    stage.say(deadlock->what());
  }
  stage.check("nested locks: the deadlock is found, and its cycle named",
              deadlock && deadlock->cycle().size() == 2);
  stage.check("nested locks: who gets the error lets go, and the other comes to its end",
              first.has_value() != second.has_value());
}

}  // namespace

void transfer(Stage& stage) {
  play_right(stage);
  play_wrong(stage);
}

}  // namespace examples
