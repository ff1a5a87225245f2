// SPDX-License-Identifier: Apache-2.0
#include "documents.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>
#include <string>

#include <holdfast/store_error.hpp>

namespace holdfast::detail {
namespace {

using namespace std::string_literals;
using ::testing::HasSubstr;

const std::filesystem::path kFile = "some/file.json";

StoreRecord some_record() {
  return {.sequence = 7,
          .ceiling = std::numeric_limits<Version>::max(),
          .time = {.boot_id = "boot", .offset_ns = -5, .high_water_ns = 9'000'000'000'000'000'000},
          .entries = 2,
          .digest = 0x0123'4567'89ab'cdef};
}

TEST(Documents, AreReadable) {
  EXPECT_THAT(entry_text("account/1", "90 \xe2\x82\xac", 5),
              HasSubstr(R"({"key":"account/1","version":5,"text":"90 )"
                        "\xe2\x82\xac"
                        R"(","check":")"));
  EXPECT_THAT(entry_text("k", "\xff", 5), HasSubstr(R"("base64":"/w==")"));
  EXPECT_THAT(entry_text("\xff", "", 5), HasSubstr(R"("key_base64":"/w==")"));
  EXPECT_THAT(to_text(some_record()), HasSubstr(R"({"holdfast":"file store","format":1,)"));
}

TEST(Documents, RecordsComeBack) {
  EXPECT_EQ(to_store_record(to_text(some_record()), kFile), some_record());
  EXPECT_EQ(to_store_record(to_text(StoreRecord{}), kFile), StoreRecord{});
}

TEST(Documents, JournalsComeBack) {
  const Journal journal{some_record(),
                        {{"a", "text", 6}, {"b", std::nullopt, 7}, {"\xff", "\xfe\0"s, 7}}};
  const Journal read = to_journal(to_text(journal), kFile);
  EXPECT_EQ(read.store, journal.store);
  EXPECT_EQ(read.changes, journal.changes);
}

RC_GTEST_PROP(Documents, EntriesComeBack, (const std::string& key, const std::string& value)) {
  const auto version = *rc::gen::arbitrary<Version>();
  const StoredEntry read = to_entry(entry_text(key, value, version), kFile);
  RC_ASSERT((read.entry == Entry{key, value, version}));
  RC_ASSERT(read.check == check_of(key, value, version));
}

TEST(Documents, EveryTextAndByteComesBack) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string value(3, static_cast<char>(byte));
    EXPECT_EQ(to_entry(entry_text("k", value, 1), kFile).entry.value, value);
  }
}

TEST(Documents, HowTheyAreSpelledDoesNotMatter) {
  std::string text = entry_text("k", "v", 1);
  text.insert(1, "\n  ");
  EXPECT_EQ(to_entry(text, kFile).entry.value, "v");
}

template <class Read>
void expect_each_flip_noticed(const std::string& text, Read read) {
  for (std::size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string flipped = text;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    try {
      read(flipped);
      ADD_FAILURE() << flipped;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(kFile.string()));
    }
  }
}

TEST(Documents, EachFlippedBitIsNoticed) {
  expect_each_flip_noticed(entry_text("key/1", "some text", 12),
                           [](const auto& text) { return to_entry(text, kFile); });
  expect_each_flip_noticed(entry_text("\x80", "\xff", 12),
                           [](const auto& text) { return to_entry(text, kFile); });
  expect_each_flip_noticed(to_text(some_record()),
                           [](const auto& text) { return to_store_record(text, kFile); });
  const Journal journal{some_record(), {{"a", "text", 6}, {"b", std::nullopt, 7}}};
  expect_each_flip_noticed(to_text(journal),
                           [](const auto& text) { return to_journal(text, kFile); });
}

TEST(Documents, ANewerFormatIsNamedWhateverElseIsInIt) {
  try {
    static_cast<void>(to_store_record(R"({"holdfast":"file store","format":3,"x":1})", kFile));
    FAIL();
  } catch (const NewerFormat& error) {
    EXPECT_THAT(error.what(), HasSubstr("format 3"));
    EXPECT_THAT(error.what(), HasSubstr("up to 1"));
  }
}

TEST(Documents, WhatIsNotOursIsSaidToBeNone) {
  EXPECT_THROW(static_cast<void>(to_store_record(R"({"a":1})", kFile)), NotAStore);
  for (const char* text :
       {"", "{", "[]", "null", R"({"holdfast":"file store"})", R"({"holdfast":1})",
        R"({"holdfast":"else"})", R"({"holdfast":"file store","format":0})"}) {
    EXPECT_THROW(static_cast<void>(to_store_record(text, kFile)), StoreCorrupt) << text;
  }
  EXPECT_THROW(static_cast<void>(to_journal(R"({"holdfast":"file store","format":1})", kFile)),
               StoreCorrupt);
  EXPECT_THROW(static_cast<void>(to_entry(R"({"key":"a","version":-1,"text":""})", kFile)),
               StoreCorrupt);
}

TEST(Documents, DeepNestingIsRefused) {
  const std::string deep = R"({"key":)" + std::string(100'000, '[');
  EXPECT_THROW(static_cast<void>(to_entry(deep, kFile)), StoreCorrupt);
}

}  // namespace
}  // namespace holdfast::detail
