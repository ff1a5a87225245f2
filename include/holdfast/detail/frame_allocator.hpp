// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <holdfast/detail/frame_memory.hpp>

namespace holdfast::detail {

/// For objects that come and go with tasks, as frames do.
template <typename T>
class FrameAllocator {
 public:
  using value_type = T;

  FrameAllocator() = default;
  template <typename U>
  explicit(false) FrameAllocator(const FrameAllocator<U>& /*other*/) noexcept {}

  [[nodiscard]] T* allocate(std::size_t count) {
    return static_cast<T*>(allocate_frame(count * sizeof(T)));
  }
  void deallocate(T* object, std::size_t count) noexcept { free_frame(object, count * sizeof(T)); }

  friend bool operator==(const FrameAllocator& /*a*/, const FrameAllocator& /*b*/) noexcept {
    return true;
  }
};

}  // namespace holdfast::detail
