// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <holdfast/store.hpp>

#include "documents.hpp"
#include "files.hpp"
#include "layout.hpp"

namespace holdfast::detail {

/// The entries as they are on the disk, for one who keeps others from changing them. Throws
/// `FileError` and `StoreCorrupt`.
class EntryTree {
 public:
  EntryTree(const Files& files, const Layout& layout) noexcept : files_(files), layout_(layout) {}

  [[nodiscard]] std::optional<StoredEntry> find(std::string_view key) const;
  [[nodiscard]] Page scan(std::string_view prefix, std::string_view after, std::size_t limit) const;

  /// Calls back with each file, by its name below `entries`, and with the key that has this name.
  using OnFile = std::function<void(const std::string& name, std::optional<std::string> key)>;
  void for_each_file(const OnFile& on_file) const;

 private:
  void walk(const std::string& below, const OnFile& on_file) const;
  [[nodiscard]] std::vector<Files::Item> items(const std::string& below) const;
  [[nodiscard]] std::vector<std::string> keys(std::string_view prefix,
                                              std::string_view after) const;

  const Files& files_;
  const Layout& layout_;
};

}  // namespace holdfast::detail
