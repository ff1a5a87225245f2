// SPDX-License-Identifier: Apache-2.0
#include "duration.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace holdfast::cli {
namespace {

using namespace std::chrono_literals;

TEST(Duration, IsAWholeNumberAndAUnit) {
  EXPECT_EQ(parse_duration("500ms"), 500ms);
  EXPECT_EQ(parse_duration("30s"), 30s);
  EXPECT_EQ(parse_duration("30m"), 30min);
  EXPECT_EQ(parse_duration("3h"), 3h);
  EXPECT_EQ(parse_duration("1d"), 24h);
  EXPECT_EQ(parse_duration("0s"), 0s);
}

TEST(Duration, AnythingElseIsRefused) {
  for (const char* word : {"", "30", "s", "-1s", "1.5h", "30 s", "30S", "1w", "+1s", "0x1s", "1s ",
                           "36501d", "9223372036854775807d", "99999999999999999999s"}) {
    EXPECT_EQ(parse_duration(word), std::nullopt) << word;
  }
}

TEST(Duration, IsToldInItsTwoLargestUnits) {
  EXPECT_EQ(duration_text(-1s), "0ms");
  EXPECT_EQ(duration_text(350ms), "350ms");
  EXPECT_EQ(duration_text(59'999ms), "59s");
  EXPECT_EQ(duration_text(192s), "3m 12s");
  EXPECT_EQ(duration_text(125min), "2h 5m");
  EXPECT_EQ(duration_text(76h), "3d 4h");
}

}  // namespace
}  // namespace holdfast::cli
