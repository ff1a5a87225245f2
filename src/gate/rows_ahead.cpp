// SPDX-License-Identifier: Apache-2.0
#include "rows_ahead.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include <holdfast/detail/check.hpp>

namespace holdfast::detail {

namespace {

constexpr std::size_t kChunkBytes = std::size_t{64} << 10;

struct Lengths {
  std::size_t key;
  std::size_t value;
};
constexpr std::size_t kLengthBytes = sizeof(Lengths);

}  // namespace

void RowsAhead::push(std::string_view key, std::string_view value) {
  const std::size_t bytes = kLengthBytes + key.size() + value.size();
  if (chunks_.empty() || chunks_.back().capacity() - chunks_.back().size() < bytes) {
    chunks_.emplace_back().reserve(std::max(kChunkBytes, bytes));
  }
  const Lengths lengths{key.size(), value.size()};
  std::array<char, kLengthBytes> head{};
  std::memcpy(head.data(), &lengths, kLengthBytes);
  chunks_.back().append(head.data(), kLengthBytes).append(key).append(value);
  last_key_.assign(key);
  ++size_;
}

void RowsAhead::pop(Entry& into) {
  HOLDFAST_CHECK(size_ > 0, "a row was taken that is not there");
  const char* const at = chunks_.front().data() + read_;
  Lengths lengths{};
  std::memcpy(&lengths, at, kLengthBytes);
  into.key.assign(at + kLengthBytes, lengths.key);
  into.value.assign(at + kLengthBytes + lengths.key, lengths.value);
  read_ += kLengthBytes + lengths.key + lengths.value;
  --size_;
  if (read_ == chunks_.front().size()) {
    chunks_.pop_front();
    read_ = 0;
  }
}

void RowsAhead::clear() noexcept {
  chunks_.clear();
  read_ = 0;
  size_ = 0;
}

}  // namespace holdfast::detail
