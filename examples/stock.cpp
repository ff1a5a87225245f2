// SPDX-License-Identifier: Apache-2.0
// Orders take from a stock that is a table in the store's own file. What is taken and the record of
// it are one transaction, so a crash takes nothing twice, and nothing in vain.
#include <sqlite3.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <holdfast/engine.hpp>
#include <holdfast/executor.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/sqlite_store.hpp>
#include <holdfast/sqlite_transaction.hpp>

#include "folder.hpp"

namespace {

using holdfast::Context;
using holdfast::Task;
using holdfast::Transaction;

constexpr int kOrders = 8;
constexpr int kInStock = 5;

// [sql]
/// The first column of the first row, if there is one. Throws what SQLite says.
std::int64_t ask(sqlite3* db, const char* sql, std::int64_t otherwise = 0) {
  sqlite3_stmt* prepared = nullptr;
  sqlite3_prepare_v2(db, sql, -1, &prepared, nullptr);
  const std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)> statement(prepared,
                                                                             &sqlite3_finalize);
  const int found = sqlite3_step(prepared);
  if (found != SQLITE_ROW && found != SQLITE_DONE) {
    throw std::runtime_error(sqlite3_errmsg(db));
  }
  return found == SQLITE_ROW ? sqlite3_column_int64(prepared, 0) : otherwise;
}
// [sql]

// [take]
Task<std::int64_t> take_a_lamp(Context& ctx) {
  auto take = ctx.transact("take stock", [](Transaction& transaction) {
    sqlite3* const db = holdfast::sqlite_connection(transaction);
    const std::int64_t left = ask(db,
                                  "UPDATE stock SET pieces = pieces - 1 "
                                  "WHERE item = 'lamp' AND pieces > 0 RETURNING pieces",
                                  -1);
    if (left < 0) {
      throw holdfast::PermanentFailure("there are no lamps left");  // Takes all of it back.
    }
    ask(db, "INSERT INTO sold VALUES('lamp')");
    return left;
  });
  const std::int64_t left = co_await take;
  co_return left;
}
const auto kTakeALamp = holdfast::workflow("take a lamp", take_a_lamp);
// [take]

// [tables]
Task<void> make_tables(holdfast::Store& store) {
  const holdfast::TransactionWork make = [](Transaction& transaction) {
    sqlite3* const db = holdfast::sqlite_connection(transaction);
    ask(db, "CREATE TABLE IF NOT EXISTS stock(item TEXT PRIMARY KEY, pieces INTEGER NOT NULL)");
    ask(db, "CREATE TABLE IF NOT EXISTS sold(item TEXT NOT NULL)");
    ask(db, "INSERT OR IGNORE INTO stock VALUES('lamp', 5)");
    return holdfast::Batch();
  };
  static_cast<void>(co_await store.transact(make));
}
// [tables]

Task<void> order(holdfast::Engine& engine, int number) {
  const auto run = co_await engine.start(kTakeALamp);
  try {
    const std::int64_t left = co_await run.result();
    std::printf("order %d has a lamp, %lld left\n", number, static_cast<long long>(left));
  } catch (const holdfast::RunFailed& failed) {
    std::printf("order %d: %s\n", number, failed.what());
  }
}

Task<std::int64_t> count_sold(holdfast::Store& store) {
  std::int64_t sold = 0;
  const holdfast::TransactionWork count = [&sold](Transaction& transaction) {
    sold = ask(holdfast::sqlite_connection(transaction), "SELECT count(*) FROM sold");
    return holdfast::Batch();
  };
  static_cast<void>(co_await store.transact(count));
  co_return sold;
}

std::int64_t sell(holdfast::Store& store) {
  holdfast::ThreadPool pool(2);
  holdfast::sync_wait(pool, make_tables(store));
  const auto session = holdfast::sync_wait(pool, holdfast::Session::open(store));
  holdfast::Engine engine(*session, {.executor = &pool});
  engine.add(kTakeALamp);
  holdfast::sync_wait(pool, engine.begin());
  std::vector<holdfast::Spawned<void>> orders;
  for (int number = 1; number <= kOrders; ++number) {
    orders.push_back(holdfast::spawn(pool, order(engine, number)));
  }
  for (auto& one : orders) {
    one.get();
  }
  holdfast::sync_wait(pool, engine.stop());
  holdfast::sync_wait(pool, session->close());
  return holdfast::sync_wait(pool, count_sold(store));
}

}  // namespace

int main() {
  try {
    const examples::Folder folder;
    const auto store = holdfast::open_sqlite_store(folder.path() + "/shop.db");
    const std::int64_t sold = sell(*store);
    std::printf("%lld of %d lamps sold to %d orders\n", static_cast<long long>(sold), kInStock,
                kOrders);
    return sold == kInStock ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
