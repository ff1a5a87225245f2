// SPDX-License-Identifier: Apache-2.0
//
// soak_run_worker STORE LEDGER PROCESS TTL_MS
//
// Drives runs until its standard input ends, and tells on standard output when it lost its session.
// Made to be stopped and killed at any moment.
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <latch>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <holdfast/engine.hpp>
#include <holdfast/executor.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/sqlite_store.hpp>
#include <holdfast/store_error.hpp>

#include "tests/runs/jobs.hpp"
#include "tests/soak/report.hpp"

namespace holdfast::testing {
namespace {

void tell(Report::Kind kind) {
  Report report;
  report.kind = kind;
  if (::write(STDOUT_FILENO, &report, sizeof report) != sizeof report) {
    std::abort();
  }
}

/// Returns when one of the two was stopped.
void wait_for_either(const std::stop_token& first, const std::stop_token& second) {
  std::latch stopped(1);
  std::once_flag once;
  const auto count_down = [&] { std::call_once(once, [&] { stopped.count_down(); }); };
  const std::stop_callback on_first(first, count_down);
  const std::stop_callback on_second(second, count_down);
  stopped.wait();
}

/// From a session to the next; throws what stores throw.
void live_once(Store& store, Duration ttl, const std::stop_token& end) {
  std::unique_ptr<Session> session;  // Outlives the pools, on which its last tasks end.
  ThreadPool step_pool(2);
  ThreadPool pool(2);
  session = sync_wait(pool, Session::open(store, {.ttl = ttl, .name = "worker"}));
  Engine engine(*session, {.executor = &pool,
                           .steps = &step_pool,
                           .idle_time = ttl,
                           .warn = [](const std::string& /*that_it_lost_something*/) {}});
  engine.add(kRoundsJob);
  engine.add(kFamilyJob);
  engine.add(kSignalJob);
  engine.add(kChainJob);
  sync_wait(pool, engine.begin());
  wait_for_either(session->lost_token(), end);
  if (session->valid()) {
    sync_wait(pool, engine.stop());
    sync_wait(pool, session->close());
  } else {
    tell(Report::Kind::kSessionLost);
  }
}

int run(const std::vector<std::string>& arguments) {
  // Whoever started this reads what it tells; without that there is nothing to do.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const Duration ttl = std::chrono::milliseconds(std::stoll(arguments.at(4)));
  std::stop_source end;
  std::jthread listener([&end] {
    char byte = 0;
    while (::read(STDIN_FILENO, &byte, 1) > 0) {
    }
    end.request_stop();
  });
  const auto store = open_sqlite_store(arguments.at(1));
  const auto effects = open_sqlite_store(arguments.at(2));
  EffectLedger ledger(*effects, arguments.at(3));
  effect_ledger = &ledger;
  while (!end.stop_requested()) {
    try {
      live_once(*store, ttl, end.get_token());
    } catch (const SessionLost&) {
      tell(Report::Kind::kSessionLost);
    } catch (const StoreBusy&) {
      tell(Report::Kind::kBusy);
    } catch (const OutcomeUnknown&) {
      tell(Report::Kind::kUnknown);
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
    std::cerr << "soak_run_worker: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
