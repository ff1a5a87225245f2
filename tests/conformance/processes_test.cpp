// SPDX-License-Identifier: Apache-2.0
// What two connections promise each other, between processes.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "child.hpp"
#include "compare_and_swap.hpp"
#include "store_test.hpp"

namespace holdfast::conformance {
namespace {

template <typename Kind>
class Processes : public StoreTest<Kind> {
 protected:
  Child start(const std::string& verb, std::vector<std::string> rest) {
    std::vector<std::string> arguments{verb, this->kind_.url()};
    arguments.insert(arguments.end(), rest.begin(), rest.end());
    return Child(arguments);
  }
  std::string answer_of(const std::string& verb, std::vector<std::string> rest) {
    Child child = start(verb, std::move(rest));
    child.until_ready();
    child.go();
    return child.answer();
  }
};
TYPED_TEST_SUITE(Processes, SharedStoreKinds, StoreKindNames);

TYPED_TEST(Processes, ThatIncrementOneCounterLoseNothing) {
  constexpr int kChildren = 4;
  constexpr int kTimes = 100;
  const Client store = this->open();
  std::vector<Child> children;
  for (int i = 0; i < kChildren; ++i) {
    children.push_back(this->start("increment", {"counter", std::to_string(kTimes)}));
  }
  for (Child& child : children) {
    child.until_ready();
  }
  for (const Child& child : children) {
    child.go();
  }
  store.run(increment(*store, "counter", kTimes));
  for (Child& child : children) {
    EXPECT_EQ(child.answer(), "done");
  }
  EXPECT_EQ(store.value("counter"), std::to_string((kChildren + 1) * kTimes));
  EXPECT_EQ(store.run(store->check()).faults, std::vector<std::string>{});
}

TYPED_TEST(Processes, ThatRaceForAbsentKeysWinEachOnce) {
  constexpr int kChildren = 3;
  constexpr int kKeys = 300;
  std::vector<Child> children;
  for (int i = 0; i < kChildren; ++i) {
    children.push_back(
        this->start("race_absent", {"race/", std::to_string(kKeys), std::to_string(i)}));
  }
  for (Child& child : children) {
    child.until_ready();
  }
  for (const Child& child : children) {
    child.go();
  }
  std::map<std::string, int> won;
  for (int i = 0; i < kChildren; ++i) {
    won[std::to_string(i)] = std::stoi(children[static_cast<std::size_t>(i)].answer());
  }
  const Client store = this->open();
  const Page page = store.scan("race/");
  EXPECT_EQ(page.entries.size(), std::size_t{kKeys});
  for (const Entry& entry : page.entries) {
    --won[entry.value];
  }
  for (const auto& [name, difference] : won) {
    EXPECT_EQ(difference, 0) << "process " << name << " won as often as it says";
  }
}

// Even the first open, which makes the store.
TYPED_TEST(Processes, MayMakeTheStoreTogether) {
  for (int round = 0; round < 5; ++round) {
    TypeParam fresh;
    std::vector<Child> children;
    for (int i = 0; i < 4; ++i) {
      children.emplace_back(
          std::vector<std::string>{"increment", fresh.url(), "counter", std::to_string(5)});
    }
    for (Child& child : children) {
      child.until_ready();
      child.go();
    }
    for (Child& child : children) {
      EXPECT_EQ(child.answer(), "done");
    }
    const Client store(this->pool_, fresh.open());
    EXPECT_EQ(store.value("counter"), "20");
  }
}

TYPED_TEST(Processes, SeeAndCheckAgainstWhatOthersCommitted) {
  const Client store = this->open();
  Version last = 0;
  for (int i = 0; i < 5; ++i) {
    const Version mine = store.put("k", "mine");
    EXPECT_GT(mine, last);
    const std::string text = std::to_string(i);
    const Version theirs = std::stoull(this->answer_of("put", {"k", text}));
    EXPECT_GT(theirs, mine);
    EXPECT_EQ(store.get("k"), (Entry{"k", text, theirs}));
    EXPECT_EQ(text_of(store.commit(Batch().require_version("k", mine).put("k", "x"))),
              "conflict on k: " + text);
    last = theirs;
  }
}

TYPED_TEST(Processes, WakeTheWatchesOfOthers) {
  const Client store = this->open();
  Watch watch = store->watch("w/");
  for (int i = 0; i < 5; ++i) {
    const std::string text = std::to_string(i);
    Child child = this->start("put", {"w/a", text});
    child.until_ready();
    child.go();
    while (store.value("w/a") != text) {
      store.run(watch.changed());
    }
    static_cast<void>(child.answer());
  }
}

TYPED_TEST(Processes, AreWokenByWhatOthersCommit) {
  const Client store = this->open();
  std::vector<Child> children;
  for (int i = 0; i < 3; ++i) {
    children.push_back(this->start("await", {"w/a", "here"}));
  }
  for (Child& child : children) {
    child.until_ready();
  }
  store.put("w/a", "not yet");
  store.put("w/a", "here");
  for (Child& child : children) {
    EXPECT_EQ(child.answer(), "seen");
  }
}

TYPED_TEST(Processes, HaveOneTime) {
  const Client store = this->open();
  StoreTime last = store.run(store->time());
  for (int i = 0; i < 5; ++i) {
    const StoreTime theirs{Duration(std::stoll(this->answer_of("time", {})))};
    EXPECT_GE(theirs, last);
    last = store.run(store->time());
    EXPECT_GE(last, theirs);
  }
}

}  // namespace
}  // namespace holdfast::conformance
