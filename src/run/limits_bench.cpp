// SPDX-License-Identifier: Apache-2.0
// Durable locks inside of runs, on SQLite at full sync, against what the disk and SQLite give by
// themselves.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <semaphore>
#include <string>
#include <utility>

#include <holdfast/engine.hpp>
#include <holdfast/executor.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/sqlite_store.hpp>

#include "benchmarks/harness.hpp"
#include "store_sqlite/raw_disk_bench.hpp"

namespace holdfast::bench {

namespace {

using namespace std::chrono_literals;

/// Counts those who were let in, and takes the time of a number of them, once it runs smoothly.
class Entries {
 public:
  Entries(std::uint64_t warm_up, std::uint64_t measured)
      : warm_up_(warm_up), last_(warm_up + measured) {}

  /// False: there were enough.
  [[nodiscard]] bool let_in() {
    const std::uint64_t count = ++count_;
    if (count == warm_up_) {
      stopwatch_ = Stopwatch();
    } else if (count == last_) {
      done_.release();
    }
    return count < last_;
  }
  void wait() { done_.acquire(); }
  /// After the wait.
  [[nodiscard]] double elapsed_us_each() const {
    return stopwatch_.elapsed_ns() / 1e3 / static_cast<double>(last_ - warm_up_);
  }

 private:
  const std::uint64_t warm_up_;
  const std::uint64_t last_;
  std::atomic<std::uint64_t> count_ = 0;
  Stopwatch stopwatch_;
  std::binary_semaphore done_{0};
};

/// Of the measurement that is under way.
Entries* entries = nullptr;

/// Whoever has the lock when there were enough keeps it, so that all come to rest.
Task<int> goes_in(Context& ctx, std::string lock_name) {
  for (bool again = true; again;) {
    const RunLock lock = co_await ctx.lock(lock_name);
    again = entries->let_in();
    if (!again) {
      co_await ctx.signal<int>("never");
    }
  }
  co_return 0;
}
const auto kGoesIn = workflow("goes_in", goes_in);

Task<int> steps_inside(Context& ctx, std::string lock_name) {
  for (bool again = true; again;) {
    const RunLock lock = co_await ctx.lock(lock_name);
    auto step = ctx.run("count", [] { return entries->let_in(); });
    again = co_await step;
    if (!again) {
      co_await ctx.signal<int>("never");
    }
  }
  co_return 0;
}
const auto kStepsInside = workflow("steps_inside", steps_inside);

Task<int> keeps_out_the_others(Context& ctx, std::string lock_name) {
  const RunLock lock = co_await ctx.lock(lock_name);
  co_return co_await ctx.signal<int>("go");
}
const auto kKeepsOutTheOthers = workflow("keeps_out_the_others", keeps_out_the_others);

/// A process that drives runs.
struct LockingProcess {
  explicit LockingProcess(const std::filesystem::path& file) : store(open_sqlite_store(file)) {
    const SessionOptions for_a_day{.ttl = 24h, .executor = &pool};
    session = sync_wait(pool, Session::open(*store, for_a_day));
    engine.emplace(*session, EngineOptions{.executor = &pool});
    engine->add(kGoesIn);
    engine->add(kStepsInside);
    engine->add(kKeepsOutTheOthers);
    sync_wait(pool, engine->begin());
  }
  LockingProcess(const LockingProcess&) = delete;
  LockingProcess& operator=(const LockingProcess&) = delete;
  ~LockingProcess() {
    sync_wait(pool, engine->stop());
    engine.reset();
    sync_wait(pool, session->close());
  }

  ThreadPool pool{1};
  std::unique_ptr<Store> store;
  std::unique_ptr<Session> session;
  std::optional<Engine> engine;
};

struct Crowd {
  const Workflow<std::string, int>& workflow;
  std::uint64_t runs;
  std::uint64_t warm_up;
  std::uint64_t measured;
  bool one_lock_for_all = true;
};

constexpr const char* kHotLock = "hot";

Task<void> start_some(Engine& engine, const Crowd& crowd, std::atomic<std::uint64_t>& next) {
  for (std::uint64_t i = next++; i < crowd.runs; i = next++) {
    const std::string lock = crowd.one_lock_for_all ? kHotLock : "lock" + std::to_string(i);
    static_cast<void>(co_await engine.start(crowd.workflow, lock));
  }
}

/// When the start of a run returns, it waits at the lock durably.
void start_all(LockingProcess& process, const Crowd& crowd) {
  constexpr std::uint64_t kAtOnce = 256;
  std::atomic<std::uint64_t> next = 0;
  std::deque<Spawned<void>> starting;
  for (std::uint64_t i = 0; i < kAtOnce; ++i) {
    starting.push_back(spawn(process.pool, start_some(*process.engine, crowd, next)));
  }
  for (Spawned<void>& one : starting) {
    one.get();
  }
}

/// What was committed before this is durable as well.
void wait_for_disk(LockingProcess& process) {
  Batch last;
  last.put("bench/end", "");
  const CommitOutcome outcome = sync_wait(process.pool, process.store->commit(std::move(last)));
  require(outcome.committed() != nullptr, "the last commit was refused");
}

/// Each goes in again and again; what counts is durable in the end.
double us_each(const Crowd& crowd) {
  Entries of_this(crowd.warm_up, crowd.measured);
  entries = &of_this;
  const DiskFolder folder;
  LockingProcess process(folder.file());
  if (crowd.one_lock_for_all) {
    const StartOptions named{.id = "keeper"};
    static_cast<void>(sync_wait(
        process.pool, process.engine->start(kKeepsOutTheOthers, std::string(kHotLock), named)));
  }
  start_all(process, crowd);
  if (crowd.one_lock_for_all) {
    sync_wait(process.pool, process.engine->signal("keeper", "go", 1));
  }
  of_this.wait();
  wait_for_disk(process);
  return of_this.elapsed_us_each();
}

double hot_lock() {
  return 1e6 / us_each({.workflow = kGoesIn, .runs = 1'000, .warm_up = 5'000, .measured = 40'000});
}

double hot_lock_step() {
  return 1e6 /
         us_each({.workflow = kStepsInside, .runs = 1'000, .warm_up = 500, .measured = 4'000});
}

double uncontended_1000() {
  return 1e6 / us_each({.workflow = kGoesIn,
                        .runs = 1'000,
                        .warm_up = 5'000,
                        .measured = 40'000,
                        .one_lock_for_all = false});
}

double handoff_us_with(std::uint64_t runs) {
  return us_each({.workflow = kGoesIn, .runs = runs, .warm_up = 5'000, .measured = 20'000});
}

// --- The cases -----------------------------------------------------------------------------------

Case locks_case(std::string name, double (*ours)(), double (*peer)(), std::string peer_name,
                Limit limit) {
  return {.suite = "limits",
          .name = std::move(name),
          .ours = ours,
          .peer = peer,
          .peer_name = std::move(peer_name),
          .unit = "locks/s",
          .better = Better::kHigher,
          .limit = limit,
          .rounds = 5};
}

Case locks_per_sync(std::string name, double (*ours)(), Limit limit) {
  return locks_case(std::move(name), ours, syncs_per_second, "syncs of the disk", limit);
}

Case locks_per_commit(std::string name, double (*ours)()) {
  return locks_case(std::move(name), ours, raw_commits_per_second, "raw SQLite commits", {});
}

const Registration kHot(locks_per_sync("hot_lock", hot_lock, {.ratio_min = 20}));
const Registration kHotRaw(locks_per_commit("hot_lock_raw", hot_lock));
const Registration kHotStep(locks_per_sync("hot_lock_step", hot_lock_step, {.ratio_min = 0.5}));
const Registration kHotStepRaw(locks_per_commit("hot_lock_step_raw", hot_lock_step));
const Registration kUncontended(locks_per_commit("uncontended_1000", uncontended_1000));
const Registration kQueued({.suite = "limits",
                            .name = "queued_100k",
                            .ours = [] { return handoff_us_with(100'000); },
                            .peer = [] { return handoff_us_with(100); },
                            .peer_name = "ours with a hundred",
                            .unit = "us",
                            .limit = {.ratio_max = 1.2},
                            .rounds = 3});
const Registration kQueuedRaw({.suite = "limits",
                               .name = "queued_100k_raw",
                               .ours = [] { return handoff_us_with(100'000); },
                               .peer = raw_commit_us,
                               .peer_name = "one full-sync commit",
                               .unit = "us",
                               .rounds = 1});

}  // namespace

}  // namespace holdfast::bench
