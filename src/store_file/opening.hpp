// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "files.hpp"
#include "layout.hpp"

namespace holdfast::detail {

/// `given` from the root, without a slash at its end. Throws `InvalidArgument` if it is too long.
[[nodiscard]] std::filesystem::path absolute_folder(const std::filesystem::path& given);

/// The folder of a store, looked at before anything in it is touched: it is one, or is empty, or
/// was made here. Without `create` it must be one. Throws `InvalidArgument`, `NoAccess`,
/// `NoSuchStore`, `NotAStore`, `NewerFormat` or `StoreCorrupt`.
[[nodiscard]] Layout open_folder(const Files& files, const std::filesystem::path& folder,
                                 bool create = true);

}  // namespace holdfast::detail
