// SPDX-License-Identifier: Apache-2.0
#include "escape.hpp"

#include <gtest/gtest.h>

namespace holdfast::cli {
namespace {

TEST(Escape, OneLineLeavesTextOfAnyLanguageAsItIs) {
  EXPECT_EQ(one_line(""), "");
  EXPECT_EQ(one_line("a'\"\\ \xc3\xa4 \xe6\xbc\xa2 \xf0\x9f\x98\x80"),
            "a'\"\\ \xc3\xa4 \xe6\xbc\xa2 \xf0\x9f\x98\x80");
}

TEST(Escape, OneLineLetsNoCommandReachATerminal) {
  EXPECT_EQ(one_line("a\nb\r\t\x1b[2J\x7f"), "a\\x0ab\\x0d\\x09\\x1b[2J\\x7f");
  EXPECT_EQ(one_line("\xc2\x9b\x32J"), "\\xc2\\x9b2J") << "the one-byte form of ESC [";
  EXPECT_EQ(one_line(std::string_view("\0", 1)), "\\x00");
}

TEST(Escape, OneLineShowsTheBytesOfWhatIsNoUtf8) {
  EXPECT_EQ(one_line("\x80"), "\\x80");
  EXPECT_EQ(one_line("\xc3"), "\\xc3") << "cut off";
  EXPECT_EQ(one_line("\xc0\xaf"), "\\xc0\\xaf") << "longer than needed";
  EXPECT_EQ(one_line("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "half of a pair";
  EXPECT_EQ(one_line("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "above the last";
  EXPECT_EQ(one_line("\xe6\xbc"
                     "a"),
            "\\xe6\\xbca");
}

TEST(Escape, JsonStringsAreQuotedAndEscaped) {
  EXPECT_EQ(json_string(""), "\"\"");
  EXPECT_EQ(json_string("a\"\\/\xc3\xa4"), "\"a\\\"\\\\/\xc3\xa4\"");
  EXPECT_EQ(json_string("\n\x1f\x7f\xc2\x9b"), "\"\\u000a\\u001f\\u007f\\u009b\"");
  EXPECT_EQ(json_string("\xff"
                        "a"),
            "\"\\ufffda\"");
}

}  // namespace
}  // namespace holdfast::cli
