// SPDX-License-Identifier: Apache-2.0
//
// crash_run_payer STORE LEDGER PROCESS JOB [DIES_BEFORE]
//
// Starts a run, unless another process has, and waits for its result, which it prints. JOB is
// `invoice`, or `transfer`, which moves money in tables of its own in STORE. With DIES_BEFORE it
// kills itself before that I/O operation on STORE; of a transfer that is counted from the moment on
// when the SQL of its first round is done. With `round:N`, at this moment of round N.
#include <sys/prctl.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <holdfast/engine.hpp>
#include <holdfast/executor.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/sqlite_store.hpp>

#include "store/sidecar.hpp"
#include "store_sqlite/page_checksums.hpp"
#include "store_sqlite/sqlite_store_parts.hpp"
#include "tests/crash/mortal_vfs.hpp"
#include "tests/crash/transfer_job.hpp"
#include "tests/runs/jobs.hpp"

namespace holdfast::testing {
namespace {

using namespace std::chrono_literals;

/// So short that a test with hundreds of deaths ends; a process that lost it begins anew.
constexpr Duration kTtl = 200ms;
constexpr std::int64_t kRounds = 3;

std::unique_ptr<Store> open_mortal(const std::string& path, const MortalVfs& vfs) {
  return detail::open_sqlite_store({path, detail::page_checksum_vfs(vfs.name())}, {},
                                   std::make_unique<detail::Sidecar>(path + "-hold"));
}

Task<std::int64_t> pay(Engine& engine, std::string name) {
  const Job job{.name = name, .rounds = kRounds};
  const StartOptions once{.idempotency_key = name};
  const bool is_transfer = name == "transfer";
  const auto started = co_await engine.start(is_transfer ? kTransferJob : kRoundsJob, job, once);
  const std::int64_t result = co_await started.result();
  co_return result;
}

/// Throws `SessionLost` if the machine is too slow for the ttl.
std::int64_t live_once(Store& store, const std::string& job) {
  std::unique_ptr<Session> session;
  ThreadPool pool(2);
  session = sync_wait(pool, Session::open(store, {.ttl = kTtl, .name = "payer"}));
  Engine engine(*session, {.executor = &pool, .warn = [](const std::string& /*of_a_loss*/) {}});
  engine.add(kRoundsJob);
  engine.add(kTransferJob);
  sync_wait(pool, engine.begin());
  auto paying = spawn(pool, pay(engine, job), {}, session->lost_token());
  const std::int64_t result = paying.get();
  sync_wait(pool, engine.stop());
  sync_wait(pool, session->close());
  return result;
}

int run(const std::vector<std::string>& arguments) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::string& path = arguments.at(1);
  const auto effects = open_sqlite_store(arguments.at(2));
  EffectLedger ledger(*effects, arguments.at(3));
  effect_ledger = &ledger;
  const std::string& job = arguments.at(4);
  transfer_notes = arguments.at(2) + "-transfers";
  std::unique_ptr<MortalVfs> vfs;
  if (arguments.size() > 5 && arguments.at(5).starts_with("round:")) {
    after_transfer_sql = [last = std::stoll(arguments.at(5).substr(6))](std::int64_t round) {
      if (round == last) {
        std::raise(SIGKILL);
      }
    };
  } else if (arguments.size() > 5) {
    const std::uint64_t point = std::stoull(arguments.at(5));
    const bool is_transfer = job == "transfer";
    vfs = std::make_unique<MortalVfs>(is_transfer ? std::numeric_limits<std::uint64_t>::max()
                                                  : point);
    after_transfer_sql = [&vfs = *vfs, point](std::int64_t round) {
      if (round == 1) {
        vfs.die_before(point);
      }
    };
  }
  const auto store = vfs == nullptr ? open_sqlite_store(path) : open_mortal(path, *vfs);
  for (;;) {
    try {
      std::cout << live_once(*store, job) << std::endl;
      return EXIT_SUCCESS;
    } catch (const SessionLost&) {
      continue;
    } catch (const Cancelled&) {
      continue;  // By the loss.
    }
  }
}

}  // namespace
}  // namespace holdfast::testing

int main(int argc, char** argv) {
  try {
    return holdfast::testing::run({argv, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << "crash_run_payer: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
