// SPDX-License-Identifier: Apache-2.0
#include "store_sqlite/page_checksums.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <holdfast/error.hpp>

#include "store_sqlite/test_database.hpp"

namespace holdfast::detail {
namespace {

using holdfast::testing::TestDatabase;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::size_t kPageSize = kPageBytes;
constexpr int kReadOnly = SQLITE_OPEN_READONLY;
constexpr const char* kSum = "SELECT count(*), sum(length(value)) FROM entries";

std::string load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void save(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

void put_byte(std::fstream& file, std::size_t at, char byte) {
  file.seekp(static_cast<std::streamoff>(at)).put(byte).flush();
}

char flipped(char byte, std::size_t bit) { return static_cast<char>(byte ^ (1 << (bit % 8))); }

std::string insert_rows(int count, int bytes) {
  return "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < " +
         std::to_string(count) + ") INSERT INTO entries(value) SELECT hex(zeroblob(" +
         std::to_string(bytes / 2) + ")) FROM n";
}

class PageChecksums : public ::testing::Test {
 protected:
  PageChecksums() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~PageChecksums() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name = "store.db") const {
    return (folder_ / name).string();
  }

  /// A store with tree pages, overflow pages and free pages, checkpointed and closed.
  void make_small_store() const {
    TestDatabase db(path(), vfs_);
    ASSERT_EQ(db.make_store(), SQLITE_OK);
    ASSERT_EQ(db.run(insert_rows(60, 100)), SQLITE_OK);
    ASSERT_EQ(db.run(insert_rows(2, 9'000)), SQLITE_OK);
    ASSERT_EQ(db.run("DELETE FROM entries WHERE key = 61"), SQLITE_OK);
    ASSERT_TRUE(has_page_checksums(db.get()));
  }

  const std::string vfs_ = page_checksum_vfs("");

 private:
  std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) /
      (std::string("holdfast_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(PageChecksums, NameTheVfsAfterItsBase) {
  EXPECT_EQ(page_checksum_vfs(""), "holdfast");
  EXPECT_EQ(page_checksum_vfs("unix-excl"), "holdfast-unix-excl");
  EXPECT_EQ(page_checksum_vfs("unix-excl"), "holdfast-unix-excl");
  EXPECT_THROW(static_cast<void>(page_checksum_vfs("no such")), InvalidArgument);
  EXPECT_THROW(static_cast<void>(page_checksum_vfs("no such")), InvalidArgument);
}

TEST_F(PageChecksums, AreRegisteredOnceByManyThreads) {
  std::vector<std::thread> threads;
  std::vector<std::string> names(4);
  for (std::string& name : names) {
    threads.emplace_back([&name] { name = page_checksum_vfs("unix-none"); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_THAT(names, ::testing::Each("holdfast-unix-none"));
}

TEST_F(PageChecksums, LeaveADatabaseThatPlainSqliteReads) {
  make_small_store();
  TestDatabase db(path(), "", kReadOnly);
  EXPECT_EQ(db.ask("PRAGMA integrity_check"), "ok ");
  EXPECT_EQ(db.ask(kSum), "61 15000 ");
}

TEST_F(PageChecksums, ShowEveryFlippedByteOfTheFirstPageOnTheFirstRead) {
  make_small_store();
  const std::string clean = load(path());
  std::fstream file(path(), std::ios::binary | std::ios::in | std::ios::out);
  for (std::size_t at = 0; at < kPageSize; ++at) {
    put_byte(file, at, flipped(clean[at], at));
    TestDatabase db(path(), vfs_);
    ASSERT_EQ(db.run(kSum), SQLITE_IOERR_DATA) << "byte " << at;
    ASSERT_EQ(damaged_page(db.get()), 1U) << "byte " << at;
    put_byte(file, at, clean[at]);
  }
}

TEST_F(PageChecksums, ShowEveryFlippedByteAndItsPageWhenAllIsRead) {
  make_small_store();
  const std::string clean = load(path());
  ASSERT_EQ(clean.size() % kPageSize, 0U);
  ASSERT_GE(clean.size() / kPageSize, 5U);
  std::fstream file(path(), std::ios::binary | std::ios::in | std::ios::out);
  TestDatabase db(path(), vfs_);
  ASSERT_EQ(db.run(kSum), SQLITE_OK);
  for (std::size_t at = 0; at < clean.size(); ++at) {
    put_byte(file, at, flipped(clean[at], at));
    ASSERT_THAT(find_damaged_pages(db.get()), ElementsAre(at / kPageSize + 1)) << "byte " << at;
    put_byte(file, at, clean[at]);
  }
  EXPECT_THAT(find_damaged_pages(db.get()), IsEmpty());
}

TEST_F(PageChecksums, StopSqlFromReadingADamagedPage) {
  make_small_store();
  const std::string clean = load(path());
  std::size_t seen = 0;
  for (std::size_t page = 1; page <= clean.size() / kPageSize; ++page) {
    std::string bytes = clean;
    bytes[page * kPageSize - 100] = flipped(bytes[page * kPageSize - 100], page);
    save(path(), bytes);
    TestDatabase db(path(), vfs_);
    if (db.ask("SELECT sum(length(value || '.')) FROM entries") == std::nullopt) {
      EXPECT_EQ(db.code(), SQLITE_IOERR_DATA);
      EXPECT_EQ(damaged_page(db.get()), page);
      ++seen;
    }
  }
  EXPECT_GE(seen, 5U) << "only free pages may go unread";
}

TEST_F(PageChecksums, ShowAPageInThePlaceOfAnother) {
  make_small_store();
  std::string bytes = load(path());
  bytes.replace(2 * kPageSize, kPageSize, bytes, kPageSize, kPageSize);
  save(path(), bytes);
  TestDatabase db(path(), vfs_);
  EXPECT_EQ(db.run("PRAGMA schema_version"), SQLITE_OK);
  EXPECT_THAT(find_damaged_pages(db.get()), ElementsAre(3));
}

TEST_F(PageChecksums, ShowAZeroedPageAndAShortFile) {
  make_small_store();
  const std::string clean = load(path());
  std::string bytes = clean;
  bytes.replace(kPageSize, kPageSize, kPageSize, '\0');
  save(path(), bytes);
  {
    TestDatabase db(path(), vfs_);
    EXPECT_EQ(db.run(kSum), SQLITE_IOERR_DATA);
    EXPECT_EQ(damaged_page(db.get()), 2U);
  }
  for (const std::size_t size : {100UL, 2'000UL, kPageSize + 1'000}) {
    save(path(), clean.substr(0, size));
    TestDatabase db(path(), vfs_);
    EXPECT_EQ(db.run(kSum), size < kPageSize ? SQLITE_IOERR_DATA : SQLITE_CORRUPT) << size;
    EXPECT_THAT(find_damaged_pages(db.get()), ElementsAre(size / kPageSize + 1));
  }
}

TEST_F(PageChecksums, LeaveAForeignDatabaseAsItIs) {
  TestDatabase(path(), "").run("PRAGMA page_size = 1024; CREATE TABLE entries (key, value)");
  {
    TestDatabase db(path(), vfs_);
    EXPECT_EQ(db.ask("PRAGMA application_id"), "0 ");
    EXPECT_EQ(db.run(insert_rows(100, 200)), SQLITE_OK);
    EXPECT_FALSE(has_page_checksums(db.get()));
    EXPECT_THAT(find_damaged_pages(db.get()), IsEmpty());
  }
  EXPECT_EQ(TestDatabase(path(), "").ask("PRAGMA integrity_check"), "ok ");
}

TEST_F(PageChecksums, LeaveADatabaseAloneThatHasNoRoomForThem) {
  for (const char* setting : {"PRAGMA page_size = 4096", "PRAGMA page_size = 8192"}) {
    std::filesystem::remove(path());
    {
      TestDatabase db(path(), vfs_);
      EXPECT_EQ(db.run(setting), SQLITE_OK);
      EXPECT_EQ(db.run("CREATE TABLE entries (key, value)"), SQLITE_OK);
      EXPECT_EQ(db.run(insert_rows(100, 200)), SQLITE_OK);
      EXPECT_FALSE(has_page_checksums(db.get()));
    }
    EXPECT_EQ(TestDatabase(path(), "").ask("PRAGMA integrity_check"), "ok ");
  }
}

TEST_F(PageChecksums, LeaveWhatIsNoDatabaseAsItIs) {
  const std::string text(10'000, 'x');
  save(path(), text);
  {
    TestDatabase db(path(), vfs_);
    EXPECT_EQ(db.run("CREATE TABLE entries (key, value)"), SQLITE_NOTADB);
  }
  EXPECT_EQ(load(path()), text);
}

TEST_F(PageChecksums, HoldThroughVacuumAndVacuumInto) {
  make_small_store();
  {
    TestDatabase db(path(), vfs_);
    ASSERT_EQ(db.run("DELETE FROM entries WHERE key % 2 = 0; VACUUM"), SQLITE_OK);
    ASSERT_EQ(db.run("VACUUM INTO '" + path("copy.db") + "'"), SQLITE_OK);
    ASSERT_EQ(db.run("PRAGMA wal_checkpoint(TRUNCATE)"), SQLITE_OK);
    EXPECT_THAT(find_damaged_pages(db.get()), IsEmpty());
  }
  for (const std::string& name : {path(), path("copy.db")}) {
    TestDatabase db(name, vfs_);
    EXPECT_EQ(db.ask("PRAGMA integrity_check"), "ok ") << name;
    EXPECT_TRUE(has_page_checksums(db.get())) << name;
    EXPECT_THAT(find_damaged_pages(db.get()), IsEmpty()) << name;
  }
}

TEST_F(PageChecksums, HoldInABackup) {
  make_small_store();
  {
    TestDatabase from(path(), vfs_);
    // Part of it only in the WAL, where pages carry the checksums of what they were before.
    ASSERT_EQ(from.run("UPDATE entries SET value = value || '!'"), SQLITE_OK);
    TestDatabase to(path("copy.db"), vfs_);
    sqlite3_backup* backup = sqlite3_backup_init(to.get(), "main", from.get(), "main");
    ASSERT_NE(backup, nullptr);
    ASSERT_EQ(sqlite3_backup_step(backup, 1), SQLITE_OK);
    ASSERT_EQ(sqlite3_backup_step(backup, -1), SQLITE_DONE);
    ASSERT_EQ(sqlite3_backup_finish(backup), SQLITE_OK);
  }
  TestDatabase copy(path("copy.db"), vfs_);
  EXPECT_EQ(copy.ask(kSum), "61 15061 ");
  EXPECT_EQ(copy.ask("PRAGMA integrity_check"), "ok ");
  EXPECT_TRUE(has_page_checksums(copy.get()));
  EXPECT_THAT(find_damaged_pages(copy.get()), IsEmpty());
}

TEST_F(PageChecksums, HoldForPagesThatAreFreedBeforeTheyAreWritten) {
  TestDatabase db(path(), vfs_);
  ASSERT_EQ(db.make_store(), SQLITE_OK);
  ASSERT_EQ(db.run("PRAGMA secure_delete = OFF; BEGIN; CREATE TABLE other (value)"), SQLITE_OK);
  ASSERT_EQ(db.run("INSERT INTO other VALUES (zeroblob(100000))"), SQLITE_OK);
  ASSERT_EQ(db.run(insert_rows(20, 1'000)), SQLITE_OK);
  ASSERT_EQ(db.run("DROP TABLE other; COMMIT; PRAGMA wal_checkpoint(TRUNCATE)"), SQLITE_OK);
  EXPECT_GE(std::stoi(*db.ask("PRAGMA freelist_count")), 20);
  EXPECT_THAT(find_damaged_pages(db.get()), IsEmpty());
}

TEST_F(PageChecksums, AreSeenByAConnectionThatWasOpenedBeforeTheStoreWasMade) {
  TestDatabase early(path(), vfs_);
  ASSERT_EQ(early.run("PRAGMA schema_version"), SQLITE_OK);
  ASSERT_FALSE(has_page_checksums(early.get()));
  make_small_store();
  EXPECT_EQ(early.ask(kSum), "61 15000 ");
  EXPECT_TRUE(has_page_checksums(early.get()));
  EXPECT_EQ(early.run("UPDATE entries SET value = 'x'; PRAGMA wal_checkpoint"), SQLITE_OK);
  EXPECT_THAT(find_damaged_pages(early.get()), IsEmpty());
}

TEST_F(PageChecksums, ComeWithTheStoreAfterACreationThatWasCutOff) {
  {
    TestDatabase db(path(), vfs_);
    int reserved = kChecksumBytes;
    sqlite3_file_control(db.get(), "main", SQLITE_FCNTL_RESERVE_BYTES, &reserved);
    // A small cache spills pages to the file, page 1 not among them, before the commit.
    ASSERT_EQ(db.run("PRAGMA cache_size = 2; BEGIN; PRAGMA application_id = " +
                     std::to_string(kApplicationId) +
                     "; CREATE TABLE entries (key INTEGER PRIMARY KEY, value TEXT)"),
              SQLITE_OK);
    ASSERT_EQ(db.run(insert_rows(500, 1'000)), SQLITE_OK);
    save(path("cut.db"), load(path()));
    save(path("cut.db-journal"), load(path() + "-journal"));
  }
  ASSERT_GT(load(path("cut.db")).size(), 0U);
  ASSERT_GT(load(path("cut.db-journal")).size(), 0U);
  TestDatabase db(path("cut.db"), vfs_);
  EXPECT_EQ(db.ask("SELECT count(*) FROM sqlite_schema"), "0 ");
  EXPECT_EQ(db.make_store(), SQLITE_OK);
  EXPECT_EQ(db.run(insert_rows(50, 100) + "; PRAGMA wal_checkpoint"), SQLITE_OK);
  EXPECT_TRUE(has_page_checksums(db.get()));
  EXPECT_THAT(find_damaged_pages(db.get()), IsEmpty());
}

TEST_F(PageChecksums, SayTheirNameToSqlite) {
  TestDatabase db(path(), vfs_);
  char* name = nullptr;
  ASSERT_EQ(sqlite3_file_control(db.get(), "main", SQLITE_FCNTL_VFSNAME, &name), SQLITE_OK);
  EXPECT_STREQ(name, "holdfast/unix");
  sqlite3_free(name);
  EXPECT_EQ(damaged_page(TestDatabase(":memory:", "").get()), std::nullopt);
}

}  // namespace
}  // namespace holdfast::detail
