// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "args.hpp"
#include "signals.hpp"
#include "terminal.hpp"

namespace holdfast::cli {

/// `holdfast lock`: acquires the lock, runs the command, lets go of it; the exit code. Call it on
/// the main thread, with `signals` made before all other threads. Throws what the library throws.
[[nodiscard]] int run_lock_command(Terminal& terminal, const LockArgs& args,
                                   const Signals& signals);

}  // namespace holdfast::cli
