// SPDX-License-Identifier: Apache-2.0
// Fences in PostgreSQL: what depends on its transactions and their isolation.
#include "postgres_counters.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>

#include <holdfast/fencing.hpp>

#include "database_error.hpp"

namespace holdfast::fencing {

namespace {

using ::testing::ElementsAre;

class FencingInPostgres : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { database = std::make_unique<PostgresDatabase>(); }
  static void TearDownTestSuite() { database.reset(); }

  /// What becomes of an act: nothing, "stale" or the SQLSTATE.
  template <typename Act>
  static std::string outcome_of(const Act& act) {
    try {
      act();
      return "";
    } catch (const DatabaseError& error) {
      return error.is_stale() ? "stale" : error.code();
    }
  }

  /// The second one presents its fence, and waits for a row that the first has locked.
  std::future<std::string> present_and_wait(std::uint64_t fence) {
    const std::string pid = std::to_string(PQbackendPID(second_.connection()));
    auto presenting = std::async(std::launch::async, [this, fence] {
      return outcome_of([&] { second_.present("c", fence); });
    });
    const std::string waiting = "SELECT 1 FROM pg_locks WHERE NOT granted AND pid = ";
    while (watcher_.run(waiting + pid).empty()) {
    }
    return presenting;
  }

  void TearDown() override {
    first_.run("ROLLBACK");
    second_.run("ROLLBACK");
    watcher_.run("TRUNCATE counters, holdfast_fences");
  }

  static std::unique_ptr<PostgresDatabase> database;
  PostgresCounters first_{database->address()};
  PostgresCounters second_{database->address()};
  PostgresCounters watcher_{database->address()};
};

std::unique_ptr<PostgresDatabase> FencingInPostgres::database;

TEST_F(FencingInPostgres, TheNextHolderWaitsForTheOldOneAndReadsWhatItWrote) {
  for (const bool has_row : {false, true}) {
    const std::int64_t value = has_row ? 2 : 1;
    first_.run("BEGIN");
    first_.present("c", 7);
    first_.put("c", value);
    second_.run("BEGIN");
    auto presenting = present_and_wait(has_row ? 9 : 8);
    first_.run("COMMIT");
    EXPECT_EQ(presenting.get(), "");
    EXPECT_EQ(second_.read_unguarded("c"), value);
    second_.run("ROLLBACK");
  }
}

TEST_F(FencingInPostgres, AnOldHolderThatWaitedForTheNextIsRefused) {
  for (const std::uint64_t fence : {std::uint64_t{8}, std::uint64_t{9}}) {
    first_.run("BEGIN");
    first_.present("c", fence);
    second_.run("BEGIN");
    auto presenting = present_and_wait(7);
    first_.run("COMMIT");
    EXPECT_EQ(presenting.get(), "stale");
    second_.run("ROLLBACK");
  }
}

TEST_F(FencingInPostgres, WhoWaitedForATransactionThatWasRolledBackIsNotRefusedByIt) {
  first_.write("c", 7, 1);
  first_.run("BEGIN");
  first_.present("c", 9);
  second_.run("BEGIN");
  auto presenting = present_and_wait(8);
  first_.run("ROLLBACK");
  EXPECT_EQ(presenting.get(), "");
}

TEST_F(FencingInPostgres, WithASnapshotWhoWaitedMustStartOver) {
  for (const std::string level : {"REPEATABLE READ", "SERIALIZABLE"}) {
    for (const bool has_row : {false, true}) {
      first_.run("BEGIN ISOLATION LEVEL " + level);
      first_.present("c", has_row ? 9 : 7);
      first_.put("c", has_row ? 2 : 1);
      second_.run("BEGIN ISOLATION LEVEL " + level);
      auto presenting = present_and_wait(10);
      first_.run("COMMIT");
      EXPECT_EQ(presenting.get(), "40001") << level;
      second_.run("ROLLBACK");
      second_.run("BEGIN ISOLATION LEVEL " + level);
      EXPECT_EQ(outcome_of([&] { second_.present("c", 8 + (has_row ? 2U : 0U)); }), "") << level;
      EXPECT_EQ(second_.read_unguarded("c"), has_row ? 2 : 1);
      second_.run("ROLLBACK");
    }
    watcher_.run("TRUNCATE counters, holdfast_fences");
  }
}

TEST_F(FencingInPostgres, WithASnapshotAReadBeforeItIsNoticedIfItIsOutOfDate) {
  second_.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
  EXPECT_EQ(second_.read_unguarded("c"), 0);
  first_.write("c", 7, 1);
  EXPECT_EQ(outcome_of([&] { second_.present("c", 8); }), "40001");
}

TEST_F(FencingInPostgres, AfterAStaleOneNothingCanBeDoneAndCommitRollsBack) {
  first_.write("c", 8, 2);
  second_.run("BEGIN");
  EXPECT_EQ(outcome_of([&] { second_.present("c", 7); }), "stale");
  EXPECT_EQ(outcome_of([&] { second_.put("c", 1); }), "25P02");
  EXPECT_THAT(second_.run("COMMIT"), ElementsAre("ROLLBACK"));
  EXPECT_EQ(first_.read_unguarded("c"), 2);
}

TEST_F(FencingInPostgres, TheTableCanBeMadeAgainAndKeepsWhatItHas) {
  first_.write("c", 8, 2);
  first_.run(std::string(kPostgresFenceTable));
  EXPECT_EQ(outcome_of([&] { second_.present("c", 7); }), "stale");
}

}  // namespace

}  // namespace holdfast::fencing
