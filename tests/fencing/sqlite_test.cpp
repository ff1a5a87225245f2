// SPDX-License-Identifier: Apache-2.0
// Fences in SQLite: what depends on its transactions.
#include "sqlite_counters.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include <holdfast/fencing.hpp>

#include "database_error.hpp"

namespace holdfast::fencing {

namespace {

using ::testing::ElementsAre;

const std::string kPresent(kSqlitePresentFence);

class FencingInSqlite : public ::testing::Test {
 protected:
  static std::string code_of(SqliteCounters& counters, const std::string& statement,
                             const std::vector<std::string>& values = {}) {
    try {
      counters.run(statement, values);
      return "";
    } catch (const DatabaseError& error) {
      return error.is_stale() ? "stale" : error.code();
    }
  }

  SqliteDatabase database_;
  SqliteCounters first_{database_.address()};
  SqliteCounters second_{database_.address()};
};

TEST_F(FencingInSqlite, WhoHasPresentedIsAloneUntilItsEnd) {
  sqlite3_busy_timeout(second_.connection(), 0);
  first_.run("BEGIN IMMEDIATE");
  first_.run(kPresent, {"c", "7"});
  EXPECT_EQ(code_of(second_, "BEGIN IMMEDIATE"), std::to_string(SQLITE_BUSY));
  first_.run("INSERT INTO counters VALUES ('c', 1)");
  first_.run("COMMIT");
  EXPECT_EQ(second_.read("c", 8), 1);
}

TEST_F(FencingInSqlite, AReadBeforeItIsNoticedIfItIsOutOfDate) {
  first_.run("BEGIN");
  EXPECT_EQ(first_.read_unguarded("c"), 0);
  second_.write("c", 7, 1);
  EXPECT_EQ(code_of(first_, kPresent, {"c", "8"}), std::to_string(SQLITE_BUSY_SNAPSHOT));
}

TEST_F(FencingInSqlite, AStaleOneLeavesTheTransactionOpenToBeRolledBack) {
  second_.write("c", 8, 2);
  first_.run("BEGIN IMMEDIATE");
  EXPECT_EQ(code_of(first_, kPresent, {"c", "7"}), "stale");
  EXPECT_EQ(sqlite3_get_autocommit(first_.connection()), 0);
  first_.run("ROLLBACK");
  EXPECT_THAT(second_.run("SELECT resource || ' ' || fence FROM holdfast_fences"),
              ElementsAre("c 8"));
}

TEST_F(FencingInSqlite, TheTableCanBeMadeAgainAndKeepsWhatItHas) {
  second_.write("c", 8, 2);
  first_.run(std::string(kSqliteFenceTable));
  EXPECT_EQ(code_of(first_, kPresent, {"c", "7"}), "stale");
}

}  // namespace

}  // namespace holdfast::fencing
