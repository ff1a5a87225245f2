// SPDX-License-Identifier: Apache-2.0
#include "child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "deadline.hpp"

namespace holdfast::conformance {

namespace {

struct Pipe {
  int read_end;
  int write_end;
};

void check(bool ok, const char* what) {
  if (!ok) {
    throw std::system_error(errno, std::generic_category(), what);
  }
}

Pipe make_pipe() {
  std::array<int, 2> ends{};
  check(::pipe2(ends.data(), O_CLOEXEC) == 0, "pipe2");
  return {ends[0], ends[1]};
}

/// Until `fd` can be read or is closed by the other side.
void wait_to_read(int fd) {
  const auto patience_ms = std::chrono::duration_cast<std::chrono::milliseconds>(kPatience).count();
  pollfd waiting{fd, POLLIN, 0};
  const int ready = ::poll(&waiting, 1, static_cast<int>(patience_ms));
  check(ready >= 0, "poll");
  if (ready == 0) {
    throw std::runtime_error("out of patience: a child process does not answer");
  }
}

}  // namespace

Child::Child(const std::vector<std::string>& arguments) {
  const Pipe in = make_pipe();
  const Pipe out = make_pipe();
  std::string program = HOLDFAST_STORE_CHILD;
  std::vector<std::string> words = arguments;
  std::vector<char*> argv{program.data()};
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.read_end, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.write_end, STDOUT_FILENO);
  const int error = ::posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(in.read_end);
  ::close(out.write_end);
  to_child_ = in.write_end;
  from_child_ = out.read_end;
  if (error != 0) {
    throw std::system_error(error, std::generic_category(), program);
  }
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      to_child_(std::exchange(other.to_child_, -1)),
      from_child_(std::exchange(other.from_child_, -1)),
      read_ahead_(std::move(other.read_ahead_)) {}

Child::~Child() {
  if (to_child_ >= 0) {
    ::close(to_child_);
    ::close(from_child_);
  }
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
}

void Child::until_ready() {
  if (const std::string line = read_line(); line != "ready") {
    throw std::runtime_error("a child process said '" + line + "' instead of being ready");
  }
}

void Child::go() const { check(::write(to_child_, "\n", 1) == 1, "write"); }

std::string Child::answer() {
  std::string line = read_line();
  until_ended();
  return line;
}

std::string Child::read_line() {
  std::array<char, 256> buffer{};
  for (;;) {
    if (const auto end = read_ahead_.find('\n'); end != std::string::npos) {
      std::string line = read_ahead_.substr(0, end);
      read_ahead_.erase(0, end + 1);
      return line;
    }
    wait_to_read(from_child_);
    const ssize_t count = ::read(from_child_, buffer.data(), buffer.size());
    check(count >= 0, "read");
    if (count == 0) {
      throw std::runtime_error("a child process ended without an answer");
    }
    read_ahead_.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

void Child::until_ended() {
  wait_to_read(from_child_);  // It closes with the process.
  int status = 0;
  check(::waitpid(std::exchange(pid_, -1), &status, 0) > 0, "waitpid");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    throw std::runtime_error("a child process failed with status " + std::to_string(status));
  }
}

}  // namespace holdfast::conformance
