// SPDX-License-Identifier: Apache-2.0
#include <holdfast/batch.hpp>

#include <algorithm>
#include <utility>
#include <vector>

#include <holdfast/detail/check.hpp>

namespace holdfast {

namespace {

/// A first piece of memory for a few operations, so that it need not grow with each.
constexpr std::size_t kFirstConditions = 8;
constexpr std::size_t kFirstWrites = 16;
constexpr std::size_t kFirstBytes = 2'048;

/// The keys have moved by so much.
template <class Record>
void shift(std::vector<Record>& records, std::size_t by) noexcept {
  for (Record& record : records) {
    record.key_at += by;
  }
}

template <class Record>
void append_records(std::vector<Record>& records, std::vector<Record>& others) {
  if (records.empty()) {
    records = std::move(others);
  } else {
    records.insert(records.end(), others.begin(), others.end());
  }
}

/// The old memory is there until both are copied: they may lie in it. Not inlined, because there is
/// room most of the time.
[[gnu::noinline]] void append_to_more_memory(std::string& bytes, std::string_view key,
                                             std::string_view value) {
  std::string grown;
  const std::size_t size = bytes.size() + key.size() + value.size();
  grown.reserve(std::max({size, 2 * bytes.size(), kFirstBytes}));
  grown.append(bytes).append(key).append(value);
  bytes.swap(grown);
}

}  // namespace

std::size_t Batch::add_bytes(std::string_view key, std::string_view value) {
  const std::size_t at = bytes_.size();
  if (bytes_.capacity() - at < key.size() + value.size()) {
    append_to_more_memory(bytes_, key, value);
  } else {
    bytes_.append(key);
    if (!value.empty()) {
      bytes_.append(value);
    }
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
  // Of the bytes those are moved that are fewer: their order is of no account.
  const bool is_larger = other.bytes_.size() > bytes_.size();
  if (is_larger) {
    bytes_.swap(other.bytes_);
  }
  const std::size_t at = add_bytes(other.bytes_, {});
  shift(is_larger ? conditions_ : other.conditions_, at);
  shift(is_larger ? writes_ : other.writes_, at);
  append_records(conditions_, other.conditions_);
  append_records(writes_, other.writes_);
  return *this;
}

}  // namespace holdfast
