// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "file_name.hpp"

namespace holdfast::detail {

/// What is where in the folder of a file store.
class Layout {
 public:
  using Path = std::filesystem::path;

  static constexpr std::string_view kStore = "store.json";
  static constexpr std::string_view kNewStore = "store.json.new";
  static constexpr std::string_view kJournal = "journal.json";
  static constexpr std::string_view kNewJournal = "journal.json.new";
  static constexpr std::string_view kEntries = "entries";
  static constexpr std::string_view kNewEntries = "new";
  static constexpr std::string_view kReadersLock = "readers.lock";
  static constexpr std::string_view kSidecar = "hold";

  explicit Layout(Path folder) : folder_(std::move(folder)) {}

  [[nodiscard]] const Path& folder() const noexcept { return folder_; }
  [[nodiscard]] Path store() const { return folder_ / kStore; }
  [[nodiscard]] Path new_store() const { return folder_ / kNewStore; }
  [[nodiscard]] Path journal() const { return folder_ / kJournal; }
  [[nodiscard]] Path new_journal() const { return folder_ / kNewJournal; }
  [[nodiscard]] Path entries() const { return folder_ / kEntries; }
  [[nodiscard]] Path entry(std::string_view key) const { return entries() / file_name_of(key); }
  /// Entries that are written, but not in their places yet, by the number of their change.
  [[nodiscard]] Path new_entries() const { return folder_ / kNewEntries; }
  [[nodiscard]] Path new_entry(std::size_t change) const {
    return new_entries() / std::to_string(change);
  }
  [[nodiscard]] Path readers_lock() const { return folder_ / kReadersLock; }
  [[nodiscard]] Path sidecar() const { return folder_ / kSidecar; }

 private:
  Path folder_;
};

}  // namespace holdfast::detail
