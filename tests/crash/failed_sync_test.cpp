// SPDX-License-Identifier: Apache-2.0
// What has to be done about a sync that failed, so that nothing is lost which is acknowledged after
// it. The kernel shows the bytes that it could not save, and lets the next sync succeed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "store_sqlite/page_checksums.hpp"
#include "store_sqlite/test_database.hpp"
#include "tests/crash/dice.hpp"
#include "tests/crash/faulty_disk.hpp"
#include "tests/crash/sqlite_work.hpp"

namespace holdfast::testing {
namespace {

enum class Then { kGoOn, kClose, kDie, kDieAndCheckpoint, kDieAndWriteAgain };

struct Losses {
  int runs = 0;
  int lost = 0;
  int corrupt = 0;
};

std::vector<int> numbers(std::string list) {
  std::replace(list.begin(), list.end(), ',', ' ');
  std::istringstream in(list);
  std::vector<int> found;
  for (int number = 0; in >> number;) {
    found.push_back(number);
  }
  return found;
}

/// Reads the WAL and writes the same bytes over it, so that the next sync has to save them.
void write_wal_again(const std::string& vfs_name) {
  sqlite3_vfs* vfs = sqlite3_vfs_find(vfs_name.c_str());
  const auto memory =
      std::make_unique<std::uint64_t[]>(static_cast<std::size_t>(vfs->szOsFile) / 8 + 1);
  auto* file = reinterpret_cast<sqlite3_file*>(memory.get());
  if (vfs->xOpen(vfs, kWal, file, SQLITE_OPEN_WAL | SQLITE_OPEN_READWRITE, nullptr) != SQLITE_OK) {
    return;
  }
  const sqlite3_io_methods& io = *file->pMethods;
  sqlite3_int64 size = 0;
  if (io.xFileSize(file, &size) == SQLITE_OK) {
    std::string bytes(static_cast<std::size_t>(size), '\0');
    const int count = static_cast<int>(size);
    if (io.xRead(file, bytes.data(), count, 0) == SQLITE_OK &&
        io.xWrite(file, bytes.data(), count, 0) == SQLITE_OK) {
      io.xSync(file, SQLITE_SYNC_FULL);
    }
  }
  io.xClose(file);
}

class AFailedSync : public ::testing::TestWithParam<bool> {
 protected:
  using Database = std::unique_ptr<TestDatabase>;

  FaultyDisk disk_{1};
  const std::string vfs_ =
      GetParam() ? detail::page_checksum_vfs(disk_.vfs_name()) : disk_.vfs_name();
  const FaultyDisk::Image image_ = empty_store(disk_, vfs_);

  [[nodiscard]] Database open() const {
    auto db = std::make_unique<TestDatabase>(kPath, vfs_);
    db->run("PRAGMA synchronous = FULL");
    return db;
  }

  /// Commits until the sync fails, in a commit or a checkpoint. Returns what was acknowledged.
  static std::vector<int> work_until_failure(TestDatabase& db, const FaultyDisk& disk) {
    std::vector<int> acknowledged;
    for (int i = 1; disk.faults() == 0; ++i) {
      if (db.run(transaction(i)) == SQLITE_OK) {
        acknowledged.push_back(i);
      }
      if (i % 4 == 0 && disk.faults() == 0) {
        db.run("PRAGMA wal_checkpoint");
      }
    }
    return acknowledged;
  }

  /// The machine dies so many I/O points later.
  void react(Database& db, Then then, std::uint64_t dies_after) {
    const bool process_dies = then != Then::kGoOn && then != Then::kClose;
    if (process_dies) {
      disk_.kill();
    }
    disk_.crash_at(disk_.io_points() + dies_after);
    if (then == Then::kGoOn) {
      return;
    }
    db.reset();
    if (then == Then::kDieAndWriteAgain) {
      write_wal_again(vfs_);
    }
    db = open();
    if (then == Then::kDieAndCheckpoint) {
      db->run("PRAGMA wal_checkpoint(TRUNCATE)");
    }
  }

  /// A failed sync, the reaction, some more work, and a crash somewhere in it or at its end.
  [[nodiscard]] Losses run(Then then, std::uint64_t seeds) {
    Losses losses;
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
      seed_sqlite(seed);
      disk_.reset(seed, image_);
      Dice dice(seed);
      disk_.fail_at(dice.below(40), Fault::kSyncError);
      Database db = open();
      std::vector<int> acknowledged = work_until_failure(*db, disk_);
      react(db, then, dice.below(40));
      for (int i = 101; i <= 104; ++i) {
        if (db->run(transaction(i)) == SQLITE_OK) {
          acknowledged.push_back(i);
        }
      }
      disk_.kill();
      db.reset();
      disk_.crash();
      count(losses, acknowledged);
    }
    std::cout << losses.runs << " runs, " << losses.lost << " with a loss, " << losses.corrupt
              << " corrupt\n";
    return losses;
  }

  void count(Losses& losses, const std::vector<int>& acknowledged) const {
    TestDatabase db(kPath, vfs_);
    const auto list = sound_transactions(db);
    ++losses.runs;
    if (list == std::nullopt) {
      ++losses.corrupt;
      return;
    }
    const std::vector<int> found = numbers(*list);
    losses.lost +=
        std::includes(found.begin(), found.end(), acknowledged.begin(), acknowledged.end()) ? 0 : 1;
  }
};

INSTANTIATE_TEST_SUITE_P(Sqlite, AFailedSync, ::testing::Bool(), [](const auto& chosen) {
  return chosen.param ? "WithChecksums" : "Plain";
});

constexpr std::uint64_t kSeeds = 80 * kEffort;

TEST_P(AFailedSync, LeavesACommitThatTheNextProcessSeesThoughItFailed) {
  disk_.reset(1, image_);
  Database db = open();
  ASSERT_EQ(db->run(transaction(1)), SQLITE_OK);
  disk_.fail_at(disk_.io_points(), Fault::kSyncError);
  EXPECT_EQ(db->run(transaction(2)), SQLITE_IOERR_FSYNC);
  EXPECT_EQ(sound_transactions(*db), "1 ");
  disk_.kill();
  db.reset();
  EXPECT_EQ(sound_transactions(*open()), "1,2 ");
}

TEST_P(AFailedSync, IsSurvivedByGoingOnWithTheSameConnection) {
  const Losses losses = run(Then::kGoOn, kSeeds);
  EXPECT_EQ(losses.lost, 0);
  EXPECT_EQ(losses.corrupt, 0);
}

TEST_P(AFailedSync, IsSurvivedByClosingWhichCheckpoints) {
  const Losses losses = run(Then::kClose, kSeeds);
  EXPECT_EQ(losses.lost, 0);
  EXPECT_EQ(losses.corrupt, 0);
}

TEST_P(AFailedSync, IsNotSurvivedByADeadProcessWhoseWalIsTrusted) {
  EXPECT_GT(run(Then::kDie, kSeeds).lost, 0);
  constexpr std::uint64_t kEnoughForDamage = 3'200;  // It takes some hundred where logs grow ahead.
  EXPECT_GT(run(Then::kDieAndCheckpoint, kEnoughForDamage).corrupt, 0);
}

TEST_P(AFailedSync, IsSurvivedByADeadProcessIfTheWalIsWrittenAgain) {
  const Losses losses = run(Then::kDieAndWriteAgain, kSeeds);
  EXPECT_EQ(losses.lost, 0);
  EXPECT_EQ(losses.corrupt, 0);
}

}  // namespace
}  // namespace holdfast::testing
