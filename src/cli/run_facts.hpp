// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <holdfast/run_inspection.hpp>

namespace holdfast::cli {

// What is told of runs. For people, and safe on a terminal, but for the last.

/// "run order-7 (pay)".
[[nodiscard]] std::string full_name(const RunInfo& run);
/// "running for 3m 2s, queue 'default', partition 4", "failed 3s ago: no route".
[[nodiscard]] std::string summary_of(const RunInspection& seen, StoreTime now);
/// "worker (process 4711 on db1) drives it", or why nobody does and what to do.
[[nodiscard]] std::string driver_text(const RunInspection& seen);
/// Somebody does at present.
[[nodiscard]] bool is_driven(const RunInspection& seen) noexcept;

/// What it is at, each behind "it" or "which": "is at step 'charge'", "sleeps for 12s more", "waits
/// for 'm'". Never none, unless it has ended.
struct RunDeed {
  std::string text;
  const RunWaitInfo* wait;  ///< Null: it stands still, is at a step, or nothing is known.
};
[[nodiscard]] std::vector<RunDeed> deeds_of(const RunInspection& seen, StoreTime now);

/// As docs/locks_command.md promises it.
[[nodiscard]] std::string json_run(const RunInspection& seen, StoreTime now);

}  // namespace holdfast::cli
