// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include <holdfast/clock.hpp>
#include <holdfast/gate.hpp>

#include "store/completion.hpp"

namespace holdfast::detail {

/// A task's wait until it is let in at a gate: awaited once, by the task that waits, and ended
/// once, by whoever comes first. In a long queue nothing of it is in the processor's caches any
/// more, so it is as little as can be.
class Arrival final : public Completion {
 public:
  /// What it is told when it is let in.
  struct Grant {
    Version fence = 0;
    std::vector<std::uint64_t> slots;
    bool handed_over = false;
  };

  /// `gate` is its name, for messages, and outlives this.
  Arrival(const std::string& gate, std::optional<TimePoint> give_up_at) noexcept
      : gate_(gate), give_up_at_(give_up_at) {}
  Arrival(const Arrival&) = delete;
  Arrival& operator=(const Arrival&) = delete;
  ~Arrival() = default;

  /// It is next, or soon will be.
  void comes_soon() const noexcept;

  // For one thread at a time, once.

  void let_in(Grant grant) noexcept;
  void fail(std::exception_ptr error) noexcept;

  /// Throws what it ended with, if it was not let in.
  [[nodiscard]] Grant await_resume();

  std::string waiter_key;  ///< Of its row.

 private:
  /// The first one of the endings counts.
  enum class State : std::uint8_t { kNotAwaited, kAwaited, kLetIn, kFailed, kTimedOut, kCancelled };
  struct Alarm : Timer {
    explicit Alarm(Arrival& owner) noexcept;
    Arrival& arrival;
  };

  void begin() override;
  void stop() noexcept override;
  void end(State how) noexcept;

  std::atomic<State> state_ = State::kNotAwaited;
  Grant grant_;
  std::exception_ptr error_;
  const std::string& gate_;
  const std::optional<TimePoint> give_up_at_;
  std::optional<Alarm> alarm_;
};

}  // namespace holdfast::detail
