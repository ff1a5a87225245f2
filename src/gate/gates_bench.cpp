// SPDX-License-Identifier: Apache-2.0
// Durable locks on SQLite at full sync, against what the disk and SQLite give by themselves.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <holdfast/executor.hpp>
#include <holdfast/gate_inspection.hpp>
#include <holdfast/gates.hpp>
#include <holdfast/semaphore.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/sqlite_store.hpp>
#include <holdfast/task.hpp>

#include "benchmarks/etcd_locks.hpp"
#include "benchmarks/harness.hpp"
#include "benchmarks/steady_state.hpp"
#include "store_sqlite/raw_disk_bench.hpp"
#include "tests/servers/etcd_server.hpp"
#include "tests/servers/process.hpp"

namespace holdfast::bench {

namespace {

/// A process with its locks.
struct Process {
  explicit Process(const std::filesystem::path& file)
      : store(open_sqlite_store(file)),
        session(sync_wait(pool, Session::open(*store))),
        gates(*session) {}
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() { sync_wait(pool, session->close()); }

  ThreadPool pool{1};
  std::unique_ptr<Store> store;
  std::unique_ptr<Session> session;
  Gates gates;
};

double per_second(std::uint64_t count, const Stopwatch& stopwatch) {
  return static_cast<double>(count) / (stopwatch.elapsed_ns() / 1e9);
}

// --- One process ---------------------------------------------------------------------------------

Task<void> lock_and_unlock(DurableMutex mutex, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    DurableHold hold = co_await mutex.acquire();
    static_cast<void>(co_await hold.release());
  }
}

double uncontended() {
  constexpr std::uint64_t kCount = 1'000;
  const DiskFolder folder;
  Process process(folder.file());
  const Stopwatch stopwatch;
  sync_wait(process.pool, lock_and_unlock(process.gates.mutex("m"), kCount));
  return per_second(kCount, stopwatch);
}

/// Lets go without waiting for the disk, as one does who has nothing to tell others.
Task<void> pass_on(DurableMutex mutex, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const DurableHold hold = co_await mutex.acquire();
  }
}

double handoffs_per_second(std::uint64_t tasks, std::uint64_t count_each) {
  const DiskFolder folder;
  Process process(folder.file());
  std::deque<Spawned<void>> running;
  const Stopwatch stopwatch;
  for (std::uint64_t i = 0; i < tasks; ++i) {
    running.push_back(spawn(process.pool, pass_on(process.gates.mutex("m"), count_each)));
  }
  for (Spawned<void>& one : running) {
    one.get();
  }
  return per_second(tasks * count_each, stopwatch);
}

double hot_100() { return handoffs_per_second(100, 100); }

/// Goes in once, or, if there are few, again and again, so that as many wait all the while. Then to
/// the siding: to end is no part of a hand-over, and the few do not.
Task<void> go_in(DurableMutex mutex, SteadyState& hand_overs, bool again, Semaphore& siding) {
  do {
    const DurableHold hold = co_await mutex.acquire();
    hand_overs.one_more();
  } while (again && !hand_overs.is_over());
  const Hold end = co_await siding.acquire();
}

double handoff_us_with(std::uint64_t waiters) {
  constexpr std::uint64_t kWarmUp = 5'000;
  constexpr std::uint64_t kMeasured = 20'000;
  const DiskFolder folder;
  Process process(folder.file());
  DurableMutex mutex = process.gates.mutex("m");
  DurableHold first = sync_wait(process.pool, mutex.acquire());
  SteadyState hand_overs(kWarmUp, kMeasured);
  Semaphore siding(1);
  std::optional<Hold> closed = siding.try_acquire();
  const bool again = waiters < kWarmUp + kMeasured;
  std::deque<Spawned<void>> running;
  for (std::uint64_t i = 0; i < waiters; ++i) {
    running.push_back(spawn(process.pool, go_in(mutex, hand_overs, again, siding)));
  }
  for (std::uint64_t waiting = 0; waiting < waiters;) {
    const auto info = sync_wait(process.pool, inspect_gate(*process.store, "m", 1));
    waiting = info->waiter_count;
  }
  static_cast<void>(sync_wait(process.pool, first.release()));
  const double figure_ns = hand_overs.ns_each();
  closed.reset();
  for (Spawned<void>& one : running) {
    one.request_stop();
  }
  for (Spawned<void>& one : running) {
    try {
      one.get();
    } catch (const Cancelled&) {
    }
  }
  return figure_ns / 1e3;
}

// --- Two processes -------------------------------------------------------------------------------

/// Memory that parent and child share.
struct Shared {
  static constexpr std::size_t kCount = 400;
  std::atomic<std::uint32_t> ready = 0;
  std::atomic<std::size_t> next = 0;
  std::int64_t granted_at_ns[2 * kCount] = {};
};

Task<void> alternate(DurableMutex mutex, Shared& shared) {
  for (std::size_t i = 0; i < Shared::kCount; ++i) {
    DurableHold hold = co_await mutex.acquire();
    shared.granted_at_ns[shared.next++] =
        std::chrono::steady_clock::now().time_since_epoch().count();
    static_cast<void>(co_await hold.release());
  }
}

void take_turns(const std::filesystem::path& file, Shared& shared) {
  Process process(file);
  ++shared.ready;
  while (shared.ready < 2) {
    std::this_thread::yield();
  }
  sync_wait(process.pool, alternate(process.gates.mutex("m"), shared));
}

/// The median from one grant to the next.
double between_processes_us() {
  const DiskFolder folder;
  void* const memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  require(memory != MAP_FAILED, "no shared memory");
  auto* const shared = new (memory) Shared;
  const pid_t child = ::fork();
  require(child >= 0, "no second process");
  if (child == 0) {
    take_turns(folder.file(), *shared);
    std::_Exit(0);
  }
  take_turns(folder.file(), *shared);
  int status = 0;
  require(::waitpid(child, &status, 0) == child && status == 0, "the second process failed");
  std::vector<double> gaps;
  for (std::size_t i = 1; i < 2 * Shared::kCount; ++i) {
    gaps.push_back(static_cast<double>(shared->granted_at_ns[i] - shared->granted_at_ns[i - 1]) /
                   1e3);
  }
  ::munmap(memory, sizeof(Shared));
  std::ranges::nth_element(gaps, gaps.begin() + std::ssize(gaps) / 2);
  return gaps[gaps.size() / 2];
}

/// What the kernel's file lock costs, which nothing survives.
double flock_per_second() {
  constexpr std::uint64_t kCount = 100'000;
  const DiskFolder folder;
  const int file = ::open((folder.path() / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  require(file >= 0, "no lock file");
  const Stopwatch stopwatch;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    require(::flock(file, LOCK_EX) == 0 && ::flock(file, LOCK_UN) == 0, "flock failed");
  }
  const double figure = per_second(kCount, stopwatch);
  ::close(file);
  return figure;
}

/// The locks of a server, which one asks over the network; it syncs as we do.
double etcd_per_second() {
  constexpr std::uint64_t kCount = 1'000;
  try {
    const servers::EtcdServer etcd(std::filesystem::current_path());
    EtcdLocks locks(etcd.port());
    const Stopwatch stopwatch;
    for (std::uint64_t i = 0; i < kCount; ++i) {
      locks.unlock(locks.lock("bQ=="));
    }
    return per_second(kCount, stopwatch);
  } catch (const servers::NotInstalled& reason) {
    throw LeftOut(reason.what());
  }
}

// --- The cases -----------------------------------------------------------------------------------

const Registration kUncontended({.suite = "gates",
                                 .name = "uncontended",
                                 .ours = uncontended,
                                 .peer = raw_commits_per_second,
                                 .peer_name = "raw SQLite commits",
                                 .unit = "ops/s",
                                 .better = Better::kHigher,
                                 .limit = {.ratio_min = 0.4}});
const Registration kHot({.suite = "gates",
                         .name = "hot_100",
                         .ours = hot_100,
                         .peer = raw_commits_per_second,
                         .peer_name = "raw SQLite commits",
                         .unit = "ops/s",
                         .better = Better::kHigher,
                         .limit = {.ratio_min = 5}});
const Registration kManyWaiters({.suite = "gates",
                                 .name = "waiters_100k",
                                 .ours = [] { return handoff_us_with(100'000); },
                                 .peer = [] { return handoff_us_with(10); },
                                 .peer_name = "ours with ten waiters",
                                 .unit = "us",
                                 .limit = {.ratio_max = 1.2},
                                 .rounds = 5});
const Registration kTwoProcesses({.suite = "gates",
                                  .name = "two_processes",
                                  .ours = between_processes_us,
                                  .peer = raw_commit_us,
                                  .peer_name = "one full-sync commit",
                                  .unit = "us",
                                  .limit = {.ratio_max = 5}});
const Registration kFlock({.suite = "gates",
                           .name = "flock",
                           .ours = uncontended,
                           .peer = flock_per_second,
                           .peer_name = "flock(2), which nothing survives",
                           .unit = "ops/s",
                           .better = Better::kHigher,
                           .rounds = 3});
const Registration kEtcd({.suite = "gates",
                          .name = "etcd_lock",
                          .ours = uncontended,
                          .peer = etcd_per_second,
                          .peer_name = "etcd's lock, by JSON over HTTP",
                          .unit = "ops/s",
                          .better = Better::kHigher,
                          .rounds = 3});

}  // namespace

}  // namespace holdfast::bench
