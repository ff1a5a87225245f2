// SPDX-License-Identifier: Apache-2.0
#include "interrupt.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <system_error>

namespace holdfast::cli {

namespace {

sigset_t signals() noexcept {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

int checked(int fd, const char* what) {
  if (fd < 0) {
    throw std::system_error(errno, std::generic_category(), what);
  }
  return fd;
}

}  // namespace

Interrupt::Interrupt()
    : signals_fd_([] {
        // Blocked here and so in all threads to come, they are left for the watcher to read.
        const sigset_t set = signals();
        pthread_sigmask(SIG_BLOCK, &set, nullptr);
        return checked(signalfd(-1, &set, SFD_CLOEXEC), "signalfd");
      }()),
      quit_fd_(checked(eventfd(0, EFD_CLOEXEC), "eventfd")),
      watcher_([this] { watch(); }) {}

Interrupt::~Interrupt() {
  const std::uint64_t one = 1;
  static_cast<void>(!write(quit_fd_, &one, sizeof one));
  watcher_.join();
  close(quit_fd_);
  close(signals_fd_);
}

void Interrupt::watch() noexcept {
  std::array<pollfd, 2> both{pollfd{.fd = quit_fd_, .events = POLLIN, .revents = 0},
                             pollfd{.fd = signals_fd_, .events = POLLIN, .revents = 0}};
  while (poll(both.data(), both.size(), -1) >= 0 || errno == EINTR) {
    if (both[0].revents != 0) {
      return;
    }
    signalfd_siginfo info{};
    if (both[1].revents == 0 || read(signals_fd_, &info, sizeof info) != sizeof info) {
      continue;
    }
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal_.exchange(signal) != 0) {
      die_of(signal);
    }
    source_.request_stop();
  }
}

void die_of(int signal) noexcept {
  std::signal(signal, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  std::raise(signal);
  std::_Exit(128 + signal);
}

}  // namespace holdfast::cli
