// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "args.hpp"
#include "exit_code.hpp"
#include "terminal.hpp"

namespace holdfast::cli {

/// `holdfast locks`: prints who holds the locks of a store, which must exist unless it is the
/// user's own, and who waits; or changes one of them. Throws what the library throws.
[[nodiscard]] ExitCode run_locks_command(Terminal& terminal, const LocksArgs& args);

}  // namespace holdfast::cli
