// SPDX-License-Identifier: Apache-2.0
// Keys and values are bytes, and copied at the call.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "store_test.hpp"

namespace holdfast::conformance {
namespace {

template <typename Kind>
class Bytes : public StoreTest<Kind> {};
TYPED_TEST_SUITE(Bytes, StoreKinds, StoreKindNames);

std::string every_byte() {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) {
    all += static_cast<char>(byte);
  }
  return all;
}

std::vector<std::string> odd_keys(std::size_t key_bytes_max) {
  using namespace std::string_literals;
  // clang-format off
  std::vector<std::string> keys{
      // What queries, patterns, shells, paths and file systems take for something else.
      "%"s, "_"s, "a%"s, "a_"s, "*"s, "?"s, "[a]"s, "'"s, "\""s, "a'b"s, "a\"b"s, "`"s, "a;b"s,
      "\\"s, "a\\0"s, "/"s, "//"s, "a/"s, "a/b"s, "/a"s, "."s, ".."s, "..."s, "../a"s, "a/../b"s,
      "~"s, "-"s, "--"s, "$HOME"s, "CON"s, "con.json"s, "0"s, "00"s, "1e3"s, "null"s,
      "sqlite_master"s,
      // What differs in case, in length, or by a byte that is easily lost.
      "key"s, "Key"s, "KEY"s, "a"s, "aa"s, "aaa"s, "a\0"s, "a\0\0"s, "\0a"s, "\0\0"s, "a\0b"s, " "s,
      "  "s, "a "s, "a b"s, "\n"s, "\r\n"s, "\t"s, "a\x7f"s,
      // Unicode, composed and not, and what is none.
      "\u00e4"s, "a\u0308"s, "\u65e5\u672c"s, "\U0001f642"s, "\u202e"s, "\x80"s, "\xc3\x28"s,
      "\xff"s, "\xff\xff"s, "\xff\xff\xff"s, "a\xff"s, "\xfe\xff"s, every_byte()};
  // clang-format on
  for (const char byte : every_byte()) {
    keys.push_back("byte" + std::string(1, byte));
  }
  keys.push_back(std::string(key_bytes_max, 'x'));
  keys.push_back(std::string(key_bytes_max - 1, 'x'));
  keys.push_back(std::string(key_bytes_max, '\xff'));
  keys.push_back(std::string(key_bytes_max, '\0'));
  keys.push_back(std::string(key_bytes_max, '/'));
  return keys;
}

TYPED_TEST(Bytes, NoKeyIsSpecial) {
  Client store = this->open();
  std::map<std::string, std::string> expected;
  for (const std::string& key : odd_keys(store->capabilities().limits.key_bytes_max)) {
    expected.emplace(key, "value of " + key);
  }
  for (const bool one_batch : {true, false}) {
    Batch batch;
    for (const auto& [key, value] : expected) {
      batch.put(key, value);
      if (!one_batch) {
        ASSERT_EQ(text_of(store.commit(std::exchange(batch, {}))), "committed");
      }
    }
    ASSERT_EQ(text_of(store.commit(batch)), "committed");
    this->reopen(store);
    for (const auto& [key, value] : expected) {
      ASSERT_EQ(store.value(key), value);
    }
    std::map<std::string, std::string> scanned;
    for (const Entry& entry : store.scan("").entries) {
      ASSERT_TRUE(scanned.emplace(entry.key, entry.value).second) << entry.key;
    }
    ASSERT_EQ(scanned, expected);
  }
  while (!expected.empty()) {
    Batch erase;
    for (int i = 0; i < 50 && !expected.empty(); ++i) {
      erase.erase(expected.extract(expected.begin()).key());
    }
    ASSERT_EQ(text_of(store.commit(erase)), "committed");
    ASSERT_EQ(store.scan("").entries.size(), expected.size());
  }
}

TYPED_TEST(Bytes, NoValueIsSpecial) {
  using namespace std::string_literals;
  Client store = this->open();
  const std::vector<std::string> values{
      ""s,   "\0"s, "\0\0"s, every_byte(), "\xff\xfe"s, "null"s, "{}"s,
      "\""s, "\n"s, "🙂"s,   "' --"s,      "\xc3"s,     "NaN"s,  std::string(100'000, '\0')};
  for (std::size_t i = 0; i < values.size(); ++i) {
    store.put(numbered("k", i), values[i]);
  }
  this->reopen(store);
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(store.value(numbered("k", i)), values[i]);
  }
}

TYPED_TEST(Bytes, CallsCopyWhatTheyAreGiven) {
  const Client store = this->open();
  store.put("first", "1");
  store.put("second", "2");
  auto key = std::make_unique<std::string>("first");
  auto get = store->get(*key);
  *key = "other";
  key.reset();
  EXPECT_EQ(store.run(std::move(get))->value, "1");

  auto prefix = std::make_unique<std::string>("s");
  auto after = std::make_unique<std::string>("sa");
  auto scan = store->scan(*prefix, {.after = *after});
  *prefix = "f";
  *after = "z";
  prefix.reset();
  after.reset();
  EXPECT_EQ(text_of(store.run(std::move(scan))), "second=2");
}

TYPED_TEST(Bytes, BatchesAreCopiedAtTheCall) {
  const Client store = this->open();
  auto value = std::make_unique<std::string>("before");
  auto batch = std::make_unique<Batch>();
  batch->require_absent("k").put("k", *value);
  *value = "change";
  auto commit = store->commit(*batch);
  auto apply = store->apply(*batch);
  batch->require_absent("none").put("k", "later").put("l", "later");
  *batch = Batch();
  batch.reset();
  EXPECT_EQ(text_of(store.run(std::move(commit))), "committed");
  EXPECT_EQ(text_of(store.run(std::move(apply))), "conflict on k: before");
  EXPECT_EQ(text_of(store.scan("")), "k=before");
}

TYPED_TEST(Bytes, WhatWasReadIsACopy) {
  const Client store = this->open();
  store.put("k", "v");
  auto entry = store.get("k");
  entry->value = "changed";
  auto page = store.scan("");
  page.entries[0].value = "changed";
  EXPECT_EQ(store.value("k"), "v");
}

}  // namespace
}  // namespace holdfast::conformance
