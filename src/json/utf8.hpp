// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace holdfast::detail {

/// Well-formed UTF-8, as Unicode defines it: no overlong forms, surrogates, or code points above
/// U+10FFFF.
[[nodiscard]] bool is_utf8(std::string_view bytes) noexcept;

}  // namespace holdfast::detail
