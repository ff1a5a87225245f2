// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace holdfast::detail {

/// `bytes` in quotes for a message: what is no printable ASCII as \xNN, and the middle left out of
/// what is longer than `bytes_max`.
[[nodiscard]] std::string printable(std::string_view bytes, std::size_t bytes_max = 80);

}  // namespace holdfast::detail
