// SPDX-License-Identifier: Apache-2.0
// Real threads, for the memory model and for ThreadSanitizer: bounded work, no sleeping.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include <holdfast/all_any.hpp>
#include <holdfast/deadlock.hpp>
#include <holdfast/keyed_mutex.hpp>
#include <holdfast/mutex.hpp>
#include <holdfast/rate_limiter.hpp>
#include <holdfast/semaphore.hpp>
#include <holdfast/shared_mutex.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/this_task.hpp>

namespace holdfast {
namespace {

using namespace std::chrono_literals;

TEST(Threads, TasksAndThreadsExcludeEachOther) {
  ThreadPool pool(4);
  Mutex mutex;
  long counter = 0;  // Not atomic on purpose.
  const auto body = [](Mutex& lock, long& count) -> Task<void> {
    for (int i = 0; i < 2'000; ++i) {
      const Hold hold = co_await lock.lock();
      ++count;
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2'000; ++i) {
        const Hold hold = mutex.lock().wait();
        ++counter;
      }
    });
  }
  std::vector<Task<void>> tasks;
  for (int i = 0; i < 8; ++i) {
    tasks.push_back(body(mutex, counter));
  }
  sync_wait(pool, all(std::move(tasks)));
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(counter, 20'000);
}

TEST(Threads, GrantsRaceWithRealTimeOutsAndStopsAndNothingIsLost) {
  ThreadPool pool(4);
  Semaphore semaphore(2);
  std::atomic<int> inside = 0;
  std::atomic<int> most = 0;
  std::atomic<int> granted = 0;
  std::atomic<int> ended_early = 0;
  const auto body = [&](std::uint64_t seed) -> Task<void> {
    std::mt19937_64 random(seed);
    for (int i = 0; i < 200; ++i) {
      std::stop_source source;
      if (random() % 4 == 0) {
        source.request_stop();
      }
      WaitOptions options;
      if (random() % 2 == 0) {
        options.timeout = Duration{random() % 20'000};
      }
      try {
        auto operation = semaphore.acquire(1 + static_cast<std::int64_t>(random() % 2), options,
                                           source.get_token());
        const Hold hold = co_await operation;
        const int now_in = inside += static_cast<int>(hold.weight());
        int seen = most;
        while (now_in > seen && !most.compare_exchange_weak(seen, now_in)) {
        }
        ++granted;
        co_await this_task::yield();
        inside -= static_cast<int>(hold.weight());
      } catch (const Error&) {
        ++ended_early;
      }
    }
  };
  std::vector<Task<void>> tasks;
  for (std::uint64_t i = 0; i < 16; ++i) {
    tasks.push_back(body(i));
  }
  sync_wait(pool, all(std::move(tasks)));
  EXPECT_EQ(granted + ended_early, 3'200);
  EXPECT_GT(granted, 0);
  EXPECT_GT(ended_early, 0);
  EXPECT_LE(most, 2);
  EXPECT_EQ(semaphore.available(), 2);
  EXPECT_EQ(semaphore.queue_length(), 0U);
}

TEST(Threads, StopsFromAnotherThreadRaceWithGrants) {
  ThreadPool pool(3);
  Mutex mutex;
  std::atomic<int> ended = 0;
  const auto body = [](Mutex& lock, std::atomic<int>& count) -> Task<void> {
    try {
      const Hold hold = co_await lock.lock();
      co_await this_task::yield();
    } catch (const Cancelled&) {
    }
    ++count;
  };
  constexpr int kRounds = 500;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<Spawned<void>> tasks;
    for (int i = 0; i < 4; ++i) {
      tasks.push_back(spawn(pool, body(mutex, ended)));
    }
    std::thread stopper([&] {
      for (auto& task : tasks) {
        task.request_stop();
      }
    });
    stopper.join();
    for (auto& task : tasks) {
      task.get();
    }
  }
  EXPECT_EQ(ended, kRounds * 4);
  EXPECT_FALSE(mutex.is_locked());
}

TEST(Threads, CapacityChangesRaceWithAcquiresAndReleases) {
  ThreadPool pool(3);
  Semaphore semaphore(1);
  std::atomic<bool> done = false;
  std::thread changer([&] {
    std::int64_t capacity = 1;
    while (!done) {
      capacity = capacity % 4 + 1;
      semaphore.set_capacity(capacity);
    }
    semaphore.set_capacity(4);
  });
  const auto body = [](Semaphore& limit) -> Task<void> {
    for (int i = 0; i < 1'000; ++i) {
      const Hold hold = co_await limit.acquire();
    }
  };
  std::vector<Task<void>> tasks;
  for (int i = 0; i < 8; ++i) {
    tasks.push_back(body(semaphore));
  }
  sync_wait(pool, all(std::move(tasks)));
  done = true;
  changer.join();
  EXPECT_EQ(semaphore.available(), 4);
}

TEST(Threads, ReadersShareWhatAWriterWrote) {
  ThreadPool pool(4);
  SharedMutex mutex;
  std::vector<int> data(64, 0);
  std::atomic<int> torn = 0;
  const auto reader = [&]() -> Task<void> {
    for (int i = 0; i < 500; ++i) {
      const Hold hold = co_await mutex.lock_shared();
      torn += data.front() == data.back() ? 0 : 1;
    }
  };
  const auto writer = [&]() -> Task<void> {
    for (int i = 0; i < 500; ++i) {
      const Hold hold = co_await mutex.lock();
      for (int& one : data) {
        ++one;
      }
    }
  };
  sync_wait(pool, all(reader(), writer(), reader(), writer(), reader()));
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(data.front(), 1'000);
}

TEST(Threads, LocksAreMadeAndDestroyedWhileOthersWait) {
  ThreadPool pool(3);
  std::atomic<int> ended = 0;
  const auto body = [](Mutex& lock, std::atomic<int>& started,
                       std::atomic<int>& count) -> Task<void> {
    try {
      auto operation = lock.lock({.timeout = 1h});
      ++started;
      const Hold hold = co_await operation;
    } catch (const Closed&) {
    }
    ++count;
  };
  constexpr int kRounds = 500;
  for (int round = 0; round < kRounds; ++round) {
    auto mutex = std::make_unique<Mutex>();
    std::atomic<int> started = 0;
    auto hold = mutex->try_lock();
    std::vector<Spawned<void>> tasks;
    for (int i = 0; i < 3; ++i) {
      tasks.push_back(spawn(pool, body(*mutex, started, ended)));
    }
    while (started < 3) {
      std::this_thread::yield();
    }
    if (round % 2 == 0) {
      std::thread([&] { hold->release(); }).join();
    }
    mutex.reset();
    for (auto& task : tasks) {
      task.get();
    }
  }
  EXPECT_EQ(ended, kRounds * 3);
}

TEST(Threads, ADetectorWatchesLocksOfManyThreads) {
  ThreadPool pool(4);
  DeadlockDetector detector;
  Mutex a({.name = "a", .detector = &detector, .measure = &pool.clock()});
  Mutex b({.name = "b", .detector = &detector, .measure = &pool.clock()});
  std::atomic<int> deadlocks = 0;
  std::atomic<int> done = 0;
  const auto body = [&](bool turned) -> Task<void> {
    for (int i = 0; i < 300; ++i) {
      try {
        const Hold one = co_await (turned ? b : a).lock();
        co_await this_task::yield();
        const Hold two = co_await (turned ? a : b).lock();
        ++done;
      } catch (const DeadlockError&) {
        ++deadlocks;
      }
    }
  };
  sync_wait(pool, all(body(false), body(true), body(false), body(true)));
  EXPECT_EQ(done + deadlocks, 1'200);
  EXPECT_EQ(a.contention().hold.count(), a.contention().acquisitions);
  EXPECT_EQ(detector.inversions().size(), 1U);
}

TEST(Threads, KeyedLocksAndRatesAreSharedByMany) {
  ThreadPool pool(4);
  KeyedMutex<int> mutex;
  std::vector<long> counters(5, 0);
  const auto body = [&](int offset) -> Task<void> {
    for (int i = 0; i < 1'000; ++i) {
      const int key = (i + offset) % 5;
      const Hold hold = co_await mutex.lock(key);
      ++counters[static_cast<std::size_t>(key)];
    }
  };
  sync_wait(pool, all(body(0), body(1), body(2), body(3)));
  EXPECT_EQ(counters, std::vector<long>(5, 800));
  EXPECT_EQ(mutex.size(), 0U);
}

// The release posts to the pool, which may be gone as soon as the task has run.
TEST(Threads, APoolMayGoAsSoonAsItsTasksHaveEnded) {
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
