// SPDX-License-Identifier: Apache-2.0
//
// A process that drives a run is killed before each I/O operation of its store, and another one
// goes on.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <holdfast/executor.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/sqlite_store.hpp>
#include <holdfast/sqlite_transaction.hpp>
#include <holdfast/state.hpp>

#include "base/temp_folder.hpp"
#include "store_sqlite/sql_by_hand.hpp"
#include "tests/crash/transfer_job.hpp"
#include "tests/runs/jobs.hpp"

namespace holdfast::testing {
namespace {

/// True: it ended well. False: it was killed.
bool run_payer(std::vector<std::string> arguments) {
  std::string program = HOLDFAST_CRASH_RUN_PAYER;
  std::vector<char*> pointers{program.data()};
  for (std::string& argument : arguments) {
    pointers.push_back(argument.data());
  }
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t process = 0;
  const int error =
      ::posix_spawn(&process, pointers[0], &actions, nullptr, pointers.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    throw std::runtime_error("the payer was not started");
  }
  int status = 0;
  ::waitpid(process, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0)
      << "the payer failed";
  return WIFEXITED(status);
}

/// Each point takes half a second, most of it until the session of the dead one expires.
std::uint64_t points_apart() {
  const char* text = std::getenv("HOLDFAST_RUN_KILL_STEP");  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? 17 : std::stoull(text);
}

struct Ending {
  bool killed = false;
  std::size_t attempts = 0;  ///< How often effects were asked for.
};

/// Looks at what is left.
std::size_t expect_all_happened_once(const TempFolder& folder) {
  ThreadPool pool(1);
  const auto ledger = open_sqlite_store(folder / "ledger.db");
  std::multiset<std::string> effects;
  for (const Entry& row : sync_wait(pool, ledger->scan("effect/")).entries) {
    effects.insert(row.value);
  }
  EXPECT_EQ(effects, (std::multiset<std::string>{"invoice/1", "invoice/2", "invoice/3"}));

  const auto store = open_sqlite_store(folder / "runs.db");
  const State state(*store);
  EXPECT_EQ(sync_wait(pool, state.global().cell<std::int64_t>(kSumCell).get()), sum_of(3));
  EXPECT_EQ(sync_wait(pool, store->check()).faults, std::vector<std::string>{});
  return sync_wait(pool, ledger->scan("attempt/")).entries.size();
}

/// Looks at the tables.
std::size_t expect_all_moved_once(const TempFolder& folder) {
  ThreadPool pool(1);
  const auto store = open_sqlite_store(folder / "runs.db");
  const TransactionWork look = [](Transaction& transaction) {
    sqlite3* const db = sqlite_connection(transaction);
    EXPECT_EQ(ask_sql(db, "SELECT amount FROM account WHERE name = 'a'"), -3 * kMovedPerRound);
    EXPECT_EQ(ask_sql(db, "SELECT amount FROM account WHERE name = 'b'"), 3 * kMovedPerRound);
    EXPECT_EQ(ask_sql(db, "SELECT count(*) FROM move"), 3);
    EXPECT_EQ(ask_sql(db, "SELECT count(DISTINCT round) FROM move"), 3);
    return Batch();
  };
  static_cast<void>(sync_wait(pool, store->transact(look)));
  EXPECT_EQ(sync_wait(pool, store->check()).faults, std::vector<std::string>{});
  std::ifstream notes(folder / "ledger.db-transfers");
  return static_cast<std::size_t>(
      std::count(std::istreambuf_iterator<char>(notes), std::istreambuf_iterator<char>(), '\n'));
}

Ending die_before(const std::string& job, const std::string& point) {
  const TempFolder folder;
  const std::string runs = folder / "runs.db";
  const std::string ledger = folder / "ledger.db";
  const bool killed = !run_payer({runs, ledger, "first", job, point});
  EXPECT_TRUE(run_payer({runs, ledger, "second", job}));
  const bool is_transfer = job == "transfer";
  return {killed, is_transfer ? expect_all_moved_once(folder) : expect_all_happened_once(folder)};
}

struct Deaths {
  std::size_t count = 0;
  std::size_t attempts = 0;  ///< Of the dead, and of those who went on.
};

/// At each `step`-th point, until one is behind the end.
Deaths die_everywhere(const std::string& job, std::uint64_t step) {
  Deaths deaths;
  std::uint64_t point = 0;
  for (bool killed = true; killed; point += step) {
    SCOPED_TRACE("killed before operation " + std::to_string(point));
    const Ending ending = die_before(job, std::to_string(point));
    killed = ending.killed;
    deaths.count += killed ? 1U : 0U;
    deaths.attempts += ending.attempts;
    if (::testing::Test::HasFailure()) {
      break;
    }
  }
  return deaths;
}

TEST(RunKill, BeforeWritesOfTheStoreARunGoesOnAndItsEffectsHappenOnce) {
  const Deaths deaths = die_everywhere("invoice", points_apart());
  std::cout << deaths.count << " deaths, effects asked for " << deaths.attempts
            << " times, of which " << 3 * (deaths.count + 1) << " are no repetition\n";
}

TEST(RunKill, BeforeWritesOfTheStoreTransactionsOfARunHappenOnceInItsTables) {
  const Deaths deaths = die_everywhere("transfer", (points_apart() + 4) / 5);
  const std::size_t kept = 3 * (deaths.count + 1);
  std::cout << deaths.count << " deaths, SQL of rounds run " << deaths.attempts
            << " times, of which " << kept << " are kept: " << deaths.attempts - kept
            << " deaths were between the SQL and the end of its commit\n";
  EXPECT_GT(deaths.attempts, kept) << "no death came after the SQL of a round, before its commit";
}

TEST(RunKill, InATransactionItsSqlLeavesNoTrace) {
  for (const std::string moment : {"round:1", "round:2", "round:3"}) {
    SCOPED_TRACE(moment);
    const Ending ending = die_before("transfer", moment);
    EXPECT_TRUE(ending.killed);
    EXPECT_EQ(ending.attempts, 4U);
  }
}

}  // namespace
}  // namespace holdfast::testing
