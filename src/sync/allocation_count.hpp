// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace holdfast {

/// Calls of the global `operator new` so far. For programs that are built with
/// allocation_count.cpp, which replaces it.
[[nodiscard]] std::size_t allocation_count() noexcept;

}  // namespace holdfast
