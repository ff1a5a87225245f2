// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <new>

namespace holdfast::detail {

/// Frames above this size are kept for the next ones, a few for each thread. Smaller ones the
/// allocator keeps at hand itself; for a large one it tidies up all that was freed lately, which a
/// task in a long queue finds nowhere in the processor's caches.
inline constexpr std::size_t kSmallFrameMax = 1'024;

[[nodiscard]] void* allocate_large_frame(std::size_t size);
void free_large_frame(void* frame, std::size_t size) noexcept;

[[nodiscard]] inline void* allocate_frame(std::size_t size) {
  return size <= kSmallFrameMax ? ::operator new(size) : allocate_large_frame(size);
}

inline void free_frame(void* frame, std::size_t size) noexcept {
  if (size <= kSmallFrameMax) {
    ::operator delete(frame, size);
  } else {
    free_large_frame(frame, size);
  }
}

}  // namespace holdfast::detail
