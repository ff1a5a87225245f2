// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

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
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  /// Cheap while nobody waits.
  void ring();
  /// Until it has been rung more often than `heard` times. Throws `Cancelled` when stopped.
  [[nodiscard]] Task<void> rung_since(std::uint64_t heard);

 private:
  class Hearing;

  std::atomic<std::uint64_t> count_ = 0;
  /// Whoever waits sets this and then reads the count, and whoever rings counts and then reads
  /// this: one of them sees the other.
  std::atomic<bool> is_awaited_ = false;
  std::mutex mutex_;
  Hearing* first_ = nullptr;  // Of those who wait, by their links.
};

}  // namespace holdfast::detail
