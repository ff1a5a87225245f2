// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "args.hpp"
#include "exit_code.hpp"
#include "terminal.hpp"

namespace holdfast::cli {

/// `holdfast explain`: says in sentences who holds a lock and why others wait, or what someone
/// holds and waits for. Throws what the library throws.
[[nodiscard]] ExitCode run_explain_command(Terminal& terminal, const ExplainArgs& args);

}  // namespace holdfast::cli
