// SPDX-License-Identifier: Apache-2.0
#include "store_time.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>

namespace holdfast::detail {
namespace {

using namespace std::chrono_literals;

TimePoint at(Duration since_boot) { return TimePoint(since_boot); }
StoreTime store_time(Duration since_start) { return StoreTime(since_start); }

TEST(StoreTime, RunsWithTheClockOfTheMachine) {
  const TimeRecord record{.boot_id = "a", .offset_ns = 100, .high_water_ns = 0};
  EXPECT_EQ(time_of(record, at(5ns)), store_time(105ns));
  EXPECT_EQ(time_of(record, at(1h)), store_time(1h + 100ns));
}

TEST(StoreTime, StaysTheSameForAllProcessesOfABoot) {
  const TimeRecord record = marked({.boot_id = "a", .offset_ns = 7, .high_water_ns = 0}, at(10s));
  EXPECT_EQ(continued(record, at(11s), "a"), record);
}

TEST(StoreTime, GoesOnFromTheMarkAfterABoot) {
  const TimeRecord before = marked({.boot_id = "a", .offset_ns = 0, .high_water_ns = 0}, at(24h));
  const TimeRecord after = continued(before, at(3s), "b");
  EXPECT_EQ(after.boot_id, "b");
  EXPECT_EQ(time_of(after, at(3s)), store_time(24h));
  EXPECT_EQ(time_of(after, at(5s)), store_time(24h + 2s));
}

TEST(StoreTime, DoesNotJumpAheadWhenABootBeginsLater) {
  const TimeRecord before = marked({.boot_id = "a", .offset_ns = 0, .high_water_ns = 0}, at(3s));
  EXPECT_EQ(time_of(continued(before, at(24h), "b"), at(24h)), store_time(3s))
      << "a lease must not end because the other machine has been up for a day";
}

TEST(StoreTime, StandsStillRatherThanGoingBack) {
  const TimeRecord record{.boot_id = "a", .offset_ns = 0, .high_water_ns = 1'000};
  EXPECT_EQ(time_of(record, at(10ns)), store_time(1us));
  const TimeRecord repaired = continued(record, at(10ns), "a");
  EXPECT_EQ(time_of(repaired, at(11ns)), store_time(1'001ns)) << "and then it runs again";
}

TEST(StoreTime, TheKernelNamesTheBoot) {
  EXPECT_FALSE(read_boot_id().empty());
  EXPECT_EQ(read_boot_id(), read_boot_id());
}

RC_GTEST_PROP(StoreTime, NeverGoesBackOverBoots, ()) {
  TimeRecord record;
  StoreTime highest{};
  const int boots = *rc::gen::inRange(1, 6);
  for (int boot = 0; boot < boots; ++boot) {
    Duration up(*rc::gen::inRange<std::int64_t>(0, 1'000'000));
    record = continued(record, at(up), "boot " + std::to_string(boot));
    const int steps = *rc::gen::inRange(0, 10);
    for (int step = 0; step < steps; ++step) {
      up += Duration(*rc::gen::inRange<std::int64_t>(0, 1'000'000));
      const StoreTime told = time_of(record, at(up));
      RC_ASSERT(told >= highest);
      highest = told;
      record = marked(record, at(up));
    }
  }
}

}  // namespace
}  // namespace holdfast::detail
