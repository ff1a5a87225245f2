// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace holdfast::detail {

/// What the keys of all cells begin with.
inline constexpr std::string_view kCellPrefix = "cell/";

/// `text` as one part of a key. Throws `InvalidArgument`, saying that `what` is empty or too long.
[[nodiscard]] std::string checked_key_part(std::string_view what, std::string_view text);

/// What the keys of the cells of one user, run or the like begin with, and no others. Throws
/// `InvalidArgument` for an id that is empty or too long.
[[nodiscard]] std::string scope_prefix(std::string_view kind, std::string_view id);
[[nodiscard]] std::string global_prefix();

}  // namespace holdfast::detail
