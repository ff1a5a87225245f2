// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace holdfast::detail {

/// Memory for the frames of coroutines. A thread keeps some of those that it freed for the next
/// ones: with hundreds of tasks under way the allocator's own short lists are always either empty
/// or full, and each frame would cost it a search.
[[nodiscard]] void* allocate_frame(std::size_t size);
void free_frame(void* frame, std::size_t size) noexcept;

}  // namespace holdfast::detail
