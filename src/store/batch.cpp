// SPDX-License-Identifier: Apache-2.0
#include <holdfast/batch.hpp>

#include <iterator>
#include <utility>

namespace holdfast {

Batch& Batch::require_absent(std::string_view key) {
  conditions_.push_back({Kind::kAbsent, std::string(key)});
  bytes_ += key.size();
  return *this;
}

Batch& Batch::require_version(std::string_view key, Version version) {
  conditions_.push_back({Kind::kVersion, std::string(key), version});
  bytes_ += key.size();
  return *this;
}

Batch& Batch::guard(std::string_view key, Version version) {
  conditions_.push_back({Kind::kGuard, std::string(key), version});
  bytes_ += key.size();
  return *this;
}

Batch& Batch::put(std::string_view key, std::string_view value) {
  return put_owned(key, std::string(value));
}

Batch& Batch::put_owned(std::string_view key, std::string value) {
  bytes_ += key.size() + value.size();
  writes_.push_back({std::string(key), std::move(value)});
  return *this;
}

Batch& Batch::erase(std::string_view key) {
  writes_.push_back({std::string(key), std::nullopt});
  bytes_ += key.size();
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
