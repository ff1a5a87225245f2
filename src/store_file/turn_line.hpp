// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>

#include <holdfast/clock.hpp>

#include "store/neighbours.hpp"

namespace holdfast::detail {

/// The turn of `Neighbours`, which is for one thread, for all threads of this process, in the order
/// in which they came.
class TurnLine {
 public:
  explicit TurnLine(Neighbours& neighbours) noexcept : neighbours_(neighbours) {}

  /// As of `Neighbours`.
  [[nodiscard]] bool take(TimePoint until);
  void end() noexcept;
  /// During a turn: another thread or process waits for it.
  [[nodiscard]] bool wanted() noexcept;
  void interrupt() noexcept;

 private:
  [[nodiscard]] bool take_among_threads(TimePoint until);
  void end_among_threads() noexcept;

  Neighbours& neighbours_;
  std::mutex mutex_;
  std::condition_variable moved_;
  std::deque<std::uint64_t> line_;  // Tickets; the first one has the turn, or is to take it.
  std::uint64_t last_ticket_ = 0;
  bool interrupted_ = false;
};

}  // namespace holdfast::detail
