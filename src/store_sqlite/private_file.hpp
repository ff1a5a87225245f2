// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <system_error>

namespace holdfast::detail {

/// Makes an empty file that only its owner can read and write; false if something is there already.
/// Throws `InvalidArgument`, `NoAccess` or `StoreFull` if it cannot be made.
bool create_private_file(const std::filesystem::path& path);

/// Throws `InvalidArgument` if `path` is no regular file, or others than its owner may write to it,
/// and `NoAccess` if it cannot be seen.
void check_private_file(const std::filesystem::path& path);

/// What `error`, of the system, says of `path`: `NoAccess` or `InvalidArgument`.
[[noreturn]] void refuse_path(const std::filesystem::path& path, std::error_code error);

/// Makes the creation or renaming of `path` durable.
void sync_folder_of(const std::filesystem::path& path);

}  // namespace holdfast::detail
