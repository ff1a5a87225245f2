// SPDX-License-Identifier: Apache-2.0
//
// A file system that is really full: a small one of its own, in memory, which only this process
// sees.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include <holdfast/executor.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/sqlite_store.hpp>

#include "base/temp_folder.hpp"
#include "coro/test_world.hpp"
#include "tests/crash/actors.hpp"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kDiskBytes = std::size_t{4} << 20;

void write_text(const char* path, const std::string& text) { std::ofstream(path) << text; }

/// Mounts of its own for this process; empty, or why that cannot be.
std::string leave_the_mounts_of_others() {
  const std::string uid = std::to_string(::getuid());
  const std::string gid = std::to_string(::getgid());
  const bool root = ::getuid() == 0;
  if (::unshare(root ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER) != 0) {
    return "no mount namespace: " + std::generic_category().message(errno);
  }
  if (!root) {
    write_text("/proc/self/setgroups", "deny");
    write_text("/proc/self/uid_map", "0 " + uid + " 1");
    write_text("/proc/self/gid_map", "0 " + gid + " 1");
  }
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return "no private mounts: " + std::generic_category().message(errno);
  }
  return {};
}

class FullDisk : public ::testing::Test {
 protected:
  static const std::string& why_not() {
    static const std::string reason = leave_the_mounts_of_others();
    return reason;
  }

  void SetUp() override {
    if (!alone_) {
      GTEST_SKIP() << why_not();
    }
    const std::string options = "mode=0700,size=" + std::to_string(kDiskBytes);
    if (::mount("holdfast", folder_.path().c_str(), "tmpfs", 0, options.c_str()) != 0) {
      GTEST_SKIP() << "no small file system: " << std::generic_category().message(errno);
    }
  }
  void TearDown() override { ::umount2(folder_.path().c_str(), MNT_DETACH); }

  /// Occupies so much, or all that is left.
  void fill(const char* name, std::size_t bytes = kDiskBytes) {
    const int file = ::open((folder_ / name).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    ASSERT_GE(file, 0);
    const std::string block(4'096, 'f');
    while (bytes > 0 && ::write(file, block.data(), block.size()) > 0) {
      bytes -= std::min(bytes, block.size());
    }
    ::close(file);
  }
  void free(const char* name) { std::filesystem::remove(folder_ / name); }

  void commit(Store& store, std::size_t bytes = 20'000) {
    Batch batch;
    batch.put("filling/" + std::to_string(count_++), std::string(bytes, 'x'));
    const Ledger::Id id = ledger_.enter(batch);
    try {
      const CommitOutcome outcome = sync_wait(pool_, store.commit(std::move(batch)));
      ledger_.acknowledged(id, outcome);
    } catch (const Error&) {
      ledger_.threw(id);
      throw;
    }
  }
  std::string commit_until_full(Store& store) {
    return error_text<StoreFull>([&] {
      for (std::size_t i = 0; i < kDiskBytes / 20'000; ++i) {
        commit(store);
      }
    });
  }

  void expect_all_there(Store& store) {
    const Ledger::Audit audit = ledger_.audit(read_all(pool_, store));
    EXPECT_EQ(audit.lost, 0U);
    EXPECT_EQ(text_of(audit.faults), "");
    EXPECT_GT(audit.found, 0U);
    const CheckReport report = sync_wait(pool_, store.check());
    EXPECT_EQ(text_of(report.faults), "");
  }

  TempFolder folder_;
  // A thread has the mounts of the one that starts it, as they are then.
  const bool alone_ = why_not().empty();
  ThreadPool pool_{1};
  Ledger ledger_;
  int count_ = 0;
};

TEST_F(FullDisk, IsAClearErrorAndTheStoreWorksOnOnceThereIsSpace) {
  fill("filler", kDiskBytes / 2);
  const std::filesystem::path path = folder_ / "store.db";
  auto store = open_sqlite_store(path);
  EXPECT_THAT(commit_until_full(*store), HasSubstr("no space left on the disk"));
  expect_all_there(*store);
  EXPECT_THROW(commit(*store), StoreFull);

  free("filler");
  commit(*store);
  expect_all_there(*store);
  store.reset();
  ledger_.begin_life();
  expect_all_there(*open_sqlite_store(path));
}

TEST_F(FullDisk, AStoreThatWasClosedCanBeOpenedAndReadWithNothingLeft) {
  const std::filesystem::path path = folder_ / "store.db";
  auto store = open_sqlite_store(path);
  commit(*store);
  store.reset();
  const auto with_ballast = std::filesystem::file_size(path.string() + "-hold");
  // As a backup, or a clean-up, would leave it. Both have to be made again to read anything.
  std::filesystem::remove(path.string() + "-wal");
  std::filesystem::remove(path.string() + "-shm");
  fill("filler");

  ledger_.begin_life();
  store = open_sqlite_store(path);
  expect_all_there(*store);
  EXPECT_LT(std::filesystem::file_size(path.string() + "-hold"), with_ballast);
  EXPECT_THAT(commit_until_full(*store), HasSubstr("no space left"));
  expect_all_there(*store);
  store.reset();

  // Nothing to give back any more: the files that are there are enough.
  fill("more");
  store = open_sqlite_store(path);
  expect_all_there(*store);
  store.reset();

  free("filler");
  store = open_sqlite_store(path);
  commit(*store);
  expect_all_there(*store);
  EXPECT_EQ(std::filesystem::file_size(path.string() + "-hold"), with_ballast);
}

TEST_F(FullDisk, AStoreThatCannotBeMadeIsAClearError) {
  fill("filler");
  const std::filesystem::path path = folder_ / "store.db";
  EXPECT_THAT(error_text<StoreFull>([&] { (void)open_sqlite_store(path); }), HasSubstr("space"));
  free("filler");
  const auto store = open_sqlite_store(path);
  commit(*store);
  expect_all_there(*store);
}

}  // namespace
}  // namespace holdfast::testing
