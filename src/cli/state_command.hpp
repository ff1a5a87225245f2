// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stop_token>

#include "args.hpp"
#include "exit_code.hpp"
#include "terminal.hpp"

namespace holdfast::cli {

/// `holdfast state ...`, but for `watch`. Prints what it found or made, and says on standard error
/// what is not there or not as expected. Throws what the library throws.
[[nodiscard]] ExitCode run_state_command(Terminal& terminal, const StateArgs& args);
/// `holdfast state watch`, until it is asked to stop.
[[nodiscard]] ExitCode watch_state(Terminal& terminal, const StateArgs& args,
                                   const std::stop_token& stop);

}  // namespace holdfast::cli
