// SPDX-License-Identifier: Apache-2.0
#include <holdfast/histogram.hpp>

#include <gtest/gtest.h>

#include <random>

namespace holdfast {
namespace {

using namespace std::chrono_literals;

TEST(Histogram, OfNothingIsZero) {
  const Histogram histogram;
  EXPECT_EQ(histogram.count(), 0U);
  EXPECT_EQ(histogram.quantile(0.5), 0ns);
  EXPECT_EQ(histogram.max(), 0ns);
}

TEST(Histogram, CountsSumsAndKeepsTheMaximum) {
  Histogram histogram;
  histogram.add(3ms);
  histogram.add(1ms);
  histogram.add(-5ms);
  EXPECT_EQ(histogram.count(), 3U);
  EXPECT_EQ(histogram.total(), 4ms);
  EXPECT_EQ(histogram.max(), 3ms);
  EXPECT_EQ(histogram.quantile(1), 3ms);
  EXPECT_EQ(histogram.quantile(0), 0ns);
}

TEST(Histogram, QuantilesAreNeverTooLowAndAtMostAnEighthTooHigh) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 50; ++round) {
    Histogram histogram;
    std::vector<std::int64_t> values;
    for (int i = 0; i < 500; ++i) {
      values.push_back(static_cast<std::int64_t>(random() >> (2 + random() % 61)));
      histogram.add(Duration{values.back()});
    }
    std::sort(values.begin(), values.end());
    for (const double q : {0.01, 0.25, 0.5, 0.9, 0.99, 1.0}) {
      const auto rank = static_cast<std::size_t>(std::ceil(q * 500)) - 1;
      const auto exact = static_cast<double>(values[rank]);
      const auto estimate = static_cast<double>(histogram.quantile(q).count());
      EXPECT_GE(estimate, exact);
      EXPECT_LE(estimate, exact * 1.125 + 1);
    }
  }
}

TEST(Histogram, TakesTheLongestDurationThereIs) {
  Histogram histogram;
  histogram.add(Duration::max());
  EXPECT_EQ(histogram.quantile(0.5), Duration::max());
}

}  // namespace
}  // namespace holdfast
