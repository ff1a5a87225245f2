// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "args.hpp"
#include "signals.hpp"
#include "terminal.hpp"

namespace holdfast::cli {

/// `holdfast top`: shows the locks of a store until it is told to end; without a terminal, once.
/// Call it on the main thread, with `signals` made before all other threads. The exit code. Throws
/// what the library throws.
[[nodiscard]] int run_top_command(Terminal& terminal, const TopArgs& args, const Signals& signals);

}  // namespace holdfast::cli
