// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace holdfast::detail {

/// Prints what was violated and where, and aborts.
[[noreturn]] void check_failed(const char* condition, std::string_view message, const char* file,
                               int line) noexcept;

}  // namespace holdfast::detail

/// A precondition that only a bug can break. Always on: going on would be worse.
#define HOLDFAST_CHECK(condition, message) \
  (static_cast<bool>(condition)            \
       ? static_cast<void>(0)              \
       : ::holdfast::detail::check_failed(#condition, (message), __FILE__, __LINE__))
