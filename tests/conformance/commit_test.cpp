// SPDX-License-Identifier: Apache-2.0
// What a batch does: conditions, writes, and the three ways a commit ends.
#include <gtest/gtest.h>

#include <string>

#include "store_test.hpp"

namespace holdfast::conformance {
namespace {

template <typename Kind>
class Commits : public StoreTest<Kind> {};
TYPED_TEST_SUITE(Commits, StoreKinds, StoreKindNames);

TYPED_TEST(Commits, WhatWasPutIsReadAndWhatWasErasedIsNot) {
  const Client store = this->open();
  EXPECT_EQ(store.get("k"), std::nullopt);
  const Version version = store.put("k", "v");
  EXPECT_EQ(store.get("k"), (Entry{"k", "v", version}));
  store.erase("k");
  EXPECT_EQ(store.get("k"), std::nullopt);
}

TYPED_TEST(Commits, AnEmptyValueIsNotAbsent) {
  const Client store = this->open();
  const Version version = store.put("k", "");
  EXPECT_EQ(store.get("k"), (Entry{"k", "", version}));
  EXPECT_EQ(text_of(store.commit(Batch().require_absent("k"))), "conflict on k: ");
  EXPECT_EQ(text_of(store.scan("")), "k=");
}

TYPED_TEST(Commits, AbsentIsNotVersionZero) {
  const Client store = this->open();
  const Batch batch = Batch().require_version("k", 0).put("k", "v");
  EXPECT_EQ(text_of(store.commit(batch)), "conflict on k: (absent)");
  EXPECT_EQ(store.get("k"), std::nullopt);
  EXPECT_GT(store.put("k", "v"), 0U) << "no entry has version 0";
  EXPECT_EQ(text_of(store.commit(batch)), "conflict on k: v");
}

TYPED_TEST(Commits, AStaleVersionConflictsAndHandsOverWhatIsThere) {
  const Client store = this->open();
  const Version old = store.put("k", "old");
  const Version current = store.put("k", "new");
  const CommitOutcome outcome = store.commit(Batch().require_version("k", old).put("k", "mine"));
  ASSERT_NE(outcome.conflict(), nullptr);
  EXPECT_EQ(outcome.conflict()->key, "k");
  EXPECT_EQ(outcome.conflict()->current, (Entry{"k", "new", current}));
  EXPECT_EQ(store.get("k"), (Entry{"k", "new", current}));
}

TYPED_TEST(Commits, AVersionStillToComeConflicts) {
  const Client store = this->open();
  const Version version = store.put("k", "v");
  EXPECT_EQ(text_of(store.commit(Batch().require_version("k", version + 1).put("k", "x"))),
            "conflict on k: v");
  EXPECT_EQ(text_of(store.commit(Batch().require_version("k", ~Version{0}).put("k", "x"))),
            "conflict on k: v");
}

TYPED_TEST(Commits, AConflictOnAnAbsentKeyHandsOverNothing) {
  const Client store = this->open();
  const Version version = store.put("k", "v");
  store.erase("k");
  const CommitOutcome outcome = store.commit(Batch().require_version("k", version).put("k", "x"));
  ASSERT_NE(outcome.conflict(), nullptr);
  EXPECT_EQ(outcome.conflict()->key, "k");
  EXPECT_EQ(outcome.conflict()->current, std::nullopt);
}

TYPED_TEST(Commits, OfAKeyThatMustBeAbsentAConflictHandsOverTheEntry) {
  const Client store = this->open();
  const Version version = store.put("k", "v");
  const CommitOutcome outcome = store.commit(Batch().require_absent("k").put("k", "x"));
  ASSERT_NE(outcome.conflict(), nullptr);
  EXPECT_EQ(outcome.conflict()->current, (Entry{"k", "v", version}));
}

TYPED_TEST(Commits, AConflictNamesTheFirstConditionThatDoesNotHold) {
  const Client store = this->open();
  const Version version = store.put("holds", "1");
  store.put("b", "2");
  Batch batch;
  batch.require_version("holds", version).require_absent("b").require_version("a", 1).put("c", "");
  EXPECT_EQ(text_of(store.commit(batch)), "conflict on b: 2");
}

TYPED_TEST(Commits, OneBrokenConditionOfManyStopsAllWrites) {
  constexpr int kMany = 200;
  const Client store = this->open();
  Batch first;
  for (int i = 0; i < kMany; ++i) {
    first.put(numbered("k", i), "old");
  }
  const Version version = store.commit(first).committed()->version;
  Batch good;
  for (int i = 0; i < kMany; ++i) {
    const std::string key = std::to_string(i);
    good.require_version("k" + key, version).require_absent("n" + key);
    good.put("k" + key, "new").put("n" + key, "new");
  }
  for (const int broken : {0, kMany / 2, kMany - 1}) {
    Batch bad = good;
    bad.require_version(numbered("k", broken), version + 1);
    EXPECT_EQ(text_of(store.commit(bad)), "conflict on k" + std::to_string(broken) + ": old");
  }
  EXPECT_TRUE(store.scan("n").entries.empty());
  for (const Entry& entry : store.scan("k").entries) {
    ASSERT_EQ(entry.value, "old");
  }
  const Version second = store.commit(good).committed()->version;
  EXPECT_EQ(store.scan("n").entries.size(), std::size_t{kMany});
  for (const Entry& entry : store.scan("").entries) {
    ASSERT_EQ(entry.value, "new");
    ASSERT_EQ(entry.version, second) << "of " << entry.key;
  }
}

TYPED_TEST(Commits, ABrokenGuardIsFencedWhateverElseDoesNotHold) {
  const Client store = this->open();
  const Version old = store.put("epoch", "mine");
  const Version current = store.put("epoch", "theirs");
  Batch batch;
  batch.require_absent("epoch").require_version("absent", 7).guard("epoch", old).put("k", "v");
  const CommitOutcome outcome = store.commit(batch);
  ASSERT_NE(outcome.fenced(), nullptr) << text_of(outcome);
  EXPECT_EQ(outcome.fenced()->key, "epoch");
  EXPECT_EQ(outcome.fenced()->expected, old);
  EXPECT_EQ(outcome.fenced()->current, (Entry{"epoch", "theirs", current}));
  EXPECT_EQ(store.get("k"), std::nullopt);
}

TYPED_TEST(Commits, AGuardOnAnAbsentKeyIsFencedAndHandsOverNothing) {
  const Client store = this->open();
  for (const Version version : {Version{0}, Version{1}}) {
    const CommitOutcome outcome = store.commit(Batch().guard("epoch", version).put("k", "v"));
    ASSERT_NE(outcome.fenced(), nullptr) << text_of(outcome);
    EXPECT_EQ(outcome.fenced()->current, std::nullopt);
  }
}

TYPED_TEST(Commits, AGuardThatHoldsLeavesTheWordToTheConditions) {
  const Client store = this->open();
  const Version epoch = store.put("epoch", "mine");
  EXPECT_EQ(text_of(store.commit(Batch().guard("epoch", epoch).require_version("k", 1))),
            "conflict on k: (absent)");
  EXPECT_EQ(text_of(store.commit(Batch().guard("epoch", epoch).put("k", "v"))), "committed");
  EXPECT_EQ(store.value("k"), "v");
}

TYPED_TEST(Commits, OfTwoWritesToOneKeyTheLaterCounts) {
  const Client store = this->open();
  store.put("c", "old");
  Batch batch;
  batch.put("a", "1").put("a", "2").put("b", "1").erase("b").erase("c").put("c", "3").put("a", "4");
  EXPECT_EQ(text_of(store.commit(batch)), "committed");
  EXPECT_EQ(text_of(store.scan("")), "a=4 c=3");
}

TYPED_TEST(Commits, ConditionsAreCheckedAgainstTheStateBeforeTheBatch) {
  const Client store = this->open();
  EXPECT_EQ(text_of(store.commit(Batch().put("k", "1").require_absent("k"))), "committed");
  const Version first = store.get("k")->version;
  EXPECT_EQ(text_of(store.commit(Batch().erase("k").require_version("k", first).put("k", "2"))),
            "committed");
  EXPECT_EQ(text_of(store.commit(Batch().erase("k").require_absent("k"))), "conflict on k: 2");
  const Version second = store.get("k")->version;
  EXPECT_EQ(text_of(store.commit(
                Batch().require_version("k", second).require_version("k", second).erase("k"))),
            "committed");
  EXPECT_EQ(store.get("k"), std::nullopt);
}

TYPED_TEST(Commits, ErasingWhatIsAbsentIsNoError) {
  const Client store = this->open();
  EXPECT_EQ(text_of(store.commit(Batch().erase("k"))), "committed");
  EXPECT_EQ(text_of(store.commit(Batch().erase("k").put("l", "v"))), "committed");
  EXPECT_EQ(text_of(store.scan("")), "l=v");
  EXPECT_EQ(text_of(store.commit(Batch().require_absent("k").put("k", "v"))), "committed");
}

TYPED_TEST(Commits, AnEmptyBatchCommitsAndChangesNothing) {
  const Client store = this->open();
  EXPECT_EQ(text_of(store.commit({})), "committed");
  const Version version = store.put("k", "v");
  const CommitOutcome outcome = store.commit({});
  ASSERT_NE(outcome.committed(), nullptr);
  EXPECT_GE(outcome.committed()->version, version);
  EXPECT_EQ(store.get("k"), (Entry{"k", "v", version}));
}

TYPED_TEST(Commits, ConditionsAloneAreJudgedAndChangeNothing) {
  const Client store = this->open();
  const Version version = store.put("k", "v");
  EXPECT_EQ(text_of(store.commit(Batch().require_version("k", version).require_absent("l"))),
            "committed");
  EXPECT_EQ(text_of(store.commit(Batch().require_absent("k"))), "conflict on k: v");
  EXPECT_EQ(text_of(store.commit(Batch().guard("k", version + 1))), "fenced by k: v");
  EXPECT_EQ(store.get("k"), (Entry{"k", "v", version}));
}

TYPED_TEST(Commits, AnAppendedBatchIsPartOfTheWhole) {
  const Client store = this->open();
  const Version version = store.put("k", "v");
  Batch batch;
  batch.put("a", "1").append(Batch().require_version("k", version + 1).put("b", "2"));
  EXPECT_EQ(text_of(store.commit(batch)), "conflict on k: v");
  EXPECT_EQ(text_of(store.scan("")), "k=v");
}

TYPED_TEST(Commits, ReadsSeeWhatTheOtherConnectionCommitted) {
  const Client first = this->open();
  const Client second = this->open();
  for (int i = 0; i < 50; ++i) {
    const Client& writer = i % 2 == 0 ? first : second;
    const Client& reader = i % 2 == 0 ? second : first;
    const std::string text = std::to_string(i);
    const Version version = writer.put("k", text);
    ASSERT_EQ(reader.get("k"), (Entry{"k", text, version}));
    ASSERT_EQ(reader.value("k", Read::kApplied), text);
    ASSERT_EQ(text_of(reader.scan("")), "k=" + text);
    ASSERT_EQ(text_of(reader.scan("", {.read = Read::kApplied})), "k=" + text);
    writer.erase("k");
    ASSERT_EQ(reader.get("k"), std::nullopt);
  }
}

// What a connection remembers of a key must not outlive a commit of another one.
TYPED_TEST(Commits, ConditionsSeeWhatTheOtherConnectionCommitted) {
  const Client first = this->open();
  const Client second = this->open();
  for (int i = 0; i < 50; ++i) {
    const Client& writer = i % 2 == 0 ? first : second;
    const Client& other = i % 2 == 0 ? second : first;
    const std::string text = std::to_string(i);
    const Version old = other.put("k", "old");
    const Version version = writer.put("k", text);
    ASSERT_EQ(text_of(other.commit(Batch().require_version("k", old).put("k", "x"))),
              "conflict on k: " + text);
    ASSERT_EQ(text_of(other.commit(Batch().require_version("k", version).erase("k"))), "committed");
    ASSERT_EQ(text_of(writer.commit(Batch().guard("k", version).put("k", "x"))),
              "fenced by k: (absent)");
    ASSERT_EQ(text_of(writer.commit(Batch().require_absent("k").put("k", "y"))), "committed");
  }
}

/// It may be found out only when it is written: then nothing of the group was.
TYPED_TEST(Commits, WhatHasToBeNewIsNotWrittenOver) {
  const Client first = this->open();
  const Client second = this->open();
  const Batch append = Batch().require_new("k").put("k", "first");
  const Batch again = Batch().require_new("k").put("k", "second").put("l", "second");
  EXPECT_EQ(text_of(first.commit(append)), "committed");
  EXPECT_EQ(text_of(first.commit(again)), "conflict on k: first") << "it is known";
  try {
    EXPECT_EQ(text_of(second.commit(again)), "conflict on k: first");
  } catch (const StoreBusy& busy) {
    EXPECT_NE(std::string(busy.what()).find("'k'"), std::string::npos) << busy.what();
  }
  EXPECT_EQ(text_of(second.scan("")), "k=first");
  EXPECT_EQ(text_of(second.commit(Batch().require_new("m").put("m", "third"))), "committed");
  EXPECT_EQ(text_of(first.scan("")), "k=first m=third");
}

TYPED_TEST(Commits, WhatIsPutAsNewIsThereUntilItIsErased) {
  const Client store = this->open();
  EXPECT_EQ(text_of(store.commit(Batch().put_new("k", "v").put_new("l", "v"))), "committed");
  EXPECT_EQ(text_of(store.scan("")), "k=v l=v");
  EXPECT_EQ(text_of(store.commit(Batch().erase("k").put_new("m", "v").erase("m"))), "committed");
  EXPECT_EQ(text_of(store.scan("")), "l=v");
  EXPECT_EQ(text_of(store.commit(Batch().erase("l").put_new("l", "w"))), "committed");
  EXPECT_EQ(text_of(store.scan("")), "l=w");
  EXPECT_EQ(text_of(store.commit(Batch().erase("l"))), "committed");
  EXPECT_EQ(text_of(store.scan("")), "");
}

}  // namespace
}  // namespace holdfast::conformance
