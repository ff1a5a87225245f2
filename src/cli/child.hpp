// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <csignal>
#include <optional>
#include <string>
#include <vector>

namespace holdfast::cli {

/// Another program, run with the standard streams, the process group and the terminal of this one.
/// For one thread, which must not end before this program does: the child gets SIGTERM with it.
class Child {
 public:
  /// `environment` as NAME=VALUE, `mask` the signals that are blocked there. Throws
  /// `std::system_error` if the program cannot be run: ENOENT if there is none.
  Child(const std::vector<std::string>& command, const std::vector<std::string>& environment,
        const sigset_t& mask);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  /// It has ended, or is killed.
  ~Child();

  /// Once it has ended: its exit code, or 128 and the signal that ended it. Does not wait.
  [[nodiscard]] std::optional<int> exit_code();
  /// Nothing happens if it has ended.
  void send(int signal) const noexcept;
  /// Asks it to end, also if it is stopped.
  void terminate() const noexcept;

 private:
  pid_t pid_ = -1;
  std::optional<int> exit_code_;
};

}  // namespace holdfast::cli
