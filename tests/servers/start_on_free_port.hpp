// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>

namespace holdfast::servers {

/// Calls `start` again, a few times, if it fails: another may have been quicker to take the port.
template <typename Start>
void start_on_free_port(const Start& start) {
  constexpr int kTimesMax = 5;
  for (int times = 1;; ++times) {
    try {
      start();
      return;
    } catch (const std::runtime_error&) {
      if (times == kTimesMax) {
        throw;
      }
    }
  }
}

}  // namespace holdfast::servers
