// SPDX-License-Identifier: Apache-2.0
// Fences from the real `holdfast lock`, checked by real databases; and the scripts that the
// documentation shows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <holdfast/fencing.hpp>

#include "base/temp_folder.hpp"
#include "postgres_counters.hpp"
#include "redis_counters.hpp"
#include "sqlite_counters.hpp"
#include "tests/servers/process.hpp"

namespace holdfast::fencing {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;

const std::filesystem::path kExamples = HOLDFAST_FENCING_EXAMPLES;

std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

class FencingByLock : public ::testing::Test {
 protected:
  /// `holdfast lock stock` with these words behind it.
  std::vector<std::string> lock(const std::vector<std::string>& words) const {
    std::vector<std::string> command{HOLDFAST_PROGRAM, "lock", "stock", "--store",
                                     "sqlite:" + (folder_ / "locks.db").string()};
    command.insert(command.end(), words.begin(), words.end());
    return command;
  }
  [[nodiscard]] servers::ProcessOptions in_folder() const {
    servers::ProcessOptions options;
    options.folder = folder_.path();
    return options;
  }
  /// Runs one of the examples to its end: its exit code.
  int play(const std::string& script, const std::string& address) {
    servers::Process running(lock({"--", kExamples / script, address}), in_folder());
    const int code = running.until_ended();
    said_ = running.output();
    return code;
  }

  testing::TempFolder folder_;
  std::string said_;
};

TEST_F(FencingByLock, AHolderThatWasStoppedPastItsLeaseIsRefusedByTheDatabase) {
  const SqliteDatabase database;
  SqliteCounters shop(database.address());
  shop.run("CREATE TABLE stock (pieces INTEGER)");
  shop.run("INSERT INTO stock VALUES (10)");
  const std::string script = (kExamples / "sqlite.sh").string() + " " + database.address();
  servers::Process old(lock({"--lease", "1s", "--on-lost", "warn", "--", "sh", "-c",
                             script + "; echo in; read go; " + script + "; echo refused $?"}),
                       in_folder());
  old.until_prints("in\n");
  const std::string old_fence = shop.fence_of("stock").value();
  old.send_to_group(SIGSTOP);

  EXPECT_EQ(play("sqlite.sh", database.address()), 0) << said_;
  const std::string new_fence = shop.fence_of("stock").value();
  EXPECT_GT(std::stoull(new_fence), std::stoull(old_fence));
  EXPECT_THAT(shop.run("SELECT pieces FROM stock"), ElementsAre("8"));

  old.send_to_group(SIGCONT);
  old.tell("go");
  EXPECT_EQ(old.until_ended(), 79) << old.output();
  EXPECT_THAT(old.output(), HasSubstr("CHECK constraint failed: holdfast_stale_fence"));
  EXPECT_THAT(old.output(), HasSubstr("refused 1"));
  EXPECT_THAT(shop.run("SELECT pieces FROM stock"), ElementsAre("8"));
  EXPECT_THAT(shop.fence_of("stock"), Optional(new_fence));
}

TEST_F(FencingByLock, TheScriptForSqliteTakesAPieceOnceAndIsRefusedWhenStale) {
  const SqliteDatabase database;
  SqliteCounters shop(database.address());
  shop.run("CREATE TABLE stock (pieces INTEGER)");
  shop.run("INSERT INTO stock VALUES (10)");
  EXPECT_EQ(play("sqlite.sh", database.address()), 0) << said_;
  EXPECT_THAT(shop.run("SELECT pieces FROM stock"), ElementsAre("9"));
  shop.present_text("stock", "9223372036854775807");
  EXPECT_NE(play("sqlite.sh", database.address()), 0);
  EXPECT_TRUE(is_stale_fence(said_)) << said_;
  EXPECT_THAT(shop.run("SELECT pieces FROM stock"), ElementsAre("9"));
}

TEST_F(FencingByLock, TheScriptForPostgresTakesAPieceOnceAndIsRefusedWhenStale) {
  const PostgresDatabase database;
  PostgresCounters shop(database.address());
  shop.run("CREATE TABLE stock (pieces integer)");
  shop.run("INSERT INTO stock VALUES (10)");
  EXPECT_EQ(play("postgres.sh", database.address()), 0) << said_;
  EXPECT_THAT(shop.run("SELECT pieces FROM stock"), ElementsAre("9"));
  shop.present_text("stock", "9223372036854775807");
  EXPECT_NE(play("postgres.sh", database.address()), 0);
  EXPECT_TRUE(is_stale_fence(said_)) << said_;
  EXPECT_THAT(shop.run("SELECT pieces FROM stock"), ElementsAre("9"));
}

TEST_F(FencingByLock, TheScriptForRedisTakesAPieceOnceAndIsRefusedWhenStale) {
  const RedisDatabase database;
  RedisCounters shop(database.address());
  shop.run({"SET", "{stock}", "10"});
  EXPECT_EQ(play("redis.sh", database.address()), 0) << said_;
  EXPECT_THAT(shop.run({"GET", "{stock}"}), Optional(std::string("9")));
  shop.run({"SET", "{stock}:fence", "9223372036854775807"});
  EXPECT_NE(play("redis.sh", database.address()), 0);
  EXPECT_TRUE(is_stale_fence(said_)) << said_;
  EXPECT_THAT(shop.run({"GET", "{stock}"}), Optional(std::string("9")));
}

TEST_F(FencingByLock, TheFilesOfTheExamplesAreWhatTheHeaderHas) {
  EXPECT_EQ(text_of(kExamples / "postgres_table.sql"), kPostgresFenceTable);
  EXPECT_EQ(text_of(kExamples / "sqlite_table.sql"), kSqliteFenceTable);
  EXPECT_EQ(text_of(kExamples / "fenced_command.lua"), kRedisFencedCommand);
}

}  // namespace

}  // namespace holdfast::fencing
