// SPDX-License-Identifier: Apache-2.0
#include "store_sqlite/gathered_log.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>

#include "base/temp_folder.hpp"
#include "store_sqlite/page_checksums.hpp"
#include "store_sqlite/test_database.hpp"
#include "tests/crash/vfs_layer.hpp"

namespace holdfast::detail {
namespace {

using holdfast::testing::Below;
using holdfast::testing::TempFolder;
using holdfast::testing::TestDatabase;
using holdfast::testing::VfsLayer;

/// Counts what is written to logs, and can refuse it, or what goes beyond the room there is.
class LogWrites : private VfsLayer {
 public:
  LogWrites() : VfsLayer("log_writes", sqlite3_vfs_find(nullptr)) {
    xOpen = &open;
    enter();
  }

  [[nodiscard]] const std::string& vfs_name() const { return name; }
  /// Of those that stayed within the file.
  [[nodiscard]] int count() const { return count_; }
  [[nodiscard]] int count_of_growing() const { return growing_; }
  void refuse(bool refuse) { room_ = refuse ? 0 : kNoLimit; }
  void refuse_beyond(sqlite3_int64 room) { room_ = room; }

 private:
  friend struct VfsLayer;

  static int open(sqlite3_vfs* vfs, const char* path, sqlite3_file* file, int flags,
                  int* flags_out) {
    auto& self = *static_cast<LogWrites*>(vfs);
    if ((flags & SQLITE_OPEN_WAL) == 0) {
      return self.base->xOpen(self.base, path, file, flags, flags_out);
    }
    return VfsLayer::open(self, kMethods, path, file, flags, flags_out);
  }
  static int write(sqlite3_file* file, const void* data, int bytes, sqlite3_int64 offset) {
    LogWrites& self = Below<LogWrites>::owner(file);
    sqlite3_file* const below = Below<LogWrites>::file(file);
    if (offset + bytes > self.room_) {
      return SQLITE_FULL;
    }
    sqlite3_int64 size = 0;
    EXPECT_EQ(below->pMethods->xFileSize(below, &size), SQLITE_OK);
    ++(offset + bytes > size ? self.growing_ : self.count_);
    return below->pMethods->xWrite(below, data, bytes, offset);
  }
  static constexpr sqlite3_io_methods methods() {
    sqlite3_io_methods all = Below<LogWrites>::methods();
    all.xWrite = &write;
    return all;
  }
  static const sqlite3_io_methods kMethods;

  static constexpr sqlite3_int64 kNoLimit = std::numeric_limits<sqlite3_int64>::max();
  int count_ = 0;
  int growing_ = 0;
  sqlite3_int64 room_ = kNoLimit;
};
constexpr sqlite3_io_methods LogWrites::kMethods = LogWrites::methods();

/// There is one: a VFS that others lie on stays where it is.
LogWrites& log_writes() {
  static LogWrites writes;
  return writes;
}

constexpr const char* kCount = "SELECT count(*) FROM entries";

/// Each row takes a page.
std::string insert_rows(int count) {
  return "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < " +
         std::to_string(count) + ") INSERT INTO entries(value) SELECT hex(zeroblob(1900)) FROM n";
}

class GatheredLog : public ::testing::Test {
 protected:
  GatheredLog() : db_(path_, vfs_) {
    EXPECT_EQ(db_.make_store(), SQLITE_OK);
    EXPECT_EQ(db_.run("PRAGMA wal_autocheckpoint = 0"), SQLITE_OK);
  }

  [[nodiscard]] std::uintmax_t log_size() const {
    return std::filesystem::file_size(path_ + "-wal");
  }

  LogWrites& writes_ = log_writes();
  TempFolder folder_;
  const std::string path_ = (folder_.path() / "store.db").string();
  const std::string vfs_ = page_checksum_vfs(writes_.vfs_name());
  TestDatabase db_;
};

TEST_F(GatheredLog, ATransactionIsWrittenInFewPieces) {
  ASSERT_EQ(db_.run(insert_rows(1)), SQLITE_OK);
  const int before = writes_.count();
  ASSERT_EQ(db_.run(insert_rows(10)), SQLITE_OK);
  EXPECT_EQ(writes_.count(), before + 1);
  ASSERT_EQ(db_.run(insert_rows(100)), SQLITE_OK);
  EXPECT_LT(writes_.count(), before + 12) << "over 400 KiB, of which 64 go at once";
}

TEST_F(GatheredLog, TheFileGrowsAheadOfWhatIsWritten) {
  ASSERT_EQ(db_.run(insert_rows(1)), SQLITE_OK);
  const int before = writes_.count_of_growing();
  for (int i = 0; i < 400; ++i) {
    ASSERT_EQ(db_.run(insert_rows(1)), SQLITE_OK);
  }
  EXPECT_GT(writes_.count_of_growing(), before);
  EXPECT_LT(writes_.count_of_growing(), before + 100) << "over 3 MiB";
}

TEST_F(GatheredLog, ItDoesNotGrowFarBeyondWhatIsWritten) {
  ASSERT_EQ(db_.run(insert_rows(1)), SQLITE_OK);
  EXPECT_LT(log_size(), 200'000U);
  ASSERT_EQ(db_.run(insert_rows(1'000)), SQLITE_OK);
  EXPECT_GT(log_size(), 4'000'000U);
  EXPECT_LT(log_size(), 6'000'000U);
}

TEST_F(GatheredLog, AProcessThatComesLaterUsesTheRoomThatIsThere) {
  ASSERT_EQ(db_.run(insert_rows(300)), SQLITE_OK);
  const auto size = log_size();
  const int before = writes_.count_of_growing();
  TestDatabase other(path_, vfs_);
  ASSERT_EQ(other.run(insert_rows(100)), SQLITE_OK);
  EXPECT_EQ(writes_.count_of_growing(), before);
  EXPECT_EQ(log_size(), size);
  EXPECT_EQ(db_.ask(kCount), "400 ");
}

TEST_F(GatheredLog, TheLastRoomOfADiskIsForWhatIsWritten) {
  ASSERT_EQ(db_.run(insert_rows(1)), SQLITE_OK);
  const auto room = static_cast<sqlite3_int64>(log_size()) + 400'000;
  writes_.refuse_beyond(room);
  int rows = 1;
  while (db_.run(insert_rows(1)) == SQLITE_OK) {
    ++rows;
    ASSERT_LT(rows, 1'000);
  }
  // What the last one needed is what may be left of it.
  EXPECT_GT(static_cast<sqlite3_int64>(log_size()), room - 30'000);
  EXPECT_EQ(db_.ask(kCount), std::to_string(rows) + " ");
  writes_.refuse(false);
  ASSERT_EQ(db_.run(insert_rows(1)), SQLITE_OK);
  TestDatabase other(path_, vfs_);
  EXPECT_EQ(other.ask(kCount), std::to_string(rows + 1) + " ");
  EXPECT_EQ(other.ask("PRAGMA integrity_check"), "ok ");
}

TEST_F(GatheredLog, OthersSeeATransactionThatIsNotSynced) {
  ASSERT_EQ(db_.run("PRAGMA synchronous = NORMAL"), SQLITE_OK);
  TestDatabase other(path_, vfs_);
  for (int i = 1; i <= 40; ++i) {
    ASSERT_EQ(db_.run(insert_rows(1)), SQLITE_OK);
    ASSERT_EQ(other.ask(kCount), std::to_string(i) + " ");
  }
}

TEST_F(GatheredLog, PagesThatDoNotFitIntoTheCacheAreReadBackFromIt) {
  ASSERT_EQ(db_.run("PRAGMA cache_size = 5; BEGIN; " + insert_rows(60)), SQLITE_OK);
  EXPECT_EQ(db_.ask(kCount), "60 ");
  EXPECT_EQ(db_.ask("SELECT sum(length(value)) FROM entries"), "228000 ");
  TestDatabase other(path_, vfs_);
  EXPECT_EQ(other.ask(kCount), "0 ");
  ASSERT_EQ(db_.run("ROLLBACK"), SQLITE_OK);
  EXPECT_EQ(db_.ask(kCount), "0 ");
  ASSERT_EQ(db_.run("BEGIN; " + insert_rows(70) + "; COMMIT"), SQLITE_OK);
  EXPECT_EQ(other.ask(kCount), "70 ");
  EXPECT_EQ(other.ask("PRAGMA integrity_check"), "ok ");
}

TEST_F(GatheredLog, AWriteThatIsRefusedFailsItsTransactionAlone) {
  ASSERT_EQ(db_.run(insert_rows(3)), SQLITE_OK);
  writes_.refuse(true);
  EXPECT_EQ(db_.run(insert_rows(5)), SQLITE_FULL);
  writes_.refuse(false);
  EXPECT_EQ(db_.ask(kCount), "3 ");
  ASSERT_EQ(db_.run(insert_rows(5)), SQLITE_OK);
  TestDatabase other(path_, vfs_);
  EXPECT_EQ(other.ask(kCount), "8 ");
}

TEST_F(GatheredLog, ACheckpointFindsAllOfIt) {
  ASSERT_EQ(db_.run(insert_rows(50)), SQLITE_OK);
  EXPECT_EQ(db_.ask("PRAGMA wal_checkpoint(TRUNCATE)"), "0 0 0 ");
  ASSERT_EQ(db_.run(insert_rows(20)), SQLITE_OK);
  EXPECT_EQ(db_.ask("PRAGMA integrity_check"), "ok ");
  EXPECT_EQ(db_.ask(kCount), "70 ");
}

}  // namespace
}  // namespace holdfast::detail
