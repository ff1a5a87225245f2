// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace holdfast::detail {

/// `bytes` in quotes for a message: what is no printable ASCII as \xNN, and the middle of a long
/// one left out.
[[nodiscard]] std::string printable(std::string_view bytes);

}  // namespace holdfast::detail
