// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace holdfast::detail {

/// Has the processor fetch what is at `address`, which is about to be used.
inline void fetch_ahead(const void* address) noexcept {
#if defined(__GNUC__)
  __builtin_prefetch(address);
#else
  static_cast<void>(address);
#endif
}

/// The same for all of a large object.
inline void fetch_ahead(const void* address, std::size_t size) noexcept {
  constexpr std::size_t kCacheLine = 64;
  const auto* const bytes = static_cast<const std::byte*>(address);
  for (std::size_t at = 0; at < size; at += kCacheLine) {
    fetch_ahead(bytes + at);
  }
}

}  // namespace holdfast::detail
