// SPDX-License-Identifier: Apache-2.0
#include "process.hpp"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "user.hpp"

namespace holdfast::servers {

namespace {

constexpr std::chrono::seconds kPatience{50};

void check(bool ok, const std::string& what) {
  if (!ok) {
    throw std::system_error(errno, std::generic_category(), what);
  }
}

struct Pipe {
  int read_end;
  int write_end;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  check(::pipe2(ends.data(), O_CLOEXEC) == 0, "pipe2");
  return {ends[0], ends[1]};
}

/// Between fork and exec: nothing here may allocate or lock.
[[noreturn]] void become(char* const* argv, const char* folder, const User* user, int stop_signal,
                         pid_t parent) {
  ::setsid();
  const bool is_user = user == nullptr || (::setgroups(1, &user->gid) == 0 &&
                                           ::setgid(user->gid) == 0 && ::setuid(user->uid) == 0);
  // After the change of the user, which takes this back.
  ::prctl(PR_SET_PDEATHSIG, stop_signal);
  if (is_user && ::chdir(folder) == 0 && ::getppid() == parent) {
    ::execv(argv[0], argv);
  }
  ::_exit(127);
}

int exit_code_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// False: it still runs after so long.
bool ends_in_time(pid_t pid) {
  const auto handle = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  check(handle >= 0, "pidfd_open");
  pollfd waiting{handle, POLLIN, 0};
  const auto patience_ms = std::chrono::milliseconds(kPatience).count();
  const int ready = ::poll(&waiting, 1, static_cast<int>(patience_ms));
  ::close(handle);
  return ready == 1;
}

}  // namespace

std::filesystem::path find_program(const std::string& name, const std::string& package,
                                   const std::vector<std::filesystem::path>& folders) {
  std::vector<std::filesystem::path> places = folders;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment.
  if (const char* const path = std::getenv("PATH"); path != nullptr) {
    std::istringstream parts(path);
    for (std::string part; std::getline(parts, part, ':');) {
      places.emplace_back(part);
    }
  }
  for (const std::filesystem::path& place : places) {
    if (::access((place / name).c_str(), X_OK) == 0) {
      return place / name;
    }
  }
  throw NotInstalled(name + " is not on this machine; Debian's package is " + package);
}

Process::Process(std::vector<std::string> command, ProcessOptions options)
    : name_(command.at(0)), options_(std::move(options)) {
  const std::optional<User> user = user_to_become(options_.user);
  std::vector<char*> argv;
  for (std::string& word : command) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  const Pipe in = make_pipe();
  const Pipe out = make_pipe();
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(in.read_end, STDIN_FILENO);
    ::dup2(out.write_end, STDOUT_FILENO);
    ::dup2(out.write_end, STDERR_FILENO);
    become(argv.data(), options_.folder.c_str(), user ? &*user : nullptr, options_.stop_signal,
           parent);
  }
  const int error = errno;
  ::close(in.read_end);
  ::close(out.write_end);
  to_child_ = in.write_end;
  from_child_ = out.read_end;
  if (pid_ < 0) {
    ::close(to_child_);
    ::close(from_child_);
    throw std::system_error(error, std::generic_category(), "fork");
  }
  reader_ = std::thread([this] { read_output(); });
}

Process::~Process() {
  if (!ended_) {
    ::kill(pid_, options_.stop_signal);
    ::kill(pid_, SIGCONT);
    if (!ends_in_time(pid_)) {
      ::kill(pid_, SIGKILL);
    }
    // What it left behind would keep the output open. Its number is not used again before waitpid.
    ::kill(-pid_, SIGKILL);
    int status = 0;
    ::waitpid(pid_, &status, 0);
  }
  ::close(to_child_);
  reader_.join();
  ::close(from_child_);
}

void Process::read_output() {
  std::array<char, 4096> part{};
  for (;;) {
    const ssize_t count = ::read(from_child_, part.data(), part.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    const std::lock_guard lock(mutex_);
    if (count <= 0) {
      is_closed_ = true;
      read_more_.notify_all();
      return;
    }
    output_.append(part.data(), static_cast<std::size_t>(count));
    read_more_.notify_all();
  }
}

void Process::until_prints(const std::string& text) {
  std::unique_lock lock(mutex_);
  const auto is_there = [&] { return output_.find(text) != std::string::npos; };
  const bool in_time =
      read_more_.wait_for(lock, kPatience, [&] { return is_there() || is_closed_; });
  const bool found = is_there();
  lock.unlock();
  if (!in_time) {
    out_of_patience("'" + text + "'");
  }
  if (!found) {
    throw std::runtime_error(name_ + " ended without '" + text + "': " + output());
  }
}

void Process::tell(const std::string& line) const {
  const std::string text = line + '\n';
  check(::write(to_child_, text.data(), text.size()) == std::ssize(text), "write to " + name_);
}

void Process::send_to_group(int signal) const {
  check(::kill(-pid_, signal) == 0, "kill " + name_);
}

int Process::until_ended() {
  if (!ended_) {
    if (!ends_in_time(pid_)) {
      out_of_patience("its end");
    }
    int status = 0;
    check(::waitpid(pid_, &status, 0) == pid_, "waitpid");
    ended_ = true;
    exit_code_ = exit_code_of(status);
    std::unique_lock lock(mutex_);
    read_more_.wait_for(lock, kPatience, [this] { return is_closed_; });
  }
  return exit_code_;
}

std::string Process::output() const {
  const std::lock_guard lock(mutex_);
  return output_;
}

void Process::out_of_patience(const std::string& waited_for) const {
  throw std::runtime_error("out of patience: waited for " + waited_for + " of " + name_ + ": " +
                           output());
}

}  // namespace holdfast::servers
