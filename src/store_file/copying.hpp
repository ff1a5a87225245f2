// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "documents.hpp"
#include "files.hpp"
#include "layout.hpp"

namespace holdfast::detail {

/// Copies a store to `target`, which must not exist, with `record` as its record; for one who has
/// the turn to write. Whatever happens there is a whole copy at `target`, or nothing. Throws
/// `InvalidArgument`, `StoreCorrupt` and `FileError`.
void copy_store(const Files& files, const Layout& from, const StoreRecord& record,
                const std::filesystem::path& target);

}  // namespace holdfast::detail
