// SPDX-License-Identifier: Apache-2.0
// Stopping, reopening, and what a store says of itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "coro/test_world.hpp"
#include "store_test.hpp"

namespace holdfast::conformance {
namespace {

using holdfast::testing::error_text;
using ::testing::AllOf;
using ::testing::HasSubstr;

template <typename Kind>
class Lifetime : public StoreTest<Kind> {};
TYPED_TEST_SUITE(Lifetime, StoreKinds, StoreKindNames);

TYPED_TEST(Lifetime, ACommitThatWasNotBegunWhenItsTaskStoppedChangesNothing) {
  const Client store = this->open();
  std::stop_source stop;
  stop.request_stop();
  const Batch batch = Batch().put("k", "v");
  const auto stopped = [&](Task<CommitOutcome> task) {
    return text_of(sync_wait(this->pool_, std::move(task), {}, stop.get_token()));
  };
  EXPECT_THROW(stopped(store->commit(batch)), Cancelled);
  EXPECT_THROW(stopped(store->apply(batch)), Cancelled);
  EXPECT_EQ(store.get("k", Read::kApplied), std::nullopt);
  store.put("l", "v");
  EXPECT_EQ(text_of(store.scan("")), "l=v");
}

TYPED_TEST(Lifetime, AStoppedCommitEitherHappenedOrSaysThatItDidNot) {
  const Client store = this->open();
  for (int round = 0; round < this->kRounds; ++round) {
    const std::string key = numbered("k", round);
    auto committing = spawn(this->pool_, store->commit(Batch().put(key, "v")));
    for (int spin = 0; spin < round % 50; ++spin) {
      std::this_thread::yield();
    }
    committing.request_stop();
    try {
      ASSERT_EQ(text_of(committing.get()), "committed");
      ASSERT_EQ(store.value(key), "v") << "in round " << round;
    } catch (const Cancelled&) {
      ASSERT_EQ(store.value(key, Read::kApplied), "(absent)") << "in round " << round;
    }
  }
}

TYPED_TEST(Lifetime, WhatWasCommittedIsThereWhenTheStoreIsOpenedAgain) {
  Client store = this->open();
  static_cast<void>(store.commit(Batch().put("a", "1").put("b", "2").put("c", "3")));
  static_cast<void>(store.commit(Batch().erase("b").put("c", "4")));
  this->reopen(store);
  EXPECT_EQ(text_of(store.scan("")), "a=1 c=4");
  this->reopen(store);
  EXPECT_EQ(text_of(store.scan("")), "a=1 c=4");
}

TYPED_TEST(Lifetime, ManyConnectionsComeAndGo) {
  const Client kept = this->open();
  for (int i = 0; i < 20; ++i) {
    const Client brief = this->open();
    brief.put("k", std::to_string(i));
    ASSERT_EQ(kept.value("k"), std::to_string(i));
  }
}

TYPED_TEST(Lifetime, TwoStoresOfOneKindShareNothing) {
  const Client store = this->open();
  const TypeParam other_kind;
  const Client other(this->pool_, other_kind.open());
  store.put("k", "v");
  EXPECT_EQ(other.get("k"), std::nullopt);
}

TYPED_TEST(Lifetime, CapabilitiesAreStated) {
  const Client store = this->open();
  const Capabilities& capabilities = store->capabilities();
  EXPECT_EQ(capabilities.durable, TypeParam::kDurable);
  EXPECT_EQ(capabilities.shared, TypeParam::kShared);
  EXPECT_TRUE(capabilities.atomic);
  EXPECT_TRUE(capabilities.notifies);
  EXPECT_GT(capabilities.limits.key_bytes_max, 0U);
  EXPECT_LE(capabilities.limits.value_bytes_max, capabilities.limits.batch_bytes_max);
  if constexpr (TypeParam::kShared) {
    EXPECT_EQ(store->url(), this->kind_.url());
  }
}

TYPED_TEST(Lifetime, AMissingCapabilityIsNamed) {
  const Client store = this->open();
  require_capabilities(*store, {.atomic = true, .notifies = true}, "the test");
  const auto text = [&](const Capabilities& needed) {
    return error_text<Unsupported>([&] { require_capabilities(*store, needed, "a gate"); });
  };
  if (store->capabilities().durable) {
    EXPECT_EQ(text({.durable = true, .shared = true}), "threw nothing");
  } else {
    EXPECT_THAT(text({.durable = true}),
                AllOf(HasSubstr("a gate"), HasSubstr("'durable'"), HasSubstr(store->url())));
    EXPECT_THAT(text({.atomic = true, .shared = true}), HasSubstr("'shared'"));
  }
}

TYPED_TEST(Lifetime, TransactionsWorkOrSayWhereTheyDo) {
  const Client store = this->open();
  bool called = false;
  const auto text = error_text<Unsupported>([&] {
    const TransactionWork work = [&called](Transaction& /*transaction*/) {
      called = true;
      return std::move(Batch().put("k", "v"));
    };
    static_cast<void>(this->run(store->transact(work)));
  });
  EXPECT_EQ(called, store->capabilities().sql);
  EXPECT_EQ(store.get("k").has_value(), called);
  if (!called) {
    EXPECT_THAT(text, AllOf(HasSubstr(store->url()), HasSubstr("sqlite: does")));
  }
}

TYPED_TEST(Lifetime, TimeNeverGoesBackWhoeverAsks) {
  Client first = this->open();
  Client second = this->open();
  StoreTime last = first.run(first->time());
  for (int i = 0; i < 300; ++i) {
    const Client& asked = i % 2 == 0 ? second : first;
    const StoreTime now = asked.run(asked->time());
    ASSERT_GE(now, last) << "the " << i << "th";
    last = now;
    if (i % 50 == 49) {
      this->reopen(i % 100 == 99 ? first : second);
    }
  }
  first.close();
  this->reopen(second);
  EXPECT_GE(second.run(second->time()), last);
}

TYPED_TEST(Lifetime, TimeGoesOn) {
  const Client store = this->open();
  const StoreTime first = store.run(store->time());
  const TimePoint here = store->clock().now();
  while (store->clock().now() < here + std::chrono::milliseconds(2)) {
    std::this_thread::yield();
  }
  EXPECT_GE(store.run(store->time()) - first, std::chrono::milliseconds(1));
}

TYPED_TEST(Lifetime, ASoundStoreIsFoundSound) {
  Client store = this->open();
  EXPECT_EQ(store.run(store->check()).entries, 0U);
  for (int i = 0; i < 30; ++i) {
    static_cast<void>(store.commit(
        Batch().put(numbered("k", i), std::string(1'000, 'v')).erase(numbered("k", i / 2))));
  }
  const std::size_t entries = store.scan("").entries.size();
  for (int i = 0; i < 2; ++i) {
    const CheckReport report = store.run(store->check());
    EXPECT_EQ(report.entries, entries);
    EXPECT_THAT(report.faults, ::testing::IsEmpty());
    this->reopen(store);
  }
}

TYPED_TEST(Lifetime, StatisticsCount) {
  const Client store = this->open();
  static_cast<void>(store.commit(Batch().put("a", "1").put("b", std::string(10'000, 'v'))));
  const Version last = store.erase("a");
  const StoreStats stats = store.run(store->stats());
  EXPECT_EQ(stats.entries, 1U);
  EXPECT_GE(stats.bytes, 10'000U);
  EXPECT_EQ(stats.last_version, last);
}

}  // namespace
}  // namespace holdfast::conformance
