// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace holdfast::cli {

/// Where the locks are of a user who names no store: holdfast/locks.db in the folder for state,
/// XDG_STATE_HOME or ~/.local/state. Throws `UsageError` if there is no such folder to be known.
[[nodiscard]] std::filesystem::path own_store_path();
/// Its URL. With `make`, its folder is made, for this user alone.
[[nodiscard]] std::string own_store_url(bool make);

}  // namespace holdfast::cli
