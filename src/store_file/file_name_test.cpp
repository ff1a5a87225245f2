// SPDX-License-Identifier: Apache-2.0
#include "file_name.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "base64.hpp"
#include "json/utf8.hpp"

namespace holdfast::detail {
namespace {

using namespace std::string_literals;

constexpr std::size_t kKeyBytesMax = 2'048;

std::vector<std::string> parts_of(const std::string& name) {
  std::vector<std::string> parts(1);
  for (const char letter : name) {
    if (letter == '/') {
      parts.emplace_back();
    } else {
      parts.back() += letter;
    }
  }
  return parts;
}

void expect_safe_name(const std::string& key) {
  const std::string name = file_name_of(key);
  EXPECT_LE(name.size(), kNameBytesMax);
  EXPECT_EQ(name.find('\0'), name.npos);
  EXPECT_EQ(key_of_file_name(name), key);
  for (const std::string& part : parts_of(name)) {
    EXPECT_FALSE(part.empty());
    EXPECT_NE(part, ".");
    EXPECT_NE(part, "..");
    EXPECT_LE(part.size(), 255U);
    EXPECT_TRUE(part.ends_with(".json") || part.ends_with('+')) << part;
  }
}

/// Keys of all lengths, of few and of all bytes.
rc::Gen<std::string> any_key() {
  const auto sized = [](const rc::Gen<char>& letter) {
    return rc::gen::mapcat(rc::gen::inRange<std::size_t>(1, kKeyBytesMax + 1), [=](std::size_t n) {
      return rc::gen::container<std::string>(n, letter);
    });
  };
  return rc::gen::oneOf(rc::gen::nonEmpty(rc::gen::arbitrary<std::string>()),
                        rc::gen::nonEmpty(rc::gen::container<std::string>(
                            rc::gen::element('a', 'A', '.', '/', '%', '+', '=', '2', 'E', '\0'))),
                        sized(rc::gen::arbitrary<char>()), sized(rc::gen::element('a', '/', '.')));
}

TEST(FileName, IsReadable) {
  EXPECT_EQ(file_name_of("counter"), "counter.json");
  EXPECT_EQ(file_name_of("account/1"), "account%2F1.json");
  EXPECT_EQ(file_name_of("v1.2-rc_3"), "v1.2-rc_3.json");
  EXPECT_EQ(file_name_of("a b%c"), "a%20b%25c.json");
  EXPECT_EQ(file_name_of("\0\xff"s), "%00%FF.json");
}

TEST(FileName, IsSafeForKeysThatArePathsOrEnds) {
  for (const std::string& key : {"."s, ".."s, "/"s, "../../etc/passwd"s, ".json"s, "a.json"s,
                                 "a.json.new"s, "+"s, "a+/b"s, "="s, "\0"s, "~"s, "\\"s, "A"s}) {
    expect_safe_name(key);
  }
  EXPECT_EQ(file_name_of(".."), "%2E..json") << "no hidden file either";
}

TEST(FileName, IsCutIntoFoldersWhenItIsLong) {
  expect_safe_name(std::string(200, 'a'));
  EXPECT_EQ(parts_of(file_name_of(std::string(200, 'a'))).size(), 1U);
  EXPECT_EQ(parts_of(file_name_of(std::string(201, 'a'))).size(), 2U);
  EXPECT_EQ(parts_of(file_name_of(std::string(2'048, 'a'))).size(), 11U);
  for (std::size_t bytes = 1; bytes <= kKeyBytesMax; bytes += 41) {
    expect_safe_name(std::string(bytes, 'a'));
    expect_safe_name(std::string(bytes, '/'));
    expect_safe_name(std::string(bytes, '.'));
  }
  expect_safe_name(std::string(kKeyBytesMax, '\xff'));
}

TEST(FileName, AFolderIsNeverNamedAsAFile) {
  // The first part of the long key is what the file of the short one is called, but for its end.
  const std::string long_key = std::string(195, 'a') + ".json" + "b";
  EXPECT_EQ(parts_of(file_name_of(long_key)).front(), std::string(195, 'a') + ".json+");
  EXPECT_EQ(file_name_of(std::string(195, 'a')), std::string(195, 'a') + ".json");
}

TEST(FileName, OnlyTheOneNameOfAKeyIsTaken) {
  for (const char* name : {"", ".json", "a", "a.jso", "a%2f.json", "%61.json", "a/b.json",
                           "a%.json", "a%2.json", "a%zz.json", "a+/b.json", "=YQ.json", "a b.json",
                           ".a.json", "a.json.new", "+/a.json", "a.json+"}) {
    EXPECT_EQ(key_of_file_name(name), std::nullopt) << name;
  }
}

RC_GTEST_PROP(FileName, LeadsBackToTheKey, ()) { expect_safe_name(*any_key()); }

RC_GTEST_PROP(FileName, DiffersForDifferentKeys, ()) {
  const std::string one = *any_key();
  const std::string other = *any_key();
  RC_ASSERT((file_name_of(one) == file_name_of(other)) == (one == other));
}

RC_GTEST_PROP(FileName, AnyTextIsAtMostOneKey, (const std::string& text)) {
  const std::string name = text + ".json";
  if (const auto key = key_of_file_name(name)) {
    RC_ASSERT(file_name_of(*key) == name);
  }
}

RC_GTEST_PROP(Base64Text, LeadsBackToTheBytes, (const std::string& bytes)) {
  for (const Base64 form : {Base64::kPadded, Base64::kFileName}) {
    RC_ASSERT(from_base64(to_base64(bytes, form), form) == bytes);
  }
}

TEST(Base64Text, IsTheUsualOne) {
  EXPECT_EQ(to_base64("", Base64::kPadded), "");
  EXPECT_EQ(to_base64("f", Base64::kPadded), "Zg==");
  EXPECT_EQ(to_base64("fo", Base64::kPadded), "Zm8=");
  EXPECT_EQ(to_base64("foo", Base64::kPadded), "Zm9v");
  EXPECT_EQ(to_base64("\xfb\xff", Base64::kPadded), "+/8=");
  EXPECT_EQ(to_base64("\xfb\xff", Base64::kFileName), "-_8");
}

TEST(Base64Text, HasOneSpellingOnly) {
  for (const char* text : {"Zg", "Zg=", "Zg===", "Zh==", "Z", "Z===", "Zm9v=", "Zm 9v", "Zm9v\n"}) {
    EXPECT_EQ(from_base64(text, Base64::kPadded), std::nullopt) << text;
  }
}

TEST(Utf8, TakesWellFormedTextOnly) {
  for (const char* text : {"", "a", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xef\xbf\xbf",
                           "\xf4\x8f\xbf\xbf", "\xed\x9f\xbf", "\xee\x80\x80"}) {
    EXPECT_TRUE(is_utf8(text)) << text;
  }
  EXPECT_TRUE(is_utf8("\0"s));
  for (const char* text : {"\x80", "\xc3", "\xc0\xaf", "\xc1\xbf", "\xe0\x9f\xbf", "\xe2\x82",
                           "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80",
                           "\xf5\x80\x80\x80", "\xf0\x9f\x98", "a\xffz", "\xfe"}) {
    EXPECT_FALSE(is_utf8(text)) << text;
  }
}

}  // namespace
}  // namespace holdfast::detail
