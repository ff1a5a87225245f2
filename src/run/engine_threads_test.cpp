// SPDX-License-Identifier: Apache-2.0
// Runs on threads and real time: for the thread sanitizer, and for what only real time shows.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <holdfast/engine.hpp>
#include <holdfast/memory_store.hpp>
#include <holdfast/spawn.hpp>

#include "engine_probe.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;

std::atomic<int> effects = 0;
std::mutex warnings_mutex;
std::vector<std::string> warnings;
std::atomic<bool> is_warned = false;

void note_warning(const std::string& text) {
  const std::lock_guard lock(warnings_mutex);
  warnings.push_back(text);
  is_warned = true;
  is_warned.notify_all();
}

Task<int> leaf(Context& ctx, int value) {
  auto step = ctx.run("count", [&] {
    ++effects;
    return value + 1;
  });
  const int result = co_await step;
  co_return result;
}
const auto kLeaf = workflow("leaf", leaf);

/// Steps, a timer, children, state and a signal, all at once.
Task<int> busy(Context& ctx, int children) {
  auto signal = ctx.signal<int>("go");
  std::vector<Durable<int>> all;
  for (int i = 0; i < children; ++i) {
    all.push_back(ctx.child(kLeaf, i));
  }
  auto nap = ctx.sleep(1ms);
  auto counter = ctx.global().cell<int>("sum");
  auto change = counter.update([](int& sum) { return ++sum; });
  co_await change;
  co_await nap;
  const int bonus = co_await signal;
  const std::vector<int> values = co_await ctx.all(std::move(all));
  int sum = bonus;
  for (const int value : values) {
    sum += value;
  }
  co_return sum;
}
const auto kBusy = workflow("busy", busy);

Task<int> never_yields(Context& /*ctx*/) {
  is_warned.wait(false);
  co_return 1;
}
const auto kNeverYields = workflow("never_yields", never_yields);

Task<int> answers(Context& ctx) {
  int level = 0;
  ctx.on_update<int, int>("raise", [&](int by) { return level += by; });
  ctx.on_query<int>("level", [&] { return level; });
  auto done = ctx.wait_until([&] { return level >= 100; });
  co_await done;
  co_return level;
}
const auto kAnswers = workflow("answers", answers);

class EngineOnThreads : public ::testing::Test {
 protected:
  struct Process {
    explicit Process(const std::shared_ptr<MemoryDisk>& disk)
        : store(open_memory_store(disk)), session(sync_wait(pool, Session::open(*store))) {
      engine.emplace(*session, EngineOptions{.executor = &pool,
                                             .steps = &steps,
                                             .idle_time = 1ms,
                                             .watchdog_time = 20ms,
                                             .warn = note_warning});
      engine->add(kLeaf);
      engine->add(kBusy);
      engine->add(kNeverYields);
      engine->add(kAnswers);
      sync_wait(pool, engine->begin());
    }
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;
    ~Process() {
      sync_wait(pool, engine->stop());
      engine.reset();
      sync_wait(pool, session->close());
    }
    ThreadPool pool{3};
    ThreadPool steps{2};
    std::unique_ptr<Store> store;
    std::unique_ptr<Session> session;
    std::optional<Engine> engine;
  };

  void SetUp() override {
    effects = 0;
    is_warned = false;
    warnings.clear();
  }

  SystemClock clock_;
  std::shared_ptr<MemoryDisk> disk_ = std::make_shared<MemoryDisk>(clock_);
};

Task<int> play(Engine& engine, int children) {
  auto run = co_await engine.start(kBusy, children);
  co_await engine.signal(run.id(), "go", 1'000);
  const int sum = co_await run.result();
  co_return sum;
}

TEST_F(EngineOnThreads, ManyRunsAtOnceComeToTheirResults) {
  constexpr int kRuns = 40;
  constexpr int kChildren = 5;
  Process one(disk_);
  Process two(disk_);
  std::deque<Spawned<int>> playing;
  for (int i = 0; i < kRuns; ++i) {
    Process& process = i % 2 == 0 ? one : two;
    playing.push_back(spawn(process.pool, play(*process.engine, kChildren)));
  }
  for (Spawned<int>& one_of_them : playing) {
    EXPECT_EQ(one_of_them.get(), 1'000 + 1 + 2 + 3 + 4 + 5);
  }
  EXPECT_EQ(effects, kRuns * kChildren);
}

Task<int> raise(Engine& engine, std::string id, int count) {
  int last = 0;
  for (int i = 0; i < count; ++i) {
    last = co_await engine.update<int>(id, "raise", 1);
    static_cast<void>(co_await engine.query<int>(id, "level"));
  }
  co_return last;
}

TEST_F(EngineOnThreads, UpdatesFromManyPlacesAllCount) {
  Process one(disk_);
  Process two(disk_);
  auto run = sync_wait(one.pool, one.engine->start(kAnswers));
  auto near = spawn(one.pool, raise(*one.engine, run.id(), 49));
  auto far = spawn(two.pool, raise(*two.engine, run.id(), 50));
  static_cast<void>(near.get());
  static_cast<void>(far.get());
  EXPECT_EQ(sync_wait(two.pool, two.engine->update<int>(run.id(), "raise", 1)), 100);
  EXPECT_EQ(sync_wait(two.pool, two.engine->handle(kAnswers, run.id()).result()), 100);
}

Task<int> play_leaves(Engine& engine, int count) {
  int sum = 0;
  for (int i = 0; i < count; ++i) {
    auto run = co_await engine.start(kLeaf, i);
    sum += co_await run.result();
  }
  co_return sum;
}

TEST_F(EngineOnThreads, ARunIsNotPutAwayWhileItBegins) {
  constexpr int kRuns = 1'000;
  Process one(disk_);
  std::deque<Spawned<int>> playing;
  for (int i = 0; i < 4; ++i) {
    playing.push_back(spawn(one.pool, play_leaves(*one.engine, kRuns)));
  }
  {
    const std::jthread puts_away([&](const std::stop_token& enough) {
      detail::EngineProbe probe(*one.engine);
      while (!enough.stop_requested()) {
        probe.forget_waiting();
      }
    });
    for (Spawned<int>& one_of_them : playing) {
      EXPECT_EQ(one_of_them.get(), kRuns * (kRuns + 1) / 2);
    }
  }
  EXPECT_EQ(effects, 4 * kRuns) << "each began once";
}

TEST_F(EngineOnThreads, AWorkflowThatNeverYieldsIsNamed) {
  Process one(disk_);
  auto run = sync_wait(one.pool, one.engine->start(kNeverYields));
  EXPECT_EQ(sync_wait(one.pool, run.result()), 1);
  const std::lock_guard lock(warnings_mutex);
  ASSERT_FALSE(warnings.empty());
  EXPECT_NE(warnings[0].find("'never_yields'"), std::string::npos) << warnings[0];
}

}  // namespace
}  // namespace holdfast
