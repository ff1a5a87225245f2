// SPDX-License-Identifier: Apache-2.0
#include "child.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "exit_code.hpp"

namespace holdfast::cli {

namespace {

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) {
    // exec does not write to them; its type is older than const.
    pointers.push_back(const_cast<char*>(text.c_str()));  // NOLINT(*-const-cast)
  }
  pointers.push_back(nullptr);
  return pointers;
}

[[noreturn]] void fail(int error, const char* what) {
  throw std::system_error(error, std::generic_category(), what);
}

/// In the child, where only one thread is left: nothing here may allocate or lock.
[[noreturn]] void become(char* const* command, char* const* environment, const sigset_t& mask,
                         pid_t parent, int error_fd) noexcept {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) {
    _exit(kSignalled + SIGTERM);  // It died before it could be asked for.
  }
  std::signal(SIGPIPE, SIG_DFL);
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  execvpe(command[0], command, environment);
  const int error = errno;
  static_cast<void>(!write(error_fd, &error, sizeof error));
  _exit(kNotFound);
}

/// 0 if the pipe was closed by a successful exec.
int read_error(int fd) noexcept {
  int error = 0;
  ssize_t size = 0;
  do {
    size = read(fd, &error, sizeof error);
  } while (size < 0 && errno == EINTR);
  return size == sizeof error ? error : 0;
}

}  // namespace

Child::Child(const std::vector<std::string>& command, const std::vector<std::string>& environment,
             const sigset_t& mask) {
  const std::vector<char*> words = pointers_to(command);
  const std::vector<char*> variables = pointers_to(environment);
  std::array<int, 2> error_pipe{};
  if (pipe2(error_pipe.data(), O_CLOEXEC) != 0) {
    fail(errno, "pipe");
  }
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    become(words.data(), variables.data(), mask, parent, error_pipe[1]);
  }
  const int fork_error = pid_ < 0 ? errno : 0;
  close(error_pipe[1]);
  const int error = pid_ < 0 ? fork_error : read_error(error_pipe[0]);
  close(error_pipe[0]);
  if (error != 0) {
    if (pid_ > 0) {
      waitpid(pid_, nullptr, 0);
    }
    fail(error, pid_ < 0 ? "fork" : "exec");
  }
}

Child::~Child() {
  if (!exit_code()) {
    send(SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
}

std::optional<int> Child::exit_code() {
  int status = 0;
  if (!exit_code_ && waitpid(pid_, &status, WNOHANG) == pid_) {
    exit_code_ = WIFSIGNALED(status) ? kSignalled + WTERMSIG(status) : WEXITSTATUS(status);
  }
  return exit_code_;
}

void Child::send(int signal) const noexcept {
  if (!exit_code_) {
    kill(pid_, signal);
  }
}

void Child::terminate() const noexcept {
  send(SIGTERM);
  send(SIGCONT);
}

}  // namespace holdfast::cli
