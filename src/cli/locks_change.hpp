// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <holdfast/store.hpp>
#include <holdfast/task.hpp>

#include "args.hpp"
#include "exit_code.hpp"
#include "terminal.hpp"

namespace holdfast::cli {

/// `holdfast locks release`: ends a hold by force, after a question unless told not to ask.
[[nodiscard]] Task<ExitCode> release_lock(Terminal& terminal, const LocksArgs& args, Store& store);
/// The other changes: prints the lock as it is afterwards.
[[nodiscard]] Task<ExitCode> change_lock(Terminal& terminal, const LocksArgs& args, Store& store);

}  // namespace holdfast::cli
