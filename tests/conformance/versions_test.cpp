// SPDX-License-Identifier: Apache-2.0
// Versions only grow, and none is ever given twice.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "store_test.hpp"

namespace holdfast::conformance {
namespace {

template <typename Kind>
class Versions : public StoreTest<Kind> {};
TYPED_TEST_SUITE(Versions, StoreKinds, StoreKindNames);

TYPED_TEST(Versions, AllThatABatchWritesCarriesItsVersion) {
  const Client store = this->open();
  store.put("b", "old");
  const CommitOutcome outcome =
      store.commit(Batch().put("a", "1").put("b", "2").erase("c").put("d", "1").put("d", "2"));
  ASSERT_NE(outcome.committed(), nullptr);
  const Version version = outcome.committed()->version;
  EXPECT_EQ(store.scan("").entries,
            (std::vector<Entry>{{"a", "1", version}, {"b", "2", version}, {"d", "2", version}}));
  EXPECT_EQ(store.get("d")->version, version);
}

TYPED_TEST(Versions, GrowOverAllCommitsOfAllConnectionsAndOverReopening) {
  Client first = this->open();
  Client second = this->open();
  Version last = 0;
  const auto grows = [&](Version version) { return std::exchange(last, version) < version; };
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 5; ++i) {
      ASSERT_TRUE(grows(first.put("a", "1")));
      ASSERT_TRUE(grows(second.put("b", "1")));
      ASSERT_TRUE(grows(first.put("a", "1"))) << "also for a value that was there before";
      ASSERT_TRUE(grows(second.erase("a")));
      ASSERT_TRUE(grows(first.erase("b")));
    }
    first.close();
    second.close();
    first = this->open();
    second = this->open();
  }
}

TYPED_TEST(Versions, GrowAfterTheLastCommitWasAnErase) {
  Client store = this->open();
  store.put("k", "v");
  const Version erased = store.erase("k");
  this->reopen(store);
  EXPECT_GT(store.put("k", "v"), erased) << "the number must not die with its row";
}

TYPED_TEST(Versions, AnOldOneNeverMatchesAKeyThatWasMadeAgain) {
  Client store = this->open();
  const Version old = store.put("k", "v");
  const Batch on_old = Batch().require_version("k", old).put("k", "x");
  store.erase("k");
  EXPECT_EQ(text_of(store.commit(on_old)), "conflict on k: (absent)");
  this->reopen(store);
  EXPECT_EQ(text_of(store.commit(on_old)), "conflict on k: (absent)");
  store.put("k", "again");
  EXPECT_EQ(text_of(store.commit(on_old)), "conflict on k: again");
  this->reopen(store);
  EXPECT_EQ(text_of(store.commit(on_old)), "conflict on k: again");
  const Client other = this->open();
  EXPECT_EQ(text_of(other.commit(on_old)), "conflict on k: again");
}

TYPED_TEST(Versions, AnOldOneNeverMatchesWhenOneBatchErasesAndMakesAgain) {
  const Client store = this->open();
  const Version old = store.put("k", "v");
  ASSERT_EQ(text_of(store.commit(Batch().erase("k").put("k", "v"))), "committed");
  EXPECT_GT(store.get("k")->version, old);
  EXPECT_EQ(text_of(store.commit(Batch().guard("k", old).put("k", "x"))), "fenced by k: v");
}

TYPED_TEST(Versions, ARefusedBatchTouchesNone) {
  const Client store = this->open();
  const Version first = store.put("k", "v");
  for (int i = 0; i < 10; ++i) {
    static_cast<void>(store.commit(Batch().require_absent("k").put("l", "x")));
  }
  EXPECT_EQ(store.get("k"), (Entry{"k", "v", first}));
  EXPECT_EQ(store.get("l"), std::nullopt);
  EXPECT_EQ(text_of(store.commit(Batch().require_version("k", first).put("k", "w"))), "committed");
}

TYPED_TEST(Versions, EntriesKeepThemOverReopening) {
  Client store = this->open();
  for (int i = 0; i < 20; ++i) {
    store.put(numbered("k", i), std::to_string(i));
  }
  const Page before = store.scan("");
  this->reopen(store);
  EXPECT_EQ(store.scan("").entries, before.entries);
}

}  // namespace
}  // namespace holdfast::conformance
