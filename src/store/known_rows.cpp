// SPDX-License-Identifier: Apache-2.0
#include "known_rows.hpp"

#include <iterator>
#include <vector>

namespace holdfast::detail {

const Known* find_row(const Rows& rows, std::string_view key) {
  if (rows.empty() || rows.rbegin()->first < key) {
    return nullptr;
  }
  const auto found = rows.find(key);
  return found == rows.end() ? nullptr : &found->second;
}

const Known* KnownRows::find(std::string_view key) {
  static const Known kAbsent{};
  if (const Known* known = find_row(young_, key)) {
    return known;
  }
  if (const Known* known = find_row(old_, key)) {
    count(*known);
    return &young_.insert(old_.extract(old_.find(key))).position->second;
  }
  return in_gap(key) ? &kAbsent : nullptr;
}

bool KnownRows::in_gap(std::string_view key) const {
  auto gap = gaps_.upper_bound(key);
  if (gap == gaps_.begin()) {
    return false;
  }
  --gap;
  return !gap->second || key < *gap->second;
}

void KnownRows::add_gap(std::string first, std::optional<std::string> end) {
  gaps_.insert_or_assign(std::move(first), std::move(end));
}

/// Of each gap in which there are rows now, what lies behind them stays: that is where the next
/// keys go if keys are made in their order.
void KnownRows::shorten_gaps(const Rows& rows) {
  std::vector<std::pair<std::string, std::optional<std::string>>> shortened;
  for (auto gap = gaps_.begin(); gap != gaps_.end();) {
    const auto behind = gap->second ? rows.lower_bound(*gap->second) : rows.end();
    const bool hit = behind != rows.begin() && std::prev(behind)->first >= gap->first;
    if (!hit) {
      ++gap;
      continue;
    }
    shortened.emplace_back(std::prev(behind)->first + '\0', std::move(gap->second));
    gap = gaps_.erase(gap);
  }
  for (auto& [first, end] : shortened) {
    gaps_.insert_or_assign(std::move(first), std::move(end));
  }
}

void KnownRows::add(std::string key, Known known) {
  count(known);
  young_.insert_or_assign(std::move(key), std::move(known));
}

void KnownRows::add(Rows rows) {
  shorten_gaps(rows);
  if (rows.size() >= kManyRows) {
    // Taken as it is, and what was young before is old: each row by itself would cost too much.
    forget_old();
    for (const auto& [key, known] : rows) {
      count(known);
    }
    young_ = std::move(rows);
    return;
  }
  while (!rows.empty()) {
    auto row = rows.extract(rows.begin());
    count(row.mapped());
    const auto there = young_.find(row.key());
    if (there == young_.end()) {
      young_.insert(std::move(row));
    } else {
      there->second = std::move(row.mapped());
    }
  }
}

void KnownRows::trim() {
  if (young_.size() > kRowsMax || bytes_ > kBytesMax) {
    forget_old();
  }
  if (gaps_.size() > kGapsMax) {
    gaps_.clear();
  }
}

void KnownRows::forget_old() noexcept {
  old_.swap(young_);
  young_.clear();
  bytes_ = 0;
}

void KnownRows::clear() noexcept {
  young_.clear();
  old_.clear();
  gaps_.clear();
  bytes_ = 0;
}

}  // namespace holdfast::detail
