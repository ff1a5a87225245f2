// SPDX-License-Identifier: Apache-2.0
#include <holdfast/asio.hpp>

#include <array>
#include <exception>
#include <future>
#include <semaphore>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/connect_pair.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/asio/write.hpp>

#include <holdfast/sync.hpp>

#include "sync/allocation_count.hpp"

namespace holdfast {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using testing::ElementsAre;

/// A handler that keeps what it was given, for the executor of `io`.
struct Outcome {
  std::exception_ptr error;
  Hold hold;
  int calls = 0;

  auto on(asio::io_context& io) {
    return asio::bind_executor(io, [this](std::exception_ptr failure, Hold granted) {
      error = std::move(failure);
      hold = std::move(granted);
      ++calls;
    });
  }
  [[nodiscard]] std::optional<ErrorCode> code() const {
    try {
      if (error != nullptr) {
        std::rethrow_exception(error);
      }
    } catch (const Error& failure) {
      return failure.code();
    }
    return std::nullopt;
  }
};

TEST(AsioWait, AFreeLockIsGrantedLaterNotInsideTheCall) {
  asio::io_context io;
  Mutex mutex;
  Outcome outcome;
  async_wait(mutex.lock(), outcome.on(io));
  EXPECT_EQ(outcome.calls, 0);
  io.run();
  EXPECT_EQ(outcome.calls, 1);
  EXPECT_TRUE(outcome.hold);
  EXPECT_EQ(outcome.error, nullptr);
  EXPECT_TRUE(mutex.is_locked());
}

TEST(AsioWait, AReleaseGrantsButDoesNotRunTheHandler) {
  asio::io_context io;
  Mutex mutex;
  Outcome outcome;
  auto held = mutex.try_lock();
  async_wait(mutex.lock(), outcome.on(io));
  io.poll();
  EXPECT_EQ(outcome.calls, 0);
  EXPECT_EQ(mutex.queue_length(), 1U);
  held->release();
  EXPECT_EQ(outcome.calls, 0);
  EXPECT_TRUE(mutex.is_locked()) << "nobody slips in between";
  io.poll();
  EXPECT_EQ(outcome.calls, 1);
  EXPECT_TRUE(outcome.hold);
}

TEST(AsioWait, TheIoContextHasWorkWhileTheWaitLasts) {
  asio::io_context io;
  Mutex mutex;
  Outcome outcome;
  auto held = mutex.try_lock();
  async_wait(mutex.lock(), outcome.on(io));
  EXPECT_EQ(io.poll(), 0U);
  EXPECT_FALSE(io.stopped());
  std::thread releases([&] { held->release(); });
  io.run();
  releases.join();
  EXPECT_TRUE(outcome.hold);
}

TEST(AsioWait, EveryKindOfCompletionTokenWorks) {
  asio::io_context io;
  Mutex mutex;
  KeyedMutex<std::string> keyed;
  Mutex other;
  std::vector<std::string> seen;
  asio::co_spawn(
      io,
      [&]() -> asio::awaitable<void> {
        {
          const Hold hold = co_await async_wait(mutex.lock(), asio::use_awaitable);
          EXPECT_TRUE(hold);
          seen.emplace_back("awaitable");
        }
        auto deferred = async_wait(mutex.lock(), asio::deferred);
        EXPECT_FALSE(mutex.is_locked()) << "a deferred operation has not started";
        {
          const Hold hold = co_await std::move(deferred)(asio::use_awaitable);
          EXPECT_TRUE(hold);
          seen.emplace_back("deferred");
        }
        {
          auto [error, hold] =
              co_await async_wait(mutex.lock(), asio::as_tuple(asio::use_awaitable));
          EXPECT_EQ(error, nullptr);
          EXPECT_TRUE(hold);
          seen.emplace_back("as_tuple");
        }
        {
          const Hold hold = co_await async_wait(
              keyed.lock("a key that is long enough to need memory"), asio::use_awaitable);
          EXPECT_EQ(keyed.size(), 1U);
          seen.emplace_back("keyed");
        }
        EXPECT_EQ(keyed.size(), 0U);
        {
          const auto holds = co_await async_wait(lock_all(other, mutex), asio::use_awaitable);
          EXPECT_TRUE(holds[0] && holds[1]);
          EXPECT_TRUE(mutex.is_locked() && other.is_locked());
          seen.emplace_back("lock_all");
        }
      },
      asio::detached);
  io.run();
  EXPECT_THAT(seen, ElementsAre("awaitable", "deferred", "as_tuple", "keyed", "lock_all"));
  EXPECT_TRUE(async_wait(mutex.lock(), asio::use_future).get());
  EXPECT_FALSE(mutex.is_locked()) << "the unused hold was released";
}

TEST(AsioWait, ATimeOutEndsTheWaitAndLeavesTheQueue) {
  asio::io_context io;
  Mutex mutex;
  Outcome timed;
  Outcome at_once;
  Outcome late;
  const auto held = mutex.try_lock();
  async_wait(mutex.lock({.timeout = 1ms}), timed.on(io));
  async_wait(mutex.lock({.timeout = 0ms}), at_once.on(io));
  async_wait(mutex.lock({.deadline = MonotonicTime::now() - 1h}), late.on(io));
  EXPECT_EQ(mutex.queue_length(), 1U);
  io.run();
  EXPECT_EQ(timed.code(), ErrorCode::kTimedOut);
  EXPECT_EQ(at_once.code(), ErrorCode::kTimedOut);
  EXPECT_EQ(late.code(), ErrorCode::kTimedOut);
  EXPECT_EQ(mutex.queue_length(), 0U);
}

TEST(AsioWait, AnEndlessTimeOutIsNoTimeOut) {
  asio::io_context io;
  Mutex mutex;
  Outcome outcome;
  auto held = mutex.try_lock();
  async_wait(mutex.lock({.timeout = Duration::max()}), outcome.on(io));
  io.poll();
  held->release();
  io.run();
  EXPECT_TRUE(outcome.hold);
}

TEST(AsioWait, AGrantedWaitDoesNotLeaveItsTimerBehind) {
  asio::io_context io;
  Mutex mutex;
  Outcome outcome;
  auto held = mutex.try_lock();
  async_wait(mutex.lock({.timeout = 24h}), outcome.on(io));
  held->release();
  io.run();  // Would last a day.
  EXPECT_TRUE(outcome.hold);
  EXPECT_EQ(outcome.calls, 1);
}

TEST(AsioWait, AStopTokenEndsTheWaitBeforeAndDuringIt) {
  asio::io_context io;
  Mutex mutex;
  Outcome before;
  Outcome during;
  std::stop_source stopped;
  stopped.request_stop();
  std::stop_source stop;
  async_wait(mutex.lock({}, stopped.get_token()), before.on(io));
  const auto held = mutex.try_lock();
  async_wait(mutex.lock({}, stop.get_token()), during.on(io));
  EXPECT_EQ(mutex.queue_length(), 1U);
  stop.request_stop();
  EXPECT_EQ(during.calls, 0) << "not inside request_stop";
  EXPECT_EQ(mutex.queue_length(), 0U);
  io.run();
  EXPECT_EQ(before.code(), ErrorCode::kCancelled);
  EXPECT_EQ(during.code(), ErrorCode::kCancelled);
}

TEST(AsioWait, EveryTypeOfCancellationLeavesTheQueue) {
  for (const auto type : {asio::cancellation_type::terminal, asio::cancellation_type::partial,
                          asio::cancellation_type::total}) {
    asio::io_context io;
    Mutex mutex;
    Mutex other;
    Outcome outcome;
    asio::cancellation_signal signal;
    const auto held = mutex.try_lock();
    async_wait(mutex.lock({.timeout = 24h}),
               asio::bind_cancellation_slot(signal.slot(), outcome.on(io)));
    signal.emit(type);
    EXPECT_EQ(outcome.calls, 0) << "not inside emit";
    EXPECT_EQ(mutex.queue_length(), 0U);
    io.run();
    EXPECT_EQ(outcome.code(), ErrorCode::kCancelled);
    EXPECT_FALSE(signal.slot().has_handler());

    io.restart();
    std::exception_ptr all_error;
    async_wait(lock_all(other, mutex),
               asio::bind_cancellation_slot(
                   signal.slot(),
                   asio::bind_executor(io, [&](std::exception_ptr error, std::array<Hold, 2>) {
                     all_error = error;
                   })));
    io.poll();
    EXPECT_TRUE(other.is_locked() || mutex.queue_length() == 1);
    signal.emit(type);
    io.run();
    EXPECT_NE(all_error, nullptr);
    EXPECT_FALSE(other.is_locked()) << "all or nothing";
  }
}

TEST(AsioWait, ACancellationThatComesAfterTheGrantTakesNothingBack) {
  asio::io_context io;
  Mutex mutex;
  Outcome outcome;
  asio::cancellation_signal signal;
  auto held = mutex.try_lock();
  async_wait(mutex.lock(), asio::bind_cancellation_slot(signal.slot(), outcome.on(io)));
  held->release();
  signal.emit(asio::cancellation_type::all);
  io.run();
  EXPECT_TRUE(outcome.hold);
  signal.emit(asio::cancellation_type::all);
}

TEST(AsioWait, ADestroyedLockEndsItsWaits) {
  asio::io_context io;
  auto mutex = std::make_unique<Mutex>();
  auto keyed = std::make_unique<KeyedMutex<int>>();
  Outcome plain;
  Outcome by_key;
  Outcome deferred;
  const auto held = mutex->try_lock();
  const auto held_key = keyed->try_lock(1);
  async_wait(mutex->lock(), plain.on(io));
  async_wait(keyed->lock(1), by_key.on(io));
  auto later = async_wait(keyed->lock(2), asio::deferred);
  mutex.reset();
  keyed.reset();
  std::move(later)(deferred.on(io));
  io.run();
  EXPECT_EQ(plain.code(), ErrorCode::kClosed);
  EXPECT_EQ(by_key.code(), ErrorCode::kClosed);
  EXPECT_EQ(deferred.code(), ErrorCode::kClosed);
}

TEST(AsioWait, AKeyIsForgottenWhenItsWaitTimesOut) {
  asio::io_context io;
  KeyedMutex<std::string> keyed;
  Outcome outcome;
  {
    const auto held = keyed.try_lock("key");
    async_wait(keyed.lock("key", {.timeout = 1ms}), outcome.on(io));
    io.run();
    EXPECT_EQ(outcome.code(), ErrorCode::kTimedOut);
    EXPECT_EQ(keyed.size(), 1U);
  }
  EXPECT_EQ(keyed.size(), 0U);
}

/// Counts what is allocated through it and not given back.
template <typename T>
struct CountingAllocator {
  using value_type = T;
  int* live;

  explicit CountingAllocator(int* counter) : live(counter) {}
  template <typename U>
  CountingAllocator(const CountingAllocator<U>& other) : live(other.live) {}
  T* allocate(std::size_t count) {
    ++*live;
    return std::allocator<T>().allocate(count);
  }
  void deallocate(T* block, std::size_t count) {
    --*live;
    std::allocator<T>().deallocate(block, count);
  }
  template <typename U>
  bool operator==(const CountingAllocator<U>& other) const {
    return live == other.live;
  }
};

TEST(AsioWait, TheAssociatedAllocatorIsUsedAndFreeAgainBeforeTheHandlerRuns) {
  for (const WaitOptions options : {WaitOptions{}, WaitOptions{.timeout = 24h}}) {
    asio::io_context io;
    Mutex mutex;
    int live = 0;
    int live_in_handler = -1;
    auto held = mutex.try_lock();
    async_wait(mutex.lock(options),
               asio::bind_allocator(CountingAllocator<void>(&live),
                                    asio::bind_executor(io, [&](std::exception_ptr, Hold) {
                                      live_in_handler = live;
                                    })));
    EXPECT_EQ(live, 1);
    const std::size_t before = allocation_count();
    held->release();
    EXPECT_EQ(allocation_count(), before) << "a release allocates nothing";
    io.run();
    EXPECT_EQ(live_in_handler, 0);
    EXPECT_EQ(live, 0);
  }
}

TEST(AsioWait, ADestroyedIoContextLetsGoOfWhatWaitsOnIt) {
  for (const WaitOptions options : {WaitOptions{}, WaitOptions{.timeout = 24h}}) {
    Mutex mutex;
    KeyedMutex<std::string> keyed;
    const auto kept_by_handlers = std::make_shared<int>();
    auto held = mutex.try_lock();
    auto held_key = keyed.try_lock("key");
    std::stop_source stop;
    {
      asio::io_context io;
      auto handler = asio::bind_executor(
          io, [kept_by_handlers](std::exception_ptr, const Hold&) { ADD_FAILURE(); });
      async_wait(mutex.lock(options, stop.get_token()), handler);
      async_wait(mutex.lock(options), handler);
      async_wait(keyed.lock("key", options), handler);
      io.poll();
      EXPECT_EQ(mutex.queue_length(), 2U);
    }
    EXPECT_EQ(mutex.queue_length(), 0U);
    EXPECT_EQ(kept_by_handlers.use_count(), 1);
    stop.request_stop();
    held->release();
    held_key->release();
    EXPECT_FALSE(mutex.is_locked());
    EXPECT_EQ(keyed.size(), 0U);
  }
}

TEST(AsioWait, AGrantWhoseHandlerCanNeverRunGoesToTheNextInLine) {
  for (const WaitOptions options : {WaitOptions{}, WaitOptions{.timeout = 24h}}) {
    Mutex mutex;
    asio::io_context lives;
    Outcome next;
    auto held = mutex.try_lock();
    {
      asio::io_context dies;
      async_wait(mutex.lock(options),
                 asio::bind_executor(dies, [](std::exception_ptr, const Hold&) { ADD_FAILURE(); }));
      async_wait(mutex.lock(options), next.on(lives));
      held->release();
      EXPECT_EQ(mutex.queue_length(), 1U);
    }
    lives.run();
    EXPECT_TRUE(next.hold);
  }
}

TEST(AsioWait, AGrantThatRacesWithADyingIoContextIsNeverLost) {
  Mutex mutex;
  std::counting_semaphore<> go(0);
  std::counting_semaphore<> done(0);
  std::optional<Hold> held;
  constexpr int kRounds = 2'000;
  std::thread releases([&] {
    for (int i = 0; i < kRounds; ++i) {
      go.acquire();
      held.reset();
      done.release();
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    held = mutex.try_lock();
    ASSERT_TRUE(held) << "lost in round " << i;
    auto io = std::make_unique<asio::io_context>(1);
    Outcome outcome;
    async_wait(mutex.lock(), outcome.on(*io));
    async_wait(mutex.lock(), outcome.on(*io));
    std::stop_source stop;
    async_wait(mutex.lock({}, stop.get_token()),
               [](std::exception_ptr, const Hold&) {});  // On the system's threads.
    go.release();
    if (i % 2 == 0) {
      stop.request_stop();
    }
    if (i % 3 == 0) {
      io->poll();
    }
    done.acquire();  // Whoever releases posts to the context: it must outlive that.
    io.reset();
    outcome.hold = {};
    while (mutex.is_locked() || mutex.queue_length() > 0) {
      std::this_thread::yield();
    }
  }
  releases.join();
}

TEST(AsioWait, TimeOutsStopsAndGrantsRaceWithOneOutcomeEach) {
  asio::io_context io;
  Mutex mutex;
  std::atomic<int> granted = 0;
  std::atomic<int> refused = 0;
  constexpr int kRounds = 3'000;
  auto guard = asio::make_work_guard(io);
  std::array<std::thread, 2> threads;
  for (auto& thread : threads) {
    thread = std::thread([&] { io.run(); });
  }
  for (int i = 0; i < kRounds; ++i) {
    auto held = mutex.lock().wait();
    std::stop_source stop;
    async_wait(mutex.lock({.timeout = std::chrono::microseconds(i % 40)}, stop.get_token()),
               asio::bind_executor(io, [&](const std::exception_ptr& error, const Hold& hold) {
                 ++(hold ? granted : refused);
                 EXPECT_NE(static_cast<bool>(hold), error != nullptr);
               }));
    if (i % 3 == 0) {
      std::this_thread::yield();
    }
    held.release();
    stop.request_stop();
  }
  guard.reset();
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(granted + refused, kRounds);
  EXPECT_FALSE(mutex.is_locked());
}

TEST(ThreeWaysIn, AreServedInTheOrderInWhichTheyCame) {
  asio::io_context io;
  VirtualClock clock;
  ManualExecutor executor(clock);
  Mutex mutex;
  std::mutex order_mutex;
  std::vector<int> order;
  const auto served = [&](int number) {
    const std::scoped_lock lock(order_mutex);
    order.push_back(number);
  };
  const auto as_task = [&](int number) -> Task<void> {
    const Hold hold = co_await mutex.lock();
    served(number);
  };
  auto held = mutex.try_lock();
  std::vector<std::thread> threads;
  std::vector<Spawned<void>> tasks;
  std::vector<int> expected;
  for (int i = 0; i < 30; ++i) {
    expected.push_back(i);
    if (i % 3 == 0) {
      tasks.push_back(spawn(executor, as_task(i)));
      executor.drain();
    } else if (i % 3 == 1) {
      threads.emplace_back([&, i] {
        const Hold hold = mutex.lock().wait();
        served(i);
      });
    } else {
      async_wait(mutex.lock(),
                 asio::bind_executor(io, [&, i](std::exception_ptr, const Hold&) { served(i); }));
    }
    while (mutex.queue_length() < static_cast<std::size_t>(i) + 1) {
      std::this_thread::yield();
    }
  }
  held->release();
  while (mutex.is_locked() || mutex.queue_length() > 0) {
    executor.drain();
    io.poll();
  }
  for (auto& thread : threads) {
    thread.join();
  }
  executor.drain();
  io.run();
  EXPECT_EQ(order, expected);
}

TEST(ThreeWaysIn, ExcludeEachOtherAndAllAreServed) {
  constexpr int kEach = 400;
  Mutex mutex({.name = "shared"});
  std::int64_t guarded = 0;  // Plain on purpose: the mutex is what keeps it whole.
  std::atomic<int> inside = 0;
  const auto critical = [&] {
    EXPECT_EQ(inside.fetch_add(1), 0);
    ++guarded;
    inside.fetch_sub(1);
  };
  asio::io_context io;
  AsioExecutor on_asio(io);
  ThreadPool pool(2);
  const auto as_task = [&]() -> Task<void> {
    for (int i = 0; i < kEach; ++i) {
      const Hold hold = co_await mutex.lock();
      critical();
    }
  };
  const auto as_awaitable = [&]() -> asio::awaitable<void> {
    for (int i = 0; i < kEach; ++i) {
      const Hold hold =
          co_await async_wait(mutex.lock({.timeout = 1h, .priority = i % 2}), asio::use_awaitable);
      critical();
    }
  };
  std::atomic<int> cancelled = 0;
  const auto gives_up = [&]() -> asio::awaitable<void> {
    for (int i = 0; i < kEach; ++i) {
      std::stop_source stop;
      auto waiting = async_wait(mutex.lock({.timeout = std::chrono::microseconds(i)}),
                                asio::as_tuple(asio::use_awaitable));
      auto [error, hold] = co_await std::move(waiting);
      if (error == nullptr) {
        critical();
      } else {
        ++cancelled;
      }
    }
  };
  std::vector<Spawned<void>> tasks;
  for (int i = 0; i < 2; ++i) {
    tasks.push_back(spawn(pool, as_task()));
    tasks.push_back(spawn(on_asio, as_task()));
    asio::co_spawn(io, as_awaitable(), asio::detached);
    asio::co_spawn(io, gives_up(), asio::detached);
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] { io.run(); });
    threads.emplace_back([&] {
      for (int j = 0; j < kEach; ++j) {
        const Hold hold = mutex.lock().wait();
        critical();
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  for (auto& task : tasks) {
    task.get();
  }
  EXPECT_EQ(guarded, 10 * kEach - cancelled);
  EXPECT_FALSE(mutex.is_locked());
}

TEST(AsioExecutorTest, RunsTasksOnTheIoContextUntilTheyHaveEnded) {
  asio::io_context io;
  AsioExecutor executor(io);
  Mutex mutex;
  auto held = mutex.try_lock();
  std::thread::id ran_on;
  auto task = spawn(executor, [](Mutex& lock, std::thread::id& id) -> Task<int> {
    const Hold hold = co_await lock.lock();
    id = std::this_thread::get_id();
    co_return 42;
  }(mutex, ran_on));
  io.poll();
  EXPECT_FALSE(io.stopped()) << "a task that waits is work";
  std::thread releases([&] { held->release(); });
  io.run();
  releases.join();
  EXPECT_EQ(ran_on, std::this_thread::get_id());
  EXPECT_EQ(task.get(), 42);
  EXPECT_EQ(executor.task_count(), 0U);
}

TEST(AsioExecutorTest, LivesByTheClockItIsGiven) {
  asio::io_context io;
  VirtualClock clock;
  AsioExecutor executor(asio::any_io_executor(asio::make_strand(io)), clock);
  bool woke = false;
  auto task = spawn(executor, [](bool& flag) -> Task<void> {
    co_await this_task::sleep_for(24h);
    flag = true;
  }(woke));
  io.poll();
  EXPECT_FALSE(woke);
  clock.advance(24h);
  io.run();
  EXPECT_TRUE(woke);
  task.get();
}

TEST(AsioExecutorTest, PostingAllocatesNothingOnceWarm) {
  asio::io_context io;
  AsioExecutor executor(io);
  const auto count_handoffs = [&](bool from_outside) {
    Semaphore turn(1);
    auto held = turn.try_acquire();
    auto task = spawn(executor, [](Semaphore& semaphore) -> Task<void> {
      for (int i = 0; i < 100; ++i) {
        const Hold hold = co_await semaphore.acquire();
        co_await this_task::yield();
      }
    }(turn));
    io.restart();
    io.poll();
    const std::size_t before = allocation_count();
    if (from_outside) {
      for (int i = 0; i < 10; ++i) {
        held.reset();
        io.run_one();
        held = turn.try_acquire();
        while (!held) {
          io.run_one();
          held = turn.try_acquire();
        }
      }
    }
    held.reset();
    io.run();
    const std::size_t after = allocation_count();
    task.get();
    return after - before;
  };
  static_cast<void>(count_handoffs(true));
  EXPECT_EQ(count_handoffs(false), 0U);
  EXPECT_EQ(count_handoffs(true), 0U);
}

TEST(AsioExecutorDeathTest, ATaskThatIsLeftOverIsNamed) {
  EXPECT_DEATH(
      {
        asio::io_context io;
        Mutex mutex;
        const auto held = mutex.try_lock();
        AsioExecutor executor(io);
        auto task =
            spawn(executor,
                  [](Mutex& lock) -> Task<void> { const Hold hold = co_await lock.lock(); }(mutex),
                  {.name = "left over"});
        io.poll();
      },
      "left over");
}

Task<int> add(int a, int b) {
  co_await this_task::yield();
  co_return a + b;
}
Task<void> fail() {
  co_await this_task::yield();
  throw InvalidArgument("no");
}
Task<void> wait_for_ever() { co_await this_task::sleep_for(24h); }

TEST(AsyncRun, GivesValuesAndFailuresToAnyToken) {
  asio::io_context io;
  AsioExecutor executor(io);
  ThreadPool pool(1);
  int steps = 0;
  asio::co_spawn(
      io,
      [&]() -> asio::awaitable<void> {
        const int sum = co_await async_run(executor, add(1, 2), asio::use_awaitable);
        EXPECT_EQ(sum, 3);
        const int on_pool = co_await async_run(pool, add(3, 4), asio::use_awaitable);
        EXPECT_EQ(on_pool, 7);
        EXPECT_TRUE(io.get_executor().running_in_this_thread());
        auto [error] = co_await async_run(executor, fail(), asio::as_tuple(asio::use_awaitable));
        EXPECT_THROW(std::rethrow_exception(error), InvalidArgument);
        ++steps;
      },
      asio::detached);
  async_run(executor, add(5, 6), [&](const std::exception_ptr& error, int sum) {
    EXPECT_EQ(error, nullptr);
    EXPECT_EQ(sum, 11);
    EXPECT_TRUE(io.get_executor().running_in_this_thread());
    ++steps;
  });
  EXPECT_EQ(steps, 0);
  io.run();
  EXPECT_EQ(steps, 2);
  EXPECT_EQ(async_run(pool, add(1, 1), asio::use_future).get(), 2);
}

TEST(AsyncRun, ACancellationStopsTheTask) {
  asio::io_context io;
  AsioExecutor executor(io);
  asio::cancellation_signal signal;
  bool cancelled = false;
  async_run(executor, wait_for_ever(),
            asio::bind_cancellation_slot(signal.slot(), [&](const std::exception_ptr& error) {
              EXPECT_THROW(std::rethrow_exception(error), Cancelled);
              cancelled = true;
            }));
  io.poll();
  signal.emit(asio::cancellation_type::terminal);
  EXPECT_FALSE(cancelled);
  io.run();
  EXPECT_TRUE(cancelled);
}

TEST(AsyncRun, AnIoContextThatGoesFirstStopsTheTaskAndDestroysTheHandler) {
  ThreadPool pool(1);
  const auto kept = std::make_shared<int>();
  for (int i = 0; i < 200; ++i) {
    asio::io_context io;
    async_run(pool, wait_for_ever(),
              asio::bind_executor(io, [kept](const std::exception_ptr&) { ADD_FAILURE(); }));
    async_run(pool, add(1, 2), asio::bind_executor(io, [kept](const std::exception_ptr&, int) {}));
  }
  EXPECT_EQ(kept.use_count(), 1);
  while (pool.task_count() > 0) {
    std::this_thread::yield();
  }
}

TEST(UseTask, AwaitsAsioOperationsAndGoesOnOnTheTasksExecutor) {
  asio::io_context io;
  AsioExecutor executor(io);
  ThreadPool pool(1);
  using Socket = asio::local::stream_protocol::socket;
  Socket left(io);
  Socket right(io);
  asio::local::connect_pair(left, right);
  const auto talk = [&](Executor& here) -> Task<std::string> {
    const std::string message = "hello";
    const std::size_t written = co_await asio::async_write(left, asio::buffer(message), use_task);
    EXPECT_EQ(written, message.size());
    std::string answer(5, ' ');
    co_await asio::async_read(right, asio::buffer(answer), use_task);
    EXPECT_EQ(&this_task::executor(), &here);
    asio::steady_timer timer(io, 1us);
    co_await timer.async_wait(use_task);
    co_return answer;
  };
  auto on_io = spawn(executor, talk(executor));
  io.run();
  EXPECT_EQ(on_io.get(), "hello");
  io.restart();
  auto guard = asio::make_work_guard(io);
  std::thread runs([&] { io.run(); });
  EXPECT_EQ(sync_wait(pool, talk(pool)), "hello");
  guard.reset();
  runs.join();
}

TEST(UseTask, AnErrorCodeIsThrownOrWithAsTupleReturned) {
  asio::io_context io;
  AsioExecutor executor(io);
  auto task = spawn(executor, [](asio::io_context& context) -> Task<bool> {
    asio::local::stream_protocol::socket closed(context);
    std::array<char, 4> bytes{};
    auto [error, size] =
        co_await closed.async_read_some(asio::buffer(bytes), asio::as_tuple(use_task));
    EXPECT_TRUE(error);
    EXPECT_EQ(size, 0U);
    bool threw = false;
    try {
      co_await closed.async_read_some(asio::buffer(bytes), use_task);
    } catch (const boost::system::system_error& failure) {
      threw = failure.code() == error;
    }
    co_return threw;
  }(io));
  io.run();
  EXPECT_TRUE(task.get());
}

TEST(UseTask, AStopOfTheTaskCancelsTheOperation) {
  asio::io_context io;
  AsioExecutor executor(io);
  auto task = spawn(executor, [](asio::io_context& context) -> Task<void> {
    asio::steady_timer timer(context, 24h);
    co_await timer.async_wait(use_task);
  }(io));
  auto never_starts = spawn(executor, [](asio::io_context& context) -> Task<void> {
    asio::steady_timer timer(context, 24h);
    auto waits = timer.async_wait(use_task);
    co_await waits;
  }(io));
  never_starts.request_stop();
  io.poll();
  task.request_stop();
  io.run();
  EXPECT_THROW(task.get(), Cancelled);
  EXPECT_THROW(never_starts.get(), Cancelled);
}

TEST(UseTask, AStopThatRacesWithTheEndOfTheOperationHasOneOutcome) {
  asio::io_context io;
  ThreadPool pool(2);
  auto guard = asio::make_work_guard(io);
  std::array<std::thread, 2> threads;
  for (auto& thread : threads) {
    thread = std::thread([&] { io.run(); });
  }
  using Socket = asio::local::stream_protocol::socket;
  const auto read_both = [](Socket& socket) -> Task<std::size_t> {
    std::array<char, 2> bytes{};  // A composed operation: it takes two steps.
    co_return co_await asio::async_read(socket, asio::buffer(bytes), use_task);
  };
  int cancelled = 0;
  for (int i = 0; i < 500; ++i) {
    Socket left(io);
    Socket right(io);
    asio::local::connect_pair(left, right);
    auto task = spawn(pool, read_both(right));
    left.write_some(asio::buffer("a", 1));
    if (i % 2 == 0) {
      std::this_thread::yield();
    }
    std::thread stops([&] { task.request_stop(); });
    left.write_some(asio::buffer("b", 1));
    stops.join();
    try {
      EXPECT_EQ(task.get(), 2U);
    } catch (const Cancelled&) {
      ++cancelled;
    }
  }
  guard.reset();
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_LE(cancelled, 500);
}

TEST(UseTask, AnOperationThatIsDestroyedEndsWithClosed) {
  ThreadPool pool(1);
  Mutex mutex;
  auto held = mutex.try_lock();
  auto io = std::make_unique<asio::io_context>();
  auto task = spawn(pool, [](Mutex& lock, asio::io_context& dies) -> Task<void> {
    const Hold hold = co_await async_wait(lock.lock(), asio::bind_executor(dies, use_task));
  }(mutex, *io));
  while (mutex.queue_length() == 0) {
    std::this_thread::yield();
  }
  io.reset();
  EXPECT_THROW(task.get(), Closed);
  EXPECT_EQ(mutex.queue_length(), 0U);
}

TEST(UseTask, WaitsForALockThroughAsioToo) {
  asio::io_context io;
  AsioExecutor executor(io);
  Mutex mutex;
  auto task = spawn(executor, [](Mutex& lock) -> Task<bool> {
    const Hold hold = co_await async_wait(lock.lock(), use_task);
    co_return static_cast<bool>(hold);
  }(mutex));
  io.run();
  EXPECT_TRUE(task.get());
}

}  // namespace
}  // namespace holdfast
