// SPDX-License-Identifier: Apache-2.0
//
// Processes that share durable locks, and are stopped and killed while they do.
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <holdfast/executor.hpp>
#include <holdfast/gate_inspection.hpp>
#include <holdfast/gates.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/sqlite_store.hpp>

#include "base/temp_folder.hpp"
#include "tests/crash/dice.hpp"
#include "tests/soak/guarded_counters.hpp"
#include "tests/soak/history.hpp"
#include "tests/soak/increments_in_store.hpp"
#include "tests/soak/worker_process.hpp"

namespace holdfast::testing {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr std::size_t kProcesses = 10;
constexpr milliseconds kLease = 300ms;
constexpr Duration kPatience = 60s;
/// Less than any machine should manage, more than a queue that got stuck would.
constexpr std::uint64_t kGrantsPerSecondMin = 5;
constexpr std::uint64_t kLongSeconds = 60;

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): one thread.
  return text == nullptr ? otherwise : std::stoull(text);
}

/// Ten workers, at the mercy of dice.
class Torment {
 public:
  Torment(const TempFolder& folder, std::uint64_t seed)
      : store_(folder / "locks.db"), counters_(folder / "counters.db"), dice_(seed) {
    const GuardedCounters made(counters_);
    for (std::size_t i = 0; i < kProcesses; ++i) {
      workers_.push_back(start_one());
    }
  }

  /// And on, until so many were let in: a busy machine may take longer for that. A queue that got
  /// stuck takes for ever.
  void go_on_until(TimePoint end, std::uint64_t grants_min) {
    const TimePoint give_up_at = end + kPatience;
    const auto is_over = [&](TimePoint now) {
      const bool has_enough = history_.count(Report::Kind::kGranted) >= grants_min;
      return now >= (has_enough ? end : give_up_at);
    };
    TimePoint next_blow = MonotonicTime::now();
    for (TimePoint now = next_blow; !is_over(now); now = MonotonicTime::now()) {
      let_go_on(now);
      if (now >= next_blow) {
        if (dice_.one_in(2)) {
          ambush_ = true;
        } else {
          strike(*workers_[dice_.below(kProcesses)].process);
        }
        next_blow = now + milliseconds(20 + dice_.below(200));
      }
      listen(next_event(next_blow), true);
    }
  }

  /// Some are killed, with what they hold; the others end in order.
  void finish() {
    ambush_ = false;
    for (Worker& worker : workers_) {
      if (worker.process->stopped_until()) {
        worker.process->go_on();
      }
      if (dice_.one_in(3)) {
        kill(*worker.process);
      }
      worker.process->finish();
    }
    const TimePoint give_up_at = MonotonicTime::now() + kPatience;
    while (!workers_.empty() && MonotonicTime::now() < give_up_at) {
      listen(give_up_at, false);
    }
    EXPECT_TRUE(workers_.empty()) << workers_.size() << " workers do not come to their end";
  }

  [[nodiscard]] History& history() { return history_; }
  [[nodiscard]] const std::string& store() const { return store_; }
  [[nodiscard]] const std::string& counters() const { return counters_; }
  [[nodiscard]] std::uint64_t kills() const { return kills_; }
  [[nodiscard]] std::uint64_t short_stops() const { return short_stops_; }
  [[nodiscard]] std::uint64_t long_stops() const { return long_stops_; }

 private:
  struct Worker {
    std::int64_t number = 0;
    std::unique_ptr<WorkerProcess> process;
  };

  Worker start_one() {
    const std::int64_t number = ++started_;
    std::vector<std::string> arguments{store_, counters_, std::to_string(number),
                                       std::to_string(dice_.next()),
                                       std::to_string(kLease.count())};
    return {number,
            std::make_unique<WorkerProcess>(HOLDFAST_SOAK_LOCK_WORKER, std::move(arguments))};
  }

  void strike(WorkerProcess& worker) {
    if (worker.killed()) {
      return;
    }
    const TimePoint now = MonotonicTime::now();
    switch (dice_.below(4)) {
      case 0:
        kill(worker);
        break;
      case 1:  // So long that others have its locks before it wakes up.
        ++long_stops_;
        worker.stop(now + kLease * 5 / 4 + milliseconds(dice_.below(400)));
        break;
      default:  // So short that it may keep them.
        ++short_stops_;
        worker.stop(now + milliseconds(1 + dice_.below(150)));
        break;
    }
  }

  void kill(WorkerProcess& worker) {
    kills_ += worker.killed() ? 0U : 1U;
    worker.kill();
  }

  void let_go_on(TimePoint now) {
    for (const Worker& worker : workers_) {
      const auto& until = worker.process->stopped_until();
      if (until && *until <= now) {
        worker.process->go_on();
      }
    }
  }

  [[nodiscard]] TimePoint next_event(TimePoint next) const {
    for (const Worker& worker : workers_) {
      next = std::min(next, worker.process->stopped_until().value_or(next));
    }
    return next;
  }

  /// To what they tell, until then at the latest. Who has died is followed by another.
  void listen(TimePoint until, bool replace) {
    std::vector<pollfd> waiting;
    for (const Worker& worker : workers_) {
      waiting.push_back({.fd = worker.process->reports_fd(), .events = POLLIN, .revents = 0});
    }
    const auto left = std::chrono::ceil<milliseconds>(until - MonotonicTime::now()).count();
    ::poll(waiting.data(), waiting.size(), static_cast<int>(std::clamp<long>(left, 0, INT_MAX)));
    for (std::size_t i = waiting.size(); i-- > 0;) {
      if (waiting[i].revents != 0 && !take_reports(workers_[i])) {
        bury(i, replace);
      }
    }
  }

  /// False: that was all.
  bool take_reports(const Worker& worker) {
    const std::vector<Report> reports = worker.process->read_reports();
    for (const Report& report : reports) {
      history_.add(worker.number, report);
    }
    const bool holds = !reports.empty() && reports.back().kind == Report::Kind::kGranted;
    if (holds && std::exchange(ambush_, false)) {
      strike(*worker.process);
    }
    return !reports.empty();
  }

  void bury(std::size_t index, bool replace) {
    Worker& worker = workers_[index];
    if (worker.process->killed()) {
      history_.killed(worker.number);
    }
    EXPECT_TRUE(worker.process->ended_well()) << "worker " << worker.number << " failed";
    if (replace) {
      worker = start_one();
    } else {
      workers_.erase(workers_.begin() + static_cast<std::ptrdiff_t>(index));
    }
  }

  std::string store_;
  std::string counters_;
  Dice dice_;
  History history_;
  std::vector<Worker> workers_;
  std::int64_t started_ = 0;
  bool ambush_ = false;  ///< The next one that comes to hold something is struck.
  std::uint64_t kills_ = 0;
  std::uint64_t short_stops_ = 0;
  std::uint64_t long_stops_ = 0;
};

/// One who comes after all of them.
class Successor {
 public:
  explicit Successor(const std::string& path)
      : store_(open_sqlite_store(path)), session_(sync_wait(pool_, Session::open(*store_))) {}

  /// Takes each lock as a whole, and gives it back.
  void take_all() {
    Gates gates(*session_);
    const AcquireOptions all{.timeout = kPatience, .weight = kSlots};
    const AcquireOptions patient{.timeout = kPatience};
    release(gates.mutex("mutex").acquire(patient));
    release(gates.semaphore("semaphore", kSlots).acquire(all));
    release(gates.shared_mutex("read-write").acquire(patient));
  }

  void expect_nothing_left() {
    for (const std::string& name : sync_wait(pool_, list_gates(*store_))) {
      const auto info = sync_wait(pool_, inspect_gate(*store_, name));
      ASSERT_TRUE(info);
      EXPECT_EQ(info->holders.size(), 0U) << name;
      EXPECT_EQ(info->waiter_count, 0U) << name;
    }
    until_all_are_buried();
    EXPECT_EQ(sync_wait(pool_, store_->check()).faults, std::vector<std::string>{});
  }

  void compare(History& history) {
    std::vector<Increment> found;
    std::string after;
    for (bool more = true; more;) {
      const Page page = sync_wait(pool_, store_->scan(kIncrementPrefix, {.after = after}));
      for (const Entry& entry : page.entries) {
        found.push_back(read_increment(entry));
        after = entry.key;
      }
      more = page.more;
    }
    const auto counter = sync_wait(pool_, store_->get(kCounterKey));
    history.compare(Resource::kInStore, counter ? std::stoull(counter->value) : 0, found);
  }

 private:
  /// But this one's session. The last ones have been killed just now, and have a lease left.
  void until_all_are_buried() {
    const TimePoint give_up_at = MonotonicTime::now() + kPatience;
    while (sync_wait(pool_, list_sessions(*store_)).size() > 1) {
      ASSERT_LT(MonotonicTime::now(), give_up_at);
      std::this_thread::sleep_for(1ms);
      sync_wait(pool_, bury_expired(*store_));
    }
  }

  void release(Task<DurableHold> asked) {
    DurableHold hold = sync_wait(pool_, std::move(asked));
    EXPECT_TRUE(sync_wait(pool_, hold.release()));
  }

  ThreadPool pool_{1};
  std::unique_ptr<Store> store_;
  std::unique_ptr<Session> session_;
};

void print_counts(Torment& torment) {
  using Kind = Report::Kind;
  const History& history = torment.history();
  std::cout << "  " << history.count(Kind::kGranted) << " grants, "
            << history.count(Kind::kAccepted) << " increments acknowledged, " << history.untold()
            << " done but not told, " << torment.kills() << " kills, " << torment.short_stops()
            << " short stops, " << torment.long_stops() << " stops past the lease, "
            << history.takeovers() << " takeovers\n  " << history.count(Kind::kRefused)
            << " refusals, of them " << history.refused_while_valid() << " while valid, "
            << history.count(Kind::kSteppedBack) << " stepped back, "
            << history.count(Kind::kSessionLost) << " sessions lost, "
            << history.count(Kind::kTimedOut) << " time-outs, " << history.count(Kind::kBusy)
            << " times busy, " << history.count(Kind::kUnknown) << " outcomes unknown\n";
}

TEST(Soak, LocksOfProcessesThatAreStoppedAndKilledExcludeEachOtherAndLoseNothing) {
  const std::uint64_t seconds = from_environment("HOLDFAST_SOAK_SECONDS", 10);
  const std::uint64_t seed = from_environment("HOLDFAST_SOAK_SEED", std::random_device{}());
  std::cout << "HOLDFAST_SOAK_SEED=" << seed << " HOLDFAST_SOAK_SECONDS=" << seconds << std::endl;
  const TempFolder folder;
  Torment torment(folder, seed);
  const std::uint64_t grants_min = kGrantsPerSecondMin * seconds;
  torment.go_on_until(MonotonicTime::now() + std::chrono::seconds(seconds), grants_min);
  torment.finish();

  Successor successor(torment.store());
  successor.take_all();
  successor.expect_nothing_left();
  History& history = torment.history();
  successor.compare(history);
  GuardedCounters counters(torment.counters());
  for (const Resource resource : {Resource::kMutex, Resource::kSlot0, Resource::kSlot1,
                                  Resource::kSlot2, Resource::kReadWrite}) {
    history.compare(resource, counters.value(resource), counters.increments(resource));
  }
  history.look_for_overlaps();
  print_counts(torment);
  EXPECT_EQ(history.faults(), std::vector<std::string>{});
  EXPECT_GE(history.count(Report::Kind::kGranted), grants_min);
  if (seconds >= kLongSeconds) {  // For less it is a matter of luck.
    EXPECT_GT(history.takeovers(), 0U);
    EXPECT_GT(history.count(Report::Kind::kRefused), 0U);
  }
}

}  // namespace
}  // namespace holdfast::testing
