// SPDX-License-Identifier: Apache-2.0
#include "suggest.hpp"

#include <gtest/gtest.h>

namespace holdfast::cli {
namespace {

const std::vector<std::string> kKnown{"checkout", "api_client", "log_lines", "transfer"};

TEST(Suggest, FindsWhatWasMistyped) {
  EXPECT_EQ(nearest("chekcout", kKnown), "checkout");
  EXPECT_EQ(nearest("tranfser", kKnown), "transfer");
  EXPECT_EQ(nearest("log-line", kKnown), "log_lines");
}

TEST(Suggest, TakesABeginningForTheWord) { EXPECT_EQ(nearest("api", kKnown), "api_client"); }

TEST(Suggest, SaysNothingWhenNothingComesNear) {
  EXPECT_EQ(nearest("workflow", kKnown), std::nullopt);
  EXPECT_EQ(nearest("", kKnown), std::nullopt);
  EXPECT_EQ(nearest("x", {"a", "b"}), std::nullopt) << "all letters differ";
  EXPECT_EQ(nearest(std::string(100'000, 'a'), kKnown), std::nullopt);
  EXPECT_EQ(did_you_mean("workflow", kKnown), "");
}

}  // namespace
}  // namespace holdfast::cli
