// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace holdfast::cli {

/// `text` as one line that is safe on a terminal: control characters, and what is no UTF-8, as
/// \xNN.
[[nodiscard]] std::string one_line(std::string_view text);

/// `text` as a JSON string, with its quotes. What is no UTF-8 becomes U+FFFD.
[[nodiscard]] std::string json_string(std::string_view text);

}  // namespace holdfast::cli
