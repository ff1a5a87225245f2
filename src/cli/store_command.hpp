// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "args.hpp"
#include "exit_code.hpp"
#include "terminal.hpp"

namespace holdfast::cli {

/// `holdfast store ...`: opens the store, which must exist, does what was asked, and prints the
/// result. Throws what the library throws.
[[nodiscard]] ExitCode run_store_command(Terminal& terminal, const StoreArgs& args);

}  // namespace holdfast::cli
