// SPDX-License-Identifier: Apache-2.0
#include "tests/soak/guarded_counters.hpp"

#include <gtest/gtest.h>

#include "base/temp_folder.hpp"

namespace holdfast::testing {
namespace {

class GuardedCountersTest : public ::testing::Test {
 protected:
  TempFolder folder_;
  GuardedCounters counters_{folder_ / "counters.db"};
};

TEST_F(GuardedCountersTest, AReadRefusesAllWritesOfThoseBefore) {
  EXPECT_EQ(counters_.read(Resource::kMutex, 10, false), 0U);
  EXPECT_EQ(counters_.read(Resource::kMutex, 11, false), 0U);
  EXPECT_FALSE(counters_.write(Resource::kMutex, 10, 1, {}));
  EXPECT_FALSE(counters_.read(Resource::kMutex, 10, false));
  EXPECT_TRUE(counters_.write(Resource::kMutex, 11, 1, {}));
  EXPECT_EQ(counters_.value(Resource::kMutex), 1U);
  EXPECT_EQ(counters_.read(Resource::kSlot0, 10, false), 0U) << "that is another one";
}

TEST_F(GuardedCountersTest, ReadersDoNotRefuseEachOtherButAWriter) {
  EXPECT_TRUE(counters_.read(Resource::kReadWrite, 12, true));
  EXPECT_TRUE(counters_.read(Resource::kReadWrite, 11, true));
  EXPECT_FALSE(counters_.write(Resource::kReadWrite, 10, 1, {}));
  EXPECT_TRUE(counters_.write(Resource::kReadWrite, 13, 1, {}));
  EXPECT_FALSE(counters_.read(Resource::kReadWrite, 12, true));
}

TEST_F(GuardedCountersTest, EachIncrementIsARow) {
  EXPECT_TRUE(counters_.write(Resource::kMutex, 10, 1, {.process = 3, .task = 1}));
  EXPECT_TRUE(counters_.write(Resource::kMutex, 12, 2, {.process = 4, .task = 0}));
  const auto increments = counters_.increments(Resource::kMutex);
  ASSERT_EQ(increments.size(), 2U);
  EXPECT_EQ(increments[0].fence, 10U);
  EXPECT_EQ(increments[0].doer.process, 3);
  EXPECT_EQ(increments[1].value, 2U);
}

}  // namespace
}  // namespace holdfast::testing
