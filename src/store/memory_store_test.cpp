// SPDX-License-Identifier: Apache-2.0
// What a memory disk does wrong on purpose. What it does right is in tests/conformance.
#include <holdfast/memory_store.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <concepts>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/spawn.hpp>

#include "coro/test_world.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;

/// Joining with + makes g++ 12 warn of what cannot happen.
std::string key_of(std::integral auto number) {
  std::string key("k");
  key.append(std::to_string(number));
  return key;
}

class MemoryDiskTest : public ::testing::Test {
 protected:
  void fault(const MemoryFaults& faults) { disk_->set_faults(faults); }
  CommitOutcome apply(const std::string& key, const std::string& value = "v") {
    return world_.run(store_->apply(Batch().put(key, value)));
  }
  std::string value(const std::string& key, Read read = Read::kDurable) {
    const auto entry = world_.run(store_->get(key, read));
    return entry ? entry->value : "(absent)";
  }
  void crash() {
    disk_->crash();
    store_ = open_memory_store(disk_);
  }

  testing::World world_;
  std::shared_ptr<MemoryDisk> disk_ = std::make_shared<MemoryDisk>(world_.clock);
  std::unique_ptr<Store> store_ = open_memory_store(disk_);
  testing::EndTasks end_tasks_{world_};
};

TEST_F(MemoryDiskTest, ACommitIsDurableWhenItsDelayIsOver) {
  fault({.seed = 3, .sync_delay_max = 5ms});
  auto commit = world_.start(store_->commit(Batch().put("a", "1")));
  EXPECT_EQ(value("a", Read::kApplied), "1");
  EXPECT_EQ(value("a"), "(absent)");
  world_.advance(5ms);
  EXPECT_TRUE(commit.get().committed());
  EXPECT_EQ(value("a"), "1");
}

TEST_F(MemoryDiskTest, ACrashKeepsWhatIsDurableAndOfTheRestTheFirstFew) {
  std::set<int> survivors;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    disk_ = std::make_shared<MemoryDisk>(world_.clock);
    store_ = open_memory_store(disk_);
    ASSERT_TRUE(apply("durable").committed());
    fault({.seed = seed, .sync_delay_max = 1h});
    Version last = 0;
    for (int i = 0; i < 5; ++i) {
      last = apply(key_of(i)).committed()->version;
    }
    crash();
    EXPECT_EQ(value("durable"), "v");
    int kept = 0;
    while (kept < 5 && value(key_of(kept)) == "v") {
      ++kept;
    }
    for (int i = kept; i < 5; ++i) {
      EXPECT_EQ(value(key_of(i)), "(absent)") << "seed " << seed << ", kept " << kept;
    }
    survivors.insert(kept);
    fault({});
    EXPECT_GT(apply("new").committed()->version, last) << "also lost versions are not given again";
  }
  EXPECT_EQ(survivors, (std::set<int>{0, 1, 2, 3, 4, 5}));
}

TEST_F(MemoryDiskTest, ACrashEndsWhatWaitsAndTheStoresThatWereOpen) {
  fault({.seed = 1, .sync_delay_max = 1h});
  auto commit = world_.start(store_->commit(Batch().put("a", "1")));
  Watch watch = store_->watch("a");
  auto change = world_.start(watch.changed());
  const std::unique_ptr<Store> old = std::move(store_);
  crash();
  world_.executor.drain();
  EXPECT_THROW(static_cast<void>(commit.get()), OutcomeUnknown);
  EXPECT_THROW(change.get(), StoreFailed);
  EXPECT_THROW(static_cast<void>(world_.run(old->get("a"))), StoreFailed);
  EXPECT_THROW(static_cast<void>(world_.run(old->commit(Batch().put("b", "1")))), StoreFailed);
}

TEST_F(MemoryDiskTest, BusyHappenedNotAndUnknownHappenedOrNot) {
  int happened = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const std::string key = key_of(seed);
    fault({.seed = seed, .busy_chance = 1});
    EXPECT_THROW(static_cast<void>(apply(key)), StoreBusy);
    EXPECT_EQ(value(key), "(absent)");
    fault({.seed = seed, .unknown_chance = 1});
    EXPECT_THROW(static_cast<void>(apply(key)), OutcomeUnknown);
    happened += value(key) == "v" ? 1 : 0;
  }
  EXPECT_GT(happened, 20);
  EXPECT_LT(happened, 80);
}

TEST_F(MemoryDiskTest, AConflictIsATrueOneThatHandsOverTheNewVersion) {
  const Version version = apply("a", "1").committed()->version;
  fault({.seed = 1, .conflict_chance = 1});
  const CommitOutcome outcome =
      world_.run(store_->commit(Batch().require_version("a", version).put("a", "2")));
  ASSERT_TRUE(outcome.conflict());
  EXPECT_EQ(outcome.conflict()->current->value, "1");
  EXPECT_GT(outcome.conflict()->current->version, version);
  EXPECT_EQ(world_.run(store_->get("a"))->version, outcome.conflict()->current->version);
}

TEST_F(MemoryDiskTest, AFullOneTakesNothingMoreUntilSomethingIsErased) {
  fault({.bytes_max = 20});
  ASSERT_TRUE(apply("a", "0123456789").committed());
  EXPECT_THROW(static_cast<void>(apply("b", "0123456789")), StoreFull);
  EXPECT_EQ(value("b"), "(absent)");
  ASSERT_TRUE(world_.run(store_->commit(Batch().erase("a"))).committed());
  EXPECT_TRUE(apply("b", "0123456789").committed());
}

TEST_F(MemoryDiskTest, TheMachineStopsAtTheCommitThatWasChosen) {
  std::set<std::string> seen;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    disk_ = std::make_shared<MemoryDisk>(world_.clock);
    store_ = open_memory_store(disk_);
    fault({.seed = seed, .crash_at_commit = 3});
    ASSERT_TRUE(apply("a").committed());
    ASSERT_TRUE(apply("b").committed());
    EXPECT_THROW(static_cast<void>(apply("c")), OutcomeUnknown);
    EXPECT_THROW(static_cast<void>(apply("d")), StoreFailed);
    store_ = open_memory_store(disk_);
    EXPECT_EQ(value("b"), "v");
    seen.insert(value("c"));
  }
  EXPECT_EQ(seen.size(), 2U) << "before it and after it";
}

TEST_F(MemoryDiskTest, WhatBecomesOfThatCommitCanBeChosen) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    for (const CrashOutcome outcome : {CrashOutcome::kLost, CrashOutcome::kUnanswered}) {
      disk_ = std::make_shared<MemoryDisk>(world_.clock);
      store_ = open_memory_store(disk_);
      fault({.seed = seed, .crash_at_commit = 2, .crash_outcome = outcome});
      ASSERT_TRUE(apply("a").committed());
      EXPECT_EQ(disk_->crash_count(), 0U);
      EXPECT_THROW(static_cast<void>(apply("b")), OutcomeUnknown);
      EXPECT_EQ(disk_->crash_count(), 1U);
      store_ = open_memory_store(disk_);
      EXPECT_EQ(value("b"), outcome == CrashOutcome::kLost ? "(absent)" : "v");
      EXPECT_TRUE(apply("c").committed()) << "it stops once";
    }
  }
}

TEST_F(MemoryDiskTest, MayBeginWithEntriesAtTheirVersions) {
  const std::vector<Entry> entries{{"a", "1", 7}, {"b", "2", 3}};
  disk_ = std::make_shared<MemoryDisk>(world_.clock, entries);
  store_ = open_memory_store(disk_);
  EXPECT_EQ(world_.run(store_->scan("")).entries, entries);
  const CommitOutcome outcome =
      world_.run(store_->commit(Batch().require_version("b", 3).put("b", "3")));
  ASSERT_TRUE(outcome.committed());
  EXPECT_EQ(outcome.committed()->version, 8U) << "above all that there are";
  EXPECT_THROW(MemoryDisk(world_.clock, std::vector<Entry>{{"a", "1", 0}}), InvalidArgument);
}

TEST_F(MemoryDiskTest, TheSameSeedMakesTheSameFaults) {
  const auto play = [&](std::uint64_t seed) {
    disk_ = std::make_shared<MemoryDisk>(world_.clock);
    store_ = open_memory_store(disk_);
    fault({.seed = seed, .busy_chance = 0.3, .unknown_chance = 0.3});
    std::string story;
    for (int i = 0; i < 50; ++i) {
      try {
        story += apply(key_of(i)).committed() != nullptr ? 'c' : 'x';
      } catch (const StoreBusy&) {
        story += 'b';
      } catch (const OutcomeUnknown&) {
        story += '?';
      }
    }
    return story;
  };
  EXPECT_EQ(play(7), play(7));
  EXPECT_NE(play(7), play(8));
}

}  // namespace
}  // namespace holdfast
