// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/faulty_disk.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <chrono>
#include <cstdint>
#include <iostream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "store_sqlite/page_checksums.hpp"
#include "store_sqlite/test_database.hpp"
#include "tests/crash/sqlite_work.hpp"

namespace holdfast::testing {
namespace {

using ::testing::AnyOf;
using ::testing::IsEmpty;

constexpr int kTransactions = 10;
constexpr const char* kCount = "SELECT count(*) FROM entries";
/// More than a log has grown ahead for, so that it needs space.
constexpr const char* kLargeInsert = "INSERT INTO entries(value) VALUES (zeroblob(200000))";

/// What one life of the machine left behind.
struct Aftermath {
  int acknowledged = 0;
  int found = 0;
  bool corrupt = false;  ///< Or not whole transactions, or not the first ones.
};

Aftermath look(TestDatabase& db, int acknowledged) {
  Aftermath after{.acknowledged = acknowledged};
  const auto rows = db.ask("SELECT count(*), max(key % 1000), sum(key > 1000) FROM entries");
  if (rows == std::nullopt || db.ask("PRAGMA integrity_check") != "ok ") {
    after.corrupt = true;
    return after;
  }
  after.found = std::stoi(*rows) / 2;
  const std::string n = std::to_string(after.found);
  const std::string whole = std::to_string(after.found * 2) + " " + n + " " + n + " ";
  after.corrupt = after.found > 0 && *rows != whole;
  return after;
}

/// Commits until the end or the first failure, with a checkpoint on the way.
int work(TestDatabase& db, const std::string& pragma) {
  int acknowledged = 0;
  if (db.run(pragma) != SQLITE_OK) {
    return 0;
  }
  for (int i = 1; i <= kTransactions; ++i) {
    if (db.run(transaction(i)) != SQLITE_OK) {
      break;
    }
    acknowledged = i;
    if (i == 4 || i == 7) {
      db.run(i == 4 ? "PRAGMA wal_checkpoint" : "PRAGMA wal_checkpoint(TRUNCATE)");
    }
  }
  return acknowledged;
}

struct Machine {
  FaultyDisk& disk;
  const FaultyDisk::Image& image;
  std::string vfs;
  std::string pragma;

  [[nodiscard]] std::uint64_t points() const {
    disk.reset(0, image);
    TestDatabase db(kPath, vfs);
    EXPECT_EQ(work(db, pragma), kTransactions);
    return disk.io_points();
  }

  [[nodiscard]] Aftermath crash(std::uint64_t seed, std::uint64_t point) const {
    seed_sqlite(seed);
    disk.reset(seed, image);
    disk.crash_at(point);
    int acknowledged = 0;
    {
      TestDatabase db(kPath, vfs);
      acknowledged = work(db, pragma);
    }
    disk.crash();
    TestDatabase db(kPath, vfs);
    Aftermath after = look(db, acknowledged);
    if (!after.corrupt) {
      // Until then a page may be torn that the WAL has whole.
      after.corrupt = db.run("PRAGMA wal_checkpoint(TRUNCATE)") != SQLITE_OK ||
                      !detail::find_damaged_pages(db.get()).empty();
    }
    return after;
  }
};

struct Tally {
  std::uint64_t runs = 0;
  std::uint64_t corrupt = 0;
  std::uint64_t lost = 0;
  double seconds = 0;
};

/// `seeds` crashes at each I/O point.
Tally crash_everywhere(const Machine& machine, std::uint64_t seeds) {
  Tally tally;
  const std::uint64_t points = machine.points();
  const auto start = std::chrono::steady_clock::now();
  for (std::uint64_t seed = 0; seed < seeds * points; ++seed) {
    const Aftermath after = machine.crash(seed, seed % points);
    ++tally.runs;
    tally.corrupt += after.corrupt ? 1 : 0;
    tally.lost += after.found < after.acknowledged ? 1 : 0;
    EXPECT_LE(after.found, kTransactions) << "seed " << seed;
  }
  tally.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::cout << machine.pragma << " on " << machine.vfs << ": " << points << " I/O points, "
            << tally.runs << " crashes, " << tally.corrupt << " corrupt, " << tally.lost
            << " with a loss, " << static_cast<int>(static_cast<double>(tally.runs) / tally.seconds)
            << " a second\n";
  return tally;
}

class OnAFaultyDisk : public ::testing::TestWithParam<bool> {
 protected:
  FaultyDisk disk_{1};
  const std::string vfs_ =
      GetParam() ? detail::page_checksum_vfs(disk_.vfs_name()) : disk_.vfs_name();
  const FaultyDisk::Image image_ = empty_store(disk_, vfs_);

  [[nodiscard]] Machine machine(const std::string& pragma) { return {disk_, image_, vfs_, pragma}; }
};

INSTANTIATE_TEST_SUITE_P(Sqlite, OnAFaultyDisk, ::testing::Bool(), [](const auto& chosen) {
  return chosen.param ? "WithChecksums" : "Plain";
});

TEST_P(OnAFaultyDisk, FullSyncLosesNothingThatWasAcknowledged) {
  const Tally tally = crash_everywhere(machine("PRAGMA synchronous = FULL"), 5 * kEffort);
  EXPECT_EQ(tally.corrupt, 0U);
  EXPECT_EQ(tally.lost, 0U);
}

TEST_P(OnAFaultyDisk, NormalSyncLosesATailAndNeverCorrupts) {
  const Tally tally = crash_everywhere(machine("PRAGMA synchronous = NORMAL"), 5 * kEffort);
  EXPECT_EQ(tally.corrupt, 0U);
  EXPECT_GT(tally.lost, 0U);
}

TEST_P(OnAFaultyDisk, NoSyncIsCaught) {
  const Tally tally = crash_everywhere(machine("PRAGMA synchronous = OFF"), 5 * kEffort);
  EXPECT_GT(tally.corrupt, 0U);
  EXPECT_GT(tally.lost, 0U);
}

TEST_P(OnAFaultyDisk, ACreationThatIsCutOffCanBeDoneAgain) {
  disk_.reset(0);
  static_cast<void>(empty_store(disk_, vfs_));
  const std::uint64_t points = disk_.io_points();
  for (std::uint64_t seed = 0; seed < points * 6 * kEffort; ++seed) {
    seed_sqlite(seed);
    disk_.reset(seed);
    disk_.crash_at(seed % points);
    {
      TestDatabase(kPath, vfs_).make_store();
    }
    disk_.crash();
    TestDatabase db(kPath, vfs_);
    const auto id = db.ask("PRAGMA application_id");
    ASSERT_THAT(id, AnyOf("0 ", std::to_string(detail::kApplicationId) + " ")) << "seed " << seed;
    ASSERT_EQ(id == "0 " ? db.make_store() : db.run("PRAGMA journal_mode = WAL"), SQLITE_OK)
        << "seed " << seed;
    ASSERT_EQ(db.run(transaction(1)), SQLITE_OK) << "seed " << seed;
    ASSERT_EQ(db.run("PRAGMA wal_checkpoint(TRUNCATE)"), SQLITE_OK) << "seed " << seed;
    ASSERT_EQ(sound_transactions(db), "1 ") << "seed " << seed;
    ASSERT_THAT(detail::find_damaged_pages(db.get()), IsEmpty()) << "seed " << seed;
    ASSERT_EQ(detail::has_page_checksums(db.get()), GetParam()) << "seed " << seed;
  }
}

TEST_P(OnAFaultyDisk, ACreationIsOnlyFinalAfterASyncOfTheFolder) {
  // Without it the journal of the change to WAL may come back, and take back what was checkpointed.
  const auto undone = [this](const std::string& synchronous) {
    int count = 0;
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      disk_.reset(seed);
      {
        TestDatabase db(kPath, vfs_);
        EXPECT_EQ(db.make_store(synchronous), SQLITE_OK);
        EXPECT_EQ(work(db, "PRAGMA synchronous = FULL"), kTransactions);
        EXPECT_EQ(db.run("PRAGMA wal_checkpoint(TRUNCATE)"), SQLITE_OK);
        disk_.crash_at(disk_.io_points());
      }
      disk_.crash();
      TestDatabase db(kPath, vfs_);
      const Aftermath after = look(db, kTransactions);
      count += after.corrupt || after.found < kTransactions ? 1 : 0;
    }
    return count;
  };
  EXPECT_EQ(undone("EXTRA"), 0);
  EXPECT_GT(undone("FULL"), 0);
}

TEST_P(OnAFaultyDisk, AFailedCommitIsRolledBackAndTheNextOneWorks) {
  struct Case {
    Fault fault;
    int code;
  };
  for (const auto& [fault, code] :
       {Case{Fault::kWriteError, SQLITE_IOERR_WRITE}, Case{Fault::kFullUntilFreed, SQLITE_FULL},
        Case{Fault::kSyncError, SQLITE_IOERR_FSYNC}}) {
    disk_.reset(1, image_);
    TestDatabase db(kPath, vfs_);
    ASSERT_EQ(db.run("PRAGMA synchronous = FULL; " + transaction(1)), SQLITE_OK);
    ASSERT_EQ(db.run(std::string("BEGIN IMMEDIATE; ") + kLargeInsert), SQLITE_OK);
    disk_.fail_at(disk_.io_points(), fault);
    EXPECT_EQ(db.run("COMMIT"), code);
    EXPECT_GE(disk_.faults(), 1U);
    EXPECT_FALSE(db.in_transaction());
    disk_.free_space();
    EXPECT_EQ(sound_transactions(db), "1 ");
    EXPECT_EQ(db.run(transaction(3)), SQLITE_OK);
    EXPECT_EQ(sound_transactions(db), "1,3 ");
  }
}

TEST_P(OnAFaultyDisk, AFaultAtAnyPointLosesNothingThatWasAcknowledged) {
  const std::uint64_t points = machine("PRAGMA synchronous = FULL").points();
  for (const Fault fault : {Fault::kWriteError, Fault::kFull, Fault::kFullUntilFreed,
                            Fault::kSyncError, Fault::kReadError}) {
    for (std::uint64_t seed = 0; seed < points * kEffort; ++seed) {
      disk_.reset(seed, image_);
      disk_.fail_at(seed % points, fault);
      int acknowledged = 0;
      {
        TestDatabase db(kPath, vfs_);
        acknowledged = work(db, "PRAGMA synchronous = FULL");
        disk_.crash_at(disk_.io_points());
      }
      disk_.crash();
      TestDatabase db(kPath, vfs_);
      const Aftermath after = look(db, acknowledged);
      ASSERT_FALSE(after.corrupt) << "seed " << seed;
      ASSERT_GE(after.found, acknowledged) << "seed " << seed;
      ASSERT_LE(after.found, acknowledged + 1) << "seed " << seed;
    }
  }
}

TEST_P(OnAFaultyDisk, AFailedReadIsReported) {
  disk_.reset(1, image_);
  TestDatabase db(kPath, vfs_);
  disk_.count_reads(true);
  disk_.fail_at(disk_.io_points() + 1, Fault::kReadError);
  EXPECT_EQ(db.run(kCount), SQLITE_IOERR_READ);
  EXPECT_EQ(db.run(kCount), SQLITE_OK);
  EXPECT_EQ(disk_.faults(), 1U);
}

TEST_P(OnAFaultyDisk, AFullDiskIsReportedUntilThereIsSpace) {
  disk_.reset(1, image_);
  TestDatabase db(kPath, vfs_);
  disk_.fail_at(0, Fault::kFullUntilFreed);
  EXPECT_THAT(db.run(transaction(1)), AnyOf(SQLITE_FULL, SQLITE_CANTOPEN));
  EXPECT_THAT(db.run(transaction(1)), AnyOf(SQLITE_FULL, SQLITE_CANTOPEN));
  disk_.free_space();
  EXPECT_EQ(db.run(transaction(1)), SQLITE_OK);

  disk_.set_capacity(disk_.bytes_of(kPath)->size() + disk_.bytes_of(kWal)->size() + 10'000);
  EXPECT_EQ(db.run(kLargeInsert), SQLITE_FULL);
  EXPECT_EQ(db.run(transaction(2)), SQLITE_OK);
  disk_.set_capacity(std::nullopt);
  EXPECT_EQ(sound_transactions(db), "1,2 ");
}

TEST_P(OnAFaultyDisk, AKilledProcessLeavesAllThatItWroteAndNoLocks) {
  disk_.reset(1, image_);
  TestDatabase dead(kPath, vfs_);
  ASSERT_EQ(dead.run("PRAGMA synchronous = OFF; " + transaction(1)), SQLITE_OK);
  ASSERT_EQ(dead.run("BEGIN IMMEDIATE"), SQLITE_OK);
  disk_.kill();
  EXPECT_NE(dead.run("INSERT INTO entries VALUES (7, 'x'); COMMIT"), SQLITE_OK);
  TestDatabase db(kPath, vfs_);
  EXPECT_EQ(sound_transactions(db), "1 ");
  EXPECT_EQ(db.run(transaction(2)), SQLITE_OK);
  EXPECT_NE(dead.run(kCount), SQLITE_OK);
}

TEST_P(OnAFaultyDisk, HandlesOfADeadMachineGoOnFailing) {
  disk_.reset(1, image_);
  TestDatabase dead(kPath, vfs_);
  ASSERT_EQ(dead.run(transaction(1)), SQLITE_OK);
  disk_.crash_at(disk_.io_points());
  EXPECT_EQ(dead.run(transaction(2)), SQLITE_IOERR);
  EXPECT_TRUE(disk_.is_dead());
  EXPECT_NE(TestDatabase(kPath, vfs_).run(kCount), SQLITE_OK);
  disk_.crash();
  EXPECT_FALSE(disk_.is_dead());
  EXPECT_NE(dead.run(kCount), SQLITE_OK);
  TestDatabase db(kPath, vfs_);
  EXPECT_THAT(sound_transactions(db), AnyOf("1 ", "1,2 "));
}

TEST_P(OnAFaultyDisk, TheSameSeedLeavesTheSameFiles) {
  const auto leave = [this](std::uint64_t seed) {
    seed_sqlite(seed);
    disk_.reset(seed, image_);
    disk_.crash_at(20);
    {
      TestDatabase db(kPath, vfs_);
      work(db, "PRAGMA synchronous = OFF");
    }
    disk_.crash();
    return disk_.files();
  };
  std::set<FaultyDisk::Image> different;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const FaultyDisk::Image files = leave(seed);
    EXPECT_EQ(files, leave(seed)) << "seed " << seed;
    different.insert(files);
  }
  EXPECT_GT(different.size(), 5U);
}

TEST_P(OnAFaultyDisk, ConnectionsExcludeEachOther) {
  for (const char* mode : {"PRAGMA journal_mode = WAL", "PRAGMA journal_mode = DELETE"}) {
    disk_.reset(1, image_);
    TestDatabase one(kPath, vfs_);
    TestDatabase two(kPath, vfs_);
    ASSERT_EQ(one.run(mode), SQLITE_OK);
    ASSERT_EQ(two.run(kCount), SQLITE_OK);
    ASSERT_EQ(one.run("BEGIN IMMEDIATE; INSERT INTO entries VALUES (5, 'x')"), SQLITE_OK);
    EXPECT_EQ(two.run("BEGIN IMMEDIATE"), SQLITE_BUSY) << mode;
    EXPECT_EQ(two.ask(kCount), "0 ") << mode;
    EXPECT_EQ(one.run("COMMIT"), SQLITE_OK) << mode;
    EXPECT_EQ(two.ask(kCount), "1 ") << mode;
    EXPECT_EQ(two.run("BEGIN EXCLUSIVE"), SQLITE_OK) << mode;
    EXPECT_EQ(one.run("BEGIN IMMEDIATE"), SQLITE_BUSY) << mode;
  }
}

TEST_P(OnAFaultyDisk, AReaderKeepsAWriterOfARollbackJournalFromCommitting) {
  disk_.reset(1, image_);
  TestDatabase reader(kPath, vfs_);
  TestDatabase writer(kPath, vfs_);
  ASSERT_EQ(reader.run("PRAGMA journal_mode = DELETE; BEGIN"), SQLITE_OK);
  ASSERT_EQ(reader.run(kCount), SQLITE_OK);
  ASSERT_EQ(writer.run("BEGIN; INSERT INTO entries VALUES (5, 'x')"), SQLITE_OK);
  EXPECT_EQ(writer.run("COMMIT"), SQLITE_BUSY);
  EXPECT_EQ(TestDatabase(kPath, vfs_).run(kCount), SQLITE_BUSY) << "a writer waits";
  EXPECT_EQ(reader.run("COMMIT"), SQLITE_OK);
  EXPECT_EQ(writer.run("COMMIT"), SQLITE_OK);
}

TEST_P(OnAFaultyDisk, ThreadsShareAStore) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 25;
  disk_.reset(1, image_);
  std::vector<std::thread> threads;
  // Checkpoints are left out: with SQLite before 3.51.3 one may meet another connection's commit.
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      TestDatabase db(kPath, vfs_);
      sqlite3_busy_handler(
          db.get(), [](void*, int) { return std::this_thread::yield(), 1; }, nullptr);
      EXPECT_EQ(db.run("PRAGMA wal_autocheckpoint = 0"), SQLITE_OK);
      for (int i = 1; i <= kRounds; ++i) {
        EXPECT_EQ(db.run(transaction(t * kRounds + i)), SQLITE_OK);
        EXPECT_NE(db.ask(kCount), std::nullopt);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  TestDatabase db(kPath, vfs_);
  EXPECT_EQ(db.ask(kCount), std::to_string(2 * kThreads * kRounds) + " ");
  EXPECT_NE(sound_transactions(db), std::nullopt);
}

TEST_P(OnAFaultyDisk, VacuumAndBackupWork) {
  disk_.reset(1, image_);
  TestDatabase db(kPath, vfs_);
  ASSERT_EQ(work(db, "PRAGMA synchronous = FULL"), kTransactions);
  EXPECT_EQ(db.run("PRAGMA cache_size = 5; VACUUM; PRAGMA wal_checkpoint(TRUNCATE)"), SQLITE_OK);
  EXPECT_EQ(db.run("VACUUM INTO 'copy.db'"), SQLITE_OK);
  TestDatabase copy("copy.db", vfs_);
  EXPECT_EQ(sound_transactions(copy), sound_transactions(db));
  EXPECT_THAT(detail::find_damaged_pages(db.get()), IsEmpty());
}

TEST(FaultyDisk, HasFilesToLookAtAndToChange) {
  FaultyDisk disk(1);
  EXPECT_EQ(disk.bytes_of("a"), std::nullopt);
  disk.set_bytes("a", "one");
  EXPECT_EQ(disk.bytes_of("a"), "one");
  EXPECT_EQ(disk.durable_bytes_of("a"), "one");
  disk.crash();
  EXPECT_EQ(disk.files(), (FaultyDisk::Image{{"a", "one"}}));
  EXPECT_NE(disk.vfs_name(), FaultyDisk(1).vfs_name());
}

TEST(FaultyDisk, IsForgottenBySqliteWhenItEnds) {
  std::string name;
  {
    const FaultyDisk disk(1);
    name = disk.vfs_name();
    EXPECT_NE(sqlite3_vfs_find(name.c_str()), nullptr);
  }
  EXPECT_EQ(sqlite3_vfs_find(name.c_str()), nullptr);
}

TEST(FaultyDisk, ShowsADamagedByteToTheChecksums) {
  FaultyDisk disk(1);
  const std::string vfs = detail::page_checksum_vfs(disk.vfs_name());
  static_cast<void>(empty_store(disk, vfs));
  std::string bytes = *disk.bytes_of(kPath);
  bytes[bytes.size() - 50] ^= 1;
  disk.set_bytes(kPath, bytes);
  TestDatabase db(kPath, vfs);
  EXPECT_EQ(db.run(kCount), SQLITE_IOERR_DATA);
  EXPECT_EQ(detail::damaged_page(db.get()), 2U);
}

TEST(FaultyDisk, ShowsThatADamagedWalLosesItsTailWithoutAWord) {
  FaultyDisk disk(1);
  const std::string vfs = detail::page_checksum_vfs(disk.vfs_name());
  static_cast<void>(empty_store(disk, vfs));
  {
    TestDatabase db(kPath, vfs);
    ASSERT_EQ(db.run(transaction(1) + ";" + transaction(2)), SQLITE_OK);
    disk.kill();
  }
  std::string bytes = *disk.bytes_of(kWal);
  bytes[bytes.find_last_not_of('\0')] ^= 1;  // Behind it is what it has grown ahead.
  disk.set_bytes(kWal, bytes);
  TestDatabase db(kPath, vfs);
  EXPECT_EQ(sound_transactions(db), "1 ");
}

}  // namespace
}  // namespace holdfast::testing
