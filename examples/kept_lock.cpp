// SPDX-License-Identifier: Apache-2.0
// Runs write into a book, one at a time: they wait for a durable lock. A worker is killed while its
// run has the lock. The run goes on in another process, the lock is still its own, and nobody has
// overtaken anybody.
#include "kept_lock.hpp"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <holdfast/engine.hpp>
#include <holdfast/gate_inspection.hpp>
#include <holdfast/gates.hpp>
#include <holdfast/open_store.hpp>
#include <holdfast/spawn.hpp>

#include "folder.hpp"
#include "process.hpp"

namespace examples {

namespace {

using holdfast::Context;
using holdfast::RunLock;
using holdfast::Task;
using namespace std::chrono_literals;

constexpr std::size_t kWorkers = 3;
constexpr std::size_t kEntries = 12;
constexpr std::size_t kKills = 3;
constexpr std::string_view kBookLock = "book";
/// How long the runs of a dead worker wait for another one.
constexpr auto kTtl = 1s;

// --- What workers do -----------------------------------------------------------------------------

std::string book;  // A file: what is outside, for the workflow.

/// A line for the beginning and one for the end, with time enough between them to be disturbed.
void write_entry(const std::string& id, std::uint64_t fence) {
  const auto write = [&](std::string_view what) {
    std::ofstream file(book, std::ios::app);
    file << fmt::format("{} {} {} {}\n", id, what, fence, ::getpid()) << std::flush;
  };
  write("begins");
  std::this_thread::sleep_for(150ms);
  write("ends");
}

// [entry]
Task<std::uint64_t> make_entry(Context& ctx) {
  const RunLock lock = co_await ctx.lock("book");
  auto writing = ctx.run("write", [&] { write_entry(ctx.run_id(), lock.fence()); });
  co_await writing;
  co_return lock.fence();
}
// [entry]
const auto kEntry = holdfast::workflow("entry", make_entry);

// --- The play ------------------------------------------------------------------------------------

struct Line {
  std::string id;
  std::string what;
  std::uint64_t fence = 0;
  pid_t process = 0;
};

class Office {
 public:
  Office(const Office&) = delete;
  Office& operator=(const Office&) = delete;
  explicit Office(Stage& stage)
      : stage_(stage), store_(holdfast::open_store(folder_.url("runs.db"))) {
    session_ = holdfast::sync_wait(pool_, holdfast::Session::open(*store_, {.name = "office"}));
    engine_.emplace(*session_, holdfast::EngineOptions{.executor = &pool_});
  }

  void run() {
    stage_.say(
        fmt::format("{} workers, {} runs that wait for one lock; the runs of a dead worker "
                    "wait for {} s",
                    kWorkers, kEntries, kTtl.count()));
    for (std::size_t i = 0; i < kWorkers; ++i) {
      workers_.push_back(start_worker());
    }
    let_all_wait();
    for (std::size_t kills = 0; kills < kKills;) {
      if (kill_whoever_is_inside()) {
        ++kills;
      }
    }
    for (const auto& entry : entries_) {
      static_cast<void>(holdfast::sync_wait(pool_, entry.result(), {}, stage_.stop()));
    }
    tell(fmt::format("all {} runs have ended", entries_.size()));
    prove();
  }

 private:
  using Steady = std::chrono::steady_clock;

  std::unique_ptr<Process> start_worker() {
    auto worker = std::make_unique<Process>(
        std::vector<std::string>{std::string(kKeptLockPart), folder_.url("runs.db"), book_path()});
    static_cast<void>(worker->line(stage_.stop()));
    return worker;
  }

  /// Runs and processes wait for the same locks: this one has it until all runs are in line.
  void let_all_wait() {
    holdfast::Gates gates(*session_);
    auto hold = holdfast::sync_wait(pool_, gates.mutex(kBookLock).acquire({.holder = "office"}));
    for (std::size_t i = 0; i < kEntries; ++i) {
      const std::string id = fmt::format("entry-{:02}", i + 1);
      entries_.push_back(holdfast::sync_wait(pool_, engine_->start(kEntry, {.id = id})));
    }
    until("all runs wait", [&] { return look().waiter_count == kEntries; });
    for (const holdfast::GateWaiterInfo& waiter : look().waiters) {
      queue_.push_back(waiter.holder);
    }
    tell(fmt::format("{} runs wait in line, the first is {}", queue_.size(), queue_.front()));
    static_cast<void>(holdfast::sync_wait(pool_, hold.release()));
  }

  /// False: it had just come out.
  bool kill_whoever_is_inside() {
    std::optional<Line> victim;
    until("another run is inside", [&] {
      victim = who_writes();
      return victim && victim->id != last_victim_;
    });
    last_victim_ = victim->id;
    auto worker =
        std::ranges::find(workers_, victim->process, [](const auto& one) { return one->id(); });
    if (worker == workers_.end()) {
      throw std::runtime_error("the book was written by nobody of ours");
    }
    (*worker)->kill();
    const std::size_t lines_then = read_book().size();
    const bool was_inside = who_writes() && who_writes()->id == victim->id;
    if (was_inside) {
      tell_of_kill(*victim);
    }
    *worker = start_worker();
    if (was_inside) {
      until("the run goes on elsewhere", [&] { return has_gone_on(*victim, lines_then); });
    }
    return was_inside;
  }

  void tell_of_kill(const Line& victim) {
    const holdfast::GateInfo gate = look();
    tell(fmt::format("worker {} is killed with -9 while {} has the lock, with fence {}; {} wait",
                     victim.process, victim.id, victim.fence, gate.waiter_count));
    const bool is_kept = gate.holders.size() == 1 && gate.holders.front().holder == victim.id &&
                         gate.holders.front().fence == victim.fence;
    kept_ = kept_ && is_kept;
  }

  /// The last line is that of one who has begun.
  std::optional<Line> who_writes() const {
    const std::vector<Line> lines = read_book();
    const bool is_inside = !lines.empty() && lines.back().what == "begins";
    return is_inside ? std::optional(lines.back()) : std::nullopt;
  }

  /// Its step is begun again, by another process, with the fence that it had.
  bool has_gone_on(const Line& victim, std::size_t lines_then) {
    const std::vector<Line> lines = read_book();
    if (lines.size() == lines_then) {
      return false;
    }
    const Line& again = lines[lines_then];
    tell(fmt::format("{} goes on in process {}, with fence {}", again.id, again.process,
                     again.fence));
    kept_ = kept_ && again.id == victim.id && again.fence == victim.fence;
    return true;
  }

  void prove() {
    std::vector<std::string> inside;  // Who was inside, one after the other.
    std::vector<std::uint64_t> fences;
    for (const Line& line : read_book()) {
      if (inside.empty() || inside.back() != line.id) {
        inside.push_back(line.id);
        fences.push_back(line.fence);
      }
    }
    stage_.check(fmt::format("the lock was still the run's own after each of {} kills", kKills),
                 kept_);
    stage_.check("no two were ever inside at once: the book has one entry after the other",
                 inside.size() == kEntries);
    stage_.check("and the queue kept its order, with a greater fence for each",
                 inside == queue_ && std::ranges::is_sorted(fences, std::ranges::less_equal{}));
  }

  std::vector<Line> read_book() const {
    std::ifstream file(book_path());
    std::vector<Line> lines;
    std::string text;
    while (std::getline(file, text)) {
      std::istringstream words(text);
      Line line;
      words >> line.id >> line.what >> line.fence >> line.process;
      lines.push_back(std::move(line));
    }
    return lines;
  }

  [[nodiscard]] std::string book_path() const { return folder_.path() + "/book"; }

  holdfast::GateInfo look() {
    auto info = holdfast::sync_wait(pool_, holdfast::inspect_gate(*store_, kBookLock));
    return info ? *std::move(info) : holdfast::GateInfo{};
  }

  template <typename Condition>
  void until(std::string_view what, Condition condition) {
    const auto give_up_at = Steady::now() + 30s;
    while (!condition()) {
      if (stage_.stop().stop_requested()) {
        throw holdfast::Cancelled("the scenario was asked to end");
      }
      if (Steady::now() > give_up_at) {
        throw std::runtime_error(fmt::format("it takes too long until {}", what));
      }
      std::this_thread::sleep_for(2ms);
    }
  }

  void tell(std::string_view what) {
    const auto since = std::chrono::duration<double>(Steady::now() - began_);
    stage_.say(fmt::format("{:5.2f} s  {}", since.count(), what));
  }

  Stage& stage_;
  Folder folder_;
  std::unique_ptr<holdfast::Store> store_;
  std::unique_ptr<holdfast::Session> session_;
  holdfast::ThreadPool pool_{2};
  std::optional<holdfast::Engine> engine_;
  std::vector<std::unique_ptr<Process>> workers_;
  std::vector<holdfast::RunHandle<std::uint64_t>> entries_;
  std::vector<std::string> queue_;
  std::string last_victim_;
  bool kept_ = true;
  Steady::time_point began_ = Steady::now();
};

}  // namespace

int play_kept_lock_part(const std::string& store_url, const std::string& book_path) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // Nobody is left behind, should the play be killed.
  book = book_path;
  const auto store = holdfast::open_store(store_url);
  std::unique_ptr<holdfast::Session> session;
  holdfast::ThreadPool pool(2);
  session =
      holdfast::sync_wait(pool, holdfast::Session::open(*store, {.ttl = kTtl, .name = "worker"}));
  holdfast::Engine engine(*session, {.executor = &pool});
  engine.add(kEntry);
  holdfast::sync_wait(pool, engine.begin());
  std::cout << "ready" << std::endl;
  std::string line;
  while (std::getline(std::cin, line)) {  // Until it is killed: nobody says anything.
  }
  return 0;
}

void kept_lock(Stage& stage) { Office(stage).run(); }

}  // namespace examples
