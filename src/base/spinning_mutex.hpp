// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>

#include "pause_cpu.hpp"

namespace holdfast::detail {

/// A mutex for sections so short that whoever finds it taken does better to look again than to
/// sleep: to be woken takes a hundred times as long. Sleeps if it takes longer all the same.
class SpinningMutex {
 public:
  void lock() {
    for (int i = 0; i < kLooks; ++i) {
      if (mutex_.try_lock()) {
        return;
      }
      pause_cpu();
    }
    mutex_.lock();
  }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  static constexpr int kLooks = 200;

  std::mutex mutex_;
};

}  // namespace holdfast::detail
