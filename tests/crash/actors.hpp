// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <holdfast/store.hpp>
#include <holdfast/task.hpp>

#include "tests/crash/dice.hpp"
#include "tests/crash/ledger.hpp"
#include "tests/crash/stage.hpp"

namespace holdfast::testing {

struct Play {
  std::uint64_t seed = 0;
  unsigned tasks = 3;
  unsigned rounds = 4;             ///< Of each task: one commit, or a chain of applied batches.
  bool go_on_after_error = false;  ///< Otherwise the first one ends a task.
};

/// Puts, overwrites and erases of a few keys that all tasks share; some values take several pages.
[[nodiscard]] Batch random_writes(Dice& dice);

/// Tasks that commit by the seed, and note everything. Returns when all have ended.
void play(Stage& stage, Store& store, Ledger& ledger, const Play& by);

[[nodiscard]] std::vector<Entry> read_all(Executor& executor, Store& store);

}  // namespace holdfast::testing
