// SPDX-License-Identifier: Apache-2.0
#include "store/news_ring.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <string>

namespace holdfast::detail {
namespace {

using Shared64 = std::atomic_ref<std::uint64_t>;
static_assert(Shared64::is_always_lock_free, "shared between processes");

constexpr std::uint64_t kWordBytes = sizeof(std::uint64_t);

/// A record is this, then each key as its length (u32) and its bytes, then zeros up to a word.
struct RecordHead {
  std::uint32_t bytes;  ///< Of the whole record.
  std::uint32_t keys;   ///< Or kAnything.
  std::uint64_t author;
};
static_assert(sizeof(RecordHead) == 2 * kWordBytes);

constexpr std::uint32_t kAnything = std::numeric_limits<std::uint32_t>::max();

constexpr std::uint64_t whole_words(std::uint64_t bytes) noexcept {
  return (bytes + kWordBytes - 1) / kWordBytes * kWordBytes;
}

/// Nothing if it is over the limit.
std::optional<std::size_t> record_bytes(std::span<const std::string_view> keys) noexcept {
  std::size_t bytes = sizeof(RecordHead);
  for (const std::string_view key : keys) {
    if (key.size() > NewsRing::kRecordBytesMax) {
      return std::nullopt;
    }
    bytes += sizeof(std::uint32_t) + key.size();
    if (bytes > NewsRing::kRecordBytesMax) {
      return std::nullopt;
    }
  }
  return whole_words(bytes);
}

/// Takes values off the front of bytes that may be anything.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  [[nodiscard]] bool empty() const noexcept { return bytes_.empty(); }

  [[nodiscard]] std::optional<std::span<const std::byte>> take(std::size_t count) {
    if (count > bytes_.size()) {
      return std::nullopt;
    }
    const auto taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }

  template <class T>
  [[nodiscard]] bool take_value(T& value) {
    const auto bytes = take(sizeof(T));
    if (bytes) {
      std::memcpy(&value, bytes->data(), sizeof(T));
    }
    return bytes.has_value();
  }

 private:
  std::span<const std::byte> bytes_;
};

bool read_keys(Reader body, std::uint32_t count, std::vector<std::string>& keys) {
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint32_t length = 0;
    if (!body.take_value(length)) {
      return false;
    }
    const auto key = body.take(length);
    if (!key) {
      return false;
    }
    std::string& added = keys.emplace_back(length, '\0');
    std::memcpy(added.data(), key->data(), length);
  }
  return true;
}

/// False if the record makes no sense.
bool read_record(Reader& records, std::uint64_t reader, Neighbours::News& news) {
  RecordHead head{};
  if (!records.take_value(head) || head.bytes < sizeof head || head.bytes % kWordBytes != 0) {
    return false;
  }
  const auto body = records.take(head.bytes - sizeof head);
  if (!body) {
    return false;
  }
  if (head.author == reader) {
    return true;
  }
  if (head.keys == kAnything) {
    news.anything = true;
    return true;
  }
  return read_keys(Reader(*body), head.keys, news.keys);
}

}  // namespace

NewsRing::NewsRing(Positions& positions, Words words)
    : positions_(positions), words_(words), record_(kRecordBytesMax / kWordBytes) {}

std::uint64_t NewsRing::head() const noexcept {
  // Only damage makes it a fraction of a word; then the rest of the arithmetic still holds.
  return Shared64(positions_.head).load(std::memory_order_acquire) / kWordBytes * kWordBytes;
}

std::size_t NewsRing::encode(std::uint64_t author, std::span<const std::string_view> keys) {
  const std::optional<std::size_t> bytes = record_bytes(keys);
  const RecordHead head{static_cast<std::uint32_t>(bytes.value_or(sizeof(RecordHead))),
                        bytes ? static_cast<std::uint32_t>(keys.size()) : kAnything, author};
  record_[head.bytes / kWordBytes - 1] = 0;  // The padding, before the keys cover their part of it.
  char* out = reinterpret_cast<char*>(record_.data());
  std::memcpy(out, &head, sizeof head);
  if (bytes) {
    out += sizeof head;
    for (const std::string_view key : keys) {
      const auto length = static_cast<std::uint32_t>(key.size());
      std::memcpy(out, &length, sizeof length);
      out = std::copy(key.begin(), key.end(), out + sizeof length);
    }
  }
  return head.bytes;
}

void NewsRing::write(std::uint64_t author, std::span<const std::string_view> keys) noexcept {
  const std::size_t bytes = encode(author, keys);
  const std::uint64_t begin = head();
  // A writer that died in the middle may have overwritten more than this record will: what it
  // reserved stays reserved. More than a record can need is damage.
  const Shared64 reserved(positions_.reserved);
  const std::uint64_t left_over = reserved.load(std::memory_order_relaxed) - begin;
  const bool keep = left_over <= kRecordBytesMax && left_over > bytes;
  reserved.store(begin + (keep ? left_over : bytes), std::memory_order_relaxed);
  for (std::size_t i = 0; i < bytes / kWordBytes; ++i) {
    // Release: whoever reads such a word finds it reserved.
    Shared64(words_[(begin / kWordBytes + i) % kWords])
        .store(record_[i], std::memory_order_release);
  }
  Shared64(positions_.head).store(begin + bytes, std::memory_order_release);
}

std::vector<std::uint64_t> NewsRing::copy(std::uint64_t from, std::uint64_t bytes) const {
  std::vector<std::uint64_t> words(bytes / kWordBytes);
  for (std::size_t i = 0; i < words.size(); ++i) {
    // Acquire, so that `reserved` is read after all of them; a fence is beyond ThreadSanitizer.
    words[i] = Shared64(words_[(from / kWordBytes + i) % kWords]).load(std::memory_order_acquire);
  }
  return words;
}

std::optional<Neighbours::News> NewsRing::read(std::uint64_t& position,
                                               std::uint64_t reader) const {
  const std::uint64_t from = position;
  position = head();
  if (position == from) {
    return std::nullopt;
  }
  Neighbours::News missed{.anything = true, .keys = {}};
  if (position - from > kBytes) {
    return missed;
  }
  // What is judged is a copy: the original may change between a check and its use.
  const std::vector<std::uint64_t> words = copy(from, position - from);
  if (Shared64(positions_.reserved).load(std::memory_order_relaxed) - from > kBytes) {
    return missed;
  }
  Neighbours::News news;
  for (Reader records(std::as_bytes(std::span(words))); !records.empty();) {
    if (!read_record(records, reader, news)) {
      return missed;
    }
  }
  if (!news.anything && news.keys.empty()) {
    return std::nullopt;
  }
  return news;
}

}  // namespace holdfast::detail
