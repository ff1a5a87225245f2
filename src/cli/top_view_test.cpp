// SPDX-License-Identifier: Apache-2.0
#include "top_view.hpp"

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

namespace holdfast::cli {
namespace {

using namespace std::chrono_literals;

Locks locks_named(const std::vector<std::string>& names) {
  Locks locks;
  locks.now = StoreTime(1h);
  for (const std::string& name : names) {
    GateInfo gate;
    gate.name = name;
    gate.capacity = 1;
    locks.gates.push_back(std::move(gate));
  }
  return locks;
}

Locks numbered_locks(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) {
    names.push_back(fmt::format("lock{:02}", i));
  }
  return locks_named(names);
}

std::string selected(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    if (line.starts_with("> ")) {
      return line.substr(2, line.find(' ', 2) - 2);
    }
  }
  return {};
}

std::vector<Key> keys_of(std::string_view bytes) {
  std::vector<Key> keys;
  while (!bytes.empty()) {
    keys.push_back(take_key(bytes));
  }
  return keys;
}

constexpr ScreenSize kUsual{};

TEST(TopKeys, AreReadOneByOne) {
  EXPECT_EQ(keys_of("jk\r\nqQ"),
            (std::vector{Key::kDown, Key::kUp, Key::kEnter, Key::kEnter, Key::kQuit, Key::kQuit}));
  EXPECT_EQ(
      keys_of("\x1b[A\x1b[B\x1bOA\x1bOB\x1b[5~\x1b[6~"),
      (std::vector{Key::kUp, Key::kDown, Key::kUp, Key::kDown, Key::kPageUp, Key::kPageDown}));
  EXPECT_EQ(keys_of("\x1b"), std::vector{Key::kBack});
  EXPECT_EQ(keys_of("\x1b\x1b[A"), (std::vector{Key::kBack, Key::kUp}));
}

TEST(TopKeys, UnknownSequencesAreNoLetters) {
  EXPECT_EQ(keys_of("\x1b[1;5qx"), (std::vector{Key::kNone, Key::kNone}))
      << "the q at the end of a sequence must not quit";
  EXPECT_EQ(keys_of("\x1b[15"), std::vector{Key::kNone});
}

TEST(TopView, FillsTheScreenAndNoMore) {
  TopView view("memory:");
  view.show(numbered_locks(50));
  for (const ScreenSize size :
       {kUsual, ScreenSize{5, 20}, ScreenSize{1, 1}, ScreenSize{100, 300}}) {
    const auto lines = view.lines(size);
    EXPECT_EQ(lines.size(), size.rows);
    for (const std::string& line : lines) {
      EXPECT_LE(letters_of(line), size.columns);
    }
  }
}

TEST(TopView, ScrollsWithTheSelection) {
  TopView view("memory:");
  view.show(numbered_locks(50));
  EXPECT_EQ(selected(view.lines(kUsual)), "lock00");
  for (int i = 1; i < 50; ++i) {
    EXPECT_TRUE(view.press(Key::kDown, kUsual));
    EXPECT_EQ(selected(view.lines(kUsual)), fmt::format("lock{:02}", i));
  }
  EXPECT_TRUE(view.press(Key::kDown, kUsual));
  EXPECT_EQ(selected(view.lines(kUsual)), "lock49");
  EXPECT_TRUE(view.press(Key::kPageUp, kUsual));
  EXPECT_EQ(selected(view.lines(kUsual)), "lock29");
  EXPECT_EQ(selected(view.lines({6, 80})), "lock29") << "also on a smaller screen";
}

TEST(TopView, TheSelectionStaysOnItsLock) {
  TopView view("memory:");
  view.show(locks_named({"b", "c"}));
  EXPECT_TRUE(view.press(Key::kDown, kUsual));
  view.show(locks_named({"a", "b", "c", "d"}));
  EXPECT_EQ(selected(view.lines(kUsual)), "c");
  view.show(locks_named({}));
  EXPECT_EQ(selected(view.lines(kUsual)), "");
  EXPECT_TRUE(view.press(Key::kEnter, kUsual)) << "there is nothing to open";
  EXPECT_EQ(view.lines(kUsual).size(), 24U);
}

TEST(TopView, OpensALockAndGoesBack) {
  TopView view("memory:");
  Locks locks = locks_named({"a", "b"});
  GateHolderInfo holder;
  holder.holder = "x\x1b[2J";
  holder.granted_at = locks.now - 3min;
  locks.gates[0].holders.push_back(holder);
  view.show(locks);
  EXPECT_TRUE(view.press(Key::kEnter, kUsual));
  const auto page = view.lines(kUsual);
  EXPECT_EQ(page[2], "a: mutex, open, capacity 1, 1 held, 0 waiting");
  EXPECT_TRUE(page[5].starts_with("x\\x1b[2J  session  all    0      3m 0s")) << page[5];
  EXPECT_TRUE(view.press(Key::kBack, kUsual));
  EXPECT_EQ(selected(view.lines(kUsual)), "a");
  EXPECT_FALSE(view.press(Key::kQuit, kUsual));
}

}  // namespace
}  // namespace holdfast::cli
