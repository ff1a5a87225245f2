// SPDX-License-Identifier: Apache-2.0
#include <holdfast/batch.hpp>

#include <algorithm>
#include <span>
#include <utility>

#include <holdfast/detail/check.hpp>

namespace holdfast {

namespace {

/// A first piece of memory for a few operations, so that it need not grow with each.
constexpr std::size_t kFirstConditions = 8;
constexpr std::size_t kFirstWrites = 8;
constexpr std::size_t kFirstBytes = 512;

}  // namespace

std::size_t Batch::add_bytes(std::string_view key, std::string_view value) {
  const std::size_t at = bytes_.size();
  const std::size_t size = at + key.size() + value.size();
  if (size <= bytes_.capacity()) {
    bytes_.append(key).append(value);
  } else {
    // The old memory is there until both are copied: they may lie in it.
    std::string grown;
    grown.reserve(std::max({size, 2 * at, kFirstBytes}));
    grown.append(bytes_).append(key).append(value);
    bytes_.swap(grown);
  }
  return at;
}

Batch& Batch::add_condition(Kind kind, std::string_view key, Version version) {
  if (conditions_.empty()) {
    conditions_.reserve(kFirstConditions);
  }
  const std::size_t key_at = add_bytes(key, {});
  conditions_.push_back({key_at, key.size(), version, kind});
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
  return add_write(key, value, Action::kPut);
}

Batch& Batch::put_new(std::string_view key, std::string_view value) {
  return add_write(key, value, Action::kPutNew);
}

Batch& Batch::erase(std::string_view key) { return add_write(key, {}, Action::kErase); }

Batch& Batch::add_write(std::string_view key, std::string_view value, Action action) {
  const std::size_t key_at = add_bytes(key, value);
  return add_write_at(key_at, key.size(), action);
}

Batch& Batch::add_write_at(std::size_t key_at, std::size_t key_size, Action action) {
  HOLDFAST_CHECK(bytes_.size() >= key_at + key_size, "a value was to be added behind its key");
  if (writes_.empty()) {
    writes_.reserve(kFirstWrites);
  }
  writes_.push_back({key_at, key_size, bytes_.size() - key_at - key_size, action});
  return *this;
}

Batch& Batch::append(Batch other) {
  if (size() == 0) {
    return *this = std::move(other);
  }
  const std::size_t at = add_bytes(other.bytes_, {});
  const auto add = [at](auto& records, const auto& others) {
    const std::size_t first = records.size();
    records.insert(records.end(), others.begin(), others.end());
    for (auto& record : std::span(records).subspan(first)) {
      record.key_at += at;
    }
  };
  add(conditions_, other.conditions_);
  add(writes_, other.writes_);
  return *this;
}

}  // namespace holdfast
