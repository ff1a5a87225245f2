// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <gtest/gtest.h>

#include <holdfast/mutex.hpp>
#include <holdfast/rate_limiter.hpp>
#include <holdfast/semaphore.hpp>
#include <holdfast/shared_mutex.hpp>
#include <holdfast/this_task.hpp>

#include "allocation_count.hpp"
#include "coro/test_world.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using testing::World;

/// How many allocations it takes a hundred tasks, which run already, to wait, to be handed the
/// lock, and to release it.
template <typename MakeAcquire>
std::size_t allocations_of_waits(World& world, const MakeAcquire& make_acquire, Hold busy) {
  const auto visit = [](const MakeAcquire& make) -> Task<void> {
    co_await this_task::yield();
    auto operation = make();
    const Hold hold = co_await operation;
  };
  std::vector<Spawned<void>> tasks;
  for (int i = 0; i < 100; ++i) {
    tasks.push_back(spawn(world.executor, visit(make_acquire)));
  }
  for (int i = 0; i < 100; ++i) {
    world.executor.run_one();  // Each up to its yield.
  }
  const std::size_t before = allocation_count();
  world.executor.drain();
  busy.release();
  world.executor.drain();
  const std::size_t allocations = allocation_count() - before;
  for (auto& task : tasks) {
    EXPECT_TRUE(task.ended());
  }
  return allocations;
}

TEST(Allocations, WaitingForALockAllocatesNothing) {
  World world;
  Mutex mutex;
  EXPECT_EQ(allocations_of_waits(world, [&] { return mutex.lock(); }, *mutex.try_lock()), 0U);
}

TEST(Allocations, NorDoesWaitingWithATimeOutAPriorityAndAStopToken) {
  World world;
  Mutex mutex;
  const std::stop_source source;
  const auto make = [&] { return mutex.lock({.timeout = 1h, .priority = 5}, source.get_token()); };
  EXPECT_EQ(allocations_of_waits(world, make, *mutex.try_lock()), 0U);
}

TEST(Allocations, NorForPermitsReadersAndRates) {
  World world;
  Semaphore semaphore(3);
  EXPECT_EQ(allocations_of_waits(
                world, [&] { return semaphore.acquire(2); }, *semaphore.try_acquire(3)),
            0U);
  SharedMutex shared;
  EXPECT_EQ(
      allocations_of_waits(world, [&] { return shared.lock_shared(); }, *shared.try_lock()), 0U);
  RateLimiter limiter(world.clock, {.at_once = 1, .rate = {.count = 1'000, .burst = 1'000}});
  EXPECT_EQ(
      allocations_of_waits(world, [&] { return limiter.acquire(); }, *limiter.try_acquire()), 0U);
}

TEST(Allocations, AreCountedAtAll) {
  const std::size_t before = allocation_count();
  ::operator delete(::operator new(1));
  EXPECT_EQ(allocation_count(), before + 1) << "or the tests above show nothing";
}

}  // namespace
}  // namespace holdfast
