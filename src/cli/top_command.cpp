// SPDX-License-Identifier: Apache-2.0
#include "top_command.hpp"
namespace holdfast::cli {
int run_top_command(Terminal&, const TopArgs&, const Signals&) { return 0; }
}  // namespace holdfast::cli
