// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <holdfast/workflow.hpp>

#include "tests/runs/jobs.hpp"

namespace holdfast::testing {

inline constexpr std::int64_t kMovedPerRound = 10;

/// Each round moves some money from account `a` to account `b`, and notes its number in `move`, in
/// tables of the runs' own store, which its first transaction makes.
extern const Workflow<Job, std::int64_t> kTransferJob;

/// Of the process: a file that gets a line when the SQL of a round is done, before its commit.
extern std::string transfer_notes;
/// Called then, with the number of the round.
extern std::function<void(std::int64_t round)> after_transfer_sql;

}  // namespace holdfast::testing
