// SPDX-License-Identifier: Apache-2.0
#include "known_rows.hpp"

namespace holdfast::detail {

const Known* KnownRows::find(std::string_view key) {
  if (const auto found = young_.find(key); found != young_.end()) {
    return &found->second;
  }
  const auto found = old_.find(key);
  if (found == old_.end()) {
    return nullptr;
  }
  count(found->second);
  return &young_.insert(old_.extract(found)).position->second;
}

void KnownRows::add(std::string key, Known known) {
  count(known);
  young_.insert_or_assign(std::move(key), std::move(known));
}

void KnownRows::add(Rows rows) {
  for (const auto& [key, known] : rows) {
    count(known);
  }
  // Of a key that both have, `rows` has the newer one, and merge() keeps what is in its target.
  rows.merge(young_);
  young_.swap(rows);
}

void KnownRows::trim() {
  if (young_.size() > kRowsMax || bytes_ > kBytesMax) {
    old_.swap(young_);
    young_.clear();
    bytes_ = 0;
  }
}

void KnownRows::clear() noexcept {
  young_.clear();
  old_.clear();
  bytes_ = 0;
}

}  // namespace holdfast::detail
