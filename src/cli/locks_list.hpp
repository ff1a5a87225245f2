// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <holdfast/store.hpp>
#include <holdfast/task.hpp>

#include "args.hpp"
#include "exit_code.hpp"
#include "terminal.hpp"

namespace holdfast::cli {

/// `holdfast locks`: all of them.
[[nodiscard]] Task<ExitCode> list_locks(Terminal& terminal, const LocksArgs& args, Store& store);
/// The same where there is no store.
void list_no_locks(Terminal& terminal, const LocksArgs& args);
/// `holdfast locks show`: all about one.
[[nodiscard]] Task<ExitCode> show_lock(Terminal& terminal, const LocksArgs& args, Store& store);

}  // namespace holdfast::cli
