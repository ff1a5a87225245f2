// SPDX-License-Identifier: Apache-2.0
#include <holdfast/gate_inspection.hpp>
#include <holdfast/gates.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/spawn.hpp>
#include <holdfast/this_task.hpp>

#include "gate_processes.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;

using GatesTest = GateProcesses;

TEST_F(GatesTest, OneHoldsAndTheNextIsWokenByTheRelease) {
  Process& one = process(1);
  DurableHold first = acquire(one, "m");
  EXPECT_TRUE(first.valid());
  auto second = ask(one, "m");
  EXPECT_FALSE(second.ended());
  EXPECT_EQ(inspect("m").waiter_count, 1U);
  EXPECT_TRUE(release(one, first));
  ASSERT_TRUE(second.ended()) << "without a tick of the clock";
  DurableHold hold = second.get();
  EXPECT_TRUE(release(one, hold));
  EXPECT_TRUE(inspect("m").holders.empty());
}

TEST_F(GatesTest, AReleaseInOneProcessWakesTheNextInAnother) {
  Process& one = process(1);
  Process& two = process(2);
  DurableHold first = acquire(one, "m");
  auto second = ask(two, "m");
  ASSERT_FALSE(second.ended());
  const std::uint64_t fence = first.fence();
  EXPECT_TRUE(release(one, first));
  ASSERT_TRUE(second.ended()) << "without a tick of the clock";
  EXPECT_GT(second.get().fence(), fence);
}

TEST_F(GatesTest, AHoldThatGoesOutOfScopeIsReleased) {
  Process& one = process(1);
  {
    const DurableHold hold = acquire(one, "m");
    EXPECT_EQ(inspect("m").holders.size(), 1U);
  }
  settle();
  EXPECT_TRUE(inspect("m").holders.empty());
}

TEST_F(GatesTest, AKilledHolderIsFollowedAfterItsLeaseAndNotBefore) {
  Process& one = process(1);
  Process& two = process(2);
  const DurableHold first = acquire(one, "m");
  auto second = ask(two, "m");
  one.stopped = true;
  advance(kTtl - 1s);
  EXPECT_FALSE(second.ended());
  advance(1s);
  ASSERT_TRUE(second.ended());
  EXPECT_GT(second.get().fence(), first.fence());
}

TEST_F(GatesTest, AStoppedHolderThatWakesFindsItsWritesAndItsReleaseRefused) {
  Process& one = process(1);
  Process& two = process(2);
  DurableHold first = acquire(one, "m");
  Batch good;
  first.guard(good).put("resource", "1");
  EXPECT_TRUE(commit(good).committed());
  one.stopped = true;
  advance(kTtl);
  const DurableHold second = acquire(two, "m");
  one.stopped = false;
  EXPECT_FALSE(first.valid());
  Batch late;
  first.guard(late).put("resource", "late");
  EXPECT_TRUE(commit(late).fenced());
  settle();
  EXPECT_EQ(one.session->state(), SessionState::kLost);
  EXPECT_THROW(release(one, first), SessionLost);
  EXPECT_EQ(inspect("m").holders.at(0).fence, second.fence()) << "and frees nothing";
  Batch better;
  second.guard(better).put("resource", "2");
  EXPECT_TRUE(commit(better).committed());
}

TEST_F(GatesTest, AKilledWaiterAtTheFrontIsPassedOver) {
  Process& one = process(1);
  Process& two = process(2);
  DurableHold first = acquire(one, "m");
  auto dies = ask(two, "m");
  auto next = ask(one, "m");
  two.stopped = true;
  advance(kTtl);
  EXPECT_TRUE(release(one, first));
  ASSERT_TRUE(next.ended());
  EXPECT_TRUE(next.get().valid());
  EXPECT_EQ(inspect("m").waiter_count, 0U);
}

TEST_F(GatesTest, AWaiterKilledAsItIsLetInIsFollowedAfterItsLease) {
  Process& one = process(1);
  Process& two = process(2);
  DurableHold first = acquire(one, "m");
  auto dies = ask(two, "m");
  auto next = ask(one, "m");
  two.stopped = true;
  EXPECT_TRUE(release(one, first));
  EXPECT_FALSE(next.ended()) << "who was let in may still be alive";
  advance(kTtl);
  ASSERT_TRUE(next.ended());
  EXPECT_TRUE(next.get().valid());
}

TEST_F(GatesTest, ATimeOutLeavesTheQueueAndTheNextIsServed) {
  Process& one = process(1);
  DurableHold first = acquire(one, "m");
  auto hurried = ask(one, "m", {.timeout = 5s});
  auto patient = ask(one, "m");
  advance(5s);
  ASSERT_TRUE(hurried.ended());
  EXPECT_THROW(static_cast<void>(hurried.get()), TimedOut);
  EXPECT_EQ(inspect("m").waiter_count, 1U);
  EXPECT_TRUE(release(one, first));
  ASSERT_TRUE(patient.ended());
  EXPECT_TRUE(patient.get().valid());
}

TEST_F(GatesTest, OneThatIsStoppedLeavesTheQueueAtOnce) {
  Process& one = process(1);
  const DurableHold first = acquire(one, "m");
  auto stopped = ask(one, "m");
  stopped.request_stop();
  settle();
  EXPECT_THROW(static_cast<void>(stopped.get()), Cancelled);
  EXPECT_EQ(inspect("m").waiter_count, 0U);
}

TEST_F(GatesTest, OneThatIsStoppedAsItIsLetInPassesItOn) {
  Process& one = process(1);
  Process& two = process(2);
  DurableHold first = acquire(one, "m");
  auto stopped = ask(two, "m");
  auto next = ask(one, "m");
  auto releasing = spawn(one.executor, first.release());
  one.executor.drain();
  stopped.request_stop();
  settle();
  EXPECT_TRUE(releasing.get());
  EXPECT_THROW(static_cast<void>(stopped.get()), Cancelled);
  ASSERT_TRUE(next.ended());
  EXPECT_TRUE(next.get().valid());
}

TEST_F(GatesTest, TryingDoesNotWait) {
  Process& one = process(1);
  DurableHold first = acquire(one, "m");
  EXPECT_FALSE(run(one, one.gates->mutex("m").try_acquire()));
  EXPECT_THROW(static_cast<void>(acquire(one, "m", {.timeout = 0s})), TimedOut);
  EXPECT_THROW(static_cast<void>(acquire(one, "m", {.timeout = -1s})), InvalidArgument);
  EXPECT_EQ(inspect("m").waiter_count, 0U);
  EXPECT_TRUE(release(one, first));
  EXPECT_TRUE(run(one, one.gates->mutex("m").try_acquire()));
}

TEST_F(GatesTest, ABoundedQueueRefusesOneTooMany) {
  Process& one = process(1);
  const DurableHold first = acquire(one, "m");
  auto waits = ask(one, "m", {.queue_max = 1});
  EXPECT_FALSE(waits.ended());
  auto refused = ask(one, "m", {.queue_max = 1});
  ASSERT_TRUE(refused.ended());
  EXPECT_THROW(static_cast<void>(refused.get()), QueueFull);
}

TEST_F(GatesTest, PermitsHaveSlotsAndNoMoreAreGivenThanThereAre) {
  Process& one = process(1);
  Process& two = process(2);
  const DurableHold a = run(one, one.gates->semaphore("gpus", 2).acquire());
  DurableHold b = run(two, two.gates->semaphore("gpus", 2).acquire());
  EXPECT_EQ(a.slots(), std::vector<std::uint64_t>{0});
  EXPECT_EQ(b.slots(), std::vector<std::uint64_t>{1});
  EXPECT_FALSE(run(one, one.gates->semaphore("gpus", 2).try_acquire()));
  auto waits = start(one, one.gates->semaphore("gpus", 2).acquire());
  EXPECT_TRUE(release(two, b));
  ASSERT_TRUE(waits.ended());
  EXPECT_EQ(waits.get().slots(), std::vector<std::uint64_t>{1});
  EXPECT_THROW(static_cast<void>(run(one, one.gates->semaphore("gpus", 2).acquire({.weight = 3}))),
               Unsatisfiable);
}

TEST_F(GatesTest, ACountThatDiffersIsRefused) {
  Process& one = process(1);
  Process& two = process(2);
  const DurableHold hold = run(one, one.gates->semaphore("s", 2).acquire());
  EXPECT_THROW(static_cast<void>(run(two, two.gates->semaphore("s", 3).acquire())),
               DefinitionMismatch);
  EXPECT_EQ(inspect("s").definition.capacity, 2U);
  EXPECT_THROW(static_cast<void>(one.gates->semaphore("s", 3)), DefinitionMismatch);
  EXPECT_THROW(static_cast<void>(one.gates->semaphore("t", 0)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(one.gates->mutex("")), InvalidArgument);
}

TEST_F(GatesTest, ReadersShareAndAWriterIsAlone) {
  Process& one = process(1);
  Process& two = process(2);
  DurableSharedMutex here = one.gates->shared_mutex("rw");
  DurableSharedMutex there = two.gates->shared_mutex("rw");
  DurableHold reader = run(one, here.acquire_shared());
  DurableHold other = run(two, there.acquire_shared());
  auto writer = start(two, there.acquire());
  EXPECT_FALSE(writer.ended());
  EXPECT_FALSE(run(one, here.try_acquire_shared())) << "the writer came first";
  EXPECT_TRUE(release(one, reader));
  EXPECT_TRUE(release(two, other));
  ASSERT_TRUE(writer.ended());
  EXPECT_TRUE(writer.get().valid());
}

TEST_F(GatesTest, ALostWakeUpIsFoundByTheSweep) {
  Process& one = process(1);
  Process& two = process(2);
  const DurableHold first = acquire(one, "m");
  auto second = ask(two, "m");
  // The row is gone, and nobody was served.
  Batch silent;
  silent.erase("gate/m/holder/" + one.session->id() + "/0");
  ASSERT_TRUE(commit(silent).committed());
  settle();
  EXPECT_FALSE(second.ended());
  advance(1s);
  ASSERT_TRUE(second.ended());
  EXPECT_TRUE(second.get().valid());
}

TEST_F(GatesTest, ABusyStoreForgetsNoWaiterAndLeavesNoneBehind) {
  Process& one = process(1);
  Process& two = process(2);
  DurableHold first = acquire(one, "m");
  auto hurried = ask(two, "m", {.timeout = 2s});
  auto patient = ask(two, "m");
  disk_->set_faults({.busy_chance = 1});
  advance(3s);
  EXPECT_THROW(static_cast<void>(hurried.get()), TimedOut);
  EXPECT_EQ(inspect("m").waiter_count, 2U);
  disk_->set_faults({});
  advance(2s);
  EXPECT_EQ(inspect("m").waiter_count, 1U);
  EXPECT_TRUE(release(one, first));
  ASSERT_TRUE(patient.ended());
  EXPECT_TRUE(patient.get().valid());
}

TEST_F(GatesTest, AHandOverInsideAProcessDoesNotWaitForTheDisk) {
  Process& one = process(1);
  DurableHold first = acquire(one, "m");
  auto second = ask(one, "m");
  disk_->set_faults({.seed = 1, .sync_delay_max = 1s});
  auto releasing = start(one, first.release());
  EXPECT_TRUE(second.ended()) << "the session has it all along";
  EXPECT_FALSE(releasing.ended()) << "that others could have it waits for the disk";
  advance(1s);
  EXPECT_TRUE(releasing.get());
}

TEST_F(GatesTest, ACorruptRowLetsNobodyIn) {
  Process& one = process(1);
  Process& two = process(2);
  const DurableHold first = acquire(one, "m");
  Batch damage;
  damage.put("gate/m/head", "garbage");
  ASSERT_TRUE(commit(damage).committed());
  EXPECT_THROW(static_cast<void>(acquire(two, "m")), StoreCorrupt);
}

TEST_F(GatesTest, ManyTasksOfManyProcessesNeverMeetAndAllGetIn) {
  struct Seen {
    int inside = 0;
    int most = 0;
    int entries = 0;
    std::uint64_t last_fence = 0;
    bool fences_grow = true;
  };
  Seen seen;
  const auto work = [](DurableMutex mutex, Seen& of) -> Task<void> {
    for (int i = 0; i < 5; ++i) {
      DurableHold hold = co_await mutex.acquire();
      of.fences_grow = of.fences_grow && hold.fence() > of.last_fence;
      of.last_fence = hold.fence();
      of.most = std::max(of.most, ++of.inside);
      co_await this_task::yield();
      --of.inside;
      ++of.entries;
      static_cast<void>(co_await hold.release());
    }
  };
  std::deque<Spawned<void>> tasks;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    Process& one = process(seed);
    for (int i = 0; i < 10; ++i) {
      tasks.push_back(spawn(one.executor, work(one.gates->mutex("m"), seen)));
    }
  }
  settle();
  for (auto& task : tasks) {
    ASSERT_TRUE(task.ended()) << "nobody has to wait for a clock";
    task.get();
  }
  EXPECT_EQ(seen.entries, 150);
  EXPECT_EQ(seen.most, 1);
  EXPECT_TRUE(seen.fences_grow);
}

/// Tasks of several processes in an order from a seed, some of which give up, on a disk that takes
/// its time.
class Crowd {
 public:
  explicit Crowd(std::uint64_t seed)
      : executor_(clock_, seed), random_(seed), disk_(std::make_shared<MemoryDisk>(clock_)) {
    disk_->set_faults({.seed = seed, .sync_delay_max = 2ms});
    for (std::uint64_t i = 0; i < 3; ++i) {
      Member& member = members_.emplace_back();
      member.store = open_memory_store(disk_);
      member.session = sync_wait(
          executor_,
          Session::open(*member.store, {.ttl = kTtl, .executor = &executor_, .seed = i + 1}));
      member.gates.emplace(*member.session, &executor_);
    }
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;
  ~Crowd() {
    for (Member& member : members_) {
      member.gates.reset();
      member.session.reset();
    }
    while (executor_.task_count() > 0) {
      executor_.drain();
      clock_.advance(1ms);
    }
  }

  /// Some are stopped on the way, if `stops`.
  void run(bool stops) {
    std::deque<Spawned<void>> tasks;
    for (int i = 0; i < 12; ++i) {
      Member& member = members_[static_cast<std::size_t>(i) % members_.size()];
      tasks.push_back(spawn(executor_, work(*this, member.gates->mutex("m"))));
    }
    executor_.drive_until([&] {
      if (stops && random_() % 64 == 0) {
        tasks[random_() % tasks.size()].request_stop();
      }
      return std::ranges::all_of(tasks, [](const auto& task) { return task.ended(); });
    });
    for (auto& task : tasks) {
      try {
        task.get();
      } catch (const Cancelled&) {
        ++given_up_;
      }
    }
    // What is still given back in the background, without the help of a sweep.
    for (int i = 0; i < 50; ++i) {
      clock_.advance(10ms);
      executor_.drain();
    }
    const auto info = sync_wait(executor_, inspect_gate(*members_[0].store, "m"));
    ASSERT_TRUE(info);
    EXPECT_EQ(info->waiter_count, 0U);
    EXPECT_TRUE(info->waiters.empty());
    EXPECT_TRUE(info->holders.empty());
    EXPECT_EQ(most_, 1);
    EXPECT_TRUE(fences_grow_);
  }
  [[nodiscard]] int entries() const noexcept { return entries_; }
  [[nodiscard]] int given_up() const noexcept { return given_up_; }

 private:
  struct Member {
    std::unique_ptr<Store> store;
    std::unique_ptr<Session> session;
    std::optional<Gates> gates;
  };

  /// Counted as long as it is there, also if its task is stopped.
  class Inside {
   public:
    explicit Inside(Crowd& crowd) : crowd_(crowd) {
      crowd.most_ = std::max(crowd.most_, ++crowd.inside_);
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    ~Inside() { --crowd_.inside_; }

   private:
    Crowd& crowd_;
  };

  static Task<void> work(Crowd& crowd, DurableMutex mutex) {
    for (int i = 0; i < 4; ++i) {
      AcquireOptions options;
      if (crowd.random_() % 2 == 0) {
        options.timeout = Duration(std::chrono::microseconds(crowd.random_() % 4'000));
      }
      std::optional<DurableHold> hold;
      try {
        hold = co_await mutex.acquire(options);
      } catch (const TimedOut&) {
        ++crowd.given_up_;
      }
      if (!hold) {
        continue;
      }
      crowd.fences_grow_ = crowd.fences_grow_ && hold->fence() > crowd.last_fence_;
      crowd.last_fence_ = hold->fence();
      {
        const Inside inside(crowd);
        co_await this_task::sleep_for(Duration(std::chrono::microseconds(crowd.random_() % 500)));
      }
      ++crowd.entries_;
      if (crowd.random_() % 2 == 0) {
        static_cast<void>(co_await hold->release());
      }
    }
  }

  VirtualClock clock_;
  SeededExecutor executor_;
  std::mt19937_64 random_;
  std::shared_ptr<MemoryDisk> disk_;
  std::deque<Member> members_;
  int inside_ = 0;
  int most_ = 0;
  int entries_ = 0;
  int given_up_ = 0;
  std::uint64_t last_fence_ = 0;
  bool fences_grow_ = true;
};

void race(bool stops) {
  int entries = 0;
  int given_up = 0;
  for (std::uint64_t seed = 0; seed < 500 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Crowd crowd(seed);
    crowd.run(stops);
    entries += crowd.entries();
    given_up += crowd.given_up();
  }
  EXPECT_GT(entries, 1'000);
  EXPECT_GT(given_up, 1'000);
}

TEST(GatesRaces, WhoeverGivesUpAndWhenNobodyMeetsAndNothingIsLeftBehind) { race(false); }

TEST(GatesRaces, WhoeverIsStoppedAndWhenNobodyMeetsAndNothingIsLeftBehind) { race(true); }

TEST_F(GatesTest, AllThatWereEverUsedAreListedByTheirNames) {
  EXPECT_TRUE(sync_wait(observer_, list_gates(*store_)).empty());
  Process& one = process(1);
  Process& other = process(2);
  const std::vector<std::string> names{"a", "a!", "a%2F", "a-b", "a/b", "a0", "b"};
  std::vector<DurableHold> holds;
  for (const std::string& name : names) {
    holds.push_back(acquire(one, name.c_str()));
  }
  auto waits = ask(other, "a/b");
  EXPECT_EQ(sync_wait(observer_, list_gates(*store_)), names);
  EXPECT_TRUE(release(one, holds.at(4)));
  DurableHold next = waits.get();
  EXPECT_TRUE(release(other, next));
  EXPECT_EQ(sync_wait(observer_, list_gates(*store_)), names) << "also when nobody holds it";
}

TEST(GatesOnThreads, WhoTimedOutHasLeftTheQueueWhenTheGatesEnd) {
  const auto store = open_memory_store();
  ThreadPool pool(1, store->clock());
  const auto holder = sync_wait(pool, Session::open(*store));
  const auto waiter = sync_wait(pool, Session::open(*store));
  Gates gates(*holder);
  DurableHold hold = sync_wait(pool, gates.mutex("a").acquire());
  for (int i = 0; i < 20; ++i) {
    {
      Gates others(*waiter);
      DurableMutex mutex = others.mutex("a");
      EXPECT_THROW(static_cast<void>(sync_wait(pool, mutex.acquire({.timeout = 1ms}))), TimedOut);
    }
    const auto info = sync_wait(pool, inspect_gate(*store, "a"));
    EXPECT_EQ(info->waiter_count, 0U);
    EXPECT_EQ(info->holders.size(), 1U);
  }
  EXPECT_TRUE(sync_wait(pool, hold.release()));
}

TEST(GatesOnThreads, WhatWasDroppedIsFreeWhenTheGatesEnd) {
  const auto store = open_memory_store();
  ThreadPool pool(1, store->clock());
  const auto session = sync_wait(pool, Session::open(*store));
  for (int i = 0; i < 20; ++i) {
    {
      Gates gates(*session);
      const DurableHold dropped = sync_wait(pool, gates.mutex("a").acquire());
    }
    EXPECT_TRUE(sync_wait(pool, inspect_gate(*store, "a"))->holders.empty());
  }
}

/// How many are inside, by whatever thread.
struct Counted {
  std::atomic<int> inside = 0;
  std::atomic<int> most = 0;
  std::atomic<int> entries = 0;
};

Task<void> pass_on(DurableMutex mutex, Counted& counted, int count) {
  for (int i = 0; i < count; ++i) {
    const DurableHold hold = co_await mutex.acquire();
    const int inside = ++counted.inside;
    counted.most = std::max(counted.most.load(), inside);
    ++counted.entries;
    --counted.inside;
  }
}

TEST(GatesOnThreads, WhoLetsGoInTheBackgroundPassesItOnWhoeverHasTheTurn) {
  constexpr int kTasks = 12;
  constexpr int kTimes = 40;
  const auto disk_clock = std::make_unique<SystemClock>();
  const auto disk = std::make_shared<MemoryDisk>(*disk_clock);
  Counted counted;
  {
    const auto one = open_memory_store(disk);
    const auto other = open_memory_store(disk);
    ThreadPool pool(3, one->clock());
    const auto session = sync_wait(pool, Session::open(*one));
    const auto other_session = sync_wait(pool, Session::open(*other));
    Gates gates(*session);
    Gates other_gates(*other_session);
    std::deque<Spawned<void>> tasks;
    for (int i = 0; i < kTasks; ++i) {
      Gates& own = i % 4 == 0 ? other_gates : gates;
      tasks.push_back(spawn(pool, pass_on(own.mutex("a"), counted, kTimes)));
    }
    for (auto& task : tasks) {
      task.get();
    }
  }
  EXPECT_EQ(counted.entries, kTasks * kTimes);
  EXPECT_EQ(counted.most, 1);
  const auto store = open_memory_store(disk);
  ThreadPool pool(1, store->clock());
  const auto info = sync_wait(pool, inspect_gate(*store, "a"));
  EXPECT_TRUE(info->holders.empty()) << "all was given back before the gates ended";
  EXPECT_EQ(info->waiter_count, 0U);
}

}  // namespace
}  // namespace holdfast
