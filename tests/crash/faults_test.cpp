// SPDX-License-Identifier: Apache-2.0
//
// A disk that fails at each I/O operation of a store's life, one after another, while the machine
// lives on; and then dies as well.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include <holdfast/spawn.hpp>
#include <holdfast/store_error.hpp>

#include "coro/test_world.hpp"
#include "tests/crash/actors.hpp"
#include "tests/crash/machine.hpp"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kSeeds = HOLDFAST_CRASH_FAULT_SEEDS;

Task<void> watch_until_it_ends(Watch watch, std::optional<ErrorCode>& end) {
  while (!end) {
    try {
      co_await watch.changed();
    } catch (const Error& error) {
      end = error.code();
    }
  }
}

class Faults : public ::testing::TestWithParam<Fault> {
 protected:
  /// All points of all beginnings and seeds.
  void suffer_everywhere(Fault fault) {
    const Machine::Moment nothing;
    const Machine::Moment closed = closed_store(machine_);
    const Machine::Moment killed = killed_store(machine_);
    std::uint64_t runs = 0;
    for (const Machine::Moment* moment : {&nothing, &closed, &killed}) {
      for (std::uint64_t seed = 0; seed < kSeeds && !HasFailure(); ++seed) {
        const std::uint64_t points = suffer(fault, *moment, seed, kNever);
        for (std::uint64_t point = 0; point < points && !HasFailure(); ++point, ++runs) {
          SCOPED_TRACE("seed " + std::to_string(seed) + ", point " + std::to_string(point) +
                       ", beginning with " + std::to_string(moment->files.size()) + " files");
          suffer(fault, *moment, seed, point);
        }
      }
    }
    std::cout << runs << " runs, " << faults_ << " faults, " << in_use_ << " of them in use\n";
    EXPECT_GT(in_use_, 0U);
  }

  /// How many points there were.
  std::uint64_t suffer(Fault fault, const Machine::Moment& moment, std::uint64_t seed,
                       std::uint64_t point) {
    Dice dice(seed << 32U | point);
    machine_.begin_at(moment, seed);
    machine_.checkpoint_pages = 12;
    machine_.disk.count_reads(fault == Fault::kReadError);
    machine_.disk.fail_at(point, fault);
    live(fault, seed);
    const std::uint64_t points = machine_.disk.io_points();
    faults_ += machine_.disk.faults();
    machine_.disk.free_space();
    machine_.disk.count_reads(false);
    // A kernel that could not sync shows what was written all the same, until the machine dies.
    if (dice.one_in(2)) {
      machine_.cut_power(dice);
    } else {
      machine_.disk.kill();
    }
    expect_sound(dice.next());
    machine_.cut_power(dice);
    expect_sound(dice.next());
    return points;
  }

  void live(Fault fault, std::uint64_t seed) {
    std::unique_ptr<Store> store;
    try {
      store = machine_.open();
    } catch (const Error& error) {
      EXPECT_GT(machine_.disk.faults(), 0U) << error.what();
      if (fault == Fault::kFull || fault == Fault::kFullUntilFreed) {
        EXPECT_EQ(error.code(), ErrorCode::kStoreFull) << error.what();
      }
      return;
    }
    std::optional<ErrorCode> end_of_watch;
    auto watcher = spawn(machine_.stage, watch_until_it_ends(store->watch("key/"), end_of_watch));
    const std::uint64_t before = machine_.disk.faults();
    play(machine_.stage, *store, machine_.ledger, {.seed = seed, .go_on_after_error = true});
    if (machine_.disk.faults() > before) {
      ++in_use_;
      after_fault(fault, *store);
    }
    store.reset();
    machine_.stage.drive_until([&watcher] { return watcher.ended(); });
    watcher.get();
    const bool failed =
        machine_.disk.faults() > before && fault != Fault::kFull && fault != Fault::kFullUntilFreed;
    // A fault of the checkpoint at the end comes too late for anyone to be told.
    EXPECT_TRUE(end_of_watch == ErrorCode::kClosed ||
                (failed && end_of_watch == ErrorCode::kStoreFailed));
    EXPECT_TRUE(!told_failed_ || end_of_watch == ErrorCode::kStoreFailed);
    told_failed_ = false;
  }

  void after_fault(Fault fault, Store& store) {
    switch (fault) {
      case Fault::kReadError:
        return;
      case Fault::kWriteError:
      case Fault::kSyncError:
        return expect_failed(store);
      case Fault::kFullUntilFreed:
        expect_full(store);
        machine_.disk.free_space();
        [[fallthrough]];
      case Fault::kFull: {
        // The same object works on.
        EXPECT_NO_THROW(commit_one(store));
        const Machine::Findings findings = machine_.look(store);
        EXPECT_EQ(findings.lost, 0U);
        EXPECT_EQ(text_of(findings.faults), "");
      }
    }
  }

  /// The first commit after it may be the one that learns of it.
  void expect_failed(Store& store) {
    EXPECT_ANY_THROW(commit_one(store));
    EXPECT_THROW(commit_one(store), StoreFailed);
    EXPECT_THROW((void)sync_wait(machine_.stage, store.get("key/1")), StoreFailed);
    EXPECT_THROW((void)read_all(machine_.stage, store), StoreFailed);
    EXPECT_THROW((void)sync_wait(machine_.stage, store.time()), StoreFailed);
    told_failed_ = true;
  }

  /// Reads go on; a commit that needs space says so.
  void expect_full(Store& store) {
    EXPECT_NO_THROW((void)read_all(machine_.stage, store));
    const std::string text = error_text<StoreFull>([&] { commit_one(store); });
    // The beginning of the log may be free to be written again.
    EXPECT_TRUE(text == "threw nothing" || text.find("no space left") != std::string::npos) << text;
  }

  void commit_one(Store& store) {
    Batch batch;
    batch.put("probe", std::string(5'000, 'x'));
    const Ledger::Id id = machine_.ledger.enter(batch);
    try {
      const CommitOutcome outcome = sync_wait(machine_.stage, store.commit(std::move(batch)));
      machine_.ledger.acknowledged(id, outcome);
    } catch (const Error&) {
      machine_.ledger.threw(id);
      throw;
    }
  }

  /// Opens again, with all that was promised there, and takes more.
  void expect_sound(std::uint64_t seed) {
    try {
      const auto store = machine_.open();
      const Machine::Findings findings = machine_.look(*store);
      EXPECT_EQ(findings.lost, 0U);
      EXPECT_EQ(text_of(findings.faults), "");
      play(machine_.stage, *store, machine_.ledger, {.seed = seed, .tasks = 2, .rounds = 1});
      machine_.disk.kill();
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }

  Machine machine_;
  std::uint64_t faults_ = 0;
  std::uint64_t in_use_ = 0;
  bool told_failed_ = false;
};

INSTANTIATE_TEST_SUITE_P(Of, Faults,
                         ::testing::Values(Fault::kWriteError, Fault::kFull, Fault::kFullUntilFreed,
                                           Fault::kSyncError, Fault::kReadError),
                         [](const auto& chosen) {
                           switch (chosen.param) {
                             case Fault::kWriteError:
                               return "Writes";
                             case Fault::kFull:
                               return "SpaceOnce";
                             case Fault::kFullUntilFreed:
                               return "SpaceUntilFreed";
                             case Fault::kSyncError:
                               return "Syncs";
                             case Fault::kReadError:
                               return "Reads";
                           }
                           return "Nothing";
                         });

TEST_P(Faults, AtEveryPointLoseNothingThatWasPromised) { suffer_everywhere(GetParam()); }

Task<void> apply_and_wait(Store& store, std::optional<ErrorCode>& error) {
  Batch batch;
  batch.put("a", "1");
  const CommitOutcome outcome = co_await store.apply(std::move(batch));
  try {
    co_await store.until_durable(outcome.committed()->version);
  } catch (const Error& thrown) {
    error = thrown.code();
  }
}

Task<void> commit_and_tell(Store& store, std::optional<ErrorCode>& error) {
  Batch batch;
  batch.put("b", "2");
  try {
    co_await store.commit(std::move(batch));
  } catch (const Error& thrown) {
    error = thrown.code();
  }
}

TEST_F(Faults, WhatIsInFlightWhenASyncFailsIsUnknownAndTheRestIsRefused) {
  machine_.begin_at(closed_store(machine_), 1);
  const auto store = machine_.open();
  Batch first;
  first.put("first", "");
  (void)sync_wait(machine_.stage, store->commit(std::move(first)));

  std::optional<ErrorCode> of_wait;
  std::optional<ErrorCode> of_commit;
  std::optional<ErrorCode> of_watch;
  std::optional<ErrorCode> of_rest;
  machine_.disk.fail_at(machine_.disk.io_points(), Fault::kSyncError);
  auto watching = spawn(machine_.stage, watch_until_it_ends(store->watch(""), of_watch));
  auto waiting = spawn(machine_.stage, apply_and_wait(*store, of_wait));
  auto committing = spawn(machine_.stage, commit_and_tell(*store, of_commit));
  machine_.stage.drive_until(
      [&] { return watching.ended() && waiting.ended() && committing.ended(); });
  sync_wait(machine_.stage, commit_and_tell(*store, of_rest));
  EXPECT_EQ(of_wait, ErrorCode::kOutcomeUnknown);
  EXPECT_EQ(of_commit, ErrorCode::kOutcomeUnknown);
  EXPECT_EQ(of_watch, ErrorCode::kStoreFailed);
  EXPECT_EQ(of_rest, ErrorCode::kStoreFailed);
  EXPECT_THAT(error_text<StoreFailed>([&] { (void)read_all(machine_.stage, *store); }),
              HasSubstr("Open the store again"));
}

}  // namespace
}  // namespace holdfast::testing
