// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "rows_ahead.hpp"

namespace holdfast::detail {
namespace {

std::string key_of(std::size_t index) {
  std::string key("key/");
  return key.append(std::to_string(index));
}

TEST(RowsAhead, AreTakenAsTheyCameWhateverTheirSize) {
  constexpr std::size_t kCount = 2'000;
  RowsAhead rows;
  const auto value_of = [](std::size_t index) {
    return std::string(index % 500 == 3 ? 200'000 : index % 300, 'v');
  };
  std::size_t taken = 0;
  Entry entry;
  const auto take = [&] {
    rows.pop(entry);
    EXPECT_EQ(entry.key, key_of(taken));
    EXPECT_EQ(entry.value, value_of(taken));
    ++taken;
  };
  for (std::size_t i = 0; i < kCount; ++i) {
    rows.push(key_of(i), value_of(i));
    EXPECT_EQ(rows.last_key(), key_of(i));
    if (i % 3 == 0) {
      take();
    }
  }
  while (!rows.empty()) {
    take();
  }
  EXPECT_EQ(taken, kCount);
}

TEST(RowsAhead, MayBeUsedAgainAfterTheyWereCleared) {
  RowsAhead rows;
  Entry entry;
  rows.push("a", "1");
  rows.push("b", "2");
  rows.pop(entry);
  rows.clear();
  EXPECT_TRUE(rows.empty());
  rows.push("c", "");
  EXPECT_EQ(rows.size(), 1U);
  rows.pop(entry);
  EXPECT_EQ(entry.key, "c");
  EXPECT_EQ(entry.value, "");
}

}  // namespace
}  // namespace holdfast::detail
