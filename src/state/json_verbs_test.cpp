// SPDX-License-Identifier: Apache-2.0
#include "json_verbs.hpp"

#include <gtest/gtest.h>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include <holdfast/error.hpp>

namespace holdfast::detail {
namespace {

using Json = boost::json::value;
using Kind = JsonVerb::Kind;

/// What `verb` makes of the text, or "refused".
std::string after(const std::string& text, const JsonVerb& verb) {
  Json root = boost::json::parse(text);
  try {
    static_cast<void>(apply_verb(root, verb));
  } catch (const InvalidArgument&) {
    return "refused";
  }
  return boost::json::serialize(root);
}

std::string patched(const std::string& text, const std::string& changes) {
  return after(text, {Kind::kPatch, {}, {}, boost::json::parse(changes)});
}
std::string pushed(const std::string& text, const std::string& path) {
  return after(text, {Kind::kPush, path, {}, Json("x")});
}
std::string added(const std::string& text, const std::string& path, Json by) {
  return after(text, {Kind::kAdd, path, {}, std::move(by)});
}
std::string with_record(const std::string& text, const std::string& path, const std::string& key) {
  return after(text, {Kind::kSetRecord, path, key, Json(1)});
}
std::string without_record(const std::string& text, const std::string& path,
                           const std::string& key) {
  return after(text, {Kind::kDeleteRecord, path, key, {}});
}

// The table at the end of RFC 7396.
TEST(JsonVerbs, PatchMergesAsTheStandardSays) {
  EXPECT_EQ(patched(R"({"a":"b"})", R"({"a":"c"})"), R"({"a":"c"})");
  EXPECT_EQ(patched(R"({"a":"b"})", R"({"b":"c"})"), R"({"a":"b","b":"c"})");
  EXPECT_EQ(patched(R"({"a":"b"})", R"({"a":null})"), R"({})");
  EXPECT_EQ(patched(R"({"a":["b"]})", R"({"a":"c"})"), R"({"a":"c"})");
  EXPECT_EQ(patched(R"({"a":"c"})", R"({"a":["b"]})"), R"({"a":["b"]})");
  EXPECT_EQ(patched(R"({"a":{"b":"c"}})", R"({"a":{"b":"d","c":null}})"), R"({"a":{"b":"d"}})");
  EXPECT_EQ(patched(R"({"a":[{"b":"c"}]})", R"({"a":[1]})"), R"({"a":[1]})");
  EXPECT_EQ(patched(R"(["a","b"])", R"(["c","d"])"), R"(["c","d"])");
  EXPECT_EQ(patched(R"({"a":"b"})", R"(["c"])"), R"(["c"])");
  EXPECT_EQ(patched(R"({"a":"foo"})", "null"), "null");
  EXPECT_EQ(patched(R"({"a":"foo"})", R"("bar")"), R"("bar")");
  EXPECT_EQ(patched(R"({"e":null})", R"({"a":1})"), R"({"e":null,"a":1})");
  EXPECT_EQ(patched("[1,2]", R"({"a":"b","c":null})"), R"({"a":"b"})");
  EXPECT_EQ(patched("{}", R"({"a":{"bb":{"ccc":null}}})"), R"({"a":{"bb":{}}})");
}

TEST(JsonVerbs, PathsArePointers) {
  EXPECT_EQ(pushed("null", ""), R"(["x"])");
  EXPECT_EQ(pushed("{}", "/a/b"), R"({"a":{"b":["x"]}})");
  EXPECT_EQ(pushed("{}", "/a~1b~0c"), R"({"a/b~c":["x"]})");
  EXPECT_EQ(pushed("{}", "/"), R"({"":["x"]})");
  EXPECT_EQ(pushed(R"([1,{"a":[2]}])", "/1/a"), R"([1,{"a":[2,"x"]}])");
  for (const char* path : {"a", "/~", "/~2", "/a~"}) {
    EXPECT_EQ(pushed("{}", path), "refused") << path;
  }
  for (const char* path : {"/2", "/-", "/01", "/a", "/-1", "/1x", "/", "/99999999999999999999"}) {
    EXPECT_EQ(pushed("[[],[]]", path), "refused") << path;
  }
}

TEST(JsonVerbs, WhatIsOfAnotherKindIsNeverReplaced) {
  EXPECT_EQ(pushed(R"({"a":{}})", "/a"), "refused");
  EXPECT_EQ(pushed(R"({"a":1})", "/a/b"), "refused");
  EXPECT_EQ(added(R"({"a":"1"})", "/a", 1), "refused");
  EXPECT_EQ(added(R"({"a":true})", "/a", 1), "refused");
  EXPECT_EQ(with_record("[]", "", "k"), "refused");
  EXPECT_EQ(without_record("[]", "", "k"), "refused");
}

TEST(JsonVerbs, AddingKeepsWholeNumbersWholeAndSixtyFourBits) {
  EXPECT_EQ(added("null", "", 5), "5");
  EXPECT_EQ(added("2", "", -5), "-3");
  EXPECT_EQ(added("1", "", 0.5), "1.5E0");
  EXPECT_EQ(added("0.5", "", 1), "1.5E0");
  EXPECT_EQ(added("9223372036854775807", "", 1), "9223372036854775808");
  EXPECT_EQ(added("9223372036854775808", "", -1), "9223372036854775807");
  EXPECT_EQ(added("18446744073709551615", "", 1), "refused");
  EXPECT_EQ(added("-9223372036854775808", "", -1), "refused");
  EXPECT_EQ(added("1", "", std::numeric_limits<std::uint64_t>::max()), "refused");
  EXPECT_EQ(added("1e308", "", 1e308), "refused");
}

TEST(JsonVerbs, RecordsAreTakenByTheirKeysAsTheyAre) {
  EXPECT_EQ(with_record("null", "", "a/b"), R"({"a/b":1})");
  EXPECT_EQ(with_record(R"({"a":{"k":0}})", "/a", "k"), R"({"a":{"k":1}})");
  EXPECT_EQ(without_record(R"({"a":{"k":0,"l":1}})", "/a", "k"), R"({"a":{"l":1}})");
  EXPECT_EQ(without_record(R"({"a":1,"b":2,"c":3})", "", "a"), R"({"b":2,"c":3})") << "in order";
}

TEST(JsonVerbs, DeletingWhatIsNotThereMakesNothing) {
  EXPECT_EQ(without_record("null", "", "k"), "null");
  EXPECT_EQ(without_record(R"({"b":1})", "/a/c", "k"), R"({"b":1})");
  EXPECT_EQ(without_record(R"({"a":{}})", "/a", "k"), R"({"a":{}})");
}

}  // namespace
}  // namespace holdfast::detail
