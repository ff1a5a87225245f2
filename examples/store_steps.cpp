// SPDX-License-Identifier: Apache-2.0
// A small bank in a store: transfers by many tasks at once, and an auditor whom they wake. With a
// URL such as sqlite:bank.db the accounts are kept, and several of these programs may run at once.
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/holdfast.hpp>
#include <holdfast/open_store.hpp>

namespace {

constexpr int kTransfers = 20;
constexpr int kTotal = 200;

std::string changed_by(const std::string& euros, int difference) {
  return std::to_string(std::stoi(euros) + difference);
}

// [transfer]
holdfast::Task<void> transfer(holdfast::Store& bank, std::string from, std::string to, int euros) {
  for (;;) {
    const auto payer = co_await bank.get(from);
    const auto payee = co_await bank.get(to);
    holdfast::Batch batch;
    batch.require_version(from, payer->version).put(from, changed_by(payer->value, -euros));
    batch.require_version(to, payee->version).put(to, changed_by(payee->value, euros));
    const holdfast::CommitOutcome outcome = co_await bank.commit(std::move(batch));
    if (outcome.committed() != nullptr) {
      co_return;  // It is on the disk.
    }
    // Another task, or another process, was quicker: start over with what is there now.
  }
}
// [transfer]

int total_of(const holdfast::Page& accounts) {
  int total = 0;
  for (const holdfast::Entry& account : accounts.entries) {
    total += std::stoi(account.value);
  }
  return total;
}

// [audit]
holdfast::Task<void> audit(holdfast::Store& bank, int& looks) {
  holdfast::Watch watch = bank.watch("account/");
  for (;;) {
    const holdfast::Page accounts = co_await bank.scan("account/");  // All as of one moment.
    if (total_of(accounts) != kTotal) {
      throw std::runtime_error("money is missing");
    }
    ++looks;
    co_await watch.changed();  // In whatever process; and nothing polls.
  }
}
// [audit]

// [open]
holdfast::Task<bool> open_accounts(holdfast::Store& bank) {
  holdfast::Batch batch;
  batch.require_absent("account/1").put("account/1", "100");
  batch.require_absent("account/2").put("account/2", "100");
  const holdfast::CommitOutcome outcome = co_await bank.commit(std::move(batch));
  co_return outcome.committed() != nullptr;  // Otherwise they are there already.
}
// [open]

holdfast::Task<void> do_business(holdfast::Store& bank, int& looks) {
  std::vector<holdfast::Task<void>> transfers;
  for (int i = 0; i < kTransfers; ++i) {
    const bool there = i % 2 == 0;
    transfers.push_back(there ? transfer(bank, "account/1", "account/2", 10)
                              : transfer(bank, "account/2", "account/1", 10));
  }
  // When all transfers are made the auditor is asked to stop.
  auto all_transfers = holdfast::all(std::move(transfers));
  co_await holdfast::any(std::move(all_transfers), audit(bank, looks));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto bank = holdfast::open_store(argc > 1 ? argv[1] : "memory:");
    holdfast::ThreadPool pool;
    const bool is_new = holdfast::sync_wait(pool, open_accounts(*bank));
    int looks = 0;
    holdfast::sync_wait(pool, do_business(*bank, looks));
    const int total = total_of(holdfast::sync_wait(pool, bank->scan("account/")));
    std::printf("%s accounts, %d transfers, %d euros; the auditor looked %d times\n",
                is_new ? "new" : "old", kTransfers, total, looks);
    return total == kTotal ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
