// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace holdfast::servers {

/// The program is not on this machine; the text says what to install.
class NotInstalled : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Looks in `folders`, then in PATH. Throws `NotInstalled` with the name of Debian's package.
[[nodiscard]] std::filesystem::path find_program(
    const std::string& name, const std::string& package,
    const std::vector<std::filesystem::path>& folders = {});

struct ProcessOptions {
  std::filesystem::path folder = "/";  ///< Where it runs.
  std::string user{};                  ///< Whom root lets it run as; nobody else can choose.
  int stop_signal = SIGTERM;           ///< Also sent by the kernel if the thread that made it ends.
};

/// Another program, in a session of its own. Its output is read all the while; what takes too long
/// throws, with the output so far.
class Process {
 public:
  explicit Process(std::vector<std::string> command, ProcessOptions options = {});
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  /// Stops it, if it runs, and waits for that.
  ~Process();

  /// Until `text` stands somewhere in the output. Throws if it ends before.
  void until_prints(const std::string& text);
  /// Writes a line to its standard input.
  void tell(const std::string& line) const;
  /// To it and all it started, as far as they stayed in its process group.
  void send_to_group(int signal) const;
  /// Until it has ended: its exit code, or 128 and the number of the signal.
  int until_ended();
  [[nodiscard]] std::string output() const;
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }

 private:
  void read_output();
  [[noreturn]] void out_of_patience(const std::string& waited_for) const;

  std::string name_;
  ProcessOptions options_;
  pid_t pid_ = -1;
  bool ended_ = false;
  int exit_code_ = 0;
  int to_child_ = -1;
  int from_child_ = -1;
  mutable std::mutex mutex_;
  std::condition_variable read_more_;
  std::string output_;
  bool is_closed_ = false;
  std::thread reader_;
};

}  // namespace holdfast::servers
