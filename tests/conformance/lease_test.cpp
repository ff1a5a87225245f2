// SPDX-License-Identifier: Apache-2.0
// Leases on every store, by a clock that only the test moves.
#include <holdfast/lease.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <holdfast/executor.hpp>
#include <holdfast/memory_store.hpp>
#include <holdfast/spawn.hpp>

#include "store_under_test.hpp"

namespace holdfast::conformance {

namespace {

using namespace std::chrono_literals;

struct MemoryByClock {
  static constexpr const char* kName = "memory";
  explicit MemoryByClock(Clock& clock) : disk(std::make_shared<MemoryDisk>(clock)) {}
  [[nodiscard]] std::unique_ptr<Store> open() const { return open_memory_store(disk); }
  std::shared_ptr<MemoryDisk> disk;
};

#ifdef HOLDFAST_TEST_SQLITE
struct SqliteByClock {
  static constexpr const char* kName = "sqlite";
  explicit SqliteByClock(Clock& its_clock) : clock(&its_clock) {}
  [[nodiscard]] std::unique_ptr<Store> open() const {
    return open_sqlite_store(dir.path() / "store", {.clock = clock});
  }
  Clock* clock;
  testing::TempFolder dir;
};
#endif

#ifdef HOLDFAST_TEST_FILE
struct FileByClock {
  static constexpr const char* kName = "file";
  explicit FileByClock(Clock& its_clock) : clock(&its_clock) {}
  [[nodiscard]] std::unique_ptr<Store> open() const {
    return open_file_store(dir.path() / "store", {.clock = clock});
  }
  Clock* clock;
  testing::TempFolder dir;
};
#endif

// clang-format off
using KindsByClock = ::testing::Types<MemoryByClock
#ifdef HOLDFAST_TEST_SQLITE
    , SqliteByClock
#endif
#ifdef HOLDFAST_TEST_FILE
    , FileByClock
#endif
    >;
// clang-format on

template <typename Kind>
class Leases : public ::testing::Test {
 protected:
  LeaseAnswer acquire(std::string_view owner, Duration ttl = 30s, std::string_view key = "leader") {
    return sync_wait(executor_, acquire_lease(*store_, key, owner, ttl));
  }
  std::optional<Lease> renew(const Lease& lease, Duration ttl = 30s) {
    return sync_wait(executor_, renew_lease(*store_, lease, ttl));
  }
  bool release(const Lease& lease) { return sync_wait(executor_, release_lease(*store_, lease)); }
  void reopen() {
    store_.reset();
    store_ = kind_.open();
  }

  VirtualClock clock_;
  ThreadPool executor_{1};
  Kind kind_{clock_};
  std::unique_ptr<Store> store_ = kind_.open();
};

TYPED_TEST_SUITE(Leases, KindsByClock, StoreKindNames);

TYPED_TEST(Leases, OneHasItAndTheOtherIsToldWho) {
  const LeaseAnswer mine = this->acquire("a");
  ASSERT_NE(mine.lease(), nullptr);
  EXPECT_EQ(mine.lease()->owner, "a");
  EXPECT_EQ(mine.lease()->key, "leader");
  this->clock_.advance(10s);
  const LeaseAnswer other = this->acquire("b");
  ASSERT_NE(other.held(), nullptr);
  EXPECT_EQ(other.held()->owner, "a");
  EXPECT_EQ(other.held()->token, mine.lease()->token);
  EXPECT_EQ(other.held()->remaining, 20s);
}

TYPED_TEST(Leases, AnOwnerThatHasItIsToldSoAsAnyoneElse) {
  ASSERT_NE(this->acquire("a").lease(), nullptr);
  const LeaseAnswer again = this->acquire("a");
  ASSERT_NE(again.held(), nullptr);
  EXPECT_EQ(again.held()->owner, "a");
}

TYPED_TEST(Leases, ItEndsAtItsExpiryAndNotBefore) {
  ASSERT_NE(this->acquire("a").lease(), nullptr);
  this->clock_.advance(30s - 1ns);
  EXPECT_NE(this->acquire("b").held(), nullptr);
  this->clock_.advance(1ns);
  EXPECT_NE(this->acquire("b").lease(), nullptr);
}

TYPED_TEST(Leases, ItsHolderStopsCountingOnItBeforeTheOthersDo) {
  const LeaseAnswer answer = this->acquire("a");
  const TimePoint until = answer.lease()->valid_until;
  EXPECT_EQ(until, this->clock_.now() + 30s - Duration(30s) / kLeaseDriftParts);
  EXPECT_TRUE(answer.lease()->valid(until - 1ns));
  EXPECT_FALSE(answer.lease()->valid(until));
}

TYPED_TEST(Leases, TokensOnlyGrowOverReleaseExpiryAndReopening) {
  std::uint64_t last = 0;
  for (int round = 0; round < 6; ++round) {
    const LeaseAnswer answer = this->acquire("a");
    ASSERT_NE(answer.lease(), nullptr) << "round " << round;
    EXPECT_GT(answer.lease()->token, last);
    last = answer.lease()->token;
    if (round % 3 == 0) {
      EXPECT_TRUE(this->release(*answer.lease()));
    } else {
      this->clock_.advance(30s);
    }
    if (round % 3 == 2) {
      this->reopen();
    }
  }
}

TYPED_TEST(Leases, RenewingKeepsTheTokenAndCountsFromNow) {
  const LeaseAnswer answer = this->acquire("a");
  for (int i = 0; i < 4; ++i) {
    this->clock_.advance(20s);
    const std::optional<Lease> renewed = this->renew(*answer.lease());
    ASSERT_TRUE(renewed);
    EXPECT_EQ(renewed->token, answer.lease()->token);
    EXPECT_GT(renewed->valid_until, this->clock_.now() + 29s);
  }
  this->clock_.advance(29s);
  EXPECT_NE(this->acquire("b").held(), nullptr);
  this->clock_.advance(1s);
  EXPECT_NE(this->acquire("b").lease(), nullptr);
}

TYPED_TEST(Leases, RenewingNeverRevivesOneThatHasExpired) {
  const LeaseAnswer answer = this->acquire("a");
  this->clock_.advance(30s);
  EXPECT_FALSE(this->renew(*answer.lease())) << "nobody took it, and yet it is over";
  EXPECT_NE(this->acquire("b").lease(), nullptr);
  EXPECT_FALSE(this->renew(*answer.lease()));
}

TYPED_TEST(Leases, ReleasingNeedsTheTokenAndTheOwner) {
  const LeaseAnswer first = this->acquire("a");
  this->clock_.advance(30s);
  const LeaseAnswer second = this->acquire("a");
  EXPECT_FALSE(this->release(*first.lease())) << "the late release of the first";
  Lease guessed = *second.lease();
  guessed.owner = "b";
  EXPECT_FALSE(this->release(guessed));
  guessed = *second.lease();
  ++guessed.token;
  EXPECT_FALSE(this->release(guessed));
  EXPECT_FALSE(this->renew(guessed));
  EXPECT_NE(this->acquire("b").held(), nullptr);
  EXPECT_TRUE(this->release(*second.lease()));
  EXPECT_FALSE(this->release(*second.lease())) << "once is enough";
  EXPECT_NE(this->acquire("b").lease(), nullptr);
}

TYPED_TEST(Leases, OfManyWhoAskAtOnceOneGetsIt) {
  for (int round = 0; round < 20; ++round) {
    const std::string key = "leader/" + std::to_string(round);
    const std::unique_ptr<Store> other = this->kind_.open();
    std::vector<Spawned<LeaseAnswer>> asking;
    for (int i = 0; i < 10; ++i) {
      Store& store = i % 2 == 0 ? *this->store_ : *other;
      asking.push_back(
          spawn(this->executor_, acquire_lease(store, key, "owner-" + std::to_string(i), 30s)));
    }
    int granted = 0;
    for (Spawned<LeaseAnswer>& one : asking) {
      granted += one.get().lease() != nullptr ? 1 : 0;
    }
    EXPECT_EQ(granted, 1);
  }
}

TYPED_TEST(Leases, BadRequestsAreRefusedAndChangeNothing) {
  EXPECT_THROW(static_cast<void>(this->acquire("", 30s)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(this->acquire("a", 0s)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(this->acquire("a", -1s)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(this->acquire("a", 10'000h)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(this->acquire("a", 30s, "")), InvalidArgument);
  EXPECT_FALSE(sync_wait(this->executor_, this->store_->get("leader")));
}

TYPED_TEST(Leases, SomethingElseUnderTheKeyIsReportedAndKept) {
  Batch batch;
  batch.put("leader", "\xff\xff no lease");
  ASSERT_TRUE(sync_wait(this->executor_, this->store_->commit(std::move(batch))).committed());
  EXPECT_THROW(static_cast<void>(this->acquire("a")), StoreCorrupt);
  EXPECT_EQ(sync_wait(this->executor_, this->store_->get("leader"))->value, "\xff\xff no lease");
}

// A commit whose answer got lost: the one who asked finds out by reading.
TEST(LeasesWithFaults, ALostAnswerIsFoundAgain) {
  VirtualClock clock;
  ThreadPool executor(1);
  int unclear = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const auto disk = std::make_shared<MemoryDisk>(clock);
    const auto store = open_memory_store(disk);
    disk->set_faults({.seed = seed, .unknown_chance = 0.5});
    const LeaseAnswer answer = sync_wait(executor, acquire_lease(*store, "leader", "a", 30s));
    ASSERT_NE(answer.lease(), nullptr) << "seed " << seed;
    std::optional<Lease> renewed = sync_wait(executor, renew_lease(*store, *answer.lease(), 60s));
    ASSERT_TRUE(renewed) << "seed " << seed;
    EXPECT_TRUE(sync_wait(executor, release_lease(*store, *renewed))) << "seed " << seed;
    unclear += disk->commit_count() > 3 ? 1 : 0;
    disk->set_faults({});
    EXPECT_FALSE(sync_wait(executor, store->get("leader"))) << "seed " << seed;
  }
  EXPECT_GT(unclear, 0) << "no answer was lost, so nothing was tested";
}

}  // namespace

}  // namespace holdfast::conformance
