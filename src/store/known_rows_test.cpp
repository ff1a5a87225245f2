// SPDX-License-Identifier: Apache-2.0
#include "known_rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::detail {
namespace {

std::vector<std::string> keys_of(const RowList& rows) {
  std::vector<std::string> keys;
  rows.for_each([&](const Row& row) { keys.push_back(row.key); });
  return keys;
}

TEST(KnownRows, OfTwoWritesInOneGatheringTheLaterOneCounts) {
  KnownRows rows;
  rows.gather("a", "first", 1);
  rows.gather("b", "other", 2);
  rows.gather("a", "second", 3);
  EXPECT_EQ(keys_of(rows.gathered()), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(rows.gathered().bytes(), 2U + 6U + 5U);
  EXPECT_EQ(rows.find("a")->value(), "second");
  EXPECT_EQ(rows.find("a")->version, 3U);
}

TEST(KnownRows, WhatWasTakenStaysAsItIs) {
  KnownRows rows;
  rows.gather("a", "first", 1);
  const RowList taken = rows.take();
  rows.gather("a", "second", 2);
  taken.for_each([](const Row& row) { EXPECT_EQ(row.value(), "first"); });
  EXPECT_EQ(rows.find("a")->value(), "second");
  EXPECT_EQ(rows.gathered().size(), 1U);
}

std::size_t count_for_the_disk(const RowList& rows) {
  std::size_t count = 0;
  rows.for_each([&](const Row& row) { count += row.is_for_the_disk() ? 1U : 0U; });
  return count;
}

TEST(KnownRows, OfANewRowThatCameAndWentTheDiskNeedNotHear) {
  KnownRows rows;
  rows.gather("a", "new", 1, OnDisk::kNothing);
  rows.gather("b", "old or new", 1);
  static_cast<void>(rows.take());
  rows.gather("a", std::nullopt, 2);
  rows.gather("b", std::nullopt, 2);
  EXPECT_EQ(rows.find("a"), nullptr);
  EXPECT_TRUE(rows.kept_back().empty());
  EXPECT_TRUE(rows.has_kept_back()) << "what made it go has to come with what wrote it";
  const RowList all = rows.take_all();
  EXPECT_EQ(keys_of(all), std::vector<std::string>{"b"});
  EXPECT_EQ(count_for_the_disk(all), 1U) << "b may be there";
  EXPECT_FALSE(rows.has_kept_back());
}

TEST(KnownRows, OfANewRowThatCameAndWentInPlaceOfAnOlderOneIsKnownThatItIsGone) {
  KnownRows rows;
  rows.gather("a", std::nullopt, 1);
  const RowList on_its_way = rows.take();
  rows.gather("a", "again", 2, OnDisk::kNothing);
  rows.gather("a", std::nullopt, 3);
  ASSERT_NE(rows.find("a"), nullptr) << "the disk has it still";
  EXPECT_FALSE(rows.find("a")->value());
  EXPECT_EQ(count_for_the_disk(on_its_way), 1U);
  EXPECT_EQ(count_for_the_disk(rows.take_all()), 0U);
}

TEST(KnownRows, WhatTheDiskMayHaveHasToBeErasedThere) {
  KnownRows rows;
  rows.gather("a", "new", 1, OnDisk::kNothing);
  rows.gather("b", std::nullopt, 1);
  EXPECT_EQ(count_for_the_disk(rows.take_all()), 2U);
  rows.gather("a", std::nullopt, 2);
  EXPECT_EQ(count_for_the_disk(rows.take_all()), 1U) << "it was written";

  rows.gather("c", std::nullopt, 3);
  rows.gather("c", "again", 4, OnDisk::kNothing);
  rows.gather("c", std::nullopt, 5);
  EXPECT_EQ(count_for_the_disk(rows.take_all()), 1U) << "it was there before";
}

TEST(KnownRows, WhatIsNewIsTakenLastAndMayGoUntilThen) {
  KnownRows rows;
  rows.gather("a", "for the next batch only", 1, OnDisk::kNothing);
  rows.gather("b", "other", 1);
  rows.gather("c", "stays", 1, OnDisk::kNothing);
  EXPECT_EQ(keys_of(rows.gathered()), std::vector<std::string>{"b"});
  EXPECT_EQ(keys_of(rows.take()), std::vector<std::string>{"b"});
  EXPECT_TRUE(rows.gathered().empty());
  EXPECT_EQ(rows.kept_back().size(), 2U);
  EXPECT_EQ(rows.find("a")->version, 1U);

  rows.gather("a", std::nullopt, 2);
  rows.gather("c", "stays, changed", 2);
  rows.gather("d", "later", 2);
  EXPECT_EQ(rows.gathered().size(), 1U) << "the others are changed where they are";
  EXPECT_EQ(keys_of(rows.kept_back()), std::vector<std::string>{"c"});
  EXPECT_EQ(rows.kept_back().bytes(), 1U + 14U);
  const RowList last = rows.take_all();
  EXPECT_EQ(keys_of(last), (std::vector<std::string>{"c", "d"}));
  EXPECT_TRUE(rows.kept_back().empty());

  rows.gather("c", std::nullopt, 3);
  EXPECT_EQ(rows.gathered().size(), 1U) << "what was taken stays as it is";
  last.for_each([](const Row& row) { EXPECT_TRUE(row.exists()); });
}

TEST(KnownRows, WhatWasReadIsGatheredWhenItIsWritten) {
  KnownRows rows;
  // Of another process, and so of a version above all of our own.
  rows.learn("a", "theirs", 1'000);
  rows.gather("a", "ours", 1'001);
  EXPECT_EQ(keys_of(rows.gathered()), std::vector<std::string>{"a"});
}

TEST(KnownRows, InAGapThereIsNothingButWhatWasWritten) {
  KnownRows rows;
  rows.learn_gap("b", "y");
  EXPECT_EQ(rows.find("a"), nullptr);
  EXPECT_EQ(rows.find("y"), nullptr);
  ASSERT_NE(rows.find("c"), nullptr);
  EXPECT_FALSE(rows.find("c")->value());
  rows.gather("c", "v", 1);
  EXPECT_EQ(rows.find("c")->value(), "v");
}

TEST(KnownRows, WhatABatchHasToBeNewIsCheckedWhenItIsWritten) {
  KnownRows rows;
  rows.gather("a", "v", 1);
  rows.gather("b", "v", 1, OnDisk::kNothing);
  rows.gather("c", std::nullopt, 1);
  rows.gather("d", "v", 1);
  for (const char* key : {"a", "b", "c", "none"}) {
    rows.check_when_written(key);
  }
  EXPECT_TRUE(rows.find("a")->must_be_new());
  EXPECT_FALSE(rows.find("b")->must_be_new()) << "it cannot be there";
  EXPECT_FALSE(rows.find("c")->must_be_new()) << "it is erased";
  EXPECT_FALSE(rows.find("d")->must_be_new());
  EXPECT_TRUE(rows.kept_back().size() == 1 && rows.gathered().size() == 3);
  rows.gather("a", "changed", 2);
  EXPECT_TRUE(rows.find("a")->must_be_new()) << "the disk has not heard of it";
}

std::string text_of(std::size_t size) { return std::string(size, 'x'); }

/// Writes rows with such keys and values, and forgets them.
void write_and_forget(KnownRows& rows, const std::vector<std::string>& keys,
                      std::size_t value_size) {
  for (const std::string& key : keys) {
    rows.gather(key, text_of(value_size), 1);
  }
  static_cast<void>(rows.take_all());
  rows.wrote();
  rows.trim(keys.size());
  ASSERT_TRUE(rows.kept().empty());
}

/// Where the bytes of the rows are.
std::vector<const void*> memory_of(const RowList& list) {
  std::vector<const void*> memory;
  list.for_each([&](const Row& row) {
    memory.push_back(row.key.data());
    memory.push_back(row.value()->data());
  });
  std::sort(memory.begin(), memory.end());
  return memory;
}

TEST(KnownRows, ARowThatIsForgottenLeavesItsMemoryToTheNextOne) {
  const std::vector<std::string> keys = {text_of(31), text_of(32)};
  KnownRows rows({.rows = 0});
  for (const std::string& key : keys) {
    rows.gather(key, text_of(200), 1);
  }
  const auto memory = memory_of(rows.gathered());
  static_cast<void>(rows.take_all());
  rows.wrote();
  rows.trim(2);
  EXPECT_EQ(rows.spare().size(), 2U);
  rows.gather(text_of(30), text_of(100), 2);
  rows.gather(keys[0], text_of(200), 2);
  EXPECT_EQ(memory_of(rows.gathered()), memory);
  EXPECT_EQ(rows.gathered().bytes(), 30U + 100U + 31U + 200U);
  EXPECT_EQ(rows.find(keys[0])->value(), text_of(200));
}

TEST(KnownRows, ARowThatCameAndWentLeavesItsMemoryToTheNextOne) {
  KnownRows rows;
  rows.gather(text_of(30), text_of(200), 1, OnDisk::kNothing);
  const auto memory = memory_of(rows.kept_back());
  rows.gather(text_of(30), std::nullopt, 2);
  EXPECT_EQ(rows.spare().size(), 1U);
  rows.gather(text_of(20), text_of(100), 3);
  EXPECT_EQ(memory_of(rows.gathered()), memory);
}

TEST(KnownRows, SpareRowsAreFewAndSmall) {
  KnownRows rows({.rows = 0, .spare_rows = 2, .spare_bytes = 500});
  write_and_forget(rows, {"a", text_of(1'000), "c", "d"}, 100'000);
  EXPECT_EQ(rows.spare().size(), 2U);
  rows.spare().for_each([](const Row& row) { EXPECT_LE(row.capacity(), 2U * 500U); });
}

TEST(KnownRows, AValueThatIsWrittenOverMayGrowAndShrink) {
  KnownRows rows({.spare_bytes = 500});
  for (const std::size_t size : {10U, 1'000U, 100'000U, 400U, 40'000U, 0U, 300U}) {
    SCOPED_TRACE(size);
    rows.gather("a", text_of(size), 1);
    EXPECT_EQ(rows.find("a")->value(), text_of(size));
    EXPECT_EQ(rows.gathered().bytes(), 1U + size);
    EXPECT_LE(rows.find("a")->capacity(), 2U * std::max<std::size_t>(size, 500U));
  }
  rows.gather("a", std::nullopt, 2);
  EXPECT_FALSE(rows.find("a")->exists());
  EXPECT_EQ(rows.gathered().bytes(), 1U);
}

/// Does to a store and to what is known of it what the committer does, in an order from a seed.
class World {
 public:
  explicit World(unsigned seed) : random_(seed) {}

  void step() {
    switch (below(10)) {
      case 8:
        write_new();
        break;
      case 9:
        change_new();
        break;
      case 0:
      case 1:
      case 2:
        write();
        break;
      case 3:
        read();
        break;
      case 4:
        write_to_disk(rows_.take());
        break;
      case 5:
        commit();
        break;
      case 6:
        rows_.trim(below(20));
        break;
      default:
        check(any_key());
        break;
    }
  }

  void check_all() {
    for (unsigned i = 0; i < kKeys; ++i) {
      check(key(i));
    }
    commit();
    rows_.trim(10'000);
    EXPECT_LE(rows_.kept().size(), kLimits.rows);
  }

  [[nodiscard]] int known() const noexcept { return known_; }

 private:
  using Map = std::map<std::string, std::string>;
  static constexpr unsigned kKeys = 60;
  static constexpr KnownRowsLimits kLimits{.rows = 10, .bytes = 1'000, .gaps = 4};

  unsigned below(unsigned end) { return static_cast<unsigned>(random_() % end); }
  static std::string key(unsigned number) {
    std::string key = std::to_string(number);
    return key.insert(0, 2 - key.size(), '0');
  }
  std::string any_key() { return key(below(kKeys)); }
  static void set(Map& map, const std::string& key, std::optional<std::string_view> value) {
    if (value) {
      map[key] = *value;
    } else {
      map.erase(key);
    }
  }

  void write() {
    const std::string key = any_key();
    ++version_;
    const std::optional<std::string> value =
        below(3) == 0 ? std::nullopt : std::optional(std::to_string(version_));
    rows_.gather(key, value, version_);
    set(newest_, key, value);
  }

  void read() {
    const std::string key = any_key();
    if (rows_.find(key) != nullptr) {
      return;
    }
    const auto found = transaction_.lower_bound(key);
    if (found != transaction_.end() && found->first == key) {
      rows_.learn(key, found->second, version_);
    } else if (found == transaction_.end()) {
      rows_.learn_gap(key, std::nullopt);
    } else {
      rows_.learn_gap(key, found->first);
    }
    check(key);
  }

  /// One that nobody has had before.
  void write_new() {
    std::string key("new");
    key.append(std::to_string(++version_));
    rows_.gather(key, "new", version_, OnDisk::kNothing);
    newest_[key] = "new";
    new_keys_.push_back(std::move(key));
  }

  void change_new() {
    if (new_keys_.empty()) {
      return;
    }
    const std::string& key = new_keys_[below(static_cast<unsigned>(new_keys_.size()))];
    const std::optional<std::string> value =
        below(2) == 0 ? std::nullopt : std::optional(std::to_string(++version_));
    rows_.gather(key, value, ++version_);
    set(newest_, key, value);
    check(key);
  }

  void write_to_disk(const RowList& rows) {
    rows.for_each([&](const Row& row) {
      if (row.is_for_the_disk()) {
        set(transaction_, row.key, row.value());
      }
    });
  }

  void commit() {
    write_to_disk(rows_.take_all());
    rows_.wrote();
    ASSERT_EQ(transaction_, newest_);
  }

  void check(const std::string& key) {
    const Row* row = rows_.find(key);
    const auto there = newest_.find(key);
    if (row == nullptr) {
      const auto on_disk = transaction_.find(key);
      ASSERT_EQ(on_disk == transaction_.end(), there == newest_.end()) << "of " << key;
      ASSERT_TRUE(there == newest_.end() || on_disk->second == there->second) << "of " << key;
      return;
    }
    ++known_;
    ASSERT_EQ(row->value(), there == newest_.end() ? std::nullopt
                                                   : std::optional<std::string_view>(there->second))
        << "of " << key;
  }

  std::mt19937 random_;
  Version version_ = 0;
  KnownRows rows_{kLimits};
  Map transaction_;  // What the disk has, with what was written and is not committed.
  Map newest_;       // With what was gathered, too.
  std::vector<std::string> new_keys_;
  int known_ = 0;
};

TEST(KnownRows, WhateverIsForgottenWhatIsKnownIsTrue) {
  int known = 0;
  for (unsigned seed = 0; seed < 1'000 && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE(seed);
    World world(seed);
    for (int i = 0; i < 500 && !HasFatalFailure(); ++i) {
      world.step();
    }
    world.check_all();
    known += world.known();
  }
  EXPECT_GT(known, 10'000) << "too little was known to say anything";
}

}  // namespace
}  // namespace holdfast::detail
