// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/executor.hpp>
#include <holdfast/memory_store.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/sqlite_store.hpp>
#include <holdfast/sqlite_transaction.hpp>

#include "base/temp_folder.hpp"
#include "sql_by_hand.hpp"

namespace holdfast {
namespace {

using testing::ask_sql;
using testing::run_sql;

class SqliteTransactionTest : public ::testing::Test {
 protected:
  SqliteTransactionTest() {
    sql("CREATE TABLE account(name TEXT PRIMARY KEY, amount INTEGER NOT NULL CHECK (amount >= 0));"
        "INSERT INTO account VALUES('a', 100), ('b', 0)");
  }

  CommitOutcome transact(const TransactionWork& work) {
    return sync_wait(pool_, store_->transact(work));
  }
  Version sql(const std::string& text) {
    const CommitOutcome outcome = transact([&text](Transaction& transaction) {
      run_sql(sqlite_connection(transaction), text);
      return Batch();
    });
    return outcome.committed()->version;
  }
  std::int64_t ask(const std::string& text) {
    std::int64_t answer = 0;
    static_cast<void>(transact([&](Transaction& transaction) {
      answer = ask_sql(sqlite_connection(transaction), text);
      return Batch();
    }));
    return answer;
  }
  std::int64_t amount(const std::string& name) {
    return ask("SELECT amount FROM account WHERE name = '" + name + "'");
  }
  std::optional<Entry> get(std::string_view key) { return sync_wait(pool_, store_->get(key)); }
  Version put(std::string_view key, std::string_view value) {
    return sync_wait(pool_, store_->commit(std::move(Batch().put(key, value))))
        .committed()
        ->version;
  }
  /// What it is refused with; then nothing of it may have happened.
  std::string refusal_of(const TransactionWork& work) {
    std::string text;
    try {
      static_cast<void>(transact([&work](Transaction& transaction) {
        run_sql(sqlite_connection(transaction), "UPDATE account SET amount = 7");
        return work(transaction);
      }));
      ADD_FAILURE() << "it was not refused";
    } catch (const TransactionRefused& refused) {
      text = refused.what();
    }
    EXPECT_EQ(amount("a"), 100);
    EXPECT_NE(put("usable", "still"), 0U);
    return text;
  }

  testing::TempFolder folder_;
  ThreadPool pool_{2};
  std::unique_ptr<Store> store_ = open_sqlite_store(folder_ / "store.db");
};

constexpr const char* kMove =
    "UPDATE account SET amount = amount - 30 WHERE name = 'a';"
    "UPDATE account SET amount = amount + 30 WHERE name = 'b'";

TEST_F(SqliteTransactionTest, SqlAndBatchHappenTogether) {
  const Version before = put("other", "1");
  const CommitOutcome outcome = transact([](Transaction& transaction) {
    run_sql(sqlite_connection(transaction), kMove);
    return std::move(Batch().require_absent("moved").put("moved", "30"));
  });
  ASSERT_NE(outcome.committed(), nullptr);
  EXPECT_GT(outcome.committed()->version, before);
  EXPECT_EQ(get("moved"), (Entry{"moved", "30", outcome.committed()->version}));
  EXPECT_EQ(amount("a"), 70);
  EXPECT_EQ(amount("b"), 30);
  store_.reset();
  store_ = open_sqlite_store(folder_ / "store.db");
  EXPECT_EQ(amount("b"), 30);
  EXPECT_EQ(get("moved")->version, outcome.committed()->version);
  EXPECT_EQ(sync_wait(pool_, store_->check()).faults, std::vector<std::string>{});
}

TEST_F(SqliteTransactionTest, WithoutABatchItIsACommitOfItsOwn) {
  const Version before = put("other", "1");
  const Version version = sql(kMove);
  EXPECT_GT(version, before);
  EXPECT_GT(put("other", "2"), version);
  EXPECT_EQ(amount("b"), 30);
}

TEST_F(SqliteTransactionTest, WhatItThrowsIsThrownOnAndAllIsTakenBack) {
  EXPECT_THROW(static_cast<void>(transact([](Transaction& transaction) -> Batch {
                 run_sql(sqlite_connection(transaction), kMove);
                 throw std::out_of_range("no");
               })),
               std::out_of_range);
  EXPECT_THROW(static_cast<void>(transact([](Transaction& transaction) -> Batch {
                 run_sql(sqlite_connection(transaction), kMove);
                 throw StoreFailed("as if the disk had said so");
               })),
               StoreFailed);
  EXPECT_EQ(amount("b"), 0);
  EXPECT_NE(put("usable", "still"), 0U);
}

TEST_F(SqliteTransactionTest, AConditionThatDoesNotHoldTakesAllBack) {
  const Version version = put("lock", "mine");
  const CommitOutcome conflict = transact([](Transaction& transaction) {
    run_sql(sqlite_connection(transaction), kMove);
    return std::move(Batch().require_absent("lock").put("moved", "30"));
  });
  ASSERT_NE(conflict.conflict(), nullptr);
  EXPECT_EQ(conflict.conflict()->current, (Entry{"lock", "mine", version}));
  const CommitOutcome fenced = transact([&](Transaction& transaction) {
    transaction.guard("lock", version - 1);
    run_sql(sqlite_connection(transaction), kMove);
    return std::move(Batch().put("moved", "30"));
  });
  ASSERT_NE(fenced.fenced(), nullptr);
  EXPECT_EQ(fenced.fenced()->key, "lock");
  EXPECT_EQ(amount("b"), 0);
  EXPECT_EQ(get("moved"), std::nullopt);
  const CommitOutcome held = transact([&](Transaction& transaction) {
    transaction.guard("lock", version);
    run_sql(sqlite_connection(transaction), kMove);
    return Batch();
  });
  EXPECT_NE(held.committed(), nullptr);
  EXPECT_EQ(amount("b"), 30);
}

TEST_F(SqliteTransactionTest, ABatchOverALimitIsRefusedWithItsSql) {
  EXPECT_THROW(static_cast<void>(transact([](Transaction& transaction) {
                 run_sql(sqlite_connection(transaction), kMove);
                 return std::move(Batch().put("", "empty key"));
               })),
               InvalidArgument);
  EXPECT_EQ(amount("b"), 0);
}

TEST_F(SqliteTransactionTest, WhatIsTheStoresIsRefusedAndNamed) {
  const std::vector<std::pair<std::string, std::string>> refused{
      {"BEGIN", "BEGIN: the transaction begins and ends with the function"},
      {"COMMIT", "COMMIT: the transaction begins and ends with the function"},
      {"END", "COMMIT: the transaction begins and ends with the function"},
      {"ROLLBACK", "ROLLBACK: the transaction begins and ends with the function"},
      {"ATTACH ':memory:' AS other", "ATTACH"},
      {"DETACH main", "DETACH"},
      {"PRAGMA synchronous = OFF", "PRAGMA synchronous"},
      {"PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA wal_checkpoint"},
      {"PRAGMA writable_schema = ON", "PRAGMA writable_schema"},
      {"PRAGMA user_version = 7", "PRAGMA user_version"},
      {"PRAGMA journal_mode = DELETE", "PRAGMA journal_mode"},
      {"INSERT INTO entries VALUES(x'00', 1, x'00')", "'entries', a table of the store's own"},
      {"UPDATE State SET sequence = 0", "'state', a table of the store's own"},
      {"DELETE FROM entries", "'entries', a table of the store's own"},
      {"DROP TABLE entries", "'entries', a table of the store's own"},
      {"ALTER TABLE entries ADD COLUMN more TEXT", "'entries', a table of the store's own"},
      {"CREATE INDEX i ON entries(version)", "'entries', a table of the store's own"},
      {"CREATE TRIGGER t AFTER INSERT ON entries BEGIN SELECT 1; END",
       "'entries', a table of the store's own"},
      {"CREATE TRIGGER t AFTER INSERT ON account BEGIN DELETE FROM entries; END;"
       "INSERT INTO account VALUES('c', 1)",
       "'entries', a table of the store's own"},
      {"CREATE TEMP TABLE entries(key, version, value)", "TEMP 'entries'"},
      {"CREATE TEMP VIEW v AS SELECT 1", "TEMP 'v'"},
  };
  put("kept", "1");
  for (const auto& [text, why] : refused) {
    SCOPED_TRACE(text);
    const std::string thrown = refusal_of([&sql_text = text](Transaction& transaction) {
      run_sql(sqlite_connection(transaction), sql_text);
      return Batch();
    });
    EXPECT_NE(thrown.find(why), std::string::npos) << thrown;
    // Whoever does not look at what SQLite says gets no further.
    const std::string ignored = refusal_of([&sql_text = text](Transaction& transaction) {
      sqlite3_exec(sqlite_connection(transaction), sql_text.c_str(), nullptr, nullptr, nullptr);
      return Batch();
    });
    EXPECT_EQ(thrown, ignored);
  }
  EXPECT_EQ(get("kept")->value, "1");
  EXPECT_EQ(sync_wait(pool_, store_->check()).faults, std::vector<std::string>{});
}

TEST_F(SqliteTransactionTest, ReadingTheStoreAndTheSchemaIsFine) {
  put("seen", "by SQL");
  EXPECT_EQ(ask("SELECT count(*) FROM entries WHERE value = CAST('by SQL' AS BLOB)"), 1);
  EXPECT_EQ(ask("SELECT count(*) FROM pragma_table_info('account')"), 2);
  sql("PRAGMA table_info(account); PRAGMA user_version");
}

TEST_F(SqliteTransactionTest, APartCanBeTakenBack) {
  sql("SAVEPOINT part; UPDATE account SET amount = 5; ROLLBACK TO part; RELEASE part;"
      "UPDATE account SET amount = 6 WHERE name = 'b'");
  EXPECT_EQ(amount("a"), 100);
  EXPECT_EQ(amount("b"), 6);
}

TEST_F(SqliteTransactionTest, AStatementThatWasLeftOpenIsEndedAndNamed) {
  const auto leave_open = [](Transaction& transaction) {
    sqlite3_stmt* left = nullptr;
    sqlite3_prepare_v2(sqlite_connection(transaction), "SELECT name FROM account", -1, &left,
                       nullptr);
    sqlite3_step(left);
    return Batch();
  };
  const std::string text = refusal_of(leave_open);
  EXPECT_NE(text.find("SELECT name FROM account"), std::string::npos) << text;
  EXPECT_THROW(static_cast<void>(transact([&](Transaction& transaction) -> Batch {
                 static_cast<void>(leave_open(transaction));
                 throw std::out_of_range("this is what is told then");
               })),
               std::out_of_range);
  sql("DROP TABLE account");  // Nothing reads it any more.
}

TEST_F(SqliteTransactionTest, VirtualTablesKeepTheirStatements) {
  sql("CREATE VIRTUAL TABLE words USING fts5(word)");
  for (int i = 0; i < 3; ++i) {
    sql("INSERT INTO words VALUES('holdfast')");
  }
  EXPECT_EQ(ask("SELECT count(*) FROM words WHERE words MATCH 'holdfast'"), 3);
  const std::string text = refusal_of([](Transaction& transaction) {
    sqlite3_stmt* left = nullptr;
    sqlite3_prepare_v2(sqlite_connection(transaction), "SELECT name FROM account", -1, &left,
                       nullptr);
    sqlite3_step(left);
    return Batch();
  });
  EXPECT_NE(text.find("SELECT name FROM account"), std::string::npos) << text;
  store_.reset();
  store_ = open_sqlite_store(folder_ / "store.db");
  EXPECT_EQ(ask("SELECT count(*) FROM words WHERE words MATCH 'holdfast'"), 3);
}

TEST_F(SqliteTransactionTest, WhatRollsItselfBackIsNotCommittedBitByBit) {
  const std::string text = refusal_of([](Transaction& transaction) {
    sqlite3* const db = sqlite_connection(transaction);
    EXPECT_THROW(run_sql(db, "INSERT OR ROLLBACK INTO account VALUES('a', 1)"), std::runtime_error);
    // Now SQLite would commit each statement by itself.
    EXPECT_THROW(run_sql(db, "UPDATE account SET amount = 3"), std::runtime_error);
    return std::move(Batch().put("moved", "1"));
  });
  EXPECT_NE(text.find("rolled back before its end"), std::string::npos) << text;
  EXPECT_EQ(get("moved"), std::nullopt);
}

TEST_F(SqliteTransactionTest, SettingsOfTheConnectionAreAsBefore) {
  static_cast<void>(transact([](Transaction& transaction) {
    sqlite3* const db = sqlite_connection(transaction);
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 0, nullptr);
    sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, nullptr);
    sqlite3_busy_timeout(db, 0);
    sqlite3_wal_autocheckpoint(db, 1);
    sqlite3_commit_hook(db, [](void*) { return 0; }, nullptr);
    sqlite3_progress_handler(db, 1, [](void*) { return 1; }, nullptr);
    return Batch();
  }));
  int defensive = 0;
  int no_checkpoint = 0;
  static_cast<void>(transact([&](Transaction& transaction) {
    sqlite3* const db = sqlite_connection(transaction);
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, -1, &defensive);
    sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, -1, &no_checkpoint);
    return Batch();
  }));
  EXPECT_EQ(defensive, 1);
  EXPECT_EQ(no_checkpoint, 1);
  EXPECT_EQ(amount("a"), 100);
}

TEST_F(SqliteTransactionTest, TheOtherKindOfConnectionIsNotGiven) {
  class Foreign final : public Transaction {};
  Foreign foreign;
  EXPECT_THROW(static_cast<void>(sqlite_connection(foreign)), Unsupported);
}

TEST_F(SqliteTransactionTest, AStoreWithoutSqlSaysWhichHasIt) {
  const auto memory = open_memory_store();
  try {
    static_cast<void>(sync_wait(pool_, memory->transact([](Transaction&) { return Batch(); })));
    ADD_FAILURE() << "it was not refused";
  } catch (const Unsupported& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("memory:"), std::string::npos) << text;
    EXPECT_NE(text.find("sqlite: does"), std::string::npos) << text;
  }
}

// --- Among others --------------------------------------------------------------------------------

constexpr int kRounds = 50;

Task<std::vector<Version>> count_up(Store& store, std::string key) {
  std::vector<Version> versions;
  Version seen = 0;
  for (int i = 0; i < kRounds; ++i) {
    Batch batch;
    if (seen == 0) {
      batch.require_absent(key);
    } else {
      batch.require_version(key, seen);
    }
    batch.put(key, std::to_string(i + 1));
    const CommitOutcome outcome = co_await store.apply(std::move(batch));
    seen = outcome.committed()->version;
    versions.push_back(seen);
  }
  co_await store.until_durable(seen);
  co_return versions;
}

/// Each notes the sum of what the counters had come to, as the disk has it, and what was applied
/// just before.
Task<std::vector<Version>> look(Store& store, int number) {
  std::vector<Version> versions;
  for (int i = 0; i < kRounds; ++i) {
    const std::string key = "mark/" + std::to_string(number);
    Batch mark;
    mark.put(key, std::to_string(i));
    const CommitOutcome marked = co_await store.apply(std::move(mark));
    std::int64_t mark_seen = 0;
    const TransactionWork work = [&](Transaction& transaction) {
      sqlite3* const db = sqlite_connection(transaction);
      mark_seen =
          ask_sql(db, "SELECT version FROM entries WHERE key = CAST('" + key + "' AS BLOB)");
      if (i % 5 == 4) {
        run_sql(db, "INSERT INTO seen VALUES(-1, 0)");
        throw std::out_of_range("taken back");
      }
      run_sql(db, "INSERT INTO seen SELECT " + std::to_string(number) +
                      ", total(CAST(value AS INTEGER)) FROM entries "
                      "WHERE key >= CAST('count/' AS BLOB) AND key < CAST('count0' AS BLOB)");
      return std::move(Batch().put("looked/" + std::to_string(number), std::to_string(i)));
    };
    try {
      const CommitOutcome outcome = co_await store.transact(work);
      versions.push_back(outcome.committed()->version);
    } catch (const std::out_of_range&) {
      EXPECT_EQ(i % 5, 4);
    }
    EXPECT_EQ(static_cast<Version>(mark_seen), marked.committed()->version);
  }
  co_return versions;
}

TEST_F(SqliteTransactionTest, AmongManyCommitsItHasItsPlaceAndItsNumber) {
  sql("CREATE TABLE seen(task INTEGER, sum INTEGER)");
  constexpr int kTasks = 4;
  Watch watch = store_->watch("looked/");
  std::vector<Spawned<std::vector<Version>>> all;
  for (int i = 0; i < kTasks; ++i) {
    all.push_back(spawn(pool_, count_up(*store_, "count/" + std::to_string(i))));
    all.push_back(spawn(pool_, look(*store_, i)));
  }
  std::set<Version> versions;
  std::size_t count = 0;
  for (auto& one : all) {
    Version last = 0;
    for (const Version version : one.get()) {
      EXPECT_GT(version, last);
      last = version;
      versions.insert(version);
      ++count;
    }
  }
  EXPECT_EQ(versions.size(), count) << "a number was given twice";
  sync_wait(pool_, watch.changed());
  EXPECT_EQ(ask("SELECT count(*) FROM seen"), kTasks * kRounds * 4 / 5);
  EXPECT_EQ(ask("SELECT count(*) FROM seen WHERE task = -1"), 0);
  // What is seen only grows, in the order in which they were made.
  EXPECT_EQ(ask("SELECT count(*) FROM seen a JOIN seen b ON b.rowid = a.rowid + 1 "
                "WHERE b.sum < a.sum"),
            0);
  EXPECT_EQ(get("count/0")->value, std::to_string(kRounds));
  EXPECT_EQ(sync_wait(pool_, store_->check()).faults, std::vector<std::string>{});
}

Task<void> move_often(Store& store, int times) {
  const TransactionWork work = [](Transaction& transaction) {
    run_sql(sqlite_connection(transaction),
            "UPDATE account SET amount = amount - 1 WHERE name = 'a';"
            "UPDATE account SET amount = amount + 1 WHERE name = 'b'");
    return std::move(Batch().put("moved", "again"));
  };
  for (int i = 0; i < times; ++i) {
    static_cast<void>(co_await store.transact(work));
  }
}

TEST_F(SqliteTransactionTest, TwoStoresOnOneFileTakeTurns) {
  const auto other = open_sqlite_store(folder_ / "store.db");
  auto here = spawn(pool_, move_often(*store_, 50));
  auto there = spawn(pool_, move_often(*other, 50));
  here.get();
  there.get();
  EXPECT_EQ(amount("a"), 0);
  EXPECT_EQ(amount("b"), 100);
}

TEST_F(SqliteTransactionTest, OneThatWaitsForItsTurnCanBeStopped) {
  std::stop_source stop;
  stop.request_stop();
  bool called = false;
  const TransactionWork work = [&called](Transaction&) {
    called = true;
    return Batch();
  };
  auto stopped = spawn(pool_, store_->transact(work), {}, stop.get_token());
  EXPECT_THROW(static_cast<void>(stopped.get()), Cancelled);
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace holdfast
