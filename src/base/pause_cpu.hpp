// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <thread>

namespace holdfast::detail {

/// What a loop does that waits for another core.
inline void pause_cpu() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace holdfast::detail
