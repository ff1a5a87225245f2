// SPDX-License-Identifier: Apache-2.0
#include "table.hpp"

#include <algorithm>

namespace holdfast::cli {

std::size_t letters_of(std::string_view text) noexcept {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0U) != 0x80U; }));
}

std::vector<std::string> table_lines(const std::vector<Row>& rows, std::string_view margin) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], letters_of(row[i]));
    }
  }
  std::vector<std::string> lines;
  lines.reserve(rows.size());
  for (const Row& row : rows) {
    std::string& line = lines.emplace_back(margin);
    for (std::size_t i = 0; i < row.size(); ++i) {
      line.append(row[i]).append(widths[i] + 2 - letters_of(row[i]), ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
  }
  return lines;
}

void print_table(Terminal& terminal, const std::vector<Row>& rows, std::string_view margin) {
  bool heading = true;
  for (const std::string& line : table_lines(rows, margin)) {
    terminal.line(heading ? terminal.paint(Colour::kBold, line) : line);
    heading = false;
  }
}

}  // namespace holdfast::cli
