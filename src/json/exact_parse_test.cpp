// SPDX-License-Identifier: Apache-2.0
#include "exact_parse.hpp"

#include <gtest/gtest.h>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>

namespace holdfast::detail {
namespace {

namespace json = boost::json;

json::value parsed(std::string_view text) {
  json::error_code error;
  json::value value = exact_parse(text, 32, error);
  EXPECT_FALSE(error) << text << ": " << error.message();
  return value;
}

TEST(ExactParse, WhatIsWrittenIsReadToTheLastBit) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200'000; ++i) {
    const auto number = std::bit_cast<double>(random());
    if (std::isfinite(number) && number != std::trunc(number)) {
      ASSERT_EQ(parsed(json::serialize(json::value(number))), json::value(number)) << number;
    }
  }
  for (const double number : {0.1, 0.30000000000000004, 5e-324, 1.7976931348623157e308, -0.5}) {
    EXPECT_EQ(parsed(json::serialize(json::value(number))), json::value(number)) << number;
  }
}

TEST(ExactParse, IsOtherwiseTheParserOfBoost) {
  for (const char* text :
       {"null", "true", "[]", "{}", " [1, -2, 18446744073709551615, 0.5] ", R"("a\u00e9\n")",
        R"({"a":{"b":[1,[2,{"c":null}]]},"a long key that is not kept in place":"and its text"})",
        R"({"a":1,"a":2})"}) {
    EXPECT_EQ(parsed(text), json::parse(text)) << text;
  }
  for (const char* text : {"", "{", "[1,]", "01", "nul", "1 2", "\"\xff\"", "[1e999]", "{\"a\"}"}) {
    json::error_code error;
    EXPECT_EQ(exact_parse(text, 32, error), json::value());
    EXPECT_TRUE(error) << text;
  }
}

TEST(ExactParse, GoesOnlySoDeep) {
  json::error_code error;
  static_cast<void>(exact_parse("[[[]]]", 3, error));
  EXPECT_FALSE(error);
  static_cast<void>(exact_parse("[[[]]]", 2, error));
  EXPECT_TRUE(error);
}

}  // namespace
}  // namespace holdfast::detail
