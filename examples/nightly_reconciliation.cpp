// SPDX-License-Identifier: Apache-2.0
// Every night at 02:30 on the walls of Berlin the books are reconciled, and never twice at once:
// one night takes longer than a day, one process is killed in the middle, and for some nights there
// is nobody at all. On a virtual clock a week takes no time.
#include <boost/describe/class.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <holdfast/engine.hpp>
#include <holdfast/memory_store.hpp>
#include <holdfast/schedule.hpp>
#include <holdfast/spawn.hpp>

namespace {

using holdfast::Context;
using holdfast::Task;
using namespace std::chrono_literals;

holdfast::VirtualClock machine_clock;
holdfast::VirtualWallClock calendar(machine_clock,
                                    std::chrono::sys_days(std::chrono::year(2026) / 11 / 16));

/// The day of the month and the time, in UTC.
std::string today() {
  const auto now = calendar.now();
  const auto day = std::chrono::floor<std::chrono::days>(now);
  const std::chrono::hh_mm_ss time(std::chrono::floor<std::chrono::minutes>(now - day));
  char text[32];
  std::snprintf(text, sizeof text, "%u. %02d:%02d",
                static_cast<unsigned>(std::chrono::year_month_day(day).day()),
                static_cast<int>(time.hours().count()), static_cast<int>(time.minutes().count()));
  return text;
}

int under_way = 0;
int at_once_max = 0;

void open_books(const std::string& night) {
  at_once_max = std::max(at_once_max, ++under_way);
  std::printf("%s: %s begins\n", today().c_str(), night.c_str());
}
void close_books(const std::string& night) {
  --under_way;
  std::printf("%s: %s is done\n", today().c_str(), night.c_str());
}
holdfast::Duration time_it_takes(std::int64_t ledger) {
  const bool is_the_long_night = today().starts_with("18.");
  return is_the_long_night && ledger == 2 ? 26h : 20min;
}

// [reconcile]
struct Books {
  std::string bank;
  std::int64_t ledgers = 0;
};
BOOST_DESCRIBE_STRUCT(Books, (), (bank, ledgers))

Task<void> reconcile(Context& ctx, Books books) {
  auto open = ctx.run("open the books", [&] { open_books(ctx.run_id()); });
  co_await open;
  for (std::int64_t ledger = 0; ledger < books.ledgers; ++ledger) {
    auto ask = ctx.run("how long?", [ledger] { return time_it_takes(ledger).count(); });
    const std::int64_t ns = co_await ask;
    co_await ctx.sleep(holdfast::Duration(ns));
  }
  auto close = ctx.run("close the books", [&] { close_books(ctx.run_id()); });
  co_await close;
}
const auto kReconciliation = holdfast::workflow("reconcile", reconcile);

/// At each start of the program: what is the same already stays as it is.
Task<void> set_schedules(holdfast::Engine& engine) {
  holdfast::Schedules schedules(engine);
  const Books books{.bank = "First of Atlantis", .ledgers = 3};
  co_await schedules.set("nightly", kReconciliation, books,
                         {.cron = "30 2 * * *",
                          .zone = "Europe/Berlin",
                          .overlap = holdfast::Overlap::kSkip,
                          .missed = holdfast::Missed::kRunLast});
}
// [reconcile]

/// One process of one thread, on virtual time.
class Process {
 public:
  explicit Process(std::shared_ptr<holdfast::MemoryDisk> disk)
      : executor_(machine_clock), store_(holdfast::open_memory_store(std::move(disk))) {
    session_ =
        holdfast::sync_wait(executor_, holdfast::Session::open(*store_, {.executor = &executor_}));
    engine_.emplace(*session_,
                    holdfast::EngineOptions{.executor = &executor_, .wall_clock = &calendar});
    engine_->add(kReconciliation);
    holdfast::sync_wait(executor_, engine_->begin());
    holdfast::sync_wait(executor_, set_schedules(*engine_));
    std::printf("%s: a process begins\n", today().c_str());
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  /// As after a kill: nothing is handed over, nothing is said.
  ~Process() {
    engine_.reset();
    session_.reset();
    executor_.drain();
    std::printf("%s: it is killed\n", today().c_str());
  }

  void live_for(holdfast::Duration time) {
    const holdfast::TimePoint end = machine_clock.now() + time;
    executor_.drain();
    while (machine_clock.next_due().value_or(end) < end) {
      machine_clock.advance_to_next();
      executor_.drain();
    }
    machine_clock.advance(end - machine_clock.now());
    executor_.drain();
  }

  // [describe]
  Task<void> tell() {
    holdfast::Schedules schedules(*engine_);
    const auto nightly = co_await schedules.describe("nightly");
    std::printf("%s, in %s: %d nights begun, %d skipped, %d missed\n", nightly->terms.cron.c_str(),
                nightly->terms.zone.c_str(), static_cast<int>(nightly->begun),
                static_cast<int>(nightly->skipped), static_cast<int>(nightly->missed));
  }
  // [describe]
  holdfast::ManualExecutor& executor() { return executor_; }

 private:
  holdfast::ManualExecutor executor_;
  std::unique_ptr<holdfast::Store> store_;
  std::unique_ptr<holdfast::Session> session_;
  std::optional<holdfast::Engine> engine_;
};

void live() {
  const auto disk = std::make_shared<holdfast::MemoryDisk>(machine_clock);
  {
    Process first(disk);
    first.live_for(25h + 50min);  // Until the second night has begun.
  }
  machine_clock.advance(1min);
  {
    Process second(disk);
    second.live_for(3 * 24h + 2h);
  }
  machine_clock.advance(3 * 24h);  // Nobody is there for three nights.
  Process third(disk);
  third.live_for(24h);
  holdfast::sync_wait(third.executor(), third.tell());
}

}  // namespace

int main() {
  try {
    live();
    std::printf("never more than %d at once\n", at_once_max);
    return at_once_max == 1 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
