// SPDX-License-Identifier: Apache-2.0
// Prefixes are literal, the order is that of bytes, and pages join without a seam.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "store_test.hpp"

namespace holdfast::conformance {
namespace {

using namespace std::string_literals;

template <typename Kind>
class Scans : public StoreTest<Kind> {
 protected:
  static void put_all(const Client& store, const std::vector<std::string>& keys) {
    Batch batch;
    for (const std::string& key : keys) {
      batch.put(key, "");
    }
    ASSERT_EQ(text_of(store.commit(batch)), "committed");
  }
  static std::vector<std::string> keys_of(const Page& page) {
    std::vector<std::string> keys;
    for (const Entry& entry : page.entries) {
      keys.push_back(entry.key);
    }
    return keys;
  }
};
TYPED_TEST_SUITE(Scans, StoreKinds, StoreKindNames);

using Keys = std::vector<std::string>;

TYPED_TEST(Scans, PrefixesAreLiteral) {
  const Client store = this->open();
  this->put_all(store, {"a%b", "a_b", "axb", "a\0b"s, "a", "a\xff"s, "a*b", "a\\b", "a'b", "A%b"});
  EXPECT_EQ(this->keys_of(store.scan("a%")), Keys{"a%b"});
  EXPECT_EQ(this->keys_of(store.scan("a_")), Keys{"a_b"});
  EXPECT_EQ(this->keys_of(store.scan("a*")), Keys{"a*b"});
  EXPECT_EQ(this->keys_of(store.scan("a\\")), Keys{"a\\b"});
  EXPECT_EQ(this->keys_of(store.scan("a'")), Keys{"a'b"});
  EXPECT_EQ(this->keys_of(store.scan("a\0"s)), Keys{"a\0b"s});
  EXPECT_EQ(this->keys_of(store.scan("a\xff"s)), Keys{"a\xff"s});
  EXPECT_EQ(this->keys_of(store.scan("A")), Keys{"A%b"});
  EXPECT_EQ(store.scan("a").entries.size(), 9U);
  EXPECT_TRUE(store.scan("%").entries.empty());
  EXPECT_TRUE(store.scan("_").entries.empty());
}

TYPED_TEST(Scans, PrefixesOfTheHighestBytesHaveAnEnd) {
  const Client store = this->open();
  this->put_all(store, {"\xfe"s, "\xfe\xff"s, "\xff"s, "\xff\0"s, "\xff\xff"s, "\xff\xff\x01"s,
                        "\xff\xff\xff"s, "z"});
  EXPECT_EQ(this->keys_of(store.scan("\xff\xff"s)),
            (Keys{"\xff\xff"s, "\xff\xff\x01"s, "\xff\xff\xff"s}));
  EXPECT_EQ(this->keys_of(store.scan("\xff\xff\xff"s)), Keys{"\xff\xff\xff"s});
  EXPECT_EQ(this->keys_of(store.scan("\xfe"s)), (Keys{"\xfe"s, "\xfe\xff"s}));
  EXPECT_EQ(this->keys_of(store.scan("\xff"s)).size(), 5U);
  EXPECT_TRUE(store.scan("\xff\xff\xff\xff"s).entries.empty());
}

TYPED_TEST(Scans, TheOrderIsThatOfUnsignedBytes) {
  const Client store = this->open();
  Keys keys{"a\0"s,  "a",   "aa",    "A", "b", "\x7f"s, "\x80"s,
            "\xff"s, "\0"s, "\0\0"s, "é", "z", "a b"};
  for (int byte = 0; byte < 256; ++byte) {
    keys.emplace_back("k").push_back(static_cast<char>(byte));
  }
  this->put_all(store, keys);
  std::sort(keys.begin(), keys.end());  // char_traits compares as unsigned.
  EXPECT_EQ(this->keys_of(store.scan("")), keys);
}

TYPED_TEST(Scans, AnEmptyPrefixIsEverything) {
  const Client store = this->open();
  EXPECT_TRUE(store.scan("").entries.empty());
  EXPECT_FALSE(store.scan("").more);
  this->put_all(store, {"\0"s, "m", "\xff"s});
  EXPECT_EQ(this->keys_of(store.scan("")), (Keys{"\0"s, "m", "\xff"s}));
}

TYPED_TEST(Scans, AfterMayBeInsideBeforeOrBehindThePrefix) {
  const Client store = this->open();
  this->put_all(store, {"a", "p", "p1", "p2", "p3", "q"});
  const auto after = [&](std::string_view key) {
    return this->keys_of(store.scan("p", {.after = key}));
  };
  EXPECT_EQ(after(""), (Keys{"p", "p1", "p2", "p3"}));
  EXPECT_EQ(after("a"), (Keys{"p", "p1", "p2", "p3"}));
  EXPECT_EQ(after("p"), (Keys{"p1", "p2", "p3"})) << "the prefix itself is a key like others";
  EXPECT_EQ(after("p\0"s), (Keys{"p1", "p2", "p3"}));
  EXPECT_EQ(after("p1"), (Keys{"p2", "p3"}));
  EXPECT_EQ(after("p11"), (Keys{"p2", "p3"})) << "it need not exist";
  EXPECT_EQ(after("p3"), Keys{});
  EXPECT_EQ(after("q"), Keys{});
  EXPECT_EQ(after("\xff"s), Keys{});
}

TYPED_TEST(Scans, MoreIsExactAtTheBoundary) {
  const Client store = this->open();
  this->put_all(store, {"o", "p1", "p2", "p3", "q"});
  EXPECT_EQ(text_of(store.scan("p", {.limit = 1})), "p1= ...");
  EXPECT_EQ(text_of(store.scan("p", {.limit = 2})), "p1= p2= ...");
  EXPECT_EQ(text_of(store.scan("p", {.limit = 3})), "p1= p2= p3=") << "q is not behind p3";
  EXPECT_EQ(text_of(store.scan("p", {.limit = 4})), "p1= p2= p3=");
  EXPECT_EQ(text_of(store.scan("p", {.after = "p1", .limit = 2})), "p2= p3=");
  EXPECT_EQ(text_of(store.scan("p", {.after = "p1", .limit = 1})), "p2= ...");
}

TYPED_TEST(Scans, ALimitMayBeAsLargeAsItGets) {
  const Client store = this->open();
  this->put_all(store, {"a", "b"});
  constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();
  EXPECT_EQ(text_of(store.scan("", {.limit = kNoLimit})), "a= b=");
  const Version applied = store.apply(Batch().put("c", "")).committed()->version;
  EXPECT_EQ(text_of(store.scan("", {.limit = kNoLimit, .read = Read::kApplied})), "a= b= c=");
  store.run(store->until_durable(applied));
}

TYPED_TEST(Scans, ALimitOfZeroIsRefusedAtTheCall) {
  const Client store = this->open();
  EXPECT_THROW(static_cast<void>(store->scan("", {.limit = 0})), InvalidArgument);
}

TYPED_TEST(Scans, PagesOfTenThousandKeysGiveEachOnce) {
  constexpr int kKeys = 10'000;
  const Client store = this->open();
  Batch batch;
  for (int i = 0; i < kKeys; ++i) {
    batch.put(numbered("p/", i), std::to_string(i));
    if (batch.size() == 2'500) {
      ASSERT_EQ(text_of(store.commit(std::exchange(batch, {}))), "committed");
    }
  }
  store.put("o", "before");
  store.put("q", "behind");
  for (const std::size_t limit : {std::size_t{999}, std::size_t{1'000}, std::size_t{kKeys}}) {
    Keys found;
    std::string after;
    for (bool more = true; more;) {
      const Page page = store.scan("p/", {.after = after, .limit = limit});
      ASSERT_FALSE(page.entries.empty()) << "there is always a last one to go on with";
      for (const Entry& entry : page.entries) {
        ASSERT_EQ(entry.key, "p/" + entry.value);
        found.push_back(entry.key);
      }
      after = found.back();
      more = page.more;
    }
    ASSERT_EQ(found.size(), std::size_t{kKeys});
    ASSERT_TRUE(std::is_sorted(found.begin(), found.end()));
    ASSERT_EQ(std::set<std::string>(found.begin(), found.end()).size(), std::size_t{kKeys});
  }
}

TYPED_TEST(Scans, PagingFromThePrefixItselfGoesOn) {
  const Client store = this->open();
  this->put_all(store, {"p", "p1", "p2"});
  Keys found;
  std::string after;
  for (int page_number = 0; page_number < 3; ++page_number) {
    const Page page = store.scan("p", {.after = after, .limit = 1});
    ASSERT_EQ(page.entries.size(), 1U);
    after = page.entries[0].key;
    found.push_back(after);
    EXPECT_EQ(page.more, page_number < 2);
  }
  EXPECT_EQ(found, (Keys{"p", "p1", "p2"}));
}

TYPED_TEST(Scans, ValuesComeWithTheirVersions) {
  const Client store = this->open();
  const Version first = store.put("a", "1");
  const Version second = store.put("b", "2");
  EXPECT_EQ(store.scan("").entries, (std::vector<Entry>{{"a", "1", first}, {"b", "2", second}}));
}

// A page is limited in bytes as well, and is not empty while there is more.
TYPED_TEST(Scans, LargeValuesComeInSeveralPages) {
  const Client store = this->open();
  const std::string large(store->capabilities().limits.value_bytes_max, 'v');
  constexpr int kLarge = 7;
  for (int i = 0; i < kLarge; ++i) {
    store.put(numbered("k", i), large);
  }
  std::size_t found = 0;
  std::string after;
  for (bool more = true; more;) {
    const Page page = store.scan("k", {.after = after});
    ASSERT_FALSE(page.entries.empty());
    for (const Entry& entry : page.entries) {
      ASSERT_EQ(entry.key, numbered("k", found++));
      ASSERT_TRUE(entry.value == large);
    }
    after = page.entries.back().key;
    more = page.more;
  }
  EXPECT_EQ(found, std::size_t{kLarge});
}

}  // namespace
}  // namespace holdfast::conformance
