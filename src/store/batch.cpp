// SPDX-License-Identifier: Apache-2.0
#include <holdfast/batch.hpp>

#include <iterator>
#include <utility>

namespace holdfast {

Batch& Batch::add_condition(Kind kind, std::string_view key, Version version) {
  if (conditions_.empty()) {
    conditions_.reserve(4);  // There is often a guard besides, and a row that is built on.
  }
  conditions_.push_back({kind, std::string(key), version});
  bytes_ += key.size();
  return *this;
}

Batch& Batch::require_absent(std::string_view key) { return add_condition(Kind::kAbsent, key, 0); }

Batch& Batch::require_new(std::string_view key) { return add_condition(Kind::kNew, key, 0); }

Batch& Batch::require_version(std::string_view key, Version version) {
  return add_condition(Kind::kVersion, key, version);
}

Batch& Batch::guard(std::string_view key, Version version) {
  return add_condition(Kind::kGuard, key, version);
}

Batch& Batch::put(std::string_view key, std::string_view value) {
  return put_owned(std::string(key), std::string(value));
}

Batch& Batch::put_new(std::string key, std::string value) {
  return put_owned(std::move(key), std::move(value), true);
}

Batch& Batch::put_owned(std::string key, std::string value, bool is_new) {
  if (writes_.empty()) {
    writes_.reserve(8);
  }
  bytes_ += key.size() + value.size();
  writes_.push_back({std::move(key), std::move(value), is_new});
  return *this;
}

Batch& Batch::erase(std::string_view key) { return erase_owned(std::string(key)); }

Batch& Batch::erase_owned(std::string key) {
  bytes_ += key.size();
  writes_.push_back({std::move(key), std::nullopt});
  return *this;
}

Batch& Batch::append(Batch other) {
  if (conditions_.empty() && writes_.empty()) {
    return *this = std::move(other);
  }
  conditions_.insert(conditions_.end(), std::make_move_iterator(other.conditions_.begin()),
                     std::make_move_iterator(other.conditions_.end()));
  writes_.insert(writes_.end(), std::make_move_iterator(other.writes_.begin()),
                 std::make_move_iterator(other.writes_.end()));
  bytes_ += other.bytes_;
  return *this;
}

}  // namespace holdfast
