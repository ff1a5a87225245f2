// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <holdfast/batch.hpp>

namespace holdfast::detail {

/// What is known of a key.
struct Known {
  std::optional<std::string> value;  ///< Nothing: it does not exist.
  Version version = 0;
};

using Rows = std::map<std::string, Known, std::less<>>;

/// The row of `key`, or null. Keys that are made in their order are beyond the last one, which is
/// seen at once.
[[nodiscard]] const Known* find_row(const Rows& rows, std::string_view key);

/// What the disk has, as far as it need not be read again: what was used lately, in bounded memory.
class KnownRows {
 public:
  [[nodiscard]] const Known* find(std::string_view key);
  void add(std::string key, Known known);
  void add(Rows rows);
  /// There is no row from `first` up to, and without, `end`; nothing: to the very end.
  void add_gap(std::string first, std::optional<std::string> end);
  /// Forgets what is too much. Until then, what was added is found.
  void trim();
  void clear() noexcept;

 private:
  static constexpr std::size_t kRowsMax = 8'192;
  static constexpr std::size_t kManyRows = 128;
  static constexpr std::size_t kBytesMax = std::size_t{8} << 20;
  static constexpr std::size_t kGapsMax = 64;

  [[nodiscard]] bool in_gap(std::string_view key) const;
  void shorten_gaps(const Rows& rows);
  void forget_old() noexcept;
  void count(const Known& known) noexcept { bytes_ += known.value ? known.value->size() : 0; }

  // Rows that were not used while the young generation filled up are forgotten together.
  Rows young_;
  Rows old_;
  std::size_t bytes_ = 0;  // Of the young ones' values, at least.
  std::map<std::string, std::optional<std::string>, std::less<>>
      gaps_;  // From the first to the end.
};

}  // namespace holdfast::detail
