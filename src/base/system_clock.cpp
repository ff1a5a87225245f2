// SPDX-License-Identifier: Apache-2.0
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <mutex>
#include <system_error>
#include <thread>

#include <holdfast/clock.hpp>

#include "timer_queue.hpp"

namespace holdfast {

namespace {

// The smallest time that timerfd takes for an alarm: zero would switch it off.
constexpr TimePoint kAtOnce{Duration{1}};

timespec to_timespec(TimePoint at) noexcept {
  const auto since_start = at.time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_start);
  return {.tv_sec = static_cast<time_t>(seconds.count()),
          .tv_nsec = static_cast<long>((since_start - seconds).count())};
}

}  // namespace

TimePoint MonotonicTime::now() noexcept {
  timespec time{};
  clock_gettime(CLOCK_BOOTTIME, &time);
  return TimePoint{std::chrono::seconds{time.tv_sec} + Duration{time.tv_nsec}};
}

/// Sleeps in a read of a timerfd, which any thread can set to an earlier time.
class SystemClock::Thread {
 public:
  Thread() : alarm_fd_(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC)) {
    if (alarm_fd_ < 0) {
      throw std::system_error(errno, std::generic_category(), "timerfd_create");
    }
  }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  ~Thread() {
    if (thread_.joinable()) {
      stopping_ = true;
      set_alarm(kAtOnce);
      thread_.join();
    }
    close(alarm_fd_);
  }

  void arm(Timer& timer, TimePoint at) {
    std::call_once(started_, [this] { thread_ = std::thread([this] { run(); }); });
    if (queue_.arm(timer, at)) {
      wake_by(at);
    }
  }

  void disarm(Timer& timer) noexcept { queue_.disarm(timer); }
  bool try_disarm(Timer& timer) noexcept { return queue_.try_disarm(timer); }

 private:
  void run() noexcept {
    while (!stopping_) {
      while (queue_.fire_next(MonotonicTime::now())) {
      }
      {
        const std::scoped_lock lock(alarm_mutex_);
        const auto due = queue_.next_due();
        alarm_at_ = due.value_or(TimePoint::max());
        set_alarm(alarm_at_);
      }
      std::uint64_t expirations = 0;
      while (!stopping_ && read(alarm_fd_, &expirations, sizeof expirations) < 0 &&
             errno == EINTR) {
      }
    }
  }

  void wake_by(TimePoint at) noexcept {
    const std::scoped_lock lock(alarm_mutex_);
    if (at < alarm_at_) {
      alarm_at_ = at;
      set_alarm(at);
    }
  }

  void set_alarm(TimePoint at) const noexcept {
    const itimerspec alarm{.it_interval = {}, .it_value = to_timespec(std::max(at, kAtOnce))};
    timerfd_settime(alarm_fd_, TFD_TIMER_ABSTIME, &alarm, nullptr);
  }

  detail::TimerQueue queue_;
  std::mutex alarm_mutex_;
  TimePoint alarm_at_ = TimePoint::max();
  int alarm_fd_;
  std::atomic<bool> stopping_ = false;
  std::once_flag started_;
  std::thread thread_;
};

SystemClock::SystemClock() : thread_(std::make_unique<Thread>()) {}
SystemClock::~SystemClock() = default;

void SystemClock::arm(Timer& timer, TimePoint at) { thread_->arm(timer, at); }
void SystemClock::disarm(Timer& timer) noexcept { thread_->disarm(timer); }
bool SystemClock::try_disarm(Timer& timer) noexcept { return thread_->try_disarm(timer); }

}  // namespace holdfast
