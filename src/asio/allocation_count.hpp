// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace holdfast {

/// How often this test program has called `operator new`.
[[nodiscard]] std::size_t allocation_count() noexcept;

}  // namespace holdfast
