// SPDX-License-Identifier: Apache-2.0
#include "lock_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <string>
#include <utility>

#include <holdfast/detail/check.hpp>

#include "files.hpp"

namespace holdfast::detail {

namespace {

using namespace std::chrono_literals;

// The kernel can wait for a lock, but not for a limited time. Transactions take milliseconds.
constexpr Duration kNapMin = 50us;
constexpr Duration kNapMax = 2ms;

constexpr char kSettled = 's';
constexpr char kUnsettled = 'u';

void nap(Duration length) noexcept {
  const timespec time{.tv_sec = 0, .tv_nsec = length.count()};
  ::nanosleep(&time, nullptr);
}

struct flock lock_of(short type, off_t byte, off_t count) noexcept {
  struct flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = count;
  return lock;
}

}  // namespace

LockFile::LockFile(std::filesystem::path path)
    : path_(std::move(path)),
      file_(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
                   S_IRUSR | S_IWUSR)) {
  if (!file_.is_open()) {
    throw FileError("open", path_, errno);
  }
}

bool LockFile::lock_shared(TimePoint until) {
  if (!lock(Byte::kDoor, F_RDLCK, until)) {
    return false;
  }
  const bool inside = lock(Byte::kInside, F_RDLCK, until);
  struct flock door = lock_of(F_UNLCK, static_cast<off_t>(Byte::kDoor), 1);
  ::fcntl(file_.fd(), F_OFD_SETLK, &door);
  return inside;
}

bool LockFile::lock_alone(TimePoint until) {
  if (lock(Byte::kDoor, F_WRLCK, until) && lock(Byte::kInside, F_WRLCK, until)) {
    return true;
  }
  unlock();
  return false;
}

void LockFile::unlock() noexcept {
  struct flock both = lock_of(F_UNLCK, 0, 2);
  const int result = ::fcntl(file_.fd(), F_OFD_SETLK, &both);
  HOLDFAST_CHECK(result == 0, "what is at the edge of a lock, or all of it, can be unlocked");
}

bool LockFile::try_lock(Byte byte, short type) {
  struct flock lock = lock_of(type, static_cast<off_t>(byte), 1);
  while (::fcntl(file_.fd(), F_OFD_SETLK, &lock) != 0) {
    if (errno == EAGAIN || errno == EACCES) {
      return false;
    }
    if (errno != EINTR) {
      throw FileError("lock", path_, errno);
    }
  }
  return true;
}

bool LockFile::lock(Byte byte, short type, TimePoint until) {
  for (Duration length = kNapMin; !try_lock(byte, type); length = std::min(2 * length, kNapMax)) {
    if (MonotonicTime::now() >= until) {
      return false;
    }
    nap(length);
  }
  return true;
}

bool LockFile::is_settled() const {
  char mark = kUnsettled;
  return ::pread(file_.fd(), &mark, 1, 0) == 1 && mark == kSettled;
}

void LockFile::set_settled(bool settled) {
  const char mark = settled ? kSettled : kUnsettled;
  if (::pwrite(file_.fd(), &mark, 1, 0) != 1) {
    throw FileError("write", path_, errno);
  }
}

}  // namespace holdfast::detail
