// SPDX-License-Identifier: Apache-2.0
//
// soak_lock_worker STORE COUNTERS PROCESS SEED LEASE_MS
//
// Takes durable locks, changes what they protect, and tells of all that on standard output, until
// its standard input ends. Made to be stopped and killed at any moment.
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <holdfast/executor.hpp>
#include <holdfast/gates.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/sqlite_store.hpp>
#include <holdfast/store_error.hpp>
#include <holdfast/this_task.hpp>

#include "tests/crash/dice.hpp"
#include "tests/soak/guarded_counters.hpp"
#include "tests/soak/increments_in_store.hpp"

namespace holdfast::testing {
namespace {

using namespace std::chrono_literals;

std::int64_t ns_of(TimePoint time) { return time.time_since_epoch().count(); }

void tell(const Report& report) {
  if (::write(STDOUT_FILENO, &report, sizeof report) != sizeof report) {
    std::abort();
  }
}

void tell_kind(Report::Kind kind) {
  Report report;
  report.kind = kind;
  tell(report);
}

/// A resource as one holder of its lock sees it.
class Visit {
 public:
  Visit(const Session& session, const DurableHold& hold, Resource resource, Doer doer,
        bool shared = false)
      : session_(session) {
    report_.task = static_cast<std::uint8_t>(doer.task);
    report_.resource = resource;
    report_.shared = shared;
    report_.fence = hold.fence();
  }

  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
  /// Also by an exception: its hold is let go of next.
  ~Visit() {
    if (is_in_) {
      leave();
    }
  }

  [[nodiscard]] Resource resource() const { return report_.resource; }
  [[nodiscard]] std::uint64_t fence() const { return report_.fence; }
  [[nodiscard]] bool shared() const { return report_.shared; }

  void begin_deed() { report_.valid_until_ns = ns_of(session_.valid_until()); }
  void tell(Report::Kind kind, std::uint64_t value = 0) {
    report_.kind = kind;
    report_.value = value;
    report_.at_ns = ns_of(MonotonicTime::now());
    testing::tell(report_);
  }
  void enter() {
    tell_of_hold(Report::Kind::kGranted);
    is_in_ = true;
  }
  void leave() {
    is_in_ = false;
    tell_of_hold(Report::Kind::kReleasing);
  }

 private:
  void tell_of_hold(Report::Kind kind) {
    begin_deed();
    tell(kind);
  }

  const Session& session_;
  bool is_in_ = false;
  Report report_;
};

/// One of the tasks of a worker, as long as a session lasts.
class Labourer {
 public:
  Labourer(Session& session, Gates& gates, const std::string& counters, Doer doer,
           std::uint64_t seed)
      : session_(session), gates_(gates), counters_(counters), doer_(doer), dice_(seed) {}

  /// Until it is stopped, or the session is lost.
  Task<void> work() {
    for (bool go_on = true; go_on;) {
      go_on = co_await work_once();
    }
  }

 private:
  Task<bool> work_once() {
    try {
      co_await take_some_lock();
    } catch (const SessionLost&) {
      co_return false;
    } catch (const Cancelled&) {
      co_return false;
    } catch (const TimedOut&) {
      tell_kind(Report::Kind::kTimedOut);
    } catch (const StoreBusy&) {
      tell_kind(Report::Kind::kBusy);
    } catch (const OutcomeUnknown&) {
      tell_kind(Report::Kind::kUnknown);
    }
    co_return !this_task::stop_requested();
  }

  Task<void> take_some_lock() {
    AcquireOptions options;
    options.timeout = dice_.one_in(6) ? 40ms : 5s;
    const std::uint64_t choice = dice_.below(10);
    if (choice < 5) {
      return hold_mutex(options);
    }
    return choice < 7 ? hold_slot(options) : hold_shared_mutex(options, choice < 9);
  }

  Task<void> hold_mutex(AcquireOptions options) {
    DurableHold hold = co_await gates_.mutex("mutex").acquire(options);
    const bool in_store = dice_.one_in(2);
    Visit visit(session_, hold, in_store ? Resource::kInStore : Resource::kMutex, doer_);
    visit.enter();
    if (in_store) {
      co_await increment_in_store(visit, hold);
    } else {
      co_await increment(visit, hold);
    }
    co_await let_go(visit, std::move(hold));
  }

  Task<void> hold_slot(AcquireOptions options) {
    DurableHold hold = co_await gates_.semaphore("semaphore", kSlots).acquire(options);
    const auto first = static_cast<std::uint64_t>(Resource::kSlot0);
    Visit visit(session_, hold, static_cast<Resource>(first + hold.slots().at(0)), doer_);
    visit.enter();
    co_await increment(visit, hold);
    co_await let_go(visit, std::move(hold));
  }

  Task<void> hold_shared_mutex(AcquireOptions options, bool shared) {
    DurableSharedMutex mutex = gates_.shared_mutex("read-write");
    Task<DurableHold> asked = shared ? mutex.acquire_shared(options) : mutex.acquire(options);
    DurableHold hold = co_await std::move(asked);
    Visit visit(session_, hold, Resource::kReadWrite, doer_, shared);
    visit.enter();
    if (shared) {
      co_await read_twice(visit);
    } else {
      co_await increment(visit, hold);
    }
    co_await let_go(visit, std::move(hold));
  }

  /// What takes time between reading and writing: most often little.
  Task<void> think() {
    const std::uint64_t most_ms = dice_.one_in(20) ? 60 : 3;
    co_await this_task::sleep_for(std::chrono::milliseconds(dice_.below(most_ms)));
  }

  std::optional<std::uint64_t> read(Visit& visit) {
    visit.begin_deed();
    const auto value = counters_.read(visit.resource(), visit.fence(), visit.shared());
    if (!value) {
      visit.tell(Report::Kind::kRefused);
    }
    return value;
  }

  Task<void> increment(Visit& visit, const DurableHold& hold) {
    const std::optional<std::uint64_t> before = read(visit);
    if (!before) {
      co_return;
    }
    co_await think();
    visit.begin_deed();
    if (is_careful() && !hold.valid()) {
      visit.tell(Report::Kind::kSteppedBack);
      co_return;
    }
    const bool done = counters_.write(visit.resource(), visit.fence(), *before + 1, doer_);
    visit.tell(done ? Report::Kind::kAccepted : Report::Kind::kRefused, *before + 1);
  }

  Task<void> read_twice(Visit& visit) {
    const std::optional<std::uint64_t> first = read(visit);
    if (!first) {
      co_return;
    }
    co_await think();
    const std::optional<std::uint64_t> second = read(visit);
    if (second && second != first) {
      throw StoreCorrupt("a writer came between the two reads of a reader");
    }
  }

  Task<void> increment_in_store(Visit& visit, const DurableHold& hold) {
    const std::optional<Entry> before = co_await session_.store().get(kCounterKey);
    const std::uint64_t next = before ? std::stoull(before->value) + 1 : 1;
    co_await think();
    visit.begin_deed();
    if (is_careful() && !hold.valid()) {
      visit.tell(Report::Kind::kSteppedBack);
      co_return;
    }
    Batch batch = increment_batch({.fence = hold.fence(), .value = next, .doer = doer_});
    hold.guard(batch);
    const CommitOutcome outcome = co_await session_.store().commit(std::move(batch));
    const bool done = outcome.committed() != nullptr;
    visit.tell(done ? Report::Kind::kAccepted : Report::Kind::kRefused, next);
  }

  Task<void> let_go(Visit& visit, DurableHold hold) {
    visit.leave();
    if (dice_.one_in(4)) {
      co_return;  // In the background.
    }
    static_cast<void>(co_await hold.release());
  }

  /// Half of them never ask whether they still hold: only the resource keeps them from harm.
  [[nodiscard]] bool is_careful() const { return doer_.task % 2 == 0; }

  Session& session_;
  Gates& gates_;
  GuardedCounters counters_;
  Doer doer_;
  Dice dice_;
};

struct Job {
  std::string store;
  std::string counters;
  std::int64_t process;
  std::uint64_t seed;
  Duration lease;
};

/// From a session to the next; throws what stores throw.
void live_once(Store& store, ThreadPool& pool, const Job& job, Dice& dice,
               const std::stop_token& stop) {
  const auto session = sync_wait(pool, Session::open(store, {.ttl = job.lease, .name = "worker"}));
  {
    Gates gates(*session);
    std::vector<std::unique_ptr<Labourer>> labourers;
    std::vector<Spawned<void>> tasks;
    for (int i = 0; i < kTasksPerWorker; ++i) {
      const Doer doer{.process = job.process, .task = i};
      labourers.push_back(
          std::make_unique<Labourer>(*session, gates, job.counters, doer, dice.next()));
      tasks.push_back(spawn(pool, labourers.back()->work(), {}, stop));
    }
    for (Spawned<void>& task : tasks) {
      task.get();
    }
  }
  if (!session->valid()) {
    tell_kind(Report::Kind::kSessionLost);
  }
  sync_wait(pool, session->close());
}

int run(const std::vector<std::string>& arguments) {
  // Whoever started this reads what it tells; without that there is nothing to do.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const Job job{.store = arguments.at(1),
                .counters = arguments.at(2),
                .process = std::stoll(arguments.at(3)),
                .seed = std::stoull(arguments.at(4)),
                .lease = std::chrono::milliseconds(std::stoll(arguments.at(5)))};
  std::stop_source end;
  std::jthread listener([&end] {
    char byte = 0;
    while (::read(STDIN_FILENO, &byte, 1) > 0) {
    }
    end.request_stop();
  });
  Dice dice(job.seed);
  ThreadPool pool(kTasksPerWorker);
  std::unique_ptr<Store> store;
  while (!end.stop_requested()) {
    try {
      if (store == nullptr) {
        store = open_sqlite_store(job.store);
      }
      live_once(*store, pool, job, dice, end.get_token());
    } catch (const StoreBusy&) {
      tell_kind(Report::Kind::kBusy);
    } catch (const OutcomeUnknown&) {
      tell_kind(Report::Kind::kUnknown);
    }
  }
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace holdfast::testing

int main(int argc, char** argv) {
  try {
    return holdfast::testing::run({argv, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << "soak_lock_worker: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
