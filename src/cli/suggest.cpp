// SPDX-License-Identifier: Apache-2.0
#include "suggest.hpp"

#include <algorithm>
#include <cstddef>

namespace holdfast::cli {

namespace {

/// How many letters must be changed, added, left out, or swapped with their neighbour.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> table(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        table[i][j] = i + j;
        continue;
      }
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      table[i][j] =
          std::min({table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        table[i][j] = std::min(table[i][j], table[i - 2][j - 2] + 1);
      }
    }
  }
  return table.back().back();
}

}  // namespace

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& known) {
  constexpr std::size_t kWordSizeMax = 100;  // Nothing of ours is nearly as long.
  std::optional<std::string> found;
  std::size_t found_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  if (word.size() > kWordSizeMax) {
    return found;
  }
  for (const std::string& one : known) {
    // The beginning of a word stands for it, too.
    const bool begins = word.size() >= 2 && one.starts_with(word);
    const std::size_t far = begins ? 0 : distance(word, one);
    if (far < found_distance && far < one.size()) {
      found = one;
      found_distance = far;
    }
  }
  return found;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  const auto found = nearest(word, known);
  return found ? "; did you mean '" + *found + "'?" : std::string{};
}

}  // namespace holdfast::cli
