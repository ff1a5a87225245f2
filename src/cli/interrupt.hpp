// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <stop_token>
#include <thread>

namespace holdfast::cli {

/// Turns the first SIGINT or SIGTERM into a request to stop; the second ends the program at once.
/// Make it before any other thread.
class Interrupt {
 public:
  Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  ~Interrupt();

  [[nodiscard]] std::stop_token stop() const noexcept { return source_.get_token(); }
  void request_stop() noexcept { source_.request_stop(); }

  /// The signal that came, or 0.
  [[nodiscard]] int signal() const noexcept { return signal_; }

 private:
  void watch() noexcept;

  std::stop_source source_;
  std::atomic<int> signal_ = 0;
  int signals_fd_;
  int quit_fd_;
  std::thread watcher_;
};

/// Ends the program by `signal`, so that a shell sees why it ended.
[[noreturn]] void die_of(int signal) noexcept;

}  // namespace holdfast::cli
