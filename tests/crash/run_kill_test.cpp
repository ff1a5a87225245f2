// SPDX-License-Identifier: Apache-2.0
//
// A process that drives a run is killed before each I/O operation of its store, and another one
// goes on.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <holdfast/executor.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/sqlite_store.hpp>
#include <holdfast/state.hpp>

#include "base/temp_folder.hpp"
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

Ending die_before(std::uint64_t point) {
  const TempFolder folder;
  const std::string runs = folder / "runs.db";
  const std::string ledger = folder / "ledger.db";
  const bool killed = !run_payer({runs, ledger, "first", std::to_string(point)});
  EXPECT_TRUE(run_payer({runs, ledger, "second"}));
  return {killed, expect_all_happened_once(folder)};
}

TEST(RunKill, BeforeWritesOfTheStoreARunGoesOnAndItsEffectsHappenOnce) {
  const std::uint64_t step = points_apart();
  std::uint64_t point = 0;
  std::size_t attempts = 0;
  std::size_t deaths = 0;
  for (bool killed = true; killed; point += step) {
    SCOPED_TRACE("killed before operation " + std::to_string(point));
    const Ending ending = die_before(point);
    killed = ending.killed;
    deaths += killed ? 1U : 0U;
    attempts += ending.attempts;
    ASSERT_FALSE(::testing::Test::HasFailure());
  }
  std::cout << deaths << " deaths, effects asked for " << attempts << " times, of which "
            << 3 * (deaths + 1) << " are no repetition\n";
}

}  // namespace
}  // namespace holdfast::testing
