// SPDX-License-Identifier: Apache-2.0
// What is over a limit is refused by name at the call, and what is at it is taken.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "coro/test_world.hpp"
#include "store_test.hpp"

namespace holdfast::conformance {
namespace {

using holdfast::testing::error_text;
using ::testing::AllOf;
using ::testing::HasSubstr;

template <typename Kind>
class Limits : public StoreTest<Kind> {};
TYPED_TEST_SUITE(Limits, StoreKinds, StoreKindNames);

TYPED_TEST(Limits, AnEmptyKeyIsRefusedAtTheCall) {
  const Client store = this->open();
  EXPECT_THROW(static_cast<void>(store->get("")), InvalidArgument);
  EXPECT_THROW(static_cast<void>(store->commit(Batch().put("", "v"))), InvalidArgument);
  EXPECT_THROW(static_cast<void>(store->commit(Batch().erase(""))), InvalidArgument);
  EXPECT_THROW(static_cast<void>(store->commit(Batch().require_absent(""))), InvalidArgument);
  EXPECT_THROW(static_cast<void>(store->apply(Batch().guard("", 1))), InvalidArgument);
}

TYPED_TEST(Limits, AKeyOverItsLimitIsRefusedByName) {
  const Client store = this->open();
  const std::size_t most = store->capabilities().limits.key_bytes_max;
  const std::string key = "begin" + std::string(most - 4, 'x');
  const auto names_it = AllOf(HasSubstr("key"), HasSubstr("begin"), HasSubstr(std::to_string(most)),
                              HasSubstr(std::to_string(most + 1)), HasSubstr(store->url()));
  const auto commit = [&](const Batch& batch) { static_cast<void>(store->commit(batch)); };
  EXPECT_THAT(error_text<InvalidArgument>([&] { static_cast<void>(store->get(key)); }), names_it);
  EXPECT_THAT(error_text<InvalidArgument>([&] { commit(Batch().put("a", "").put(key, "")); }),
              names_it);
  EXPECT_THAT(error_text<InvalidArgument>([&] { commit(Batch().put("a", "").erase(key)); }),
              names_it);
  EXPECT_THAT(
      error_text<InvalidArgument>([&] { commit(Batch().put("a", "").require_absent(key)); }),
      names_it);
  EXPECT_TRUE(store.scan("").entries.empty()) << "nothing changed";
}

TYPED_TEST(Limits, APrefixMayBeLongerThanAnyKey) {
  const Client store = this->open();
  const std::size_t most = store->capabilities().limits.key_bytes_max;
  store.put(std::string(most, 'x'), "v");
  EXPECT_TRUE(store.scan(std::string(most + 1, 'x')).entries.empty());
  const std::string after(2 * most, 'x');
  EXPECT_TRUE(store.scan("x", {.after = after}).entries.empty());
}

TYPED_TEST(Limits, AValueAtItsLimitIsTakenAndOneOverItIsRefusedByName) {
  Client store = this->open();
  const std::size_t most = store->capabilities().limits.value_bytes_max;
  std::string value(most, 'v');
  value.back() = 'e';
  store.put("k", value);
  this->reopen(store);
  EXPECT_TRUE(store.value("k") == value);
  value += 'e';
  const Batch batch = Batch().put("a", "").put("big", value);
  EXPECT_THAT(error_text<InvalidArgument>([&] { static_cast<void>(store->commit(batch)); }),
              AllOf(HasSubstr("value"), HasSubstr("'big'"), HasSubstr(std::to_string(most)),
                    HasSubstr(std::to_string(most + 1))));
  EXPECT_EQ(store.get("a"), std::nullopt);
}

TYPED_TEST(Limits, ABatchMayHaveSoManyOperationsAndNoMore) {
  const Client store = this->open();
  const std::size_t most = store->capabilities().limits.batch_operations_max;
  Batch batch;
  for (std::size_t i = 0; batch.size() < most; ++i) {
    batch.require_absent(numbered("k", i));
    if (batch.size() < most) {
      batch.put(numbered("k", i), "v");
    }
  }
  const std::size_t writes = batch.writes().size();
  Batch larger = batch;
  larger.put("one more", "v");
  EXPECT_THAT(error_text<InvalidArgument>([&] { static_cast<void>(store->commit(larger)); }),
              AllOf(HasSubstr("batch"), HasSubstr(std::to_string(most)),
                    HasSubstr(std::to_string(most + 1))));
  EXPECT_TRUE(store.scan("").entries.empty());
  EXPECT_EQ(text_of(store.commit(batch)), "committed");
  EXPECT_EQ(store.scan("", {.limit = most}).entries.size(), writes);
}

TYPED_TEST(Limits, ABatchMayHaveSoManyBytesAndNoMore) {
  const Client store = this->open();
  const StoreLimits& limits = store->capabilities().limits;
  Batch batch;
  for (char key = 'a'; batch.bytes() < limits.batch_bytes_max; ++key) {
    const std::size_t left = limits.batch_bytes_max - batch.bytes() - 1;
    batch.put(std::string(1, key), std::string(std::min(left, limits.value_bytes_max - 1), key));
  }
  const std::size_t writes = batch.writes().size();
  Batch larger = batch;
  larger.require_absent("z");
  EXPECT_THAT(error_text<InvalidArgument>([&] { static_cast<void>(store->commit(larger)); }),
              AllOf(HasSubstr("batch"), HasSubstr(std::to_string(limits.batch_bytes_max)),
                    HasSubstr(std::to_string(limits.batch_bytes_max + 1))));
  EXPECT_TRUE(store.scan("").entries.empty());
  EXPECT_EQ(text_of(store.commit(batch)), "committed");
  std::size_t found = 0;
  std::string after;
  for (bool more = true; more;) {
    const Page page = store.scan("", {.after = after});
    ASSERT_FALSE(page.entries.empty());
    found += page.entries.size();
    after = page.entries.back().key;
    more = page.more;
  }
  EXPECT_EQ(found, writes);
}

}  // namespace
}  // namespace holdfast::conformance
