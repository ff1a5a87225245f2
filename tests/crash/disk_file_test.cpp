// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/disk_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>

namespace holdfast::testing {
namespace {

using ::testing::UnorderedElementsAre;

/// What `seeds` crashes of copies of the file leave behind.
std::set<std::string> outcomes(const DiskFile& file, std::uint64_t seeds = 500) {
  std::set<std::string> found;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    DiskFile copy = file;
    Dice dice(seed);
    copy.crash(dice);
    EXPECT_EQ(copy.seen(), copy.durable());
    EXPECT_EQ(copy.unsynced(), 0U);
    found.insert(copy.seen());
  }
  return found;
}

TEST(DiskFile, ShowsItsWritesAtOnceAndKeepsThemAfterASync) {
  DiskFile file("abcdef");
  file.write(4, "XYZ");
  EXPECT_EQ(file.seen(), "abcdXYZ");
  EXPECT_EQ(file.durable(), "abcdef");
  file.sync();
  EXPECT_THAT(outcomes(file), UnorderedElementsAre("abcdXYZ"));
}

TEST(DiskFile, FillsAGapWithZeros) {
  DiskFile file;
  file.write(2, "x");
  EXPECT_EQ(file.seen(), std::string("\0\0x", 3));
}

TEST(DiskFile, LosesAnySubsetOfWhatWasNotSynced) {
  DiskFile file("..");
  file.write(0, "a");
  file.write(1, "b");
  EXPECT_THAT(outcomes(file), UnorderedElementsAre("..", "a.", ".b", "ab"));
}

TEST(DiskFile, WritesInAnyOrder) {
  DiskFile file(".");
  file.write(0, "a");
  file.write(0, "b");
  EXPECT_THAT(outcomes(file), UnorderedElementsAre(".", "a", "b"));
}

TEST(DiskFile, KeepsATruncateOrNot) {
  DiskFile file("abc");
  file.truncate(1);
  EXPECT_EQ(file.seen(), "a");
  EXPECT_THAT(outcomes(file), UnorderedElementsAre("abc", "a"));
}

TEST(DiskFile, TearsAWriteAtSectorsAndNowhereElse) {
  const std::string old(3 * kSectorBytes, '.');
  DiskFile file(old);
  file.write(kSectorBytes - 10, std::string(20, 'x'));
  const std::string left = std::string(old).replace(kSectorBytes - 10, 10, 10, 'x');
  const std::string right = std::string(old).replace(kSectorBytes, 10, 10, 'x');
  EXPECT_THAT(outcomes(file), UnorderedElementsAre(old, left, right, file.seen()));
}

TEST(DiskFile, MayLoseForGoodWhatAFailedSyncWasToSave) {
  std::set<std::string> found;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Dice dice(seed);
    DiskFile file("..");
    file.write(0, "a");
    file.write(1, "b");
    file.fail_sync(dice);
    EXPECT_EQ(file.seen(), "ab") << "processes do not notice";
    file.sync();
    found.insert(file.durable());
  }
  EXPECT_THAT(found, UnorderedElementsAre("..", "a.", ".b", "ab"));
}

TEST(DiskFile, SavesWhatWasWrittenAgainAfterAFailedSync) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Dice dice(seed);
    DiskFile file(".");
    file.write(0, "a");
    file.fail_sync(dice);
    file.write(0, "a");
    file.sync();
    EXPECT_EQ(file.durable(), "a") << "seed " << seed;
  }
}

}  // namespace
}  // namespace holdfast::testing
