// SPDX-License-Identifier: Apache-2.0
// Everything that can race for a waiter, in thousands of interleavings: each seed is one, and is
// printed with a failure. What must always hold: never more inside than the capacity, nobody who
// gave up is inside, all units come back, nobody waits for ever, and grants follow the queue.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include <holdfast/keyed_mutex.hpp>
#include <holdfast/mutex.hpp>
#include <holdfast/rate_limiter.hpp>
#include <holdfast/semaphore.hpp>
#include <holdfast/shared_mutex.hpp>
#include <holdfast/this_task.hpp>

#include "coro/test_world.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kSeeds = 5'000;

/// What the tasks of one run have seen.
struct Observer {
  std::int64_t inside = 0;
  std::int64_t capacity = 1;
  std::int64_t most_over = 0;
  int granted = 0;
  int timed_out = 0;
  int cancelled = 0;
  int refused = 0;

  void enter(std::int64_t weight) {
    inside += weight;
    ++granted;
    most_over = std::max(most_over, inside - capacity);
  }
  void leave(std::int64_t weight) { inside -= weight; }
  [[nodiscard]] int ended() const { return granted + timed_out + cancelled + refused; }
};

/// Totals over all seeds: a test of a race that never happened would show nothing.
struct Totals {
  int granted = 0;
  int timed_out = 0;
  int cancelled = 0;
  int refused = 0;
  void add(const Observer& observer) {
    granted += observer.granted;
    timed_out += observer.timed_out;
    cancelled += observer.cancelled;
    refused += observer.refused;
  }
};

template <typename MakeAcquire>
Task<void> visit(MakeAcquire make_acquire, std::int64_t weight, Observer& observer, int steps) {
  try {
    auto operation = make_acquire();
    const Hold hold = co_await operation;
    observer.enter(weight);
    for (int i = 0; i < steps; ++i) {
      co_await this_task::yield();
    }
    observer.leave(weight);
  } catch (const TimedOut&) {
    ++observer.timed_out;
  } catch (const Cancelled&) {
    ++observer.cancelled;
  } catch (const Unsatisfiable&) {
    ++observer.refused;
  }
}

/// Lets time pass in small steps among the other tasks, so that time-outs fall anywhere.
Task<void> pass_time(VirtualClock& clock, int steps) {
  for (int i = 0; i < steps; ++i) {
    co_await this_task::yield();
    clock.advance(1ms);
  }
}

/// Stops the tasks of `sources` one by one among the other tasks.
Task<void> stop_some(std::vector<std::stop_source>& sources) {
  for (auto& source : sources) {
    co_await this_task::yield();
    source.request_stop();
  }
}

void finish(SeededExecutor& executor, VirtualClock& clock) {
  executor.drain();
  clock.advance(1h);
  executor.drain();
}

TEST(Races, CancelAgainstGrant) {
  Totals totals;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    VirtualClock clock;
    SeededExecutor executor(clock, seed);
    Mutex mutex;
    Observer observer;
    std::vector<std::stop_source> sources(4);
    std::vector<Spawned<void>> tasks;
    for (std::size_t i = 0; i < 8; ++i) {
      const std::stop_token stop = i % 2 == 0 ? sources[i / 2].get_token() : std::stop_token{};
      tasks.push_back(
          spawn(executor, visit([&mutex, stop] { return mutex.lock({}, stop); }, 1, observer, 2)));
    }
    auto stopper = spawn(executor, stop_some(sources));
    finish(executor, clock);
    ASSERT_EQ(observer.ended(), 8) << "seed " << seed;
    ASSERT_LE(observer.most_over, 0) << "seed " << seed;
    ASSERT_FALSE(mutex.is_locked()) << "seed " << seed;
    ASSERT_GE(observer.granted, 4) << "seed " << seed;
    totals.add(observer);
  }
  EXPECT_GT(totals.cancelled, 100);
  EXPECT_GT(totals.granted, 100);
}

TEST(Races, StopOfTheTaskAgainstGrant) {
  Totals totals;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    VirtualClock clock;
    SeededExecutor executor(clock, seed);
    Mutex mutex;
    Observer observer;
    std::vector<std::stop_source> sources(8);
    std::vector<Spawned<void>> tasks;
    for (auto& source : sources) {
      tasks.push_back(spawn(executor, visit([&mutex] { return mutex.lock(); }, 1, observer, 1), {},
                            source.get_token()));
    }
    sources.resize(4);
    auto stopper = spawn(executor, stop_some(sources));
    finish(executor, clock);
    ASSERT_EQ(observer.ended(), 8) << "seed " << seed;
    ASSERT_LE(observer.most_over, 0) << "seed " << seed;
    ASSERT_FALSE(mutex.is_locked()) << "seed " << seed;
    totals.add(observer);
  }
  EXPECT_GT(totals.cancelled, 100);
  EXPECT_GT(totals.granted, 100);
}

TEST(Races, TimeOutAgainstGrant) {
  Totals totals;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    VirtualClock clock;
    SeededExecutor executor(clock, seed);
    Mutex mutex;
    Observer observer;
    std::vector<Spawned<void>> tasks;
    for (int i = 0; i < 8; ++i) {
      const WaitOptions options{.timeout = i * 2ms};
      tasks.push_back(spawn(
          executor, visit([&mutex, options] { return mutex.lock(options); }, 1, observer, 2)));
    }
    auto time = spawn(executor, pass_time(clock, 10));
    finish(executor, clock);
    ASSERT_EQ(observer.ended(), 8) << "seed " << seed;
    ASSERT_LE(observer.most_over, 0) << "seed " << seed;
    ASSERT_FALSE(mutex.is_locked()) << "seed " << seed;
    ASSERT_EQ(clock.armed_count(), 0U) << "seed " << seed;
    totals.add(observer);
  }
  EXPECT_GT(totals.timed_out, 100);
  EXPECT_GT(totals.granted, 100);
}

TEST(Races, CapacityChangeAgainstCancelTimeOutAndGrant) {
  Totals totals;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    VirtualClock clock;
    SeededExecutor executor(clock, seed);
    Semaphore semaphore(2, {.overtakes_max = seed % 2 == 0 ? 0U : 2U});
    Observer observer;
    observer.capacity = 4;  // The highest that the capacity ever gets.
    std::vector<std::stop_source> sources(4);
    std::vector<Spawned<void>> tasks;
    for (std::size_t i = 0; i < 12; ++i) {
      const auto weight = static_cast<std::int64_t>(1 + i % 3);
      const std::stop_token stop = i % 3 == 0 ? sources[i / 3].get_token() : std::stop_token{};
      WaitOptions options{.priority = static_cast<int>(i % 2)};
      if (i % 3 == 1) {
        options.timeout = static_cast<int>(i) * 1ms;
      }
      tasks.push_back(
          spawn(executor, visit([&semaphore, weight, options,
                                 stop] { return semaphore.acquire(weight, options, stop); },
                                weight, observer, 2)));
    }
    auto stopper = spawn(executor, stop_some(sources));
    auto time = spawn(executor, pass_time(clock, 10));
    const auto changer = [](Semaphore& limit, std::uint64_t number) -> Task<void> {
      std::mt19937_64 random(number);
      for (int i = 0; i < 8; ++i) {
        co_await this_task::yield();
        limit.set_capacity(static_cast<std::int64_t>(1 + random() % 4));
      }
      limit.set_capacity(3);
    };
    auto capacity = spawn(executor, changer(semaphore, seed));
    finish(executor, clock);
    ASSERT_EQ(observer.ended(), 12) << "seed " << seed;
    ASSERT_LE(observer.most_over, 0) << "seed " << seed;
    ASSERT_EQ(semaphore.available(), 3) << "seed " << seed;
    ASSERT_EQ(semaphore.queue_length(), 0U) << "seed " << seed;
    totals.add(observer);
  }
  EXPECT_GT(totals.granted, 100);
  EXPECT_GT(totals.timed_out, 100);
  EXPECT_GT(totals.cancelled, 100);
  EXPECT_GT(totals.refused, 100);
}

TEST(Races, DestructionAgainstEverything) {
  int closed = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    VirtualClock clock;
    SeededExecutor executor(clock, seed);
    auto mutex = std::make_unique<Mutex>();
    int ended = 0;
    const auto visitor = [](std::unique_ptr<Mutex>& lock, int& count, int& closings,
                            int i) -> Task<void> {
      try {
        if (lock == nullptr) {
          throw Closed("gone before it came");
        }
        auto operation = lock->lock({.timeout = (1 + i) * 1ms});
        co_await this_task::yield();  // The lock may go between the making and the awaiting.
        const Hold hold = co_await operation;
        co_await this_task::yield();
        co_await this_task::yield();
      } catch (const Closed&) {
        ++closings;
      } catch (const TimedOut&) {
      }
      ++count;
    };
    std::vector<Spawned<void>> tasks;
    for (int i = 0; i < 6; ++i) {
      tasks.push_back(spawn(executor, visitor(mutex, ended, closed, i)));
    }
    const auto destroyer = [](std::unique_ptr<Mutex>& lock) -> Task<void> {
      for (int i = 0; i < 4; ++i) {
        co_await this_task::yield();
      }
      lock.reset();
    };
    auto end = spawn(executor, destroyer(mutex));
    auto time = spawn(executor, pass_time(clock, 5));
    finish(executor, clock);
    ASSERT_EQ(ended, 6) << "seed " << seed;
    ASSERT_EQ(clock.armed_count(), 0U) << "seed " << seed;
  }
  EXPECT_GT(closed, 100);
}

TEST(Races, RateLimiterAgainstCancelAndTimeOut) {
  Totals totals;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    VirtualClock clock;
    SeededExecutor executor(clock, seed);
    RateLimiter limiter(clock, {.at_once = 2, .rate = {.count = 1, .period = 2ms, .burst = 2}});
    Observer observer;
    observer.capacity = 2;
    std::vector<std::stop_source> sources(3);
    std::vector<Spawned<void>> tasks;
    for (std::size_t i = 0; i < 9; ++i) {
      const std::stop_token stop = i % 3 == 0 ? sources[i / 3].get_token() : std::stop_token{};
      WaitOptions options;
      if (i % 3 == 1) {
        options.timeout = static_cast<int>(i) * 1ms;
      }
      const auto tokens = static_cast<std::int64_t>(1 + i % 2);
      tasks.push_back(
          spawn(executor, visit([&limiter, tokens, options,
                                 stop] { return limiter.acquire(tokens, options, stop); },
                                1, observer, 2)));
    }
    auto stopper = spawn(executor, stop_some(sources));
    auto time = spawn(executor, pass_time(clock, 10));
    finish(executor, clock);
    ASSERT_EQ(observer.ended(), 9) << "seed " << seed;
    ASSERT_LE(observer.most_over, 0) << "seed " << seed;
    ASSERT_EQ(limiter.available(), 2) << "seed " << seed;
    ASSERT_EQ(clock.armed_count(), 0U) << "seed " << seed;
    totals.add(observer);
  }
  EXPECT_GT(totals.timed_out, 100);
  EXPECT_GT(totals.cancelled, 100);
}

TEST(Races, KeyedEntriesComeAndGoAndNoneIsLeft) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    VirtualClock clock;
    SeededExecutor executor(clock, seed);
    KeyedMutex<int> mutex;
    std::vector<int> inside(2, 0);
    bool overlap = false;
    const auto visitor = [](KeyedMutex<int>& locks, std::vector<int>& in, bool& both, int key,
                            WaitOptions options) -> Task<void> {
      for (int i = 0; i < 3; ++i) {
        try {
          const Hold hold = co_await locks.lock(key, options);
          both = both || ++in[static_cast<std::size_t>(key)] > 1;
          co_await this_task::yield();
          --in[static_cast<std::size_t>(key)];
        } catch (const TimedOut&) {
        }
      }
    };
    std::vector<Spawned<void>> tasks;
    for (int i = 0; i < 8; ++i) {
      WaitOptions options;
      if (i % 2 == 0) {
        options.timeout = i * 1ms;
      }
      tasks.push_back(spawn(executor, visitor(mutex, inside, overlap, i % 2, options)));
    }
    auto time = spawn(executor, pass_time(clock, 10));
    finish(executor, clock);
    ASSERT_FALSE(overlap) << "seed " << seed;
    ASSERT_EQ(mutex.size(), 0U) << "seed " << seed;
  }
}

TEST(Races, WritersAreAloneAndReadersNeverPassAWaitingWriter) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    VirtualClock clock;
    SeededExecutor executor(clock, seed);
    SharedMutex mutex;
    int readers = 0;
    int writers = 0;
    bool broken = false;
    const auto reader = [&](int) -> Task<void> {
      const Hold hold = co_await mutex.lock_shared();
      ++readers;
      broken = broken || writers > 0;
      co_await this_task::yield();
      --readers;
    };
    const auto writer = [&](int) -> Task<void> {
      const Hold hold = co_await mutex.lock();
      ++writers;
      broken = broken || writers > 1 || readers > 0;
      co_await this_task::yield();
      --writers;
    };
    std::vector<Spawned<void>> tasks;
    for (int i = 0; i < 10; ++i) {
      tasks.push_back(spawn(executor, i % 3 == 0 ? writer(i) : reader(i)));
    }
    finish(executor, clock);
    ASSERT_FALSE(broken) << "seed " << seed;
    for (auto& task : tasks) {
      ASSERT_TRUE(task.ended()) << "seed " << seed;
    }
  }
}

// Whoever asks first is served first, under every interleaving of the rest.
TEST(Races, GrantsFollowTheQueue) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    VirtualClock clock;
    SeededExecutor executor(clock, seed);
    Mutex mutex;
    std::vector<int> asked;
    std::vector<int> served;
    const auto visitor = [](Mutex& lock, std::vector<int>& asking, std::vector<int>& serving,
                            int id) -> Task<void> {
      for (int i = 0; i < 3; ++i) {
        asking.push_back(id);  // Nothing can come between this and the place in the queue.
        const Hold hold = co_await lock.lock();
        serving.push_back(id);
        co_await this_task::yield();
      }
    };
    std::vector<Spawned<void>> tasks;
    for (int id = 0; id < 5; ++id) {
      tasks.push_back(spawn(executor, visitor(mutex, asked, served, id)));
    }
    finish(executor, clock);
    ASSERT_EQ(asked, served) << "seed " << seed;
  }
}

}  // namespace
}  // namespace holdfast
