// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <semaphore>

#include "harness.hpp"

namespace holdfast::bench {

/// Counts what happens over and over, and takes the time of a number of times, once it runs
/// smoothly and before it comes to its end. Thread-safe.
class SteadyState {
 public:
  SteadyState(std::uint64_t warm_up, std::uint64_t measured) noexcept
      : warm_up_(warm_up), measured_(measured) {}

  void one_more() {
    const std::uint64_t count = ++count_;
    if (count == warm_up_) {
      stopwatch_ = Stopwatch();
    } else if (count == warm_up_ + measured_) {
      took_ns_ = stopwatch_.elapsed_ns();
      done_.release();
    }
  }
  [[nodiscard]] bool is_over() const noexcept { return count_ >= warm_up_ + measured_; }
  /// Waits until it is over. Once.
  [[nodiscard]] double ns_each() {
    done_.acquire();
    return took_ns_ / static_cast<double>(measured_);
  }

 private:
  const std::uint64_t warm_up_;
  const std::uint64_t measured_;
  std::atomic<std::uint64_t> count_ = 0;
  Stopwatch stopwatch_;
  double took_ns_ = 0;
  std::binary_semaphore done_{0};
};

}  // namespace holdfast::bench
