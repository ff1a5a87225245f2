// SPDX-License-Identifier: Apache-2.0
// Bugs that were found by reading, each with the test that failed.
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <holdfast/sync.hpp>

namespace holdfast {
namespace {

using namespace std::chrono_literals;

TEST(Regressions, AKeyWhoseLimitsAreRefusedIsNotLeftBehindWithoutAny) {
  VirtualClock clock;
  std::uint32_t count = 0;
  KeyedRateLimiter<int> limiter(
      clock, [&](int) { return RateLimits{.at_once = 1, .rate = {.count = count, .period = 1s}}; });
  EXPECT_THROW(static_cast<void>(limiter.try_acquire(1)), InvalidArgument);
  EXPECT_EQ(limiter.size(), 0U);
  EXPECT_THROW(static_cast<void>(limiter.try_acquire(1)), InvalidArgument) << "not unlimited";
  count = 1;
  EXPECT_TRUE(limiter.try_acquire(1));
  EXPECT_FALSE(limiter.try_acquire(1)) << "its token is spent";
}

TEST(Regressions, AThreadThatWillNotWaitDropsNobodyFromAFullQueue) {
  VirtualClock clock;
  ManualExecutor executor(clock);
  Mutex mutex({.queue = QueueLimit::drop_oldest(1)});
  auto held = mutex.try_lock();
  auto waits = spawn(executor, [](Mutex& lock) -> Task<bool> {
    const Hold hold = co_await lock.lock();
    co_return static_cast<bool>(hold);
  }(mutex));
  executor.drain();
  EXPECT_THROW(static_cast<void>(mutex.lock({.timeout = 0s}).wait()), TimedOut);
  EXPECT_EQ(mutex.queue_length(), 1U);
  held->release();
  executor.drain();
  EXPECT_TRUE(waits.get());
}

TEST(Regressions, AnEndlessSleepIsNoOverflow) {
  VirtualClock clock;
  ManualExecutor executor(clock);
  clock.advance(1h);
  auto sleeps =
      spawn(executor, []() -> Task<void> { co_await this_task::sleep_for(Duration::max()); }());
  executor.drain();
  clock.advance(1000h);
  executor.drain();
  EXPECT_FALSE(sleeps.ended());
  sleeps.request_stop();
  executor.drain();
  EXPECT_THROW(sleeps.get(), Cancelled);
}

// The release posts to the pool, which may be gone as soon as the task has run.
TEST(Regressions, APoolMayGoAsSoonAsItsTasksHaveEnded) {
  for (int i = 0; i < 300; ++i) {
    Mutex mutex;
    auto held = mutex.try_lock();
    std::thread releases;
    {
      auto pool = std::make_unique<ThreadPool>(1);
      auto task = spawn(
          *pool, [](Mutex& lock) -> Task<void> { const Hold hold = co_await lock.lock(); }(mutex));
      while (mutex.queue_length() == 0) {
        std::this_thread::yield();
      }
      releases = std::thread([&] { held->release(); });
      task.get();
    }
    releases.join();
  }
}

}  // namespace
}  // namespace holdfast
