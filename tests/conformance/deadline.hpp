// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <stdexcept>
#include <stop_token>
#include <utility>

#include <holdfast/clock.hpp>
#include <holdfast/executor.hpp>
#include <holdfast/spawn.hpp>

namespace holdfast::conformance {

/// Longer than anything takes that does not hang, on a busy machine with a sanitizer.
inline constexpr Duration kPatience = std::chrono::seconds(50);

/// Requests a stop when patience is at its end, so that a lost wake-up fails a test by its name.
class Deadline {
 public:
  explicit Deadline(Clock& clock) : clock_(clock) { clock_.arm(alarm_, clock_.now() + kPatience); }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;
  ~Deadline() { clock_.disarm(alarm_); }

  [[nodiscard]] std::stop_token token() const noexcept { return stop_.get_token(); }
  [[nodiscard]] bool passed() const noexcept { return stop_.stop_requested(); }

 private:
  struct Alarm : Timer {
    explicit Alarm(Deadline& owner) noexcept
        : Timer([](Timer& timer) noexcept {
            static_cast<Alarm&>(timer).deadline.stop_.request_stop();
          }),
          deadline(owner) {}
    Deadline& deadline;
  };

  Clock& clock_;
  std::stop_source stop_;
  Alarm alarm_{*this};
};

template <typename T>
T run_in_time(Executor& executor, Task<T> task) {
  const Deadline deadline(executor.clock());
  try {
    return sync_wait(executor, std::move(task), {}, deadline.token());
  } catch (const Cancelled& cancelled) {
    if (deadline.passed()) {
      throw std::runtime_error(std::string("out of patience: ") + cancelled.what());
    }
    throw;
  }
}

}  // namespace holdfast::conformance
