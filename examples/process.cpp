// SPDX-License-Identifier: Apache-2.0
#include "process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): kill
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <stdexcept>
#include <system_error>

#include <holdfast/error.hpp>

namespace examples {

namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

constexpr auto kPatience = 30s;
constexpr int kLookForStopMs = 20;

void check(int error, const char* what) {
  if (error != 0) {
    throw std::system_error(error, std::generic_category(), what);
  }
}

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    check(::pipe2(ends.data(), O_CLOEXEC) == 0 ? 0 : errno, "pipe");
    read_end = ends[0];
    write_end = ends[1];
  }
  int read_end;
  int write_end;
};

/// Signals there are as they are for a program that a shell starts, whatever is done with them
/// here. But a Ctrl-C is for this process, which then ends that one: so it has a group of its own,
/// and the signal, which may come before it is in there, is blocked.
class Attributes {
 public:
  Attributes() {
    ::posix_spawnattr_init(&attributes_);
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGINT);
    ::posix_spawnattr_setsigmask(&attributes_, &blocked);
    sigset_t ignored;
    sigemptyset(&ignored);
    sigaddset(&ignored, SIGPIPE);
    ::posix_spawnattr_setsigdefault(&attributes_, &ignored);
    ::posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  ~Attributes() { ::posix_spawnattr_destroy(&attributes_); }
  [[nodiscard]] const posix_spawnattr_t* get() const noexcept { return &attributes_; }

 private:
  posix_spawnattr_t attributes_{};
};

}  // namespace

// Not fork(): this program has threads, and what they hold would be held for ever in the child.
Process::Process(std::vector<std::string> words) {
  std::string self = "/proc/self/exe";
  std::vector<char*> pointers{self.data()};
  for (std::string& word : words) {
    pointers.push_back(word.data());
  }
  pointers.push_back(nullptr);
  const Pipe in;
  const Pipe out;
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in.read_end, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out.write_end, STDOUT_FILENO);
  const Attributes attributes;
  const int error =
      ::posix_spawn(&pid_, self.c_str(), &actions, attributes.get(), pointers.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(in.read_end);
  ::close(out.write_end);
  to_it_ = in.write_end;
  from_it_ = out.read_end;
  dead_ = error != 0;
  check(error, "this program cannot be started again");
}

Process::~Process() {
  kill();
  ::close(to_it_);
  ::close(from_it_);
}

void Process::tell(const std::string& line) const {
  const std::string text = line + "\n";
  const ssize_t size = ::write(to_it_, text.data(), text.size());
  check(size == static_cast<ssize_t>(text.size()) ? 0 : errno, "write");
}

void Process::until_it_speaks(const std::stop_token& stop) const {
  const auto give_up_at = Steady::now() + kPatience;
  pollfd waiting{.fd = from_it_, .events = POLLIN, .revents = 0};
  while (::poll(&waiting, 1, kLookForStopMs) <= 0) {
    if (stop.stop_requested()) {
      throw holdfast::Cancelled("the scenario was asked to end");
    }
    if (Steady::now() > give_up_at) {
      throw std::runtime_error("a process that was started does not answer");
    }
  }
}

std::string Process::line(const std::stop_token& stop) {
  std::string line;
  for (;;) {
    until_it_speaks(stop);
    char next = 0;
    if (::read(from_it_, &next, 1) != 1) {
      throw std::runtime_error("a process that was started ended early");
    }
    if (next == '\n') {
      return line;
    }
    line.push_back(next);
  }
}

void Process::kill() noexcept {
  if (!dead_) {
    dead_ = true;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
}

}  // namespace examples
