// SPDX-License-Identifier: Apache-2.0
// What the disk of the working directory and SQLite give by themselves: peers of benchmarks.
#pragma once

#include <filesystem>

#include "base/temp_folder.hpp"

namespace holdfast::bench {

/// On the disk of the working directory: that of the temporary ones may be none.
struct DiskFolder : testing::TempFolder {
  DiskFolder() : TempFolder(std::filesystem::current_path()) {}
  [[nodiscard]] std::filesystem::path file() const { return path() / "store.db"; }
};

/// How often a second a block of a small file can be written and synced.
[[nodiscard]] double syncs_per_second();

/// Transactions of one small record, at full sync.
[[nodiscard]] double raw_commits_per_second();
[[nodiscard]] double raw_commit_us();

}  // namespace holdfast::bench
