// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <optional>

namespace holdfast::cli {

/// The signals that a program which runs another one passes on, and SIGCHLD: blocked and read from
/// a file. What is ignored from the start, as below nohup, stays ignored. Make it before any
/// thread.
class Signals {
 public:
  Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  /// They stay blocked.
  ~Signals();

  struct Signal {
    int number;
    bool of_terminal;  ///< Sent by the kernel: the whole foreground group has it.
  };
  /// Readable when a signal is there.
  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] std::optional<Signal> read() const noexcept;

  /// As it was before: for a child.
  [[nodiscard]] const sigset_t& mask_before() const noexcept { return before_; }
  /// From here on they do what they usually do: end the program.
  void unblock() const noexcept;

 private:
  sigset_t before_{};
  int fd_;
};

}  // namespace holdfast::cli
