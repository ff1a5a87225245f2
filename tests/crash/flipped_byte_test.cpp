// SPDX-License-Identifier: Apache-2.0
//
// Each byte of a small store is damaged, one at a time: whoever opens and reads it then gets an
// error that names the file, or exactly what was committed.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <holdfast/spawn.hpp>
#include <holdfast/sqlite_store.hpp>
#include <holdfast/store_error.hpp>

#include "base/temp_folder.hpp"
#include "store_sqlite/page_checksums.hpp"
#include "store_sqlite/sqlite_backend.hpp"
#include "tests/crash/actors.hpp"
#include "tests/crash/machine.hpp"

namespace holdfast::testing {
namespace {

/// Under sanitizers only each so many bytes.
constexpr std::size_t kStep = HOLDFAST_CRASH_FLIP_STEP;

void commit(Executor& executor, Store& store, const std::string& key, const std::string& value) {
  Batch batch;
  batch.put(key, value).put("last", key).erase("erased");
  (void)sync_wait(executor, store.commit(std::move(batch)));
}

/// Some entries that a checkpoint brought to the database file, and, by the second call, some that
/// only the log has.
void commit_first(Executor& executor, Store& store) {
  for (const char* key : {"a", "b", "erased"}) {
    commit(executor, store, key, std::string(300, *key));
  }
}
void commit_second(Executor& executor, Store& store) {
  for (const char* key : {"b", "c"}) {
    commit(executor, store, key, std::string(200, *key));
  }
}

enum class Verdict : std::uint8_t { kHarmless, kDetected, kWrong };

/// `read` gives all entries and what a check finds.
struct Reading {
  std::vector<Entry> entries;
  CheckReport report;
};
template <class Read>
Verdict judge(const std::vector<Entry>& expected, const Read& read) {
  try {
    const Reading found = read();
    if (found.entries != expected) {
      return Verdict::kWrong;
    }
    return found.report.faults.empty() ? Verdict::kHarmless : Verdict::kDetected;
  } catch (const Error& error) {
    const bool named = std::string(error.what()).find("store.db") != std::string::npos;
    return named ? Verdict::kDetected : Verdict::kWrong;
  }
}

/// Flips bits of one file, one after another. All eight of the bytes that `often` wants, one of
/// the others.
class Flips {
 public:
  template <class Often, class Try>
  void flip(std::string bytes, const Often& often, std::size_t step, const Try& attempt) {
    for (std::size_t at = 0; at < bytes.size(); at += often(at) ? 1 : step) {
      const std::size_t bits = often(at) ? 8 : 1;
      for (std::size_t i = 0; i < bits; ++i) {
        const std::size_t bit = bits == 1 ? at % 8 : i;
        const char sound = bytes[at];
        bytes[at] = static_cast<char>(static_cast<unsigned char>(sound) ^ (1U << bit));
        const Verdict verdict = attempt(bytes);
        bytes[at] = sound;
        ++counts_.at(static_cast<std::size_t>(verdict));
        EXPECT_NE(verdict, Verdict::kWrong) << "byte " << at << ", bit " << bit;
      }
    }
  }

  void report(const std::string& file) const {
    std::cout << file << ": " << counts_[0] << " harmless, " << counts_[1] << " detected, "
              << counts_[2] << " wrong\n";
  }
  [[nodiscard]] std::size_t detected() const { return counts_[1]; }

 private:
  std::array<std::size_t, 3> counts_{};
};

/// A store in memory whose log is full of commits: its process was killed.
class InMemory : public ::testing::Test {
 protected:
  InMemory() {
    machine_.begin_at({}, 1);
    commit_first(machine_.stage, *machine_.open());
    const auto store = machine_.open();
    commit_second(machine_.stage, *store);
    moment_ = machine_.now();
    expected_ = read_all(machine_.stage, *store);
    machine_.disk.kill();
  }

  Reading read(const Machine::Moment& moment) {
    machine_.begin_at(moment, 1);
    SqliteOptions options;
    options.clock = &machine_.stage.clock();
    detail::SqliteBackend backend({Machine::kPath, machine_.vfs()}, options,
                                  std::make_unique<Alone>(machine_.mark, machine_.stage),
                                  detail::kCheckpointPages);
    Reading found;
    found.entries = backend.snapshot()->scan("", "", 1'000).entries;
    found.report = backend.check();
    return found;
  }

  Flips flip(const std::string& file) {
    Flips flips;
    // The header of the file, and of the frames of a log.
    const auto often = [](std::size_t at) { return at < 128 || at % 4120 < 56; };
    Machine::Moment moment = moment_;
    flips.flip(moment_.files.at(file), often, kStep, [&](const std::string& bytes) {
      moment.files.at(file) = bytes;
      return judge(expected_, [&] { return read(moment); });
    });
    flips.report(file);
    return flips;
  }

  Machine machine_;
  Machine::Moment moment_;
  std::vector<Entry> expected_;
};

TEST_F(InMemory, AByteOfTheDatabaseIsDetectedOrHarmless) {
  EXPECT_GT(flip("store.db").detected(), 1'000U / kStep);
}

TEST_F(InMemory, AByteOfADatabaseThatWasClosedIsDetectedOrHarmless) {
  machine_.begin_at(moment_, 1);
  machine_.open().reset();
  moment_ = machine_.now();
  ASSERT_EQ(moment_.files.at("store.db-wal"), "");
  EXPECT_GT(flip("store.db").detected(), 10'000U / kStep);
}

TEST_F(InMemory, AByteOfTheLogIsDetectedOrHarmless) {
  EXPECT_GT(flip("store.db-wal").detected(), 1'000U / kStep);
}

TEST_F(InMemory, WithoutTheMarkADamagedLogLosesCommitsUnnoticed) {
  moment_.mark = KeptMark{};
  Machine::Moment moment = moment_;
  std::string& log = moment.files.at("store.db-wal");
  log[log.find_last_not_of('\0')] ^= 1;  // Behind it is what it has grown ahead.
  EXPECT_EQ(judge(expected_, [&] { return read(moment); }), Verdict::kWrong);
}

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The files of a store whose process was killed, to be put in place again and again.
class OnDisk : public ::testing::Test {
 protected:
  OnDisk() {
    commit_first(pool_, *open_sqlite_store(path_));
    const auto store = open_sqlite_store(path_);
    commit_second(pool_, *store);
    expected_ = read_all(pool_, *store);
    for (const char* suffix : {"", "-wal", "-shm", "-hold"}) {
      files_[suffix] = bytes_of(path_.string() + suffix);
    }
  }

  Reading read(const std::string& suffix, const std::string& bytes) {
    for (const auto& [name, sound] : files_) {
      std::ofstream file(path_.string() + name, std::ios::binary | std::ios::trunc);
      file << (name == suffix ? bytes : sound);
    }
    const auto store = open_sqlite_store(path_);
    return {read_all(pool_, *store), sync_wait(pool_, store->check())};
  }

  /// Each byte up to `all`, and some of the rest.
  Flips flip(const std::string& suffix, std::size_t all) {
    Flips flips;
    constexpr std::size_t kStepOfRest = 1'021;
    flips.flip(
        files_.at(suffix), [&](std::size_t at) { return at < all; }, kStepOfRest * kStep,
        [&](const std::string& bytes) {
          return judge(expected_, [&] { return read(suffix, bytes); });
        });
    flips.report(suffix);
    return flips;
  }

  TempFolder folder_;
  const std::filesystem::path path_ = folder_ / "store.db";
  ThreadPool pool_{1};
  std::vector<Entry> expected_;
  std::map<std::string, std::string> files_;
};

TEST_F(OnDisk, AByteBesideTheStoreIsDetectedOrHarmless) {
  EXPECT_GT(flip("-hold", 48).detected(), 0U);
}

TEST_F(OnDisk, AByteOfTheIndexOfTheLogIsHarmless) { EXPECT_EQ(flip("-shm", 48).detected(), 0U); }

}  // namespace
}  // namespace holdfast::testing
