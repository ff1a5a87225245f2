// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <holdfast/store.hpp>

#include "entry_tree.hpp"
#include "files.hpp"
#include "layout.hpp"

namespace holdfast::detail {

// For one who keeps others from changing entries. Throws `FileError`.

/// Reads all files, and compares what is in them with each other and with their names.
[[nodiscard]] CheckReport check_files(const Files& files, const Layout& layout);

[[nodiscard]] StoreStats stats_of_files(const Files& files, const Layout& layout);

}  // namespace holdfast::detail
