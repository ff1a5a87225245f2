// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <holdfast/run_inspection.hpp>

#include "args.hpp"
#include "lock_facts.hpp"
#include "terminal.hpp"

namespace holdfast::cli {

/// What a process holds and waits for, by its name.
[[nodiscard]] Task<void> explain_process(Terminal& terminal, const ExplainArgs& args, Store& store,
                                         const Locks& locks, std::string name);
/// How a run stands, what it holds, and what it waits for.
[[nodiscard]] Task<void> explain_run(Terminal& terminal, const ExplainArgs& args, Store& store,
                                     const Locks& locks, RunInspection run);

}  // namespace holdfast::cli
