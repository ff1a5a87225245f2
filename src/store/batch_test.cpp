// SPDX-License-Identifier: Apache-2.0
#include <holdfast/batch.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <ranges>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast {
namespace {

using Conditions = decltype(Batch().conditions());
using Writes = decltype(Batch().writes());
static_assert(std::ranges::random_access_range<Conditions>);
static_assert(std::ranges::random_access_range<Writes>);
static_assert(std::ranges::sized_range<Writes>);
static_assert(std::ranges::borrowed_range<Writes>);
static_assert(std::ranges::view<Writes>);

/// A line for each condition and write.
std::vector<std::string> lines_of(const Batch& batch) {
  static constexpr std::string_view kKinds = "anvg";
  std::vector<std::string> lines;
  for (const Batch::Condition& condition : batch.conditions()) {
    const char kind = kKinds[static_cast<std::size_t>(condition.kind)];
    lines.push_back(std::string(1, kind) + " " + std::string(condition.key) + " " +
                    std::to_string(condition.version));
  }
  for (const Batch::Write& write : batch.writes()) {
    std::string& line = lines.emplace_back(write.key);
    if (write.value) {
      line.append(write.is_new ? " := " : " = ").append(*write.value);
    }
  }
  return lines;
}

using Lines = std::vector<std::string>;

Batch some_of_each() {
  Batch batch;
  batch.require_absent("absent").require_new("new").require_version("known", 7).guard("epoch", 8);
  batch.put("put", "1").put_new("put_new", "2").erase("erased");
  return batch;
}

const Lines kSomeOfEach = {"a absent 0", "n new 0",      "v known 7", "g epoch 8",
                           "put = 1",    "put_new := 2", "erased"};

/// Longer than what fits into a string without memory of its own.
std::string long_text(char letter, std::size_t size = 5'000) { return std::string(size, letter); }

TEST(Batch, HasItsConditionsAndWritesInTheirOrder) {
  const Batch batch = some_of_each();
  EXPECT_EQ(lines_of(batch), kSomeOfEach);
  EXPECT_EQ(batch.conditions().size(), 4U);
  EXPECT_EQ(batch.writes().size(), 3U);
  EXPECT_EQ(batch.size(), 7U);
  EXPECT_EQ(batch.bytes(), 6U + 3U + 5U + 5U + 4U + 8U + 6U);
}

TEST(Batch, AnEmptyOneHasNothing) {
  const Batch batch;
  EXPECT_TRUE(batch.conditions().empty());
  EXPECT_TRUE(batch.writes().empty());
  EXPECT_EQ(batch.size(), 0U);
  EXPECT_EQ(batch.bytes(), 0U);
}

TEST(Batch, ItsViewsAreRangesWithRandomAccess) {
  const Batch batch = some_of_each();
  const auto writes = batch.writes();
  EXPECT_EQ(writes[2].key, "erased");
  EXPECT_EQ(writes.begin()[1].key, "put_new");
  EXPECT_EQ((*(writes.end() - 1)).key, "erased");
  EXPECT_EQ(writes.end() - writes.begin(), 3);
  EXPECT_LT(writes.begin(), writes.end());
  const auto found = std::ranges::find(batch.writes(), "put_new", &Batch::Write::key);
  ASSERT_NE(found, writes.end());
  EXPECT_EQ((*found).value, "2");
  EXPECT_EQ(std::ranges::count(batch.conditions(), Batch::Kind::kGuard, &Batch::Condition::kind),
            1);
  const auto is_erased = [](const Batch::Write& write) { return !write.value; };
  EXPECT_TRUE(std::any_of(writes.begin(), writes.end(), is_erased));
  std::vector<std::string_view> backwards;
  const auto conditions = batch.conditions();
  for (auto condition = conditions.end(); condition != conditions.begin();) {
    backwards.push_back((*--condition).key);
  }
  EXPECT_EQ(backwards, (std::vector<std::string_view>{"epoch", "known", "new", "absent"}));
}

TEST(Batch, AnEmptyValueIsNoErasure) {
  Batch batch;
  batch.put("empty", "").erase("erased").put_new("", "");
  ASSERT_TRUE(batch.writes()[0].value);
  EXPECT_EQ(*batch.writes()[0].value, "");
  EXPECT_FALSE(batch.writes()[1].value);
  EXPECT_FALSE(batch.writes()[1].is_new);
  EXPECT_EQ(batch.writes()[2].key, "");
  EXPECT_EQ(batch.writes()[2].value, "");
  EXPECT_TRUE(batch.writes()[2].is_new);
}

TEST(Batch, KeysAndValuesAreBytes) {
  using namespace std::string_view_literals;
  Batch batch;
  batch.put("a\0b"sv, "\0\xFF"sv);
  EXPECT_EQ(batch.writes()[0].key, "a\0b"sv);
  EXPECT_EQ(batch.writes()[0].value, "\0\xFF"sv);
}

TEST(Batch, KeysAndValuesAreCopiedAtTheCall) {
  std::string key = "key";
  std::string value = "value";
  Batch batch;
  batch.require_absent(key).put(key, value).erase(key);
  key = "???";
  value = "?????";
  EXPECT_EQ(lines_of(batch), (Lines{"a key 0", "key = value", "key"}));
}

TEST(Batch, WhatIsAppendedComesBehind) {
  Batch batch;
  batch.require_version("first", 1).put("x", "first");
  batch.append(some_of_each()).append(Batch()).append(some_of_each());
  batch.guard("last", 2).put("x", "last");
  Lines expected = {"v first 1"};
  const auto add = [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
    std::copy(kSomeOfEach.begin() + begin, kSomeOfEach.begin() + end, std::back_inserter(expected));
  };
  add(0, 4);
  add(0, 4);
  expected.emplace_back("g last 2");
  expected.emplace_back("x = first");
  add(4, 7);
  add(4, 7);
  expected.emplace_back("x = last");
  EXPECT_EQ(lines_of(batch), expected);
  EXPECT_EQ(batch.bytes(), 2 * some_of_each().bytes() + 5U + 6U + 4U + 5U);
}

TEST(Batch, AnEmptyOneTakesOverTheMemoryOfWhatIsAppended) {
  Batch other;
  other.put("key", long_text('v'));
  const char* const memory = other.writes()[0].key.data();
  Batch batch;
  batch.append(std::move(other));
  EXPECT_EQ(batch.writes()[0].key.data(), memory);
}

TEST(Batch, CanBeAppendedToItself) {
  Batch batch;
  batch.require_new("a").put("a", long_text('v'));
  batch.append(batch);
  EXPECT_EQ(lines_of(batch),
            (Lines{"n a 0", "n a 0", "a = " + long_text('v'), "a = " + long_text('v')}));
}

TEST(Batch, MayBeGivenItsOwnKeysAndValues) {
  for (const std::size_t size : {1U, 10U, 100U, 1'000U, 10'000U}) {
    SCOPED_TRACE(size);
    const std::string key = long_text('k', size);
    const std::string value = long_text('v', size);
    Batch batch;
    batch.put(key, value);
    Lines expected = {key + " = " + value};
    // Whether its memory has to grow or not.
    for (int i = 0; i < 10; ++i) {
      const Batch::Write write = batch.writes()[0];
      batch.put(*write.value, write.key);
      expected.push_back(value + " = " + key);
    }
    EXPECT_EQ(lines_of(batch), expected);
    batch.require_absent(batch.writes()[0].key).erase(*batch.writes()[1].value);
    EXPECT_EQ(batch.conditions()[0].key, key);
    EXPECT_EQ(batch.writes()[11].key, key);
    batch.put_with(batch.writes()[1].key, [&](std::string& bytes) { bytes.append("x"); });
    EXPECT_EQ(batch.writes()[12].key, value);
    EXPECT_EQ(batch.writes()[12].value, "x");
  }
}

TEST(Batch, AValueCanBeWrittenStraightIntoIt) {
  Batch batch;
  batch.put_with("a", [](std::string& bytes) { bytes.append("one, ").append("two"); });
  batch.put_new_with("b", [](std::string& bytes) { bytes.append(long_text('b')); });
  batch.put_with("c", [](std::string& bytes) { static_cast<void>(bytes); }).put("d", "4");
  EXPECT_EQ(lines_of(batch), (Lines{"a = one, two", "b := " + long_text('b'), "c = ", "d = 4"}));
  EXPECT_EQ(batch.bytes(), 4U + 8U + 5'000U + 1U);
}

TEST(Batch, IfItsValueCannotBeWrittenNothingIsPut) {
  Batch batch;
  batch.put("a", "1");
  const auto fails = [](std::string& bytes) {
    bytes.append("half of it");
    throw std::runtime_error("no more");
  };
  EXPECT_THROW(batch.put_with("b", fails), std::runtime_error);
  batch.put("c", "3");
  EXPECT_EQ(lines_of(batch), (Lines{"a = 1", "c = 3"}));
  EXPECT_EQ(batch.bytes(), 4U);
}

TEST(Batch, ACopyHasItsOwnBytes) {
  Batch batch = some_of_each();
  Batch copy = batch;
  batch.put("more", long_text('v'));
  EXPECT_EQ(lines_of(copy), kSomeOfEach);
  copy.erase("other");
  EXPECT_EQ(copy.size(), 8U);
  batch = copy;
  copy = Batch();
  EXPECT_EQ(batch.writes()[3].key, "other");
}

TEST(Batch, OneThatWasMovedFromIsEmpty) {
  for (const std::size_t size : {1U, 5'000U}) {
    Batch batch;
    batch.require_new("k").put("k", long_text('v', size));
    const Batch moved = std::move(batch);
    EXPECT_EQ(lines_of(moved), (Lines{"n k 0", "k = " + long_text('v', size)}));
    // NOLINTBEGIN(bugprone-use-after-move): that is what this is about.
    EXPECT_EQ(batch.size(), 0U);
    EXPECT_EQ(batch.bytes(), 0U);
    batch.put("again", "1");
    EXPECT_EQ(lines_of(batch), (Lines{"again = 1"}));
    // NOLINTEND(bugprone-use-after-move)
  }
}

}  // namespace
}  // namespace holdfast
