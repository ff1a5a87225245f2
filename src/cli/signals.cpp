// SPDX-License-Identifier: Apache-2.0
#include "signals.hpp"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace holdfast::cli {

namespace {

bool is_ignored(int number) noexcept {
  struct sigaction action{};
  return sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

sigset_t signals_to_read() noexcept {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    if (!is_ignored(number)) {
      sigaddset(&set, number);
    }
  }
  return set;
}

}  // namespace

Signals::Signals() {
  std::signal(SIGCHLD, SIG_DFL);  // Ignored, it would take the child's exit code away.
  const sigset_t set = signals_to_read();
  pthread_sigmask(SIG_BLOCK, &set, &before_);
  fd_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd_ < 0) {
    throw std::system_error(errno, std::generic_category(), "signalfd");
  }
}

Signals::~Signals() { close(fd_); }

std::optional<Signals::Signal> Signals::read() const noexcept {
  signalfd_siginfo info{};
  if (::read(fd_, &info, sizeof info) != sizeof info) {
    return std::nullopt;
  }
  return Signal{.number = static_cast<int>(info.ssi_signo),
                .of_terminal = info.ssi_code == SI_KERNEL};
}

void Signals::unblock() const noexcept { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

}  // namespace holdfast::cli
