// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/transfer_job.hpp"

#include <fstream>

#include <holdfast/sqlite_transaction.hpp>

#include "store_sqlite/sql_by_hand.hpp"

namespace holdfast::testing {

std::string transfer_notes;
std::function<void(std::int64_t round)> after_transfer_sql;

namespace {

std::int64_t move_money(Transaction& transaction, std::int64_t round) {
  sqlite3* const db = sqlite_connection(transaction);
  const std::string amount = std::to_string(kMovedPerRound);
  run_sql(db, "UPDATE account SET amount = amount - " + amount + " WHERE name = 'a'");
  run_sql(db, "UPDATE account SET amount = amount + " + amount + " WHERE name = 'b'");
  run_sql(db, "INSERT INTO move VALUES(" + std::to_string(round) + ")");
  std::ofstream(transfer_notes, std::ios::app) << round << std::endl;
  if (after_transfer_sql) {
    after_transfer_sql(round);
  }
  return ask_sql(db, "SELECT amount FROM account WHERE name = 'b'");
}

Task<std::int64_t> transfer(Context& ctx, Job job) {
  auto open = ctx.transact("open accounts", [](Transaction& transaction) {
    run_sql(sqlite_connection(transaction),
            "CREATE TABLE account(name TEXT PRIMARY KEY, amount INTEGER NOT NULL);"
            "CREATE TABLE move(round INTEGER NOT NULL);"
            "INSERT INTO account VALUES('a', 0), ('b', 0)");
  });
  co_await open;
  std::int64_t moved = 0;
  for (std::int64_t round = 1; round <= job.rounds; ++round) {
    auto move = ctx.transact(
        "move", [round](Transaction& transaction) { return move_money(transaction, round); });
    moved = co_await move;
  }
  co_return moved;
}

}  // namespace

const Workflow<Job, std::int64_t> kTransferJob = workflow("transfer", transfer);

}  // namespace holdfast::testing
