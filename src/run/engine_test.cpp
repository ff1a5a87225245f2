// SPDX-License-Identifier: Apache-2.0
// Runs on a store, on virtual time, with processes that end in the middle.
#include <holdfast/engine.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include <holdfast/memory_store.hpp>
#include <holdfast/spawn.hpp>

namespace holdfast {
namespace {

using namespace std::chrono_literals;

/// What steps do to the world outside.
struct World {
  int charges = 0;
  int mails = 0;
};
World world;

Task<std::string> fulfil(Context& ctx, std::string order) {
  auto charge = ctx.run("charge", [&](StepContext& step) {
    ++world.charges;
    return order + "/" + std::to_string(step.idempotency_key().size() > 10);
  });
  const std::string payment = co_await charge;
  co_await ctx.sleep(24h);
  const auto word = co_await ctx.signal<std::string>("shipped");
  auto mail = ctx.run("mail", [] { ++world.mails; });
  co_await mail;
  co_return payment + " " + word;
}

const auto kFulfil = workflow("fulfil", fulfil);

Task<int> fails(Context& ctx) {
  auto step = ctx.run("bad", []() -> int { throw std::runtime_error("no money"); });
  const int value = co_await step;
  co_return value;
}
const auto kFails = workflow("fails", fails);

struct Process {
  Process(Clock& clock, const std::shared_ptr<MemoryDisk>& disk, std::uint64_t seed)
      : executor(clock),
        store(open_memory_store(disk)),
        session(sync_wait(executor, Session::open(*store, {.ttl = 30s, .executor = &executor,
                                                           .seed = seed}))),
        engine(std::in_place, *session, EngineOptions{.executor = &executor}) {
    engine->add(kFulfil);
    engine->add(kFails);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    engine.reset();
    session.reset();
    executor.drain();
  }
  ManualExecutor executor;
  std::unique_ptr<Store> store;
  std::unique_ptr<Session> session;
  std::optional<Engine> engine;
};

class EngineTest : public ::testing::Test {
 protected:
  void SetUp() override { world = {}; }
  Process& process() {
    Process& made = processes_.emplace_back(clock_, disk_, ++seed_);
    auto begun = spawn(made.executor, made.engine->begin());
    settle();
    EXPECT_TRUE(begun.ended());
    begun.get();
    return made;
  }
  void settle() {
    for (bool again = true; again;) {
      again = false;
      for (Process& one : processes_) {
        again = one.executor.drain() > 0 || again;
      }
    }
  }
  void advance(Duration by) {
    const TimePoint target = clock_.now() + by;
    while (clock_.next_due().value_or(TimePoint::max()) <= target) {
      clock_.advance_to_next();
      settle();
    }
    clock_.advance(target - clock_.now());
    settle();
  }
  template <typename T>
  T run(Process& in, Task<T> task) {
    auto running = spawn(in.executor, std::move(task));
    settle();
    EXPECT_TRUE(running.ended()) << "it waits";
    return running.get();
  }

  VirtualClock clock_;
  std::shared_ptr<MemoryDisk> disk_ = std::make_shared<MemoryDisk>(clock_);
  std::deque<Process> processes_;
  std::uint64_t seed_ = 0;
};

TEST_F(EngineTest, ARunGoesFromItsStartToItsResult) {
  Process& one = process();
  const std::string id = run(one, one.engine->start(kFulfil, std::string("order-1")));
  EXPECT_EQ(world.charges, 1);
  advance(23h);
  EXPECT_EQ(run(one, one.engine->describe(id))->state, RunState::kRunning);
  run(one, one.engine->signal(id, "shipped", std::string("today")));
  EXPECT_EQ(world.mails, 0) << "it sleeps still";
  advance(2h);
  EXPECT_EQ(world.mails, 1);
  EXPECT_EQ(run(one, one.engine->result(kFulfil, id)), "order-1/1 today");
  EXPECT_EQ(run(one, one.engine->describe(id))->state, RunState::kCompleted);
}

TEST_F(EngineTest, AnotherProcessGoesOnWhereADeadOneStood) {
  Process& one = process();
  const std::string id = run(one, one.engine->start(kFulfil, std::string("order-1")));
  ASSERT_EQ(world.charges, 1);
  processes_.clear();
  advance(1min);
  Process& two = process();
  advance(25h);
  run(two, two.engine->signal(id, "shipped", std::string("late")));
  EXPECT_EQ(run(two, two.engine->result(kFulfil, id)), "order-1/1 late");
  EXPECT_EQ(world.charges, 1) << "what was recorded is not done again";
  EXPECT_EQ(world.mails, 1);
}

TEST_F(EngineTest, WhatAWorkflowThrowsIsItsEnd) {
  Process& one = process();
  const std::string id = run(one, one.engine->start(kFails));
  const auto info = run(one, one.engine->describe(id));
  EXPECT_EQ(info->state, RunState::kFailed);
  EXPECT_EQ(info->failure, "no money");
  EXPECT_THROW(static_cast<void>(run(one, one.engine->result(kFails, id))), RunFailed);
}

TEST_F(EngineTest, ACancelledRunEndsSo) {
  Process& one = process();
  const std::string id = run(one, one.engine->start(kFulfil, std::string("order-1")));
  run(one, one.engine->cancel(id));
  EXPECT_EQ(run(one, one.engine->describe(id))->state, RunState::kCancelled);
  EXPECT_THROW(run(one, one.engine->signal(id, "shipped", std::string("x"))), NoSuchRun);
}

}  // namespace
}  // namespace holdfast
