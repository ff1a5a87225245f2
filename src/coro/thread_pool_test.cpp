// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <latch>
#include <string>
#include <thread>
#include <utility>

#include <holdfast/executor.hpp>

namespace holdfast {
namespace {

/// Work that calls a function.
struct Call : Work {
  explicit Call(std::function<void()> called) : function(std::move(called)) {
    run = [](Work& work) noexcept { static_cast<Call&>(work).function(); };
  }
  std::function<void()> function;
};

/// All of it is there for longer than the threads.
class PoolOrder : public ::testing::Test {
 protected:
  Call& call(std::function<void()> function) { return calls_.emplace_back(std::move(function)); }
  Call& writes(char letter) {
    return call([this, letter] { done_ += letter; });
  }
  Call& ends() {
    return call([this] { ended_.count_down(); });
  }

  std::string done_;
  std::latch ended_{1};
  std::latch other_{1};

 private:
  std::deque<Call> calls_;

 protected:
  ThreadPool pool_{1};
};

TEST_F(PoolOrder, IsThatInWhichWorkWasPosted) {
  pool_.post(call([this] {
    pool_.post(writes('a'));
    pool_.post(writes('b'));
    pool_.post(writes('c'));
    pool_.post(ends());
  }));
  ended_.wait();
  EXPECT_EQ(done_, "abc");
}

TEST_F(PoolOrder, TheLastThatWorkLeadsToGoesAheadOfWhatWaits) {
  pool_.post(call([this] {
    pool_.post(writes('a'));
    pool_.post_next(writes('b'));
    pool_.post_next(writes('c'));
    pool_.post(ends());
  }));
  ended_.wait();
  EXPECT_EQ(done_, "cab");
}

TEST_F(PoolOrder, NothingThatIsPostedFromOutsideGoesAhead) {
  pool_.post(call([this] { other_.wait(); }));
  pool_.post(writes('a'));
  pool_.post_next(writes('b'));
  pool_.post(ends());
  other_.count_down();
  ended_.wait();
  EXPECT_EQ(done_, "ab");
}

TEST_F(PoolOrder, WhatGoesAheadKeepsNothingWaitingForEver) {
  int ahead = 0;
  bool has_ended = false;
  Call* again = nullptr;
  again = &call([&] {
    ++ahead;
    if (!has_ended) {
      pool_.post_next(*again);
    } else {
      ended_.count_down();
    }
  });
  pool_.post(call([&] {
    pool_.post(call([&] { has_ended = true; }));
    pool_.post_next(*again);
  }));
  ended_.wait();
  EXPECT_GT(ahead, 1);
  EXPECT_LT(ahead, 20);
}

TEST_F(PoolOrder, AnotherThreadTakesWhatABusyOneHasAhead) {
  ThreadPool pool(2);
  std::thread::id here;
  std::thread::id there;
  pool.post(call([&] {
    here = std::this_thread::get_id();
    pool.post_next(call([&] {
      there = std::this_thread::get_id();
      other_.count_down();
    }));
    other_.wait();
    ended_.count_down();
  }));
  ended_.wait();
  EXPECT_NE(here, there);
}

TEST_F(PoolOrder, OfAnExecutorThatIsDrivenByHandIsAlwaysTheSame) {
  VirtualClock clock;
  ManualExecutor executor(clock);
  executor.post(call([&] {
    executor.post(writes('a'));
    executor.post_next(writes('b'));
  }));
  executor.drive_until([this] { return done_.size() == 2; });
  EXPECT_EQ(done_, "ab");
}

}  // namespace
}  // namespace holdfast
