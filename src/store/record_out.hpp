// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/message_lite.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include <holdfast/batch.hpp>

namespace holdfast::detail {

/// Writes a record as protobuf does, byte for byte if the fields come in the order of their
/// numbers, but straight from where they are: for a row that is written with each change, to copy
/// them into a message first takes longer than all else. A field whose value is that of one which
/// is not there is left out.
///
/// ```
/// RecordOut out(value);
/// out.number(record::GateWaiter::kFormatFieldNumber, kGateFormat);
/// out.text(record::GateWaiter::kHolderFieldNumber, request.holder);
/// ```
///
/// What was written is in the string, behind what was there before, when this object is gone.
class RecordOut {
 public:
  explicit RecordOut(std::string& bytes) : bytes_(bytes), size_(bytes.size()) {
    bytes_.resize(size_ + kRoom);
  }
  RecordOut(const RecordOut&) = delete;
  RecordOut& operator=(const RecordOut&) = delete;
  ~RecordOut() { bytes_.resize(size_); }

  /// Of the types uint, bool and enum.
  void number(int field, std::uint64_t value) {
    if (value != 0) {
      number_that_is_there(field, value);
    }
  }
  /// Of the types int.
  void signed_number(int field, std::int64_t value) {
    number(field, static_cast<std::uint64_t>(value));
  }
  /// Of the types sint.
  void zigzag_number(int field, std::int64_t value) {
    const std::uint64_t twice = static_cast<std::uint64_t>(value) << 1U;
    number(field, value < 0 ? ~twice : twice);
  }
  /// One that may be missing, and is not.
  void number_that_is_there(int field, std::uint64_t value) {
    make_room(2 * kNumberBytesMax);
    add(tag(field, kNumber));
    add(value);
  }
  /// Repeated.
  void numbers(int field, std::span<const std::uint64_t> values) {
    if (!values.empty()) {
      record(field, [&] {
        for (const std::uint64_t value : values) {
          make_room(kNumberBytesMax);
          add(value);
        }
      });
    }
  }
  void text(int field, std::string_view value) {
    if (!value.empty()) {
      text_that_is_there(field, value);
    }
  }
  /// One of several.
  void text_that_is_there(int field, std::string_view value) {
    make_room(2 * kNumberBytesMax + value.size());
    add(tag(field, kSized));
    add(value.size());
    std::memcpy(bytes_.data() + size_, value.data(), value.size());
    size_ += value.size();
  }
  /// A record in this one, whose fields `write` writes.
  template <std::invocable<> Write>
  void record(int field, const Write& write) {
    make_room(2 * kNumberBytesMax);
    add(tag(field, kSized));
    const std::size_t begin = size_;
    write();
    // Now that its size is known, it makes way for that.
    const std::size_t end = size_;
    make_room(kNumberBytesMax);
    add(end - begin);
    std::rotate(at(begin), at(end), at(size_));
  }

 private:
  /// How a field is encoded.
  enum Encoding : std::uint8_t { kNumber = 0, kSized = 2 };
  /// Of a number in groups of seven bits.
  static constexpr std::size_t kNumberBytesMax = 10;
  /// Enough for most records.
  static constexpr std::size_t kRoom = 256;

  [[nodiscard]] static std::uint64_t tag(int field, Encoding encoding) noexcept {
    return static_cast<std::uint64_t>(field) << 3U | encoding;
  }
  [[nodiscard]] std::string::iterator at(std::size_t place) noexcept {
    return bytes_.begin() + static_cast<std::ptrdiff_t>(place);
  }
  void make_room(std::size_t bytes) {
    if (bytes_.size() - size_ < bytes) {
      bytes_.resize(size_ + bytes + kRoom);
    }
  }
  /// There is room for it.
  void add(std::uint64_t number) noexcept {
    for (; number >= 0x80U; number >>= 7U) {
      bytes_[size_++] = static_cast<char>(number | 0x80U);
    }
    bytes_[size_++] = static_cast<char>(number);
  }

  std::string& bytes_;
  std::size_t size_;  // What is behind it is room.
};

/// Without a string in between.
inline void put_record(Batch& batch, std::string_view key,
                       const google::protobuf::MessageLite& record) {
  batch.put_with(key, [&](std::string& bytes) { record.AppendToString(&bytes); });
}

}  // namespace holdfast::detail
