// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

namespace holdfast::detail {

/// A lock for sections of a few instructions, inlined: a hand-off enters two of them, and the calls
/// into `std::mutex` were a fifth of its time. Whoever finds it taken sleeps.
class SlimLock {
 public:
  void lock() noexcept {
    int free = kFree;
    if (!state_.compare_exchange_strong(free, kTaken, std::memory_order_acquire,
                                        std::memory_order_relaxed)) {
      lock_contended();
    }
  }

  void unlock() noexcept {
    if (state_.exchange(kFree, std::memory_order_release) == kAwaited) {
      state_.notify_one();
    }
  }

 private:
  static constexpr int kFree = 0;
  static constexpr int kTaken = 1;
  static constexpr int kAwaited = 2;  // Taken, and someone sleeps.

  [[gnu::noinline]] void lock_contended() noexcept {
    while (state_.exchange(kAwaited, std::memory_order_acquire) != kFree) {
      state_.wait(kAwaited, std::memory_order_relaxed);
    }
  }

  std::atomic<int> state_ = kFree;
};

}  // namespace holdfast::detail
