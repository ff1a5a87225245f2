// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <holdfast/store.hpp>
#include <holdfast/task.hpp>

#include "args.hpp"
#include "exit_code.hpp"
#include "terminal.hpp"

namespace holdfast::cli {

/// `holdfast locks history`: holds that have ended and operators' changes, the last first.
[[nodiscard]] Task<ExitCode> show_history(Terminal& terminal, const LocksArgs& args, Store& store);

}  // namespace holdfast::cli
