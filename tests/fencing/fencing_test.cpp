// SPDX-License-Identifier: Apache-2.0
// What holds for fences in all three databases.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "database_error.hpp"
#include "postgres_counters.hpp"
#include "redis_counters.hpp"
#include "sqlite_counters.hpp"

namespace holdfast::fencing {

namespace {

using ::testing::Optional;

/// One database for all tests of a kind; each test has a counter of its own.
template <typename Database>
class Fencing : public ::testing::Test {
 protected:
  using Counters = typename Database::Counters;

  static void SetUpTestSuite() { database = std::make_unique<Database>(); }
  static void TearDownTestSuite() { database.reset(); }

  Counters connect() const { return Counters(database->address()); }

  /// False: refused, as stale. Whatever else goes wrong throws.
  template <typename Act>
  static bool is_accepted(const Act& act) {
    try {
      act();
      return true;
    } catch (const DatabaseError& error) {
      if (!error.is_stale()) {
        throw;
      }
      return false;
    }
  }
  static bool reads(Counters& counters, const std::string& counter, std::uint64_t fence) {
    return is_accepted([&] { static_cast<void>(counters.read(counter, fence)); });
  }
  static bool writes(Counters& counters, const std::string& counter, std::uint64_t fence,
                     std::int64_t value) {
    return is_accepted([&] { counters.write(counter, fence, value); });
  }
  /// True: both the read and the write were accepted.
  static bool increments(Counters& counters, const std::string& counter, std::uint64_t fence) {
    return is_accepted([&] {
      const std::int64_t value = counters.read(counter, fence);
      counters.write(counter, fence, value + 1);
    });
  }

  static std::unique_ptr<Database> database;
  const std::string counter_ = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  Counters first_ = connect();
  Counters second_ = connect();
};

template <typename Database>
std::unique_ptr<Database> Fencing<Database>::database;

struct KindName {
  template <typename Database>
  // NOLINTNEXTLINE(readability-identifier-naming): GoogleTest asks for this name.
  static std::string GetName(int /*index*/) {
    if (std::is_same_v<Database, SqliteDatabase>) {
      return "Sqlite";
    }
    return std::is_same_v<Database, PostgresDatabase> ? "Postgres" : "Redis";
  }
};

using Databases = ::testing::Types<SqliteDatabase, PostgresDatabase, RedisDatabase>;
TYPED_TEST_SUITE(Fencing, Databases, KindName);

TYPED_TEST(Fencing, TheFirstOneIsAccepted) {
  EXPECT_EQ(this->first_.fence_of(this->counter_), std::nullopt);
  EXPECT_EQ(this->first_.read(this->counter_, 7), 0);
  EXPECT_THAT(this->second_.fence_of(this->counter_), Optional(std::string("7")));
}

TYPED_TEST(Fencing, TheSameAndAGreaterOneAreAccepted) {
  this->first_.write(this->counter_, 7, 1);
  this->first_.write(this->counter_, 7, 2);
  EXPECT_EQ(this->first_.read(this->counter_, 7), 2);
  EXPECT_THAT(this->first_.fence_of(this->counter_), Optional(std::string("7")));
  EXPECT_EQ(this->second_.read(this->counter_, 8), 2);
  this->second_.write(this->counter_, 1'048'578, 3);
  EXPECT_THAT(this->first_.fence_of(this->counter_), Optional(std::string("1048578")));
  EXPECT_EQ(this->first_.read_unguarded(this->counter_), 3);
}

TYPED_TEST(Fencing, AWriteWithALesserOneIsRefusedAndChangesNothing) {
  this->second_.write(this->counter_, 8, 2);
  EXPECT_FALSE(this->writes(this->first_, this->counter_, 7, 1));
  EXPECT_EQ(this->second_.read_unguarded(this->counter_), 2);
  EXPECT_THAT(this->second_.fence_of(this->counter_), Optional(std::string("8")));
  EXPECT_TRUE(this->writes(this->first_, this->counter_, 9, 3)) << "the connection is as before";
}

TYPED_TEST(Fencing, AFirstReadWithALesserOneIsRefusedAndChangesNothing) {
  this->second_.write(this->counter_, 8, 2);
  EXPECT_FALSE(this->reads(this->first_, this->counter_, 7));
  EXPECT_THAT(this->second_.fence_of(this->counter_), Optional(std::string("8")));
  EXPECT_TRUE(this->reads(this->first_, this->counter_, 8)) << "the connection is as before";
}

TYPED_TEST(Fencing, TheyAreExactUpTo63Bits) {
  const std::uint64_t two_53 = std::uint64_t{1} << 53U;
  const std::uint64_t two_63 = std::uint64_t{1} << 63U;
  for (const std::uint64_t fence :
       {std::uint64_t{1}, std::uint64_t{9}, std::uint64_t{10}, std::uint64_t{99},
        std::uint64_t{1'000}, (std::uint64_t{1} << 32U) + 1, two_53, two_53 + 1, two_53 + 2,
        std::uint64_t{9'199'999'999'999'999'999U}, std::uint64_t{9'200'000'000'000'000'000U},
        two_63 - 2, two_63 - 1}) {
    EXPECT_TRUE(this->writes(this->first_, this->counter_, fence, 1)) << fence;
    EXPECT_THAT(this->first_.fence_of(this->counter_), Optional(std::to_string(fence)));
    if (fence > 1) {
      EXPECT_FALSE(this->writes(this->first_, this->counter_, fence - 1, 2)) << fence;
      EXPECT_FALSE(this->reads(this->first_, this->counter_, fence - 1)) << fence;
    }
  }
  EXPECT_EQ(this->first_.read_unguarded(this->counter_), 1);
}

TYPED_TEST(Fencing, WhatIsNoneIsAnErrorAndChangesNothing) {
  for (const std::string text : {"", "0", "-1", "x", "1.5", "7x", "100000000000000000000000"}) {
    EXPECT_THROW(this->first_.present_text(this->counter_, text), DatabaseError) << text;
  }
  EXPECT_EQ(this->first_.fence_of(this->counter_), std::nullopt) << "also where it is the first";
  this->first_.present_text(this->counter_, "7");
  for (const std::string text : {"", "0", "-8", "x", "8.5", "8x", "100000000000000000000000"}) {
    EXPECT_THROW(this->first_.present_text(this->counter_, text), DatabaseError) << text;
  }
  EXPECT_THAT(this->first_.fence_of(this->counter_), Optional(std::string("7")));
}

TYPED_TEST(Fencing, ResourcesAreIndependent) {
  const std::string other = this->counter_ + "'s other one";
  this->first_.write(this->counter_, 8, 2);
  EXPECT_TRUE(this->increments(this->second_, other, 7));
  EXPECT_FALSE(this->increments(this->second_, this->counter_, 7));
  EXPECT_EQ(this->first_.read_unguarded(this->counter_), 2);
  EXPECT_EQ(this->first_.read_unguarded(other), 1);
}

TYPED_TEST(Fencing, AHolderThatStoppedBetweenReadAndWriteIsRefusedAfterTheNext) {
  const std::int64_t read_before = this->first_.read(this->counter_, 7);
  EXPECT_TRUE(this->increments(this->second_, this->counter_, 8));
  EXPECT_FALSE(this->writes(this->first_, this->counter_, 7, read_before + 1));
  EXPECT_EQ(this->second_.read_unguarded(this->counter_), 1);
}

TYPED_TEST(Fencing, AHolderIsRefusedAsSoonAsTheNextHasRead) {
  const std::int64_t read_by_first = this->first_.read(this->counter_, 7);
  const std::int64_t read_by_second = this->second_.read(this->counter_, 8);
  EXPECT_FALSE(this->writes(this->first_, this->counter_, 7, read_by_first + 1));
  EXPECT_TRUE(this->writes(this->second_, this->counter_, 8, read_by_second + 1));
  EXPECT_EQ(this->second_.read_unguarded(this->counter_), 1);
}

// The same steps without the fence at the reads. It fails as it should: so the tests can see it.
TYPED_TEST(Fencing, ACheckOfWritesAloneLosesAnUpdate) {
  const std::int64_t read_by_first = this->first_.read_unguarded(this->counter_);
  const std::int64_t read_by_second = this->second_.read_unguarded(this->counter_);
  EXPECT_TRUE(this->writes(this->first_, this->counter_, 7, read_by_first + 1));
  EXPECT_TRUE(this->writes(this->second_, this->counter_, 8, read_by_second + 1));
  EXPECT_EQ(this->second_.read_unguarded(this->counter_), 1) << "of two that were accepted";
}

TYPED_TEST(Fencing, OfTwoThatPresentAtTheSameMomentNothingIsLost) {
  constexpr int kRounds = 40;
  std::barrier start(2);
  std::array<std::vector<int>, 2> accepted;  // Of each, per round.
  const auto increment = [&](std::size_t who, auto& counters) {
    for (int round = 0; round < kRounds; ++round) {
      const std::string counter = this->counter_ + std::to_string(round);
      // The greater fence changes sides, so that both orders are seen.
      const bool is_greater = (round % 2 == 0) == (who == 0);
      start.arrive_and_wait();
      accepted[who].push_back(this->increments(counters, counter, is_greater ? 8 : 7) ? 1 : 0);
    }
  };
  std::thread other([&] { increment(1, this->second_); });
  increment(0, this->first_);
  other.join();
  for (int round = 0; round < kRounds; ++round) {
    const auto at = static_cast<std::size_t>(round);
    const std::string counter = this->counter_ + std::to_string(round);
    EXPECT_EQ(accepted[at % 2][at], 1) << "the greater one";
    EXPECT_EQ(this->first_.read_unguarded(counter), accepted[0][at] + accepted[1][at]);
    EXPECT_FALSE(this->reads(this->first_, counter, 7));
  }
}

TYPED_TEST(Fencing, OfManyIncrementsOfWhichSomeAreStaleNoneIsLost) {
  constexpr int kClients = 4;
  constexpr int kTurns = 50;
  std::mutex lock;  // As the lock service would be, but for those whose lease runs out.
  std::uint64_t last_fence = 0;
  std::atomic<std::int64_t> accepted = 0;
  std::atomic<int> refused = 0;
  const auto take_turns = [&] {
    auto counters = this->connect();
    for (int turn = 0; turn < kTurns; ++turn) {
      std::unique_lock hold(lock);
      const std::uint64_t fence = ++last_fence;
      const std::int64_t value = counters.read(this->counter_, fence);
      if (turn % 5 == 0) {
        hold.unlock();  // The lease ran out. It goes on all the same, beside the others,
        if (turn % 10 == 0) {
          hold.lock();  // or, for certain, after the next.
          accepted += this->increments(counters, this->counter_, ++last_fence) ? 1 : 0;
          hold.unlock();
        }
      }
      if (this->writes(counters, this->counter_, fence, value + 1)) {
        ++accepted;
      } else {
        ++refused;
      }
    }
  };
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back(take_turns);
  }
  for (std::thread& client : clients) {
    client.join();
  }
  EXPECT_EQ(this->first_.read_unguarded(this->counter_), accepted);
  EXPECT_GE(accepted, kClients * kTurns * 9 / 10);
  EXPECT_GE(refused, kClients * kTurns / 10);
}

}  // namespace

}  // namespace holdfast::fencing
