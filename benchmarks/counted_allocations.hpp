// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace holdfast::bench {

/// Counts what is allocated as long as it lives, by a hook of the allocator: nothing else that is
/// measured pays for it. One at a time.
class CountedAllocations {
 public:
  CountedAllocations();
  CountedAllocations(const CountedAllocations&) = delete;
  CountedAllocations& operator=(const CountedAllocations&) = delete;
  ~CountedAllocations();
  [[nodiscard]] std::size_t so_far() const noexcept;
};

}  // namespace holdfast::bench
