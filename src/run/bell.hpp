// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include <holdfast/task.hpp>

#include "store/completion.hpp"

namespace holdfast::detail {

/// Wakes tasks of this process that wait for something to change.
///
/// ```
/// const std::uint64_t heard = bell.count();
/// if (nothing_to_do()) {
///   co_await bell.rung_since(heard);
/// }
/// ```
///
/// Thread-safe. It outlives its waits.
class Bell {
 public:
  [[nodiscard]] std::uint64_t count() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }
  void ring();
  /// Until it has been rung more often than `heard` times. Throws `Cancelled` when stopped.
  [[nodiscard]] Task<void> rung_since(std::uint64_t heard);

 private:
  class Hearing;

  mutable std::mutex mutex_;
  std::uint64_t count_ = 0;
  std::vector<Hearing*> waiting_;
};

}  // namespace holdfast::detail
