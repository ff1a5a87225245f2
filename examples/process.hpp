// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <stop_token>
#include <string>
#include <vector>

namespace examples {

/// This program once more, in a process of its own, with other words: see `play_part`. What it
/// prints is read here, line by line, and it is told lines. For one thread.
class Process {
 public:
  explicit Process(std::vector<std::string> words);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  /// It has ended, or is killed.
  ~Process();

  [[nodiscard]] pid_t id() const noexcept { return pid_; }
  void tell(const std::string& line) const;
  /// Returns when it has said something, which is left to be read. Throws `holdfast::Cancelled`
  /// if `stop` comes first, and `std::runtime_error` if it takes too long.
  void until_it_speaks(const std::stop_token& stop) const;
  /// The next line. Throws as `until_it_speaks`, and if there is none.
  [[nodiscard]] std::string line(const std::stop_token& stop);
  /// As `kill -9` does, and returns when it is dead. What it has said can still be read.
  void kill() noexcept;

 private:
  pid_t pid_ = -1;
  bool dead_ = false;
  int to_it_ = -1;
  int from_it_ = -1;
};

}  // namespace examples
