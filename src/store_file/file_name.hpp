// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::detail {

/// The longest name of a file or folder is this and a few bytes more.
inline constexpr std::size_t kNamePartBytesMax = 200;
/// No name of a key of up to 2,048 bytes is longer than this.
inline constexpr std::size_t kNameBytesMax = 2'800;

/// The name of the file that has the entry of `key`, as a path below the folder of the entries:
/// `account%2F1.json`. Letters, digits, `-`, `_` and a `.` that is not the first byte stand for
/// themselves, all else is %XX. If that would be too long for a path it is base64 behind a `=`.
/// What has more than 200 bytes is cut into folders, whose names end with `+`.
[[nodiscard]] std::string file_name_of(std::string_view key);

/// The key with this file name; nothing if there is none.
[[nodiscard]] std::optional<std::string> key_of_file_name(std::string_view name);

}  // namespace holdfast::detail
