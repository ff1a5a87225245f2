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

/// Rows that need not be read again: what was used lately, in bounded memory. Rows that were not
/// used while the young generation filled up are forgotten all at once, when it becomes the old
/// one.
class KnownRows {
 public:
  [[nodiscard]] const Known* find(std::string_view key);
  void add(std::string key, Known known);
  void add(Rows rows);
  /// Forgets what is too much. Until then, what was added is found.
  void trim();
  void clear() noexcept;

 private:
  static constexpr std::size_t kRowsMax = 8'192;
  static constexpr std::size_t kBytesMax = std::size_t{8} << 20;

  void count(const Known& known) noexcept { bytes_ += known.value ? known.value->size() : 0; }

  Rows young_;
  Rows old_;
  std::size_t bytes_ = 0;  // Of the young ones' values, at least.
};

}  // namespace holdfast::detail
