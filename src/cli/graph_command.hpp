// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "args.hpp"
#include "exit_code.hpp"
#include "terminal.hpp"

namespace holdfast::cli {

/// `holdfast graph`: prints who waits for whom. Throws what the library throws.
[[nodiscard]] ExitCode run_graph_command(Terminal& terminal, const GraphArgs& args);

}  // namespace holdfast::cli
