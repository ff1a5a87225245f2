// SPDX-License-Identifier: Apache-2.0
// apply(): decided and readable at once, durable later.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "store_test.hpp"

namespace holdfast::conformance {
namespace {

template <typename Kind>
class Applied : public StoreTest<Kind> {};
TYPED_TEST_SUITE(Applied, StoreKinds, StoreKindNames);

TYPED_TEST(Applied, IsReadAtOnceByThoseWhoAskForIt) {
  const Client store = this->open();
  store.put("overwritten", "old");
  store.put("erased", "old");
  for (int i = 0; i < 20; ++i) {
    const std::string text = std::to_string(i);
    const CommitOutcome outcome =
        store.apply(Batch().put("new", text).put("overwritten", text).erase("erased"));
    ASSERT_NE(outcome.committed(), nullptr);
    const Version version = outcome.committed()->version;
    ASSERT_EQ(store.get("new", Read::kApplied), (Entry{"new", text, version}));
    ASSERT_EQ(store.get("overwritten", Read::kApplied), (Entry{"overwritten", text, version}));
    ASSERT_EQ(store.get("erased", Read::kApplied), std::nullopt);
    ASSERT_EQ(text_of(store.scan("", {.read = Read::kApplied})),
              "new=" + text + " overwritten=" + text);
    ASSERT_EQ(text_of(store.apply(Batch().erase("new").put("erased", text))), "committed");
    ASSERT_EQ(text_of(store.scan("", {.read = Read::kApplied})),
              "erased=" + text + " overwritten=" + text);
  }
}

TYPED_TEST(Applied, IsMergedInOrderAndWithinLimits) {
  const Client store = this->open();
  for (int round = 0; round < 20; ++round) {
    ASSERT_EQ(text_of(store.commit(
                  Batch().put("b", "0").put("d", "0").put("f", "0").put("h", "0").erase("a"))),
              "committed");
    static_cast<void>(store.apply(Batch().put("a", "1").erase("b").put("d", "1")));
    static_cast<void>(store.apply(Batch().put("e", "1").erase("f").put("i", "1").erase("none")));
    const auto scan = [&](ScanOptions options) {
      options.read = Read::kApplied;
      return text_of(store.scan("", options));
    };
    ASSERT_EQ(scan({}), "a=1 d=1 e=1 h=0 i=1");
    ASSERT_EQ(scan({.limit = 5}), "a=1 d=1 e=1 h=0 i=1");
    ASSERT_EQ(scan({.limit = 4}), "a=1 d=1 e=1 h=0 ...");
    ASSERT_EQ(scan({.limit = 1}), "a=1 ...");
    ASSERT_EQ(scan({.after = "a", .limit = 2}), "d=1 e=1 ...");
    ASSERT_EQ(scan({.after = "e", .limit = 2}), "h=0 i=1");
    ASSERT_EQ(scan({.after = "i"}), "");
    static_cast<void>(store.commit(Batch().erase("e").erase("i")));
  }
}

TYPED_TEST(Applied, PagesGiveEachKeyOnceWhateverIsOnItsWay) {
  constexpr int kKeys = 500;
  const Client store = this->open();
  Batch even;
  Batch odd;
  for (int i = 0; i < kKeys; ++i) {
    (i % 2 == 0 ? even : odd).put(numbered("p", 1'000 + i), "");
  }
  ASSERT_EQ(text_of(store.commit(even)), "committed");
  ASSERT_EQ(text_of(store.apply(odd)), "committed");
  int found = 0;
  std::string after;
  for (bool more = true; more;) {
    const Page page = store.scan("p", {.after = after, .limit = 7, .read = Read::kApplied});
    ASSERT_FALSE(page.entries.empty());
    for (const Entry& entry : page.entries) {
      ASSERT_EQ(entry.key, numbered("p", 1'000 + found++));
    }
    after = page.entries.back().key;
    more = page.more;
  }
  EXPECT_EQ(found, kKeys);
}

TYPED_TEST(Applied, AnErasedPageOfLargeValuesIsSkipped) {
  const Client store = this->open();
  const std::string large(store->capabilities().limits.value_bytes_max, 'v');
  constexpr int kLarge = 6;
  Batch erase;
  for (int i = 0; i < kLarge; ++i) {
    store.put(numbered("k", i), large);
    erase.erase(numbered("k", i));
  }
  store.put("l", "small");
  ASSERT_EQ(text_of(store.apply(erase)), "committed");
  EXPECT_EQ(text_of(store.scan("", {.read = Read::kApplied})), "l=small");
}

TYPED_TEST(Applied, IsDurableWhenUntilDurableReturns) {
  Client store = this->open();
  const Client other = this->open();
  for (int i = 0; i < 50; ++i) {
    const std::string text = std::to_string(i);
    const Version version = store.apply(Batch().put("k", text)).committed()->version;
    store.run(store->until_durable(version));
    ASSERT_EQ(store.get("k"), (Entry{"k", text, version}));
    ASSERT_EQ(text_of(store.scan("")), "k=" + text);
    ASSERT_EQ(other.value("k"), text);
  }
}

TYPED_TEST(Applied, UntilDurableOfWhatIsDurableReturnsAtOnce) {
  Client store = this->open();
  const Version version = store.put("k", "v");
  const Version old = store.put("k", "w");
  store.run(store->until_durable(version));
  store.run(store->until_durable(old));
  store.run(store->until_durable(0));
  this->reopen(store);
  store.run(store->until_durable(old));
}

TYPED_TEST(Applied, ACommitMayBuildOnIt) {
  const Client store = this->open();
  for (int i = 0; i < 20; ++i) {
    const Version first = store.apply(Batch().put("k", "applied")).committed()->version;
    const CommitOutcome second = store.commit(Batch().require_version("k", first).put("l", "v"));
    ASSERT_NE(second.committed(), nullptr) << text_of(second);
    ASSERT_GT(second.committed()->version, first);
    ASSERT_EQ(store.value("k"), "applied") << "what a durable commit is founded on is durable";
  }
}

TYPED_TEST(Applied, ABatchThatContradictsItConflicts) {
  const Client store = this->open();
  const Version old = store.put("k", "old");
  const Version applied = store.apply(Batch().put("k", "new")).committed()->version;
  const CommitOutcome outcome = store.commit(Batch().require_version("k", old).put("k", "x"));
  ASSERT_NE(outcome.conflict(), nullptr);
  EXPECT_EQ(outcome.conflict()->current, (Entry{"k", "new", applied}));
  EXPECT_EQ(store.get("k"), (Entry{"k", "new", applied})) << "a refusal waits for its reason";
  static_cast<void>(store.apply(Batch().erase("k")));
  EXPECT_EQ(text_of(store.apply(Batch().guard("k", applied).put("k", "x"))),
            "fenced by k: (absent)");
}

Task<Version> apply_chain(Store& store, int length) {
  Version version = 0;
  for (int i = 0; i < length; ++i) {
    Batch batch;
    if (i == 0) {
      batch.require_absent("chain");
    } else {
      batch.require_version("chain", version);
    }
    batch.put("chain", std::to_string(i));
    const CommitOutcome outcome = co_await store.apply(std::move(batch));
    if (outcome.committed() == nullptr || outcome.committed()->version <= version) {
      throw std::runtime_error("link " + std::to_string(i) + ": " + text_of(outcome));
    }
    version = outcome.committed()->version;
  }
  co_return version;
}

TYPED_TEST(Applied, AChainOfTenThousandHolds) {
  Client store = this->open();
  const Version last = store.run(apply_chain(*store, 10'000));
  EXPECT_EQ(store.get("chain", Read::kApplied), (Entry{"chain", "9999", last}));
  store.run(store->until_durable(last));
  EXPECT_EQ(store.get("chain"), (Entry{"chain", "9999", last}));
  this->reopen(store);
  EXPECT_EQ(store.get("chain"), (Entry{"chain", "9999", last}));
}

TYPED_TEST(Applied, IsWrittenWhenTheStoreIsClosed) {
  Client store = this->open();
  Version last = 0;
  for (int i = 0; i < 100; ++i) {
    last = store.apply(Batch().put(numbered("k", i), "v")).committed()->version;
  }
  this->reopen(store);
  store.run(store->until_durable(last));
  EXPECT_EQ(store.scan("k").entries.size(), 100U);
}

// One thread starts them all before the first is awaited: their order is that of the starts.
TYPED_TEST(Applied, BatchesAreAppliedInTheOrderInWhichTheyWereStarted) {
  constexpr int kBatches = 500;
  const Client store = this->open();
  SystemClock clock;
  ManualExecutor executor(clock);
  std::vector<Spawned<CommitOutcome>> started;
  for (int i = 0; i < kBatches; ++i) {
    Batch batch;
    batch.put("last", std::to_string(i)).put(numbered("k", i % 10), std::to_string(i));
    if (i % 3 == 0) {
      batch.require_absent("unknown" + std::to_string(i));  // Has to be looked up first.
    }
    started.push_back(spawn(
        executor, i % 2 == 0 ? store->commit(std::move(batch)) : store->apply(std::move(batch))));
  }
  Version last = 0;
  for (auto& one : started) {
    executor.drive_until([&one] { return one.ended(); });
    const CommitOutcome outcome = one.get();
    ASSERT_NE(outcome.committed(), nullptr);
    ASSERT_GT(outcome.committed()->version, last);
    last = outcome.committed()->version;
  }
  EXPECT_EQ(store.get("last", Read::kApplied), (Entry{"last", "499", last}));
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(store.value(numbered("k", i), Read::kApplied), std::to_string(490 + i));
  }
}

}  // namespace
}  // namespace holdfast::conformance
