// SPDX-License-Identifier: Apache-2.0
#include "table.hpp"

#include <algorithm>
#include <cstddef>

#include <fmt/core.h>

namespace holdfast::cli {

void print_table(Terminal& terminal, const std::vector<Row>& rows, std::string_view margin) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  for (const Row& row : rows) {
    std::string line(margin);
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += fmt::format("{:<{}}", row[i], i + 1 < row.size() ? widths[i] + 2 : 0);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    terminal.line(&row == &rows.front() ? terminal.paint(Colour::kBold, line) : line);
  }
}

}  // namespace holdfast::cli
