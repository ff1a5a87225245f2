// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include <holdfast/clock.hpp>
#include <holdfast/contention.hpp>
#include <holdfast/detail/wait_queue.hpp>
#include <holdfast/sync_options.hpp>

#include "owner.hpp"

namespace holdfast::detail {

/// Keeps the figures of one lock, or of all keys of a keyed one, and the list of those who hold, by
/// the time of their grant: its front is the longest holder, the first to be warned about.
class ContentionRecorder {
 public:
  ContentionRecorder(std::string what, const SyncOptions& options);
  ContentionRecorder(const ContentionRecorder&) = delete;
  ContentionRecorder& operator=(const ContentionRecorder&) = delete;
  ~ContentionRecorder() = default;

  void queued(Holder& holder) noexcept;
  void granted(Holder& holder) noexcept;
  void released(Holder& holder) noexcept;
  void gave_up(Ending why) noexcept;
  /// No clock is touched from here on.
  void close() noexcept;

  [[nodiscard]] Contention snapshot() const;

 private:
  struct WarningAlarm : Timer {
    explicit WarningAlarm(ContentionRecorder& owner) noexcept;
    ContentionRecorder& recorder;
  };
  void warn() noexcept;
  void arm_for_next_warning() noexcept;

  const std::string what_;
  Clock& clock_;
  const std::optional<Duration> held_long_;
  const std::function<void(const HoldWarning&)> on_held_long_;

  mutable std::mutex mutex_;
  Contention figures_;
  Holder* first_ = nullptr;
  Holder* last_ = nullptr;
  WarningAlarm alarm_;
  bool alarm_armed_ = false;
  bool closed_ = false;
};

}  // namespace holdfast::detail
