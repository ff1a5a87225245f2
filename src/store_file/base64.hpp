// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::detail {

enum class Base64 : std::uint8_t {
  kPadded,    ///< As in most texts: ends with '='.
  kFileName,  ///< '-' and '_' for '+' and '/', without '=' at the end.
};

[[nodiscard]] std::string to_base64(std::string_view bytes, Base64 form);
/// Nothing if it is not exactly what `to_base64` makes of some bytes.
[[nodiscard]] std::optional<std::string> from_base64(std::string_view text, Base64 form);

}  // namespace holdfast::detail
