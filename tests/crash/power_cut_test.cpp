// SPDX-License-Identifier: Apache-2.0
//
// A store through crashes of the machine and of its process, by seed. One run: tasks commit, death
// comes at an I/O point, perhaps a second time during the recovery, and then everything is compared
// with what was promised.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <optional>
#include <string>

#include <holdfast/store_error.hpp>

#include "tests/crash/actors.hpp"
#include "tests/crash/machine.hpp"

namespace holdfast::testing {
namespace {

/// Set by CMake: all runs together, but for those that show that the checks bite.
constexpr std::uint64_t kRuns = HOLDFAST_CRASH_RUNS;
constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

enum class Death : std::uint8_t { kPowerCut, kKill, kEither };

struct World {
  Sync sync = Sync::kStrict;
  Death death = Death::kPowerCut;
  bool lying_disk = false;
};

struct Result {
  std::uint64_t points = 0;  ///< Of the first life.
  std::size_t lost_to_power_cuts = 0;
  std::size_t lost_to_kills = 0;
  std::vector<std::string> faults;
};

class Runner {
 public:
  explicit Runner(const World& world)
      : world_(world), closed_(closed_store(machine_)), killed_(killed_store(machine_)) {}

  /// Dies at that I/O point, or when it has come to an end.
  [[nodiscard]] Result run(std::uint64_t seed, std::uint64_t point) {
    Dice dice(seed);
    Result result;
    begin(dice, seed);
    machine_.disk.crash_at(point);
    live(dice.next());
    result.points = machine_.disk.io_points();
    dice = Dice(seed ^ (point << 32U));
    Death death = die(dice);
    if (dice.one_in(3)) {
      machine_.disk.crash_at(machine_.disk.io_points() + dice.below(40));
      recover_and_live(dice.next(), death, result);
      death = die(dice);
    }
    recover_for_good(dice.next(), death, result);
    return result;
  }

 private:
  void begin(Dice& dice, std::uint64_t seed) {
    const std::uint64_t beginning = dice.below(8);
    machine_.begin_at(beginning == 0 ? Machine::Moment{} : beginning < 3 ? killed_ : closed_, seed);
    machine_.sync = world_.sync;
    machine_.disk.ignore_syncs(world_.lying_disk);
    machine_.checkpoint_pages = dice.one_in(2) ? detail::kCheckpointPages : 12;
  }

  void live(std::uint64_t seed) {
    Dice dice(seed);
    const auto tasks = static_cast<unsigned>(1 + dice.below(3));
    const auto rounds = static_cast<unsigned>(1 + dice.below(4));
    try {
      const auto store = machine_.open();
      play(machine_.stage, *store, machine_.ledger,
           {.seed = dice.next(), .tasks = tasks, .rounds = rounds});
    } catch (const Error&) {
      // It died while it was opened.
    }
  }

  Death die(Dice& dice) {
    const bool cut =
        world_.death == Death::kEither ? dice.one_in(2) : world_.death == Death::kPowerCut;
    if (cut) {
      machine_.cut_power(dice);
      return Death::kPowerCut;
    }
    machine_.disk.kill();
    return Death::kKill;
  }

  void look(Store& store, Death death, Result& result) {
    Machine::Findings findings = machine_.look(store);
    (death == Death::kKill ? result.lost_to_kills : result.lost_to_power_cuts) += findings.lost;
    std::move(findings.faults.begin(), findings.faults.end(), std::back_inserter(result.faults));
  }

  void recover_and_live(std::uint64_t seed, Death death, Result& result) {
    try {
      const auto store = machine_.open();
      look(*store, death, result);
      play(machine_.stage, *store, machine_.ledger, {.seed = seed, .tasks = 2, .rounds = 1});
    } catch (const Error& error) {
      if (!machine_.disk.is_dead()) {
        result.faults.emplace_back(error.what());
      }
    }
  }

  void recover_for_good(std::uint64_t seed, Death death, Result& result) {
    recover_and_live(seed, death, result);
    try {
      const auto store = machine_.open();
      look(*store, Death::kKill, result);
    } catch (const Error& error) {
      result.faults.emplace_back(error.what());
    }
  }

  const World world_;
  Machine machine_;
  const Machine::Moment closed_;
  const Machine::Moment killed_;
};

struct Tally {
  std::uint64_t runs = 0;
  std::uint64_t with_losses_to_power_cuts = 0;
  std::uint64_t with_losses_to_kills = 0;
  std::uint64_t bad = 0;
};

std::optional<std::uint64_t> from_environment(const char* name) {
  const char* const text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? std::nullopt : std::optional<std::uint64_t>(std::stoull(text));
}

class PowerCut : public ::testing::Test {
 protected:
  /// Fails the test for each run that is not `tolerated`, with what replays it.
  template <class Tolerated>
  void judge(const Result& result, std::uint64_t seed, std::uint64_t point, Tolerated tolerated) {
    ++tally_.runs;
    tally_.with_losses_to_power_cuts += result.lost_to_power_cuts > 0 ? 1U : 0U;
    tally_.with_losses_to_kills += result.lost_to_kills > 0 ? 1U : 0U;
    tally_.bad += result.faults.empty() ? 0U : 1U;
    if (tolerated(result)) {
      return;
    }
    ADD_FAILURE() << result.lost_to_power_cuts << " promised batches lost to power cuts, "
                  << result.lost_to_kills << " to kills\n"
                  << text_of(result.faults) << "replay: HOLDFAST_CRASH_SEED=" << seed
                  << " HOLDFAST_CRASH_POINT=" << point << " crash_power_cut_test --gtest_filter="
                  << ::testing::UnitTest::GetInstance()->current_test_info()->test_suite_name()
                  << "." << ::testing::UnitTest::GetInstance()->current_test_info()->name();
  }

  /// Each seed at each of its I/O points, or at one of them by chance.
  enum class Points : std::uint8_t { kAll, kOne };
  template <class Tolerated>
  void crash(const World& world, Points points, std::uint64_t runs, Tolerated tolerated) {
    Runner runner(world);
    const auto start = std::chrono::steady_clock::now();
    if (const auto seed = from_environment("HOLDFAST_CRASH_SEED")) {
      const std::uint64_t point = from_environment("HOLDFAST_CRASH_POINT").value_or(kNever);
      judge(runner.run(*seed, point), *seed, point, tolerated);
      return;
    }
    for (std::uint64_t seed = 0; tally_.runs < runs && failures() < kFailuresMax; ++seed) {
      const std::uint64_t count = points == Points::kAll ? runner.run(seed, kNever).points : 1;
      Dice dice(seed);
      for (std::uint64_t i = 0; i < count; ++i) {
        const std::uint64_t point = points == Points::kAll ? i : dice.below(kTypicalPoints);
        judge(runner.run(seed, point), seed, point, tolerated);
      }
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    std::cout << tally_.runs << " runs, " << tally_.bad << " bad, "
              << tally_.with_losses_to_power_cuts << " with losses to power cuts, "
              << tally_.with_losses_to_kills << " to kills, "
              << static_cast<int>(static_cast<double>(tally_.runs) / took.count()) << " a second\n";
  }

  static constexpr std::uint64_t kTypicalPoints = 120;
  static constexpr int kFailuresMax = 5;

  static int failures() {
    return ::testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count();
  }

  /// A single run that is replayed need not show what many show.
  static bool counts() { return !from_environment("HOLDFAST_CRASH_SEED"); }

  Tally tally_;
};

bool sound(const Result& result) {
  return result.faults.empty() && result.lost_to_power_cuts == 0 && result.lost_to_kills == 0;
}
bool sound_but_for_a_tail(const Result& result) {
  return result.faults.empty() && result.lost_to_kills == 0;
}

TEST_F(PowerCut, AtEveryPointStrictLosesNothingThatWasPromised) {
  crash({}, Points::kAll, kRuns * 2 / 5, sound);
}

TEST_F(PowerCut, AtRandomPointsStrictLosesNothingThatWasPromised) {
  crash({}, Points::kOne, kRuns * 3 / 10, sound);
}

TEST_F(PowerCut, MixedWithKillsStrictLosesNothingThatWasPromised) {
  crash({.death = Death::kEither}, Points::kAll, kRuns / 10, sound);
}

TEST_F(PowerCut, RelaxedLosesATailAndNothingElse) {
  crash({.sync = Sync::kRelaxed}, Points::kAll, kRuns / 10, sound_but_for_a_tail);
  EXPECT_TRUE(tally_.with_losses_to_power_cuts > 0 || !counts()) << "it is not weaker than strict";
}

TEST_F(PowerCut, AKillLosesNothingAtEitherLevel) {
  crash({.death = Death::kKill}, Points::kAll, kRuns / 20, sound);
  tally_ = {};
  crash({.sync = Sync::kRelaxed, .death = Death::kKill}, Points::kAll, kRuns / 20, sound);
}

TEST_F(PowerCut, OnADiskThatLiesAboutSyncsLossesAreFound) {
  crash({.lying_disk = true}, Points::kAll, 500, [](const Result&) { return true; });
  EXPECT_GT(tally_.with_losses_to_power_cuts, 0U);
  EXPECT_GT(tally_.bad, 0U);
}

}  // namespace
}  // namespace holdfast::testing
