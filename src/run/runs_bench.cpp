// SPDX-License-Identifier: Apache-2.0
// Durable workflows on SQLite at full sync, against what SQLite gives by itself.
#include <gperftools/malloc_extension_c.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/engine.hpp>
#include <holdfast/executor.hpp>
#include <holdfast/semaphore.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/sqlite_store.hpp>

#include "base/temp_folder.hpp"
#include "benchmarks/harness.hpp"
#include "benchmarks/steady_state.hpp"
#include "run_keys.hpp"
#include "run_machine.hpp"
#include "run_place.hpp"
#include "store_sqlite/connection.hpp"

namespace holdfast::bench {

namespace {

using namespace std::chrono_literals;

/// On the disk of the working directory: that of the temporary ones may be none.
struct Folder : testing::TempFolder {
  Folder() : TempFolder(std::filesystem::current_path()) {}
  [[nodiscard]] std::filesystem::path file() const { return path() / "store.db"; }
};

Task<int> one_step(Context& ctx, int value) {
  auto step = ctx.run("add", [value] { return value + 1; });
  const int sum = co_await step;
  co_return sum;
}
const auto kOneStep = workflow("one_step", one_step);

Task<int> many_steps(Context& ctx, int count) {
  int sum = 0;
  for (int i = 0; i < count; ++i) {
    auto step = ctx.run("add", [i] { return i; });
    sum += co_await step;
  }
  co_return sum;
}
const auto kManySteps = workflow("many_steps", many_steps);

std::atomic<std::uint64_t> woken = 0;

Task<int> sleeper(Context& ctx, int seconds) {
  co_await ctx.sleep(std::chrono::seconds(seconds));
  ++woken;
  woken.notify_all();
  co_return seconds;
}
const auto kSleeper = workflow("sleeper", sleeper);

/// A process that drives runs.
struct Process {
  explicit Process(const std::filesystem::path& file) : Process(file, own_clock) {}
  Process(const std::filesystem::path& file, Clock& clock)
      : pool(1, clock), store(open_sqlite_store(file, {.clock = &clock})) {
    const SessionOptions for_a_day{.ttl = 24h, .executor = &pool};
    session = sync_wait(pool, Session::open(*store, for_a_day));
    engine.emplace(*session, EngineOptions{.executor = &pool, .idle_time = 1s});
    engine->add(kOneStep);
    engine->add(kManySteps);
    engine->add(kSleeper);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    sync_wait(pool, engine->stop());
    engine.reset();
    sync_wait(pool, session->close());
  }

  SystemClock own_clock;
  ThreadPool pool;
  std::unique_ptr<Store> store;
  std::unique_ptr<Session> session;
  std::optional<Engine> engine;
};

double per_second(std::uint64_t count, const Stopwatch& stopwatch) {
  return static_cast<double>(count) / (stopwatch.elapsed_ns() / 1e9);
}

// --- One step ------------------------------------------------------------------------------------

Task<void> run_in_turn(Engine& engine, SteadyState& steady) {
  while (!steady.is_over()) {
    auto run = co_await engine.start(kOneStep, 41);
    const int result = co_await run.result();
    require(result == 42, "a run gave another result");
    steady.one_more();
  }
}

/// Of runs that are measured: as many as make whole rounds of those in flight.
std::uint64_t run_count(std::uint64_t in_flight) {
  return std::clamp<std::uint64_t>(40'000 / in_flight, 10, 500) * in_flight;
}

/// Runs from start to durable result, so many at once all the while: each has ended once before the
/// time is taken, and all go on until it has been.
double runs_per_second(std::uint64_t in_flight) {
  const Folder folder;
  Process process(folder.file());
  sync_wait(process.pool, process.engine->begin());
  SteadyState steady(in_flight, run_count(in_flight));
  std::deque<Spawned<void>> running;
  for (std::uint64_t i = 0; i < in_flight; ++i) {
    running.push_back(spawn(process.pool, run_in_turn(*process.engine, steady)));
  }
  for (Spawned<void>& one : running) {
    one.get();
  }
  return 1e9 / steady.ns_each();
}

/// The keys that an engine gives to runs: some in one partition, then some in the next one.
std::string key_of_run(std::uint64_t number, std::uint64_t in_flight) {
  const std::uint64_t in_a_row = std::clamp<std::uint64_t>(in_flight / 8, 1, 32);
  const auto partition =
      static_cast<std::uint32_t>(number / in_a_row % detail::kPartitionsPerQueue);
  const StoreTime started(std::chrono::hours(1));
  return detail::PartitionKeys("default", partition)
      .run(detail::new_uid(started, static_cast<std::uint32_t>(number), number));
}

/// The same commits: a row for each start, written over at its end, so many in one transaction. The
/// rows are as long as those of the runs above.
double raw_runs_per_second(std::uint64_t in_flight) {
  const Folder folder;
  detail::Connection connection(folder.file().string(), "",
                                SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  connection.run("PRAGMA journal_mode = WAL");
  connection.run("PRAGMA synchronous = FULL");
  connection.run(
      "CREATE TABLE entries(key BLOB NOT NULL PRIMARY KEY, version INTEGER NOT NULL, "
      "value BLOB NOT NULL) STRICT, WITHOUT ROWID");
  detail::Statement put(connection, "INSERT OR REPLACE INTO entries VALUES(?1, ?2, ?3)");
  const std::string at_start(45, 'v');
  const std::string at_end(79, 'v');
  const std::uint64_t count = run_count(in_flight);
  std::vector<std::string> keys;
  for (std::uint64_t i = 0; i < in_flight + count; ++i) {
    keys.push_back(key_of_run(i, in_flight));
  }
  std::int64_t version = 0;
  std::optional<Stopwatch> stopwatch;
  for (std::uint64_t first = 0; first < in_flight + count; first += in_flight) {
    if (first == in_flight) {
      stopwatch.emplace();
    }
    for (const std::string* value : {&at_start, &at_end}) {
      connection.run("BEGIN IMMEDIATE");
      for (std::uint64_t i = first; i < first + in_flight; ++i) {
        put.bind(1, keys[i]).bind(2, ++version).bind(3, *value).run();
      }
      connection.run("COMMIT");
    }
  }
  return per_second(count, *stopwatch);
}

// --- Many steps ----------------------------------------------------------------------------------

/// A run is two of them.
double raw_commit_of_run_us() { return 1e6 / raw_runs_per_second(1) / 2; }

double us_per_step() {
  constexpr int kSteps = 1'000;
  const Folder folder;
  Process process(folder.file());
  sync_wait(process.pool, process.engine->begin());
  const Stopwatch stopwatch;
  auto run = sync_wait(process.pool, process.engine->start(kManySteps, kSteps));
  const int sum = sync_wait(process.pool, run.result());
  require(sum == kSteps * (kSteps - 1) / 2, "the steps gave another sum");
  return stopwatch.elapsed_ns() / 1e3 / kSteps;
}

// --- Replay --------------------------------------------------------------------------------------

/// A journal of `count` steps.
std::vector<record::Activation> journal_of(int count) {
  detail::RunMachine machine(*kManySteps.code(), {"replayed", "many_steps", count});
  std::vector<record::Activation> journal;
  StoreTime now(1h);
  record::RunEvent event;
  event.set_kind(record::RunEvent::STARTED);
  for (int i = 0; i <= count; ++i) {
    journal.push_back(machine.activate(now += 1us, {event}).record);
    event.set_kind(record::RunEvent::STEP_ENDED);
    event.set_operation(static_cast<std::uint64_t>(i));
    event.set_payload(std::to_string(i));
  }
  return journal;
}

double replayed_per_second() {
  constexpr int kSteps = 10'000;
  const std::vector<record::Activation> journal = journal_of(kSteps);
  const Stopwatch stopwatch;
  detail::RunMachine machine(*kManySteps.code(), {"replayed", "many_steps", kSteps});
  for (const record::Activation& row : journal) {
    detail::Activated again = machine.replay(row);
    keep(again);
  }
  require(machine.has_ended(), "the replay did not come to the end");
  return per_second(kSteps, stopwatch);
}

/// What the rows cost to parse alone.
double parsed_per_second() {
  constexpr int kSteps = 10'000;
  std::vector<std::string> rows;
  for (const record::Activation& row : journal_of(kSteps)) {
    rows.push_back(row.SerializeAsString());
  }
  const Stopwatch stopwatch;
  for (const std::string& row : rows) {
    record::Activation parsed;
    require(parsed.ParseFromString(row), "a row cannot be parsed");
    keep(parsed);
  }
  return per_second(kSteps, stopwatch);
}

// --- A million that sleep ------------------------------------------------------------------------

constexpr std::uint64_t kSleepers = 1'000'000;
constexpr std::uint64_t kWoken = 10'000;

struct Sleepers {
  double memory_bytes = 0;
  double disk_bytes = 0;
  double restart_s = 0;
  double scan_s = 0;
  double fire_us = 0;
};

Task<void> start_sleepers(Engine& engine, std::uint64_t from, std::uint64_t to) {
  for (std::uint64_t i = from; i < to; ++i) {
    const int seconds = i % (kSleepers / kWoken) == 0 ? 60 : 30 * 24 * 3600;
    static_cast<void>(co_await engine.start(kSleeper, seconds));
  }
}

/// Not what is resident: this process has memory that others of its cases have freed.
std::uint64_t allocated_bytes() {
  std::size_t bytes = 0;
  require(MallocExtension_GetNumericProperty("generic.current_allocated_bytes", &bytes) != 0,
          "the allocator does not say what is allocated");
  return bytes;
}

void put_to_sleep(const std::filesystem::path& file) {
  constexpr std::uint64_t kTasks = 1'000;
  VirtualClock clock;
  Process process(file, clock);
  sync_wait(process.pool, process.engine->begin());
  std::deque<Spawned<void>> running;
  for (std::uint64_t i = 0; i < kTasks; ++i) {
    const std::uint64_t each = kSleepers / kTasks;
    running.push_back(
        spawn(process.pool, start_sleepers(*process.engine, i * each, (i + 1) * each)));
  }
  for (Spawned<void>& one : running) {
    one.get();
  }
}

double scan_seconds(const std::filesystem::path& file) {
  detail::Connection connection(file.string(), "", SQLITE_OPEN_READONLY);
  const Stopwatch stopwatch;
  connection.run("SELECT sum(length(value)) FROM entries");
  return stopwatch.elapsed_ns() / 1e9;
}

/// In a process of its own.
Sleepers restart(const std::filesystem::path& file) {
  Sleepers measured;
  measured.scan_s = scan_seconds(file);
  VirtualClock clock;
  Process process(file, clock);
  const std::uint64_t before = allocated_bytes();
  const Stopwatch stopwatch;
  sync_wait(process.pool, process.engine->begin());
  measured.restart_s = stopwatch.elapsed_ns() / 1e9;
  const std::uint64_t after = allocated_bytes();
  measured.memory_bytes =
      static_cast<double>(after - std::min(after, before)) / static_cast<double>(kSleepers);
  measured.disk_bytes =
      static_cast<double>(std::filesystem::file_size(file)) / static_cast<double>(kSleepers);
  const Stopwatch firing;
  clock.advance(61s);
  for (std::uint64_t count = woken; count < kWoken; count = woken) {
    woken.wait(count);
  }
  measured.fire_us = firing.elapsed_ns() / 1e3 / static_cast<double>(kWoken);
  return measured;
}

const Sleepers& sleepers() {
  static const Sleepers measured = [] {
    const Folder folder;
    put_to_sleep(folder.file());
    void* const memory = ::mmap(nullptr, sizeof(Sleepers), PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    require(memory != MAP_FAILED, "no shared memory");
    auto* const shared = new (memory) Sleepers();
    const pid_t child = ::fork();
    if (child == 0) {
      *shared = restart(folder.file());
      ::_exit(0);
    }
    int status = 0;
    require(::waitpid(child, &status, 0) == child && status == 0, "the process failed");
    Sleepers copy = *shared;
    ::munmap(memory, sizeof(Sleepers));
    return copy;
  }();
  return measured;
}

// --- The cases -----------------------------------------------------------------------------------

Case one_step_case(std::uint64_t in_flight, Limit limit) {
  return {.suite = "runs",
          .name = "one_step_" + std::to_string(in_flight),
          .ours = [in_flight] { return runs_per_second(in_flight); },
          .peer = [in_flight] { return raw_runs_per_second(in_flight); },
          .peer_name = "raw SQLite, the same commits",
          .unit = "runs/s",
          .better = Better::kHigher,
          .limit = limit,
          .rounds = 5};
}

const Registration kOne(one_step_case(1, {}));
const Registration kSixteen(one_step_case(16, {}));
const Registration kMany(one_step_case(256, {.ratio_min = 0.3, .ours_min = 20'000}));
const Registration kVeryMany(one_step_case(4'096, {.ratio_min = 0.3, .ours_min = 20'000}));
const Registration kSequential({.suite = "runs",
                                .name = "sequential_steps",
                                .ours = us_per_step,
                                .peer = raw_commit_of_run_us,
                                .peer_name = "one full-sync commit",
                                .unit = "us",
                                .limit = {.ratio_max = 1.5},
                                .rounds = 5});
const Registration kReplay({.suite = "runs",
                            .name = "replay",
                            .ours = replayed_per_second,
                            .peer = parsed_per_second,
                            .peer_name = "to parse the rows",
                            .unit = "ops/s",
                            .better = Better::kHigher,
                            .limit = {.ours_min = 1e6}});
const Registration kSleepingBytes({.suite = "runs",
                                   .name = "sleeping_1m_bytes",
                                   .ours = [] { return sleepers().memory_bytes; },
                                   .peer = [] { return sleepers().disk_bytes; },
                                   .peer_name = "its bytes on disk",
                                   .unit = "bytes",
                                   .limit = {.ours_max = 200},
                                   .rounds = 1});
const Registration kSleepingRestart({.suite = "runs",
                                     .name = "sleeping_1m_restart",
                                     .ours = [] { return sleepers().restart_s; },
                                     .peer = [] { return sleepers().scan_s; },
                                     .peer_name = "raw SQLite reading all rows",
                                     .unit = "s",
                                     .rounds = 1});
const Registration kSleepingFire({.suite = "runs",
                                  .name = "sleeping_1m_fire",
                                  .ours = [] { return sleepers().fire_us; },
                                  .peer = [] { return 1e6 / runs_per_second(256); },
                                  .peer_name = "a run of one step, 256 at once",
                                  .unit = "us",
                                  .rounds = 1});

}  // namespace

}  // namespace holdfast::bench
