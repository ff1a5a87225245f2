// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "terminal.hpp"

namespace holdfast::cli {

using Row = std::vector<std::string>;

/// How many letters `text`, which is valid UTF-8, has.
[[nodiscard]] std::size_t letters_of(std::string_view text) noexcept;

/// A line for each row. Columns are as wide as they need to be, with two spaces between them.
[[nodiscard]] std::vector<std::string> table_lines(const std::vector<Row>& rows,
                                                   std::string_view margin = {});

/// The first row is the heading.
void print_table(Terminal& terminal, const std::vector<Row>& rows, std::string_view margin = {});

}  // namespace holdfast::cli
