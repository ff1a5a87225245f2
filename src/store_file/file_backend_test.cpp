// SPDX-License-Identifier: Apache-2.0
#include "file_backend.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <future>
#include <set>
#include <string>
#include <vector>

#include <holdfast/file_store.hpp>
#include <holdfast/store_error.hpp>

#include "test_support.hpp"

namespace holdfast::detail {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
namespace fs = std::filesystem;

class FileBackendTest : public ::testing::Test {
 protected:
  [[nodiscard]] fs::path store() const { return folder_.store(); }
  [[nodiscard]] fs::path entry(const std::string& key) const { return Layout(store()).entry(key); }

  TestFolder folder_;
};

/// What `call` throws, if it is an `Expected`.
template <class Expected, class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Expected& error) {
    return error.what();
  } catch (const std::exception& error) {
    return "another error: "s + error.what();
  }
  return "no error";
}

// --- Entries -------------------------------------------------------------------------------------

TEST_F(FileBackendTest, EachEntryIsAReadableFile) {
  const auto backend = open_backend(store());
  write_rows(*backend, {{"account/1", "90"}, {"raw", "\xff"}});
  EXPECT_THAT(text_of_file(store() / "entries" / "account%2F1.json"),
              HasSubstr(R"({"key":"account/1","version":)"));
  EXPECT_THAT(text_of_file(store() / "entries" / "account%2F1.json"), HasSubstr(R"("text":"90")"));
  EXPECT_THAT(text_of_file(store() / "entries" / "raw.json"), HasSubstr(R"("base64":"/w==")"));
}

TEST_F(FileBackendTest, WhatWasWrittenIsThereAfterItIsOpenedAgain) {
  const std::string longest(2'048, '\xfe');
  const Rows rows{{"a", "1"},           {"b/\0"s, ""}, {std::string(2'048, 'a'), "long"},
                  {longest, "longest"}, {"\xff", "x"}, {std::string(2'048, '/'), "slashes"}};
  const Version version = write_rows(*open_backend(store()), rows);
  const auto backend = open_backend(store());
  for (const auto& [key, value] : rows) {
    EXPECT_EQ(backend->get(key), (Entry{key, *value, version}));
  }
  EXPECT_EQ(all_rows(*backend).size(), rows.size());
  EXPECT_EQ(backend->get("c"), std::nullopt);
  EXPECT_THAT(backend->check().faults, IsEmpty());
}

TEST_F(FileBackendTest, ErasedEntriesLeaveNothingBehind) {
  const auto backend = open_backend(store());
  const std::string sibling = std::string(300, 'a');
  const std::string long_key = std::string(300, 'a') + std::string(1'000, 'b');
  write_rows(*backend, {{"a", "1"}, {long_key, "2"}, {sibling, "3"}});
  write_rows(*backend, {{"a", std::nullopt}, {long_key, std::nullopt}, {"none", std::nullopt}});
  EXPECT_THAT(all_rows(*backend), ElementsAre(Pair(sibling, "3")));
  write_rows(*backend, {{sibling, std::nullopt}, {long_key, "4"}});
  write_rows(*backend, {{long_key, std::nullopt}});
  EXPECT_TRUE(fs::is_empty(store() / "entries"));
  EXPECT_TRUE(fs::is_empty(store() / "new"));
  EXPECT_THAT(backend->check().faults, IsEmpty());
}

TEST_F(FileBackendTest, OtherFilesAmongTheEntriesAreNoEntries) {
  const auto backend = open_backend(store());
  write_rows(*backend, {{"a", "1"}});
  write_file(store() / "entries" / ".a.json.swp", "an editor's");
  EXPECT_THAT(all_rows(*backend), ElementsAre(Pair("a", "1")));
  EXPECT_THAT(backend->check().faults, ElementsAre(HasSubstr(".a.json.swp")));
}

// --- Versions ------------------------------------------------------------------------------------

TEST_F(FileBackendTest, TheFirstTurnOfEachObjectBeginsAboveAllThatWasHandedOut) {
  std::set<Version> handed_out;
  for (int i = 0; i < 3; ++i) {
    const auto backend = open_backend(store());
    const Version last = backend->begin_turn(soon()).value().last;
    // As `apply` does it, and then the process dies before anything is written.
    for (Version version = last + 1; version < last + 1'000; ++version) {
      EXPECT_TRUE(handed_out.insert(version).second) << version;
    }
    backend->end_turn();
  }
}

TEST_F(FileBackendTest, AnObjectThatIsOpenLeavesOutTheVersionsOfOneThatDiedInItsTurn) {
  const auto survivor = open_backend(store());
  write_rows(*survivor, {{"a", "1"}});
  Version lost = 0;
  {
    const auto victim = open_backend(store());
    lost = victim->begin_turn(soon()).value().last + 1;
  }
  EXPECT_GT(survivor->begin_turn(soon()).value().last, lost);
  survivor->end_turn();
}

TEST_F(FileBackendTest, VersionsAreLeftOutAfterAWriteThatFailed) {
  std::atomic<bool> full = false;
  const auto hook = [&](Files::Step step, const fs::path&) {
    return full && step == Files::Step::kWrite ? ENOSPC : 0;
  };
  const auto backend = open_backend(store(), hook);
  const auto other = open_backend(store());
  write_rows(*other, {{"a", "1"}});
  write_rows(*backend, {{"a", "2"}});
  full = true;
  EXPECT_THROW(write_rows(*backend, {{"a", "3"}}), StoreFull);
  full = false;
  const Version lost = backend->get("a").value().version + 1;
  EXPECT_GT(write_rows(*other, {{"a", "4"}}), lost);
}

TEST_F(FileBackendTest, WithoutACrashVersionsAreDense) {
  const auto one = open_backend(store());
  const auto other = open_backend(store());
  write_rows(*one, {{"a", "1"}});
  const Version version = write_rows(*other, {{"a", "2"}});
  EXPECT_EQ(write_rows(*one, {{"a", "3"}}), version + 1);
  EXPECT_EQ(write_rows(*other, {{"a", "4"}}), version + 2);
}

TEST_F(FileBackendTest, ATurnTellsWhetherOthersWrote) {
  const auto one = open_backend(store());
  const auto other = open_backend(store());
  write_rows(*one, {{"a", "1"}});
  write_rows(*other, {{"a", "2"}});
  EXPECT_TRUE(one->begin_turn(soon()).value().others_wrote);
  one->end_turn();
  EXPECT_FALSE(one->begin_turn(soon()).value().others_wrote);
  one->end_turn();
}

// --- Time ----------------------------------------------------------------------------------------

TEST_F(FileBackendTest, TimeIsTheSameForAllAndGoesOnOverABoot) {
  VirtualClock clock;
  clock.advance(24h);
  const FileOptions options{.clock = &clock};
  StoreTime before;
  {
    const auto backend = open_backend(store(), {}, options);
    EXPECT_EQ(open_backend(store(), {}, options)->time(), backend->time());
    clock.advance(1h);
    before = backend->time();
    write_rows(*backend, {{"a", "1"}});
  }
  // As another boot does it, whose clock begins anew.
  const fs::path file = store() / "store.json";
  StoreRecord record = to_store_record(text_of_file(file), file);
  record.time.boot_id = "the boot before";
  write_file(file, to_text(record));
  VirtualClock rebooted;
  const auto backend = open_backend(store(), {}, {.clock = &rebooted});
  EXPECT_EQ(backend->time(), before);
  rebooted.advance(1s);
  EXPECT_EQ(backend->time(), before + 1s);
  EXPECT_EQ(open_backend(store(), {}, {.clock = &rebooted})->time(), before + 1s);
}

TEST_F(FileBackendTest, TheClockIsTheOneThatWasGiven) {
  VirtualClock clock;
  EXPECT_EQ(&open_backend(store(), {}, {.clock = &clock})->clock(), &clock);
}

// --- Waiting -------------------------------------------------------------------------------------

TEST_F(FileBackendTest, AReaderThatDoesNotEndMakesAWriterBusy) {
  const auto backend = open_backend(store(), {}, {.busy_timeout = 1ms});
  write_rows(*backend, {{"a", "1"}});
  {
    const auto snapshot = open_backend(store())->snapshot();
    EXPECT_THAT(error_of<StoreBusy>([&] { write_rows(*backend, {{"a", "2"}}); }),
                HasSubstr("readers"));
    EXPECT_FALSE(fs::exists(store() / "journal.json"));
    EXPECT_THAT(all_rows(*backend), ElementsAre(Pair("a", "1"))) << "who reads is let in again";
  }
  write_rows(*backend, {{"a", "3"}});
  EXPECT_THAT(all_rows(*backend), ElementsAre(Pair("a", "3")));
}

TEST_F(FileBackendTest, AWriterThatDoesNotEndMakesAReaderBusy) {
  const auto backend = open_backend(store(), {}, {.busy_timeout = 1ms});
  LockFile writer(store() / "readers.lock");
  ASSERT_TRUE(writer.lock_alone(soon()));
  EXPECT_THROW(static_cast<void>(backend->get("a")), StoreBusy);
  writer.unlock();
  EXPECT_EQ(backend->get("a"), std::nullopt);
}

TEST_F(FileBackendTest, AWriterThatWaitsKeepsNewReadersOut) {
  const auto backend = open_backend(store());
  LockFile reader(store() / "readers.lock");
  LockFile writer(store() / "readers.lock");
  LockFile late(store() / "readers.lock");
  ASSERT_TRUE(reader.lock_shared(soon()));
  std::promise<void> waits;
  std::future<bool> wrote = std::async(std::launch::async, [&] {
    waits.set_value();
    return writer.lock_alone(soon());
  });
  waits.get_future().wait();
  while (late.lock_shared(MonotonicTime::now())) {
    late.unlock();
  }
  reader.unlock();
  EXPECT_TRUE(wrote.get());
  writer.unlock();
  EXPECT_TRUE(late.lock_shared(soon()));
}

TEST_F(FileBackendTest, ATurnIsHandedOverBetweenThreadsInOrder) {
  const auto backend = open_backend(store());
  ASSERT_TRUE(backend->begin_turn(soon()));
  EXPECT_FALSE(backend->turn_wanted());
  std::future<void> copied =
      std::async(std::launch::async, [&] { backend->backup(folder_.path() / "copy"); });
  while (!backend->turn_wanted()) {
    std::this_thread::yield();
  }
  EXPECT_FALSE(fs::exists(folder_.path() / "copy"));
  backend->end_turn();
  ASSERT_TRUE(backend->begin_turn(soon()));
  EXPECT_TRUE(fs::exists(folder_.path() / "copy")) << "who waited comes first";
  backend->end_turn();
  copied.get();
}

TEST_F(FileBackendTest, AnInterruptEndsWhatWaits) {
  const auto backend = open_backend(store());
  ASSERT_TRUE(backend->begin_turn(soon()));
  std::future<void> copied = std::async(std::launch::async, [&] {
    EXPECT_THROW(backend->backup(folder_.path() / "copy"), StoreBusy);
  });
  while (!backend->turn_wanted()) {
    std::this_thread::yield();
  }
  backend->interrupt();
  copied.get();
  backend->end_turn();
  EXPECT_EQ(backend->begin_turn(soon()), std::nullopt);
}

// --- Inspection ----------------------------------------------------------------------------------

TEST_F(FileBackendTest, CheckFindsWhatIsLostStaleForeignOrDamaged) {
  const auto backend = open_backend(store());
  write_rows(*backend, {{"a", "1"}, {"b", "1"}});
  const std::string old_a = text_of_file(entry("a"));
  write_rows(*backend, {{"a", "2"}});
  EXPECT_EQ(backend->check().entries, 2U);
  EXPECT_THAT(backend->check().faults, IsEmpty());
  const std::string new_a = text_of_file(entry("a"));

  write_file(entry("a"), old_a);
  EXPECT_THAT(backend->check().faults, ElementsAre(HasSubstr("not those that were written last")));

  fs::remove(entry("a"));
  EXPECT_THAT(backend->check().faults, ElementsAre(HasSubstr("counts 2 entries")));

  fs::copy_file(entry("b"), entry("a"));
  EXPECT_THAT(backend->check().faults,
              ElementsAre(HasSubstr("another key"), HasSubstr("counts 2 entries")));
  EXPECT_THAT(error_of<StoreCorrupt>([&] { static_cast<void>(backend->get("a")); }),
              HasSubstr("a.json"));

  write_file(entry("a"), new_a);
  write_file(store() / "entries" / "c%2f.json", old_a);
  write_file(store() / "notes.txt", "");
  EXPECT_THAT(backend->check().faults, ElementsAre(HasSubstr("notes.txt"), HasSubstr("c%2f.json")));
}

TEST_F(FileBackendTest, StatsCount) {
  const auto backend = open_backend(store());
  const std::uint64_t bytes = backend->stats().bytes;
  const Version version = write_rows(*backend, {{"a", std::string(10'000, 'x')}, {"b", "1"}});
  const StoreStats stats = backend->stats();
  EXPECT_EQ(stats.entries, 2U);
  EXPECT_GE(stats.bytes, bytes + 10'000);
  EXPECT_EQ(stats.last_version, version);
  EXPECT_EQ(stats.format, 1U);
  EXPECT_THAT(stats.details, HasSubstr("folder: " + store().string()));
}

// --- Backup --------------------------------------------------------------------------------------

TEST_F(FileBackendTest, ABackupIsAStoreWhoseVersionsGoOnFarAbove) {
  const auto backend = open_backend(store());
  write_rows(*backend, {{"a", "1"}, {std::string(2'000, '/'), "2"}});
  const fs::path target = folder_.path() / "copy";
  backend->backup(target);
  const Version after = write_rows(*backend, {{"a", "after the backup"}});

  const auto copy = open_backend(target);
  EXPECT_THAT(all_rows(*copy), ElementsAre(Pair(std::string(2'000, '/'), "2"), Pair("a", "1")));
  EXPECT_THAT(copy->check().faults, IsEmpty());
  EXPECT_GT(write_rows(*copy, {{"a", "2"}}), after + (Version{1} << 31U));
  EXPECT_GE(copy->time(), StoreTime());
  EXPECT_FALSE(fs::exists(folder_.path() / "copy.tmp"));
  EXPECT_EQ(fs::status(target).permissions(), fs::perms::owner_all);
}

TEST_F(FileBackendTest, ABackupNeedsANewPlace) {
  const auto backend = open_backend(store());
  fs::create_directory(folder_.path() / "copy");
  EXPECT_THAT(error_of<InvalidArgument>([&] { backend->backup(folder_.path() / "copy/"); }),
              HasSubstr("name a new place"));
  fs::create_directory(folder_.path() / "other.tmp");
  EXPECT_THAT(error_of<InvalidArgument>([&] { backend->backup(folder_.path() / "other"); }),
              HasSubstr("other.tmp"));
}

TEST_F(FileBackendTest, ABackupThatFailsLeavesNothing) {
  std::atomic<bool> full = false;
  const auto hook = [&](Files::Step step, const fs::path&) {
    return full && step == Files::Step::kWrite ? ENOSPC : 0;
  };
  const auto backend = open_backend(store(), hook);
  write_rows(*backend, {{"a", "1"}});
  full = true;
  EXPECT_THROW(backend->backup(folder_.path() / "copy"), StoreFull);
  EXPECT_FALSE(fs::exists(folder_.path() / "copy"));
  EXPECT_FALSE(fs::exists(folder_.path() / "copy.tmp"));
}

// --- News ----------------------------------------------------------------------------------------

TEST_F(FileBackendTest, TellsWhatOthersWroteAlsoIfTheyDiedBeforeTheyTold) {
  const auto listening = open_backend(store());
  std::promise<std::vector<std::string>> told;
  std::atomic<int> count = 0;
  std::promise<void> told_of_dead;
  listening->listen([&](std::span<const std::string> keys) {
    const int call = count++;
    if (call == 0) {
      told.set_value({keys.begin(), keys.end()});
    } else if (keys.empty() && fs::exists(entry("b")) && !fs::exists(entry("c"))) {
      fs::create_directory(entry("c"));  // Only once.
      told_of_dead.set_value();
    }
  });
  write_rows(*open_backend(store()), {{"a", "1"}});
  EXPECT_THAT(told.get_future().get(), ElementsAre("a"));

  std::atomic<bool> broken = false;
  const auto dying = open_backend(store(), [&](Files::Step step, const fs::path& path) {
    broken = broken || (path.filename() == "0" && step == Files::Step::kRename);
    return broken ? EIO : 0;
  });
  EXPECT_THROW(write_rows(*dying, {{"b", "1"}}), StoreFailed);
  told_of_dead.get_future().wait();
}

}  // namespace
}  // namespace holdfast::detail
