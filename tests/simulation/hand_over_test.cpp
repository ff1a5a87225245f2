// SPDX-License-Identifier: Apache-2.0
// One run, two processes, and whoever has it is stopped for longer than its session lives: many
// times.
#include <gtest/gtest.h>

#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <holdfast/spawn.hpp>

#include "mortal_process.hpp"
#include "play.hpp"
#include "run/run_directory.hpp"
#include "run/run_keys.hpp"
#include "state/envelope.hpp"

namespace holdfast::testing {
namespace {

using namespace std::chrono_literals;

constexpr int kHandOvers = 300;
constexpr int kPushes = 600;
constexpr Duration kTtl = 30s;

/// Pushes one label after the other, with pauses.
Program long_program() {
  Node all{static_cast<int>(Act::kSequence), 0, 0, 0, {}};
  for (int label = 1; label <= kPushes; ++label) {
    all.parts.push_back({static_cast<int>(Act::kPush), label, 0, 0, {}});
    all.parts.push_back({static_cast<int>(Act::kSleep), label, 50'000, 0, {}});
  }
  return {0, kPushes + 1, {std::move(all)}};
}

class HandOver : public ::testing::Test {
 protected:
  HandOver() { outside = &world_; }
  ~HandOver() override { outside = nullptr; }

  std::unique_ptr<MortalProcess> make_process() {
    auto store = std::make_unique<MortalStore>(disk_, tally_, owners_, ++seed_);
    return std::make_unique<MortalProcess>(clock_, std::move(store),
                                           MortalProcess::Terms{++seed_, "default", true});
  }
  /// All but those that are stopped.
  void settle() {
    for (bool again = true; again;) {
      again = false;
      for (const auto& process : processes_) {
        if (!process->is_stalled(clock_.now())) {
          again = process->drain() > 0 || again;
        }
      }
    }
  }
  void advance(Duration by) {
    const TimePoint target = clock_.now() + by;
    settle();
    while (clock_.next_due().value_or(TimePoint::max()) <= target) {
      clock_.advance_to_next();
      settle();
    }
    clock_.advance(target - clock_.now());
    settle();
  }

  Outside world_;
  VirtualClock clock_;
  std::shared_ptr<MemoryDisk> disk_ = std::make_shared<MemoryDisk>(clock_);
  Tally tally_;
  std::map<std::string, std::string> owners_;
  std::uint64_t seed_ = 0;
  std::vector<std::unique_ptr<MortalProcess>> processes_;
};

TEST_F(HandOver, WhoWasStoppedForTooLongWritesNothing) {
  processes_.push_back(make_process());
  processes_.push_back(make_process());
  advance(1min);
  MortalProcess& first = *processes_.front();
  auto starting = spawn(first.executor, first.engine->start(play_workflow(), long_program()));
  settle();
  const std::string id = starting.get().id();
  const auto place = *detail::place_in_id(id);
  const std::string owner = detail::PartitionKeys(place.queue, place.partition).owner();
  int stopped = 0;
  for (; stopped < kHandOvers; ++stopped) {
    const std::string holder = owners_[owner];
    for (auto& process : processes_) {
      if (process->session_key() == holder) {
        process->stall(clock_.now() + kTtl + 20s, 0s);
      }
    }
    advance(kTtl + 15s);
    EXPECT_NE(owners_[owner], holder) << "nobody has taken over";
    advance(10s);  // The old one goes on, as if nothing had happened.
    for (auto& process : processes_) {
      if (process->is_over(clock_.now())) {
        process->kill();
        process = make_process();
      }
    }
    advance(1s);
  }
  advance(24h);
  const std::unique_ptr<Store> store = open_memory_store(disk_);
  SeededExecutor executor(clock_, 1);
  const auto run = sync_wait(executor, detail::find_run(*store, id)).value();
  EXPECT_EQ(run.head.state(), record::RunHead::COMPLETED);
  const auto journal = sync_wait(executor, detail::read_journal(*store, run));
  EXPECT_EQ(journal.size(), run.head.rows()) << "no gap";
  const auto cell = sync_wait(executor, store->scan("cell/")).entries;
  ASSERT_EQ(cell.size(), 1U);
  const boost::json::value labels = detail::Envelope(cell.front()).value();
  ASSERT_EQ(labels.as_array().size(), static_cast<std::size_t>(kPushes)) << "no duplicate";
  for (int label = 1; label <= kPushes; ++label) {
    EXPECT_EQ(labels.as_array()[static_cast<std::size_t>(label - 1)].to_number<int>(), label);
  }
  EXPECT_GT(tally_.refusals, static_cast<std::uint64_t>(stopped) / 4);
  std::cout << stopped << " hand-overs, " << tally_.takeovers << " takeovers, " << tally_.refusals
            << " refusals\n";
  for (const auto& process : processes_) {
    process->kill();
  }
}

}  // namespace
}  // namespace holdfast::testing
