// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace holdfast::cli {

/// Lets other threads wake one that polls.
class Wake {
 public:
  Wake() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (fd_ < 0) {
      throw std::system_error(errno, std::generic_category(), "eventfd");
    }
  }
  Wake(const Wake&) = delete;
  Wake& operator=(const Wake&) = delete;
  ~Wake() { close(fd_); }

  void wake() const noexcept {
    const std::uint64_t one = 1;
    static_cast<void>(!write(fd_, &one, sizeof one));
  }
  [[nodiscard]] bool take() const noexcept {
    std::uint64_t count = 0;
    return read(fd_, &count, sizeof count) == sizeof count;
  }
  [[nodiscard]] int fd() const noexcept { return fd_; }

 private:
  int fd_;
};

}  // namespace holdfast::cli
