// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "run_machine.hpp"

namespace holdfast::detail {

/// Names workflows whose code does not come to a wait: it blocks, or loops for ever, and holds a
/// thread that others need. On a thread of its own, by real time, as the others may all be stuck.
class Watchdog {
 public:
  /// Around each activation.
  class Watched {
   public:
    Watched(Watchdog& watchdog, const RunMachine::Facts& facts);
    Watched(const Watched&) = delete;
    Watched& operator=(const Watched&) = delete;
    ~Watched();

   private:
    friend class Watchdog;

    Watchdog& watchdog_;
    const RunMachine::Facts& facts_;
    int looks_ = 0;  // How often it was seen: to ask a clock each time would take longer.
    // In the list of those that run.
    Watched* previous_ = nullptr;
    Watched* next_ = nullptr;
  };

  /// Warns of those that take longer than `time`.
  void begin(std::chrono::nanoseconds time, std::function<void(const std::string&)> warn);
  void end();

 private:
  void add(Watched& watched);
  void watch(const std::stop_token& stop, std::chrono::nanoseconds time);

  std::mutex mutex_;
  std::condition_variable_any ending_;
  Watched* first_ = nullptr;  // Of those that run, by their links.
  std::function<void(const std::string&)> warn_;
  std::optional<std::jthread> thread_;
};

}  // namespace holdfast::detail
