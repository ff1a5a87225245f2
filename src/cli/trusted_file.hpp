// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace holdfast::cli {

/// All of a small file that nobody but this user and root can have written; nothing if there is no
/// file. Throws `ConfigError` if somebody else may change it, or put another one in its place, or
/// if it cannot be read.
[[nodiscard]] std::optional<std::string> read_trusted_file(const std::filesystem::path& file);

}  // namespace holdfast::cli
