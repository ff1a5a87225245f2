// SPDX-License-Identifier: Apache-2.0
//
// Processes that share the runs of one store, and are stopped and killed while they drive them.
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/engine.hpp>
#include <holdfast/executor.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/sqlite_store.hpp>
#include <holdfast/state.hpp>
#include <holdfast/store_error.hpp>
#include <holdfast/this_task.hpp>

#include "base/temp_folder.hpp"
#include "tests/crash/dice.hpp"
#include "tests/runs/jobs.hpp"
#include "tests/soak/worker_process.hpp"

namespace holdfast::testing {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr std::size_t kProcesses = 4;
constexpr std::size_t kCustomers = 16;
constexpr Duration kPatience = 90s;
constexpr std::uint64_t kLongSeconds = 60;

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): one thread.
  return text == nullptr ? otherwise : std::stoull(text);
}

// --- Who drives the runs -------------------------------------------------------------------------

/// Workers, at the mercy of dice. Who has died is followed by another.
class Workers {
 public:
  Workers(std::string store, std::string ledger, milliseconds ttl, std::uint64_t seed)
      : store_(std::move(store)), ledger_(std::move(ledger)), ttl_(ttl), dice_(seed) {
    for (std::size_t i = 0; i < kProcesses; ++i) {
      workers_.push_back(start_one());
    }
  }

  void torment_until(TimePoint end) {
    TimePoint next_blow = MonotonicTime::now();
    for (TimePoint now = next_blow; now < end; now = MonotonicTime::now()) {
      let_go_on(now);
      if (now >= next_blow) {
        strike(*workers_[dice_.below(workers_.size())]);
        next_blow = now + milliseconds(20 + dice_.below(300));
      }
      listen(std::min(end, next_event(next_blow)));
    }
  }
  void spare() { let_go_on(TimePoint::max()); }
  void look_after_until(TimePoint end) { listen(end); }

  /// All end in order.
  void finish() {
    replaces_ = false;
    for (const auto& worker : workers_) {
      worker->finish();
    }
    const TimePoint give_up_at = MonotonicTime::now() + kPatience;
    while (!workers_.empty() && MonotonicTime::now() < give_up_at) {
      listen(give_up_at);
    }
    EXPECT_TRUE(workers_.empty()) << workers_.size() << " workers do not come to their end";
  }

  [[nodiscard]] std::string text() const {
    std::string text = std::to_string(kills_);
    text.append(" kills, ").append(std::to_string(short_stops_)).append(" short stops, ");
    text.append(std::to_string(long_stops_)).append(" stops past the ttl, ");
    text.append(std::to_string(sessions_lost_)).append(" sessions lost by the living");
    return text;
  }
  [[nodiscard]] std::uint64_t kills() const { return kills_; }
  [[nodiscard]] std::uint64_t sessions_lost() const { return sessions_lost_; }

 private:
  using Worker = std::unique_ptr<WorkerProcess>;

  Worker start_one() {
    return std::make_unique<WorkerProcess>(
        HOLDFAST_SOAK_RUN_WORKER,
        std::vector<std::string>{store_, ledger_, std::to_string(++started_),
                                 std::to_string(ttl_.count())});
  }

  void strike(WorkerProcess& worker) {
    if (worker.killed() || worker.stopped_until()) {
      return;
    }
    const TimePoint now = MonotonicTime::now();
    switch (dice_.below(4)) {
      case 0:
      case 1:
        ++kills_;
        worker.kill();
        break;
      case 2:  // So long that others have its runs before it wakes up.
        ++long_stops_;
        worker.stop(now + ttl_ * 5 / 4 + milliseconds(dice_.below(400)));
        break;
      default:  // So short that it may keep them.
        ++short_stops_;
        worker.stop(now + milliseconds(1 + dice_.below(200)));
        break;
    }
  }

  void let_go_on(TimePoint now) {
    for (const Worker& worker : workers_) {
      const auto& until = worker->stopped_until();
      if (until && *until <= now) {
        worker->go_on();
      }
    }
  }

  [[nodiscard]] TimePoint next_event(TimePoint next) const {
    for (const Worker& worker : workers_) {
      next = std::min(next, worker->stopped_until().value_or(next));
    }
    return next;
  }

  void listen(TimePoint until) {
    std::vector<pollfd> waiting;
    for (const Worker& worker : workers_) {
      waiting.push_back({.fd = worker->reports_fd(), .events = POLLIN, .revents = 0});
    }
    const auto left = std::chrono::ceil<milliseconds>(until - MonotonicTime::now()).count();
    ::poll(waiting.data(), waiting.size(), static_cast<int>(std::clamp<long>(left, 0, INT_MAX)));
    for (std::size_t i = waiting.size(); i-- > 0;) {
      if (waiting[i].revents != 0 && !take_reports(*workers_[i])) {
        bury(i);
      }
    }
  }

  /// False: that was all.
  bool take_reports(WorkerProcess& worker) {
    const std::vector<Report> reports = worker.read_reports();
    sessions_lost_ += static_cast<std::uint64_t>(std::count_if(
        reports.begin(), reports.end(),
        [](const Report& report) { return report.kind == Report::Kind::kSessionLost; }));
    return !reports.empty();
  }

  void bury(std::size_t index) {
    EXPECT_TRUE(workers_[index]->ended_well()) << "a worker failed";
    if (replaces_) {
      workers_[index] = start_one();
    } else {
      workers_.erase(workers_.begin() + static_cast<std::ptrdiff_t>(index));
    }
  }

  std::string store_;
  std::string ledger_;
  milliseconds ttl_;
  Dice dice_;
  std::vector<Worker> workers_;
  bool replaces_ = true;
  std::uint64_t started_ = 0;
  std::uint64_t kills_ = 0;
  std::uint64_t short_stops_ = 0;
  std::uint64_t long_stops_ = 0;
  std::uint64_t sessions_lost_ = 0;
};

// --- Who starts them -----------------------------------------------------------------------------

/// Customers who start a run, wait for its result, and start the next.
class Customers {
 public:
  Customers(Engine& engine, std::uint64_t seed) : engine_(engine), dice_(seed) {}

  /// One of them.
  Task<void> come_until(TimePoint end) {
    while (this_task::clock().now() < end && !this_task::stop_requested()) {
      co_await one_job();
    }
  }

  [[nodiscard]] std::uint64_t jobs() const { return jobs_; }
  [[nodiscard]] std::int64_t sum() const { return sum_; }
  [[nodiscard]] const std::set<std::string>& effects() const { return effects_; }
  [[nodiscard]] const std::vector<std::string>& faults() const { return faults_; }

 private:
  struct Plan {
    std::uint64_t kind = 0;
    Job job;
    std::int64_t expected = 0;
  };

  Plan plan() {
    const std::lock_guard lock(mutex_);
    Plan plan;
    plan.kind = dice_.below(4);
    plan.job.name = "job-" + std::to_string(++jobs_);
    plan.job.rounds = static_cast<std::int64_t>(1 + dice_.below(6));
    plan.expected = sum_of(plan.job.rounds);
    if (plan.kind == 1) {
      plan.expected *= 2;
      add_effects(plan.job.name + "/a", plan.job.rounds);
      add_effects(plan.job.name + "/b", plan.job.rounds);
    } else {
      add_effects(plan.job.name, plan.job.rounds);
    }
    sum_ += plan.expected;
    return plan;
  }
  void add_effects(const std::string& name, std::int64_t rounds) {
    for (std::int64_t round = 1; round <= rounds; ++round) {
      effects_.insert(name + "/" + std::to_string(round));
    }
  }

  Task<void> one_job() {
    const Plan made = plan();
    std::string id;
    co_await insist([&] { return start(made, id); });
    if (made.kind == 2) {
      co_await send_rounds(id, made.job.rounds);
    }
    std::int64_t result = 0;
    co_await insist([&] { return wait_for(id, result); });
    if (result != made.expected) {
      fault(made.job.name + " has the result " + std::to_string(result) + ", not " +
            std::to_string(made.expected));
    }
  }

  /// With a key, so that it can be asked for again.
  Task<void> start(const Plan& plan, std::string& id) {
    const StartOptions once{.idempotency_key = plan.job.name};
    const ChainJob chain{.job = plan.job};
    switch (plan.kind) {
      case 0:
        return keep_id(engine_.start(kRoundsJob, plan.job, once), id);
      case 1:
        return keep_id(engine_.start(kFamilyJob, plan.job, once), id);
      case 2:
        return keep_id(engine_.start(kSignalJob, plan.job, once), id);
      default:
        return keep_id(engine_.start(kChainJob, chain, once), id);
    }
  }
  static Task<void> keep_id(Task<RunHandle<std::int64_t>> started, std::string& id) {
    const RunHandle<std::int64_t> handle = co_await started;
    id = handle.id();
  }
  Task<void> wait_for(const std::string& id, std::int64_t& result) {
    result = co_await engine_.handle(kRoundsJob, id).result();
  }

  /// Each twice, which counts once.
  Task<void> send_rounds(std::string id, std::int64_t rounds) {
    for (std::int64_t round = 1; round <= rounds; ++round) {
      const std::string request = id + "/" + std::to_string(round);
      co_await insist([&] { return engine_.signal(id, "round", round, request); });
      co_await insist([&] { return send_again(id, round, request); });
    }
  }
  Task<void> send_again(const std::string& id, std::int64_t round, const std::string& request) {
    try {
      co_await engine_.signal(id, "round", round, request);
    } catch (const NoSuchRun&) {
      co_return;  // The first one was its last, and it has ended.
    }
  }

  template <typename Call>
  Task<void> insist(Call call) {
    for (bool done = false; !done;) {
      try {
        co_await call();
        done = true;
      } catch (const StoreBusy&) {
        ++tried_again_;
      } catch (const OutcomeUnknown&) {
        ++tried_again_;
      } catch (const Error& error) {
        fault(error.what());
        done = true;
      }
    }
  }
  void fault(std::string what) {
    const std::lock_guard lock(mutex_);
    faults_.push_back(std::move(what));
  }

  Engine& engine_;
  std::mutex mutex_;
  Dice dice_;
  std::uint64_t jobs_ = 0;
  std::int64_t sum_ = 0;
  std::set<std::string> effects_;
  std::vector<std::string> faults_;
  std::atomic<std::uint64_t> tried_again_ = 0;
};

/// Customers who have come. None is left when this goes, also if the test gives up.
class Crowd {
 public:
  Crowd(ThreadPool& pool, Customers& customers, TimePoint end) {
    for (std::size_t i = 0; i < kCustomers; ++i) {
      coming_.push_back(spawn(pool, customers.come_until(end)));
    }
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;
  ~Crowd() {
    for (Spawned<void>& one : coming_) {
      one.request_stop();
    }
    for (Spawned<void>& one : coming_) {
      one.get();  // Throws nothing: failures are faults of the customers.
    }
  }

  [[nodiscard]] bool is_gone() const {
    return std::all_of(coming_.begin(), coming_.end(), [](const auto& one) { return one.ended(); });
  }

 private:
  std::vector<Spawned<void>> coming_;
};

// --- What is left --------------------------------------------------------------------------------

std::vector<Entry> all_rows(ThreadPool& pool, Store& store, std::string_view prefix) {
  std::vector<Entry> rows;
  for (bool more = true; more;) {
    const std::string after = rows.empty() ? std::string() : rows.back().key;
    Page page = sync_wait(pool, store.scan(prefix, {.after = after}));
    std::move(page.entries.begin(), page.entries.end(), std::back_inserter(rows));
    more = page.more;
  }
  return rows;
}

struct Attempts {
  std::uint64_t all = 0;
  std::uint64_t taken_over = 0;  ///< Effects that more than one process asked for.
};

Attempts read_attempts(ThreadPool& pool, Store& ledger) {
  Attempts attempts;
  std::map<std::string, std::set<std::string>> processes;
  for (const Entry& row : all_rows(pool, ledger, "attempt/")) {
    ++attempts.all;
    const std::size_t number = row.key.rfind('/');
    const std::size_t process = row.key.rfind('/', number - 1);
    processes[row.key.substr(0, process)].insert(row.key.substr(process, number - process));
  }
  for (const auto& [key, who] : processes) {
    attempts.taken_over += who.size() > 1 ? 1U : 0U;
  }
  return attempts;
}

/// Each effect is there, under one key.
void expect_effects(ThreadPool& pool, Store& ledger, const std::set<std::string>& expected) {
  std::set<std::string> found;
  for (const Entry& row : all_rows(pool, ledger, "effect/")) {
    EXPECT_TRUE(found.insert(row.value).second) << row.value << " happened under two keys";
  }
  EXPECT_EQ(found, expected);
}

TEST(Soak, RunsOfProcessesThatAreStoppedAndKilledEndWithTheRightResultAndLoseNothing) {
  const std::uint64_t seconds = from_environment("HOLDFAST_SOAK_SECONDS", 8);
  const std::uint64_t seed = from_environment("HOLDFAST_SOAK_SEED", std::random_device{}());
  std::cout << "HOLDFAST_SOAK_SEED=" << seed << " HOLDFAST_SOAK_SECONDS=" << seconds << std::endl;
  const TempFolder folder;
  const auto store = open_sqlite_store(folder / "runs.db");
  const auto ledger = open_sqlite_store(folder / "ledger.db");
  std::unique_ptr<Session> session;
  ThreadPool pool(2);
  session = sync_wait(pool, Session::open(*store));
  Engine engine(*session, {.executor = &pool});  // Drives nothing.
  // A sanitizer needs more.
  const milliseconds ttl(from_environment("HOLDFAST_SOAK_TTL_MS", 400));
  Workers workers(folder / "runs.db", folder / "ledger.db", ttl, seed);
  Customers customers(engine, seed + 1);

  const TimePoint end = MonotonicTime::now() + std::chrono::seconds(seconds);
  const Crowd crowd(pool, customers, end);
  workers.torment_until(end);
  workers.spare();
  const TimePoint give_up_at = MonotonicTime::now() + kPatience;
  while (!crowd.is_gone() && MonotonicTime::now() < give_up_at) {
    workers.look_after_until(MonotonicTime::now() + 20ms);
  }
  ASSERT_TRUE(crowd.is_gone()) << "a run does not come to its end";
  workers.finish();

  const Attempts attempts = read_attempts(pool, *ledger);
  std::cout << "  " << customers.jobs() << " runs, " << customers.effects().size() << " effects, "
            << attempts.all << " attempts, " << attempts.taken_over
            << " taken over by another process\n  " << workers.text() << "\n";
  EXPECT_EQ(customers.faults(), std::vector<std::string>{});
  expect_effects(pool, *ledger, customers.effects());
  const State state(*store);
  EXPECT_EQ(sync_wait(pool, state.global().cell<std::int64_t>(kSumCell).get()), customers.sum());
  const RunPage open = sync_wait(pool, engine.list({.state = RunState::kRunning}));
  EXPECT_EQ(open.runs.size(), 0U) << open.runs.front().id;
  EXPECT_EQ(sync_wait(pool, store->check()).faults, std::vector<std::string>{});
  EXPECT_GT(customers.jobs(), kCustomers);  // Each had more than one.
  EXPECT_GT(workers.kills(), 0U);
  if (seconds >= kLongSeconds) {  // For less it is a matter of luck.
    EXPECT_GT(attempts.taken_over, 0U);
    EXPECT_GT(workers.sessions_lost(), 0U);
  }
}

}  // namespace
}  // namespace holdfast::testing
