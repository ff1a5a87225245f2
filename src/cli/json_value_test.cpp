// SPDX-License-Identifier: Apache-2.0
#include "json_value.hpp"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include <string>

namespace holdfast::cli {
namespace {

boost::json::value parsed(const std::string& text) { return boost::json::parse(text); }

TEST(JsonText, IsOneLineThatReadsTheSame) {
  for (const char* text : {R"({"a": [1, -2, 18446744073709551615], "b": {}, "c": []})", "null",
                           "true", "0.5", "1.0", "-0.0", "1e+300", R"("\"\\é")"}) {
    EXPECT_EQ(json_text(parsed(text)), text);
  }
}

TEST(JsonText, NothingInItCommandsATerminal) {
  EXPECT_EQ(json_text(parsed(R"({"\u001b]52": "\u009b\n\u007f"})")),
            R"({"\u001b]52": "\u009b\u000a\u007f"})");
}

TEST(JsonText, IsIndentedForPeople) {
  EXPECT_EQ(indented_json_text(parsed(R"({"a":[1,{"b":2}],"c":{},"d":[]})")), R"({
  "a": [
    1,
    {
      "b": 2
    }
  ],
  "c": {},
  "d": []
})");
  EXPECT_EQ(indented_json_text(parsed("7")), "7");
}

}  // namespace
}  // namespace holdfast::cli
