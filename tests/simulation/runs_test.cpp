// SPDX-License-Identifier: Apache-2.0
// The engine of runs in processes that die anywhere, by seed.
#include <gtest/gtest.h>

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>

#include "run_simulation.hpp"

namespace holdfast::testing {
namespace {

constexpr int kFailuresMax = 3;

std::optional<std::uint64_t> from_environment(const char* name) {
  const char* const text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): one thread.
  return text == nullptr ? std::nullopt : std::optional<std::uint64_t>(std::stoull(text));
}

std::string replay_command(std::uint64_t seed) {
  return "replay: HOLDFAST_SEED=" + std::to_string(seed) + " " + HOLDFAST_SIMULATION_PROGRAM +
         " --gtest_filter=RunSimulation.AllEndsAs*\n";
}

/// Of the seed under way, for one that ends the program, or does not end.
std::string last_words;
constexpr unsigned kSecondsPerSeedMax = 120;

extern "C" void say_last_words(int signal) {
  const ssize_t written = ::write(STDERR_FILENO, last_words.data(), last_words.size());
  static_cast<void>(written);  // There is nobody left to tell.
  std::signal(signal, SIG_DFL);
  static_cast<void>(std::raise(signal));
}

/// False: something is wrong, and how to see it again is printed.
bool holds(std::uint64_t seed, Tally& tally) {
  last_words = replay_command(seed);
  std::signal(SIGABRT, say_last_words);
  std::signal(SIGALRM, say_last_words);
  ::alarm(kSecondsPerSeedMax);
  std::vector<std::string> faults;
  try {
    faults = RunSimulation(seed, tally).run();
  } catch (const std::exception& error) {
    faults.emplace_back(error.what());
  }
  ::alarm(0);
  if (faults.empty()) {
    return true;
  }
  std::string text;
  for (const std::string& fault : faults) {
    text.append(fault).append("\n");
  }
  ADD_FAILURE() << text << replay_command(seed);
  return false;
}

TEST(RunSimulation, AllEndsAsItWouldWithoutCrashes) {
  Tally tally;
  if (const auto seed = from_environment("HOLDFAST_SEED")) {
    static_cast<void>(holds(*seed, tally));
    return;
  }
  const std::uint64_t first = from_environment("HOLDFAST_FIRST_SEED").value_or(1);
  const std::uint64_t seeds = from_environment("HOLDFAST_SEEDS").value_or(HOLDFAST_SEEDS_DEFAULT);
  const auto start = std::chrono::steady_clock::now();
  int failures = 0;
  for (std::uint64_t seed = first; seed < first + seeds && failures < kFailuresMax; ++seed) {
    failures += holds(seed, tally) ? 0 : 1;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const auto hours = std::chrono::duration_cast<std::chrono::hours>(tally.time).count();
  std::cout << seeds << " seeds, " << tally.runs << " runs: " << tally.power_cuts << " power cuts, "
            << tally.kills << " kills, " << tally.stalls << " stalls, " << tally.stops << " stops, "
            << tally.takeovers << " takeovers, " << tally.handovers << " handovers, "
            << tally.refusals << " refusals, " << tally.grants << " locks, " << tally.queued
            << " of them from a queue, " << tally.overtakes << " overtakes, " << tally.limited
            << " limited steps, " << tally.scheduled << " scheduled runs, " << tally.gathered
            << " signals that start a run, " << tally.resets << " resets, " << tally.unknowns
            << " unknown outcomes, " << tally.commits << " commits, " << hours
            << " simulated hours in " << static_cast<int>(took.count()) << " s\n";
  EXPECT_GT(tally.power_cuts, seeds / 10);
  EXPECT_GT(tally.kills, seeds);
  EXPECT_GT(tally.takeovers, seeds);
  EXPECT_GT(tally.refusals, seeds / 10);
  EXPECT_GT(tally.grants, seeds);
  EXPECT_GT(tally.queued, seeds);
  EXPECT_GT(tally.overtakes, seeds / 10);
  EXPECT_GT(tally.limited, seeds);
  EXPECT_GT(tally.scheduled, seeds);
  EXPECT_GT(tally.gathered, seeds);
  EXPECT_GT(tally.resets, seeds / 100);
}

TEST(RunSimulation, ASeedSaysTheSameEachTime) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Tally tally;
    RunSimulation first(seed, tally);
    static_cast<void>(first.run());
    RunSimulation second(seed, tally);
    static_cast<void>(second.run());
    EXPECT_EQ(first.digest(), second.digest()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace holdfast::testing
