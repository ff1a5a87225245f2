// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "store/neighbours.hpp"

namespace holdfast::detail {

/// Published keys in memory that processes share: one writer at a time, any number of readers, who
/// never hold it up. A reader that falls too far behind learns that it missed something.
///
/// The memory is taken for what it is: bytes that others write. Whatever is in it, reading ends,
/// stays within bounds, and yields keys or `anything`. A writer that dies in the middle leaves the
/// ring as it was.
class NewsRing {
 public:
  /// How many bytes were ever written, modulo 2^64; always in whole words.
  struct Positions {
    std::uint64_t head;      ///< Up to here the records are complete.
    std::uint64_t reserved;  ///< Up to here a writer may have begun to overwrite the ring.
  };

  static constexpr std::size_t kBytes = std::size_t{256} * 1024;
  static constexpr std::size_t kWords = kBytes / sizeof(std::uint64_t);
  /// What needs more is published as `anything`: one commit shall not push out all others.
  static constexpr std::size_t kRecordBytesMax = kBytes / 4;
  using Words = std::span<std::uint64_t, kWords>;

  /// Both outlive the ring; zeros are an empty one.
  NewsRing(Positions& positions, Words words);

  /// Where a reader starts that wants all that is published from now on.
  [[nodiscard]] std::uint64_t head() const noexcept;

  /// For one writer at a time, among all processes.
  void write(std::uint64_t author, std::span<const std::string_view> keys) noexcept;

  /// What was written from `position` on by others than `reader`, if anything; `position` moves on.
  /// May run beside `write`.
  [[nodiscard]] std::optional<Neighbours::News> read(std::uint64_t& position,
                                                     std::uint64_t reader) const;

 private:
  [[nodiscard]] std::size_t encode(std::uint64_t author, std::span<const std::string_view> keys);
  [[nodiscard]] std::vector<std::uint64_t> copy(std::uint64_t from, std::uint64_t bytes) const;

  Positions& positions_;
  Words words_;
  std::vector<std::uint64_t> record_;  // Made once: `write` allocates nothing.
};

}  // namespace holdfast::detail
