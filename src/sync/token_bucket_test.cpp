// SPDX-License-Identifier: Apache-2.0
#include <holdfast/token_bucket.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <vector>

#include <holdfast/error.hpp>

namespace holdfast {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kStart{1h};

TEST(TokenBucket, RefusalSaysHowLongAndKeepsTheState) {
  TokenBucket bucket({.count = 100, .period = 1s, .burst = 2}, kStart);
  EXPECT_EQ(bucket.try_take(2, kStart), std::nullopt);
  EXPECT_EQ(bucket.try_take(1, kStart), 10ms);
  EXPECT_EQ(bucket.try_take(1, kStart), 10ms) << "a refused take must not push the queue back";
  EXPECT_EQ(bucket.try_take(1, kStart + 10ms), std::nullopt);
}

TEST(TokenBucket, FillsUpToItsBurstAndNoFurther) {
  TokenBucket bucket({.count = 10, .period = 1s, .burst = 3}, kStart);
  EXPECT_EQ(bucket.available(kStart + 1h), 3U);
  EXPECT_EQ(bucket.try_take(3, kStart + 1h), std::nullopt);
  EXPECT_EQ(bucket.available(kStart + 1h), 0U);
  EXPECT_EQ(bucket.try_take(1, kStart + 1h), 100ms);
  EXPECT_EQ(bucket.available(kStart + 1h + 250ms), 2U);
  EXPECT_EQ(bucket.full_at(), kStart + 1h + 300ms);
}

TEST(TokenBucket, ARateThatDoesNotDivideEvenlyNeverRunsAhead) {
  TokenBucket bucket({.count = 3, .period = 1s}, kStart);
  EXPECT_EQ(bucket.try_take(1, kStart), std::nullopt);
  EXPECT_EQ(bucket.try_take(1, kStart), Duration{333'333'334});
}

TEST(TokenBucket, AChangedRateKeepsWhatIsSpent) {
  TokenBucket bucket({.count = 10, .period = 1s, .burst = 4}, kStart);
  EXPECT_EQ(bucket.try_take(3, kStart), std::nullopt);
  bucket.change_rate({.count = 1, .period = 1s, .burst = 4}, kStart);
  EXPECT_EQ(bucket.available(kStart), 1U);
  EXPECT_EQ(bucket.available(kStart + 1s), 2U);
  bucket.change_rate({.count = 1, .period = 1s, .burst = 1}, kStart);
  EXPECT_EQ(bucket.available(kStart), 0U);
}

TEST(TokenBucket, RefusesRatesThatMeanNothing) {
  EXPECT_THROW(TokenBucket({.count = 0}, kStart), InvalidArgument);
  EXPECT_THROW(TokenBucket({.burst = 0}, kStart), InvalidArgument);
  EXPECT_THROW(TokenBucket({.count = 10, .period = 9ns}, kStart), InvalidArgument);
  EXPECT_THROW(TokenBucket({.period = -1s}, kStart), InvalidArgument);
  EXPECT_THROW(TokenBucket({.period = Duration::max(), .burst = 100}, kStart), InvalidArgument);
}

// No window of a period ever sees more than count + burst - 1, whoever asks when.
RC_GTEST_PROP(TokenBucket, NoWindowSeesMoreThanItsShare, ()) {
  const auto count = *rc::gen::inRange<std::uint32_t>(1, 20);
  const auto burst = *rc::gen::inRange<std::uint32_t>(1, 20);
  const auto gaps = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 60));
  const Duration period = 1000ns;
  TokenBucket bucket({.count = count, .period = period, .burst = burst}, kStart);
  std::vector<TimePoint> passed;
  TimePoint now = kStart;
  for (const int gap : gaps) {
    now += Duration{gap};
    while (!bucket.try_take(1, now)) {
      passed.push_back(now);
    }
  }
  for (std::size_t i = 0; i < passed.size(); ++i) {
    std::size_t in_window = 0;
    for (std::size_t j = i; j < passed.size() && passed[j] - passed[i] < period; ++j) {
      ++in_window;
    }
    RC_ASSERT(in_window <= count + burst - 1);
  }
}

}  // namespace
}  // namespace holdfast
