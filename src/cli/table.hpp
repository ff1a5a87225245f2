// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "terminal.hpp"

namespace holdfast::cli {

using Row = std::vector<std::string>;

/// The first row is the heading. Columns as wide as they need to be, two spaces between them.
void print_table(Terminal& terminal, const std::vector<Row>& rows, std::string_view margin = {});

}  // namespace holdfast::cli
