// SPDX-License-Identifier: Apache-2.0
#include <holdfast/shared_mutex.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "coro/test_world.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::World;

struct People {
  World& world;
  SharedMutex& mutex;
  std::vector<std::string> log{};
  std::map<std::string, Hold> held{};

  Task<void> read(std::string name, WaitOptions options = {}) {
    Hold hold = co_await mutex.lock_shared(options);
    log.push_back(name);
    held[name] = std::move(hold);
  }
  Task<void> write(std::string name, WaitOptions options = {}) {
    Hold hold = co_await mutex.lock(options);
    log.push_back(name);
    held[name] = std::move(hold);
  }
  testing::EndTasks end_tasks{world};
};

TEST(SharedMutex, ReadersShareAndAWriterIsAlone) {
  World world;
  SharedMutex mutex;
  People people{world, mutex};
  auto r1 = world.start(people.read("r1"));
  auto r2 = world.start(people.read("r2"));
  auto w = world.start(people.write("w"));
  EXPECT_THAT(people.log, ElementsAre("r1", "r2"));
  EXPECT_EQ(mutex.reader_count(), 2U);
  EXPECT_FALSE(mutex.is_locked());
  people.held.erase("r1");
  world.executor.drain();
  EXPECT_THAT(people.log, ElementsAre("r1", "r2"));
  people.held.erase("r2");
  world.executor.drain();
  EXPECT_THAT(people.log, ElementsAre("r1", "r2", "w"));
  EXPECT_TRUE(mutex.is_locked());
  EXPECT_EQ(mutex.reader_count(), 0U);
  EXPECT_FALSE(mutex.try_lock_shared());
}

TEST(SharedMutex, AReaderThatComesAfterAWaitingWriterWaitsBehindIt) {
  World world;
  SharedMutex mutex;
  People people{world, mutex};
  auto r1 = world.start(people.read("r1"));
  auto w1 = world.start(people.write("w1"));
  auto r2 = world.start(people.read("r2"));
  auto r3 = world.start(people.read("r3"));
  auto w2 = world.start(people.write("w2"));
  EXPECT_FALSE(mutex.try_lock_shared());
  EXPECT_THAT(people.log, ElementsAre("r1"));
  people.held.erase("r1");
  world.executor.drain();
  people.held.erase("w1");
  world.executor.drain();
  EXPECT_THAT(people.log, ElementsAre("r1", "w1", "r2", "r3")) << "neighbours enter together";
  people.held.erase("r2");
  people.held.erase("r3");
  world.executor.drain();
  EXPECT_EQ(people.log.back(), "w2");
}

TEST(SharedMutex, AWriterThatGivesUpLetsTheReadersBehindItIn) {
  World world;
  SharedMutex mutex;
  People people{world, mutex};
  auto r1 = world.start(people.read("r1"));
  auto w = world.start(people.write("w", {.timeout = 1s}));
  auto r2 = world.start(people.read("r2"));
  world.advance(1s);
  EXPECT_THROW(w.get(), TimedOut);
  EXPECT_THAT(people.log, ElementsAre("r1", "r2"));
}

TEST(SharedMutex, RunsFunctionsEitherWay) {
  World world;
  SharedMutex mutex;
  const auto body = [](SharedMutex& lock) -> Task<std::size_t> {
    const auto readers = co_await lock.run_shared([&lock] { return lock.reader_count(); });
    const bool locked = co_await lock.run_exclusive([&lock] { return lock.is_locked(); });
    co_return locked ? readers : 99;
  };
  EXPECT_EQ(world.run(body(mutex)), 1U);
}

TEST(SharedMutex, TriesTakeItOnlyIfItIsFree) {
  SharedMutex mutex;
  auto reader = mutex.try_lock_shared();
  EXPECT_TRUE(reader);
  EXPECT_TRUE(mutex.try_lock_shared());
  EXPECT_FALSE(mutex.try_lock());
  reader->release();
  EXPECT_TRUE(mutex.try_lock());
}

}  // namespace
}  // namespace holdfast
