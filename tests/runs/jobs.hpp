// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <boost/describe/class.hpp>
#include <holdfast/store.hpp>
#include <holdfast/task.hpp>
#include <holdfast/workflow.hpp>

namespace holdfast::testing {

/// What a run has to do. `name` is of one job, so that each of its effects has a name.
struct Job {
  std::string name;
  std::int64_t rounds = 0;
};
BOOST_DESCRIBE_STRUCT(Job, (), (name, rounds))

/// A cell that all runs add to; each round of each job adds its number, from 1 on.
inline constexpr std::string_view kSumCell = "sum";
/// What the rounds of a job add up to: its result, and its part of the cell.
[[nodiscard]] inline std::int64_t sum_of(std::int64_t rounds) { return rounds * (rounds + 1) / 2; }

/// Where effects go, outside of the runs: a store that knows each by its key.
///
/// `effect/KEY` has the name of the effect, and `attempt/KEY/PROCESS/N` is a time that somebody
/// asked for it.
class EffectLedger {
 public:
  EffectLedger(Store& store, std::string process) : store_(store), process_(std::move(process)) {}

  [[nodiscard]] Task<void> enter(std::string key, std::string name);

 private:
  Store& store_;
  const std::string process_;
  std::atomic<std::uint64_t> attempts_ = 0;
};

/// Of the process; the workflows use it.
extern EffectLedger* effect_ledger;

/// One round after the other: an effect, a change of the cell, now and then a pause, a step that
/// blocks or one that fails at first.
extern const Workflow<Job, std::int64_t> kRoundsJob;
/// Rounds in two children of half as many.
extern const Workflow<Job, std::int64_t> kFamilyJob;
/// Each round when a signal `round` has come.
extern const Workflow<Job, std::int64_t> kSignalJob;
/// Each round in a run of its own, which the one before continues as.
struct ChainJob {
  Job job;
  std::int64_t done = 0;
};
BOOST_DESCRIBE_STRUCT(ChainJob, (), (job, done))
extern const Workflow<ChainJob, std::int64_t> kChainJob;

}  // namespace holdfast::testing
