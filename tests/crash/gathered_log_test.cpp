// SPDX-License-Identifier: Apache-2.0
#include "store_sqlite/gathered_log.hpp"

#include <gtest/gtest.h>

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

/// Counts what is written to logs, and can refuse it.
class LogWrites : private VfsLayer {
 public:
  LogWrites() : VfsLayer("log_writes", sqlite3_vfs_find(nullptr)) {
    xOpen = &open;
    enter();
  }

  [[nodiscard]] const std::string& vfs_name() const { return name; }
  [[nodiscard]] int count() const { return count_; }
  void refuse(bool refuse) { refuses_ = refuse; }

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
    ++self.count_;
    sqlite3_file* const below = Below<LogWrites>::file(file);
    return self.refuses_ ? SQLITE_FULL : below->pMethods->xWrite(below, data, bytes, offset);
  }
  static constexpr sqlite3_io_methods methods() {
    sqlite3_io_methods all = Below<LogWrites>::methods();
    all.xWrite = &write;
    return all;
  }
  static const sqlite3_io_methods kMethods;

  int count_ = 0;
  bool refuses_ = false;
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
