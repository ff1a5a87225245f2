// SPDX-License-Identifier: Apache-2.0
// Durable commits through `Store` against SQLite used by hand: the same records, the same table,
// the same sync level, and as many records in a transaction as batches are in flight.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <holdfast/executor.hpp>
#include <holdfast/memory_store.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/sqlite_store.hpp>
#include <holdfast/task.hpp>
#include <holdfast/this_task.hpp>

#include "base/temp_folder.hpp"
#include "benchmarks/harness.hpp"
#include "connection.hpp"

namespace holdfast::bench {

namespace {

using detail::Connection;
using detail::Statement;

constexpr std::size_t kValueBytes = 200;
constexpr std::size_t kGrowthInFlight = 256;

/// On the disk of the working directory: that of the temporary ones may be none.
struct Folder : testing::TempFolder {
  Folder() : TempFolder(std::filesystem::current_path()) {}
  [[nodiscard]] std::filesystem::path file() const { return path() / "store.db"; }
};

/// Keys in the order in which they are made.
std::string key_of(std::uint64_t number) {
  char text[32];
  const int size =
      std::snprintf(text, sizeof text, "run/%016llx", static_cast<unsigned long long>(number));
  return {text, static_cast<std::size_t>(size)};
}

/// What each commit does: a new key, and, when it is measured how cost grows, a change of one that
/// was made a little earlier.
struct Work {
  std::uint64_t first;
  std::uint64_t count;
  bool changes_an_older_one = false;

  [[nodiscard]] static std::uint64_t older(std::uint64_t number) noexcept {
    return number < 500 ? 0 : number - 500;
  }
};

// --- Ours ---

Task<void> commit_some(Store& store, const Work& work, std::uint64_t& next,
                       const std::string& value) {
  while (next < work.count) {
    const std::uint64_t number = work.first + next++;
    const std::string key = key_of(number);
    Batch batch;
    batch.require_absent(key).put(key, value);
    if (work.changes_an_older_one) {
      batch.put(key_of(Work::older(number)), value);
    }
    const CommitOutcome outcome = co_await store.commit(std::move(batch));
    require(outcome.committed() != nullptr, "a commit was refused");
  }
}

Task<void> commit_all(Store& store, Work work, std::size_t in_flight) {
  const std::string value(kValueBytes, 'v');
  std::uint64_t next = 0;
  std::vector<Spawned<void>> tasks;
  for (std::size_t i = 0; i < in_flight; ++i) {
    tasks.push_back(spawn(this_task::executor(), commit_some(store, work, next, value)));
  }
  for (Spawned<void>& task : tasks) {
    co_await task;
  }
}

double commits_per_second(Store& store, const Work& work, std::size_t in_flight) {
  ThreadPool pool(1);
  const Stopwatch stopwatch;
  sync_wait(pool, commit_all(store, work, in_flight));
  return static_cast<double>(work.count) / (stopwatch.elapsed_ns() / 1e9);
}

// --- SQLite by hand ---

class RawSqlite {
 public:
  explicit RawSqlite(const std::filesystem::path& path)
      : connection_(path.string(), "", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) {
    connection_.run("PRAGMA journal_mode = WAL");
    connection_.run("PRAGMA synchronous = FULL");
    connection_.run(
        "CREATE TABLE IF NOT EXISTS entries(key BLOB NOT NULL PRIMARY KEY, version INTEGER NOT "
        "NULL, value BLOB NOT NULL) STRICT, WITHOUT ROWID");
  }

  double records_per_second(const Work& work, std::size_t in_transaction) {
    Statement begin(connection_, "BEGIN IMMEDIATE");
    Statement commit(connection_, "COMMIT");
    // As the condition of ours, this fails if the key is there.
    Statement insert(connection_, "INSERT INTO entries VALUES(?1, ?2, ?3)");
    Statement update(connection_, "UPDATE entries SET version = ?2, value = ?3 WHERE key = ?1");
    const std::string value(kValueBytes, 'v');
    const Stopwatch stopwatch;
    for (std::uint64_t done = 0; done < work.count;) {
      begin.run();
      for (std::size_t i = 0; i < in_transaction && done < work.count; ++i, ++done) {
        const std::uint64_t number = work.first + done;
        const auto version = static_cast<std::int64_t>(number);
        insert.bind(1, key_of(number)).bind(2, version).bind(3, value).run();
        if (work.changes_an_older_one) {
          update.bind(1, key_of(Work::older(number))).bind(2, version).bind(3, value).run();
        }
      }
      commit.run();
    }
    return static_cast<double>(work.count) / (stopwatch.elapsed_ns() / 1e9);
  }

 private:
  Connection connection_;
};

double ours_from_nothing(std::uint64_t count, std::size_t in_flight) {
  const Folder folder;
  const auto store = open_sqlite_store(folder.file());
  return commits_per_second(*store, {.first = 0, .count = count}, in_flight);
}

double raw_from_nothing(std::uint64_t count, std::size_t in_transaction) {
  const Folder folder;
  return RawSqlite(folder.file()).records_per_second({.first = 0, .count = count}, in_transaction);
}

Registration sqlite_case(const char* name, std::uint64_t count, std::size_t in_flight, int rounds) {
  return Registration(
      {.suite = "store",
       .name = name,
       .ours = [=] { return ours_from_nothing(count, in_flight); },
       .peer = [=] { return raw_from_nothing(count, in_flight); },
       .peer_name = "raw SQLite, " + std::to_string(in_flight) + " in a transaction",
       .unit = "commits/s",
       .better = Better::kHigher,
       .limit = {.ratio_min = 0.8},
       .rounds = rounds});
}

const Registration kSqlite1 = sqlite_case("sqlite_1", 2'000, 1, 7);
const Registration kSqlite16 = sqlite_case("sqlite_16", 16'000, 16, 7);
const Registration kSqlite256 = sqlite_case("sqlite_256", 128'000, 256, 7);
const Registration kSqlite4096 = sqlite_case("sqlite_4096", 409'600, 4'096, 5);
const Registration kSqliteLoad = sqlite_case("sqlite_load_1m", 1'000'000, 4'096, 3);

// --- How cost grows ---

/// Stores of some size that are made once, and grow by what is measured.
class Grown {
 public:
  explicit Grown(std::uint64_t size) : size_(size) {}

  double ours() {
    if (!store_) {
      store_ = open_sqlite_store(ours_folder_.file());
      commits_per_second(*store_, {.first = 0, .count = size_}, 4'096);
    }
    return commits_per_second(*store_, next(ours_next_), kGrowthInFlight);
  }

  double peer() {
    if (!raw_) {
      raw_ = std::make_unique<RawSqlite>(raw_folder_.file());
      raw_->records_per_second({.first = 0, .count = size_}, 4'096);
    }
    return raw_->records_per_second(next(raw_next_), kGrowthInFlight);
  }

 private:
  [[nodiscard]] Work next(std::uint64_t& rounds) const {
    constexpr std::uint64_t kCount = 50'000;
    return {.first = size_ + kCount * rounds++, .count = kCount, .changes_an_older_one = true};
  }

  std::uint64_t size_;
  std::uint64_t ours_next_ = 0;
  std::uint64_t raw_next_ = 0;
  Folder ours_folder_;
  Folder raw_folder_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<RawSqlite> raw_;
};

Registration growth_case(const char* name, std::uint64_t size) {
  // Made when it is first measured, and gone after its last round: ten million keys take space.
  constexpr int kRounds = 5;
  struct Shared {
    std::unique_ptr<Grown> grown;
    int measured = 0;
  };
  const auto shared = std::make_shared<Shared>();
  const auto measure = [=](double (Grown::*side)()) {
    if (!shared->grown) {
      shared->grown = std::make_unique<Grown>(size);
    }
    const double figure = (shared->grown.get()->*side)();
    if (++shared->measured == 2 * kRounds) {
      shared->grown.reset();
    }
    return figure;
  };
  return Registration({.suite = "store",
                       .name = name,
                       .ours = [=] { return measure(&Grown::ours); },
                       .peer = [=] { return measure(&Grown::peer); },
                       .peer_name = "raw SQLite with as many keys",
                       .unit = "commits/s",
                       .better = Better::kHigher,
                       .rounds = kRounds});
}

const Registration kGrowth1k = growth_case("growth_1k", 1'000);
const Registration kGrowth100k = growth_case("growth_100k", 100'000);
const Registration kGrowth10m = growth_case("growth_10m", 10'000'000);

// --- Memory ---

double memory_commits() {
  const auto store = open_memory_store();
  return commits_per_second(*store, {.first = 0, .count = 500'000}, 16);
}

double raw_map_inserts() {
  std::map<std::string, std::pair<std::string, std::uint64_t>> rows;
  const std::string value(kValueBytes, 'v');
  const Stopwatch stopwatch;
  constexpr std::uint64_t kCount = 500'000;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    rows.try_emplace(key_of(i), value, i);
  }
  return static_cast<double>(kCount) / (stopwatch.elapsed_ns() / 1e9);
}

const Registration kMemory({.suite = "store",
                            .name = "memory",
                            .ours = memory_commits,
                            .peer = raw_map_inserts,
                            .peer_name = "std::map",
                            .unit = "commits/s",
                            .better = Better::kHigher,
                            .limit = {.ours_min = 1e6}});

}  // namespace

}  // namespace holdfast::bench
