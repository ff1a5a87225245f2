// SPDX-License-Identifier: Apache-2.0
#include "tests/soak/worker_process.hpp"

#include <fcntl.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): kill
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace holdfast::testing {

namespace {

void check(int error, const char* what) {
  if (error != 0) {
    throw std::system_error(error, std::generic_category(), what);
  }
}

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    check(::pipe2(ends.data(), O_CLOEXEC) == 0 ? 0 : errno, "pipe2");
    read_end = ends[0];
    write_end = ends[1];
  }
  int read_end;
  int write_end;
};

}  // namespace

WorkerProcess::WorkerProcess(std::string program, std::vector<std::string> arguments) {
  std::vector<char*> words{program.data()};
  for (std::string& argument : arguments) {
    words.push_back(argument.data());
  }
  words.push_back(nullptr);
  const Pipe in;
  const Pipe out;
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in.read_end, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out.write_end, STDOUT_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  // In a session of its own: the kernel may hang up on a whole group in which one is stopped.
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  const int error =
      ::posix_spawn(&pid_, words.front(), &actions, &attributes, words.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(in.read_end);
  ::close(out.write_end);
  end_fd_ = in.write_end;
  reports_fd_ = out.read_end;
  check(error, words.front());
}

WorkerProcess::~WorkerProcess() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  finish();
  ::close(reports_fd_);
}

std::vector<Report> WorkerProcess::read_reports() {
  std::array<char, 100 * sizeof(Report)> buffer{};
  std::vector<Report> reports;
  while (reports.empty()) {
    const ssize_t size = ::read(reports_fd_, buffer.data(), buffer.size());
    check(size < 0 ? errno : 0, "read");
    if (size == 0) {
      break;
    }
    read_ahead_.append(buffer.data(), static_cast<std::size_t>(size));
    while (read_ahead_.size() >= sizeof(Report)) {
      Report report;
      std::memcpy(&report, read_ahead_.data(), sizeof report);
      reports.push_back(report);
      read_ahead_.erase(0, sizeof report);
    }
  }
  return reports;
}

void WorkerProcess::kill() {
  killed_ = true;
  stopped_until_.reset();
  ::kill(pid_, SIGKILL);
}

void WorkerProcess::stop(TimePoint until) {
  stopped_until_ = until;
  ::kill(pid_, SIGSTOP);
}

void WorkerProcess::go_on() {
  stopped_until_.reset();
  ::kill(pid_, SIGCONT);
}

void WorkerProcess::finish() {
  if (end_fd_ >= 0) {
    ::close(std::exchange(end_fd_, -1));
  }
}

bool WorkerProcess::ended_well() {
  int status = 0;
  ::waitpid(std::exchange(pid_, -1), &status, 0);
  return killed_ ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                 : WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace holdfast::testing
