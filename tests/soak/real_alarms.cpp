// SPDX-License-Identifier: Apache-2.0
//
// To be loaded before libfaketime. That one shifts every alarm of a timerfd by as much as it shifts
// the time of day, also on clocks that it was told to leave alone: so they would come hours too
// late, which no real clock that is set makes them do.
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

extern "C" int timerfd_settime(int fd, int flags, const itimerspec* alarm,
                               itimerspec* before) noexcept {
  return static_cast<int>(syscall(SYS_timerfd_settime, fd, flags, alarm, before));
}
