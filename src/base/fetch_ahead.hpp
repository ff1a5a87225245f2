// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace holdfast::detail {

/// Has the processor fetch what is at `address`, which is about to be used.
inline void fetch_ahead(const void* address) noexcept {
#if defined(__GNUC__)
  __builtin_prefetch(address);
#else
  static_cast<void>(address);
#endif
}

}  // namespace holdfast::detail
