// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/faulty_disk.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "store_sqlite/page_checksums.hpp"
#include "store_sqlite/test_database.hpp"
#include "tests/crash/disk_file.hpp"

namespace holdfast::testing {
namespace {

using ::testing::AnyOf;
using ::testing::IsEmpty;

constexpr int kTransactions = 10;
constexpr const char* kPath = "store.db";

/// Two rows that only ever come together, of a size that touches several pages.
std::string transaction(int number) {
  const std::string key = std::to_string(number);
  return "BEGIN IMMEDIATE; INSERT INTO entries VALUES (" + key + ", hex(zeroblob(300)));" +
         "INSERT INTO entries VALUES (" + key + " + 1000, 'second'); COMMIT";
}

FaultyDisk::Image empty_store(FaultyDisk& disk, const std::string& vfs) {
  disk.reset(0);
  {
    TestDatabase db(kPath, vfs);
    EXPECT_EQ(db.make_store(), SQLITE_OK);
  }
  return disk.files();
}

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
  const Tally tally = crash_everywhere(machine("PRAGMA synchronous = FULL"), 50);
  EXPECT_EQ(tally.corrupt, 0U);
  EXPECT_EQ(tally.lost, 0U);
}

TEST_P(OnAFaultyDisk, NormalSyncLosesATailAndNeverCorrupts) {
  const Tally tally = crash_everywhere(machine("PRAGMA synchronous = NORMAL"), 50);
  EXPECT_EQ(tally.corrupt, 0U);
  EXPECT_GT(tally.lost, 0U);
}

TEST_P(OnAFaultyDisk, NoSyncIsCaught) {
  const Tally tally = crash_everywhere(machine("PRAGMA synchronous = OFF"), 50);
  EXPECT_GT(tally.corrupt, 0U);
  EXPECT_GT(tally.lost, 0U);
}

}  // namespace
}  // namespace holdfast::testing
