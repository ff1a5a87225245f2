// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <holdfast/commit_outcome.hpp>

#include "store/store_time.hpp"

namespace holdfast::detail {

// The files of a file store as JSON texts; docs/formats/file_store.md describes them. Each carries
// a checksum of what it says, not of how it is spelled. Those that read throw `StoreCorrupt`,
// naming the file, for what is damaged.

inline constexpr std::uint32_t kFileFormat = 1;

/// `store.json`: what there is one of.
struct StoreRecord {
  Version sequence = 0;  ///< Of the last commit.
  Version ceiling = 0;   ///< No greater version was handed out.
  TimeRecord time;
  std::uint64_t entries = 0;
  std::uint64_t digest = 0;  ///< The sum of the checksums of all entries.

  bool operator==(const StoreRecord&) const = default;
};

struct StoredEntry {
  Entry entry;
  std::uint64_t check = 0;
};

/// `journal.json`: a transaction, and what the store is after it.
struct Journal {
  struct Change {
    std::string key;
    std::optional<std::string> value;  ///< Nothing: it is erased.
    Version version = 0;

    bool operator==(const Change&) const = default;
  };
  StoreRecord store;
  std::vector<Change> changes;
};

[[nodiscard]] std::uint64_t check_of(std::string_view key, std::string_view value,
                                     Version version) noexcept;

[[nodiscard]] std::string to_text(const StoreRecord& record);
[[nodiscard]] std::string to_text(const Journal& journal);
[[nodiscard]] std::string entry_text(std::string_view key, std::string_view value, Version version);

/// Throws `NotAStore` for a document of somebody else, and `NewerFormat`.
[[nodiscard]] StoreRecord to_store_record(std::string_view text, const std::filesystem::path& file);
[[nodiscard]] Journal to_journal(std::string_view text, const std::filesystem::path& file);
[[nodiscard]] StoredEntry to_entry(std::string_view text, const std::filesystem::path& file);

}  // namespace holdfast::detail
