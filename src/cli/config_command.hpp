// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "args.hpp"
#include "terminal.hpp"

namespace holdfast::cli {

/// `holdfast config show`: each setting, what it is, and who says so. Throws `ConfigError`.
void show_config(Terminal& terminal, const ConfigArgs& args);

}  // namespace holdfast::cli
