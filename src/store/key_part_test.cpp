// SPDX-License-Identifier: Apache-2.0
#include "key_part.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace holdfast::detail {
namespace {

TEST(KeyPart, LeadsBackToItsText) {
  std::string all_bytes;
  for (int byte = 0; byte < 256; ++byte) {
    all_bytes.push_back(static_cast<char>(byte));
  }
  for (const std::string& text :
       {std::string(), std::string("gpus"), std::string("a/b%2F c"), std::string("%"), all_bytes}) {
    EXPECT_EQ(text_of_key_part(key_part(text)), text);
    EXPECT_EQ(key_part(text).find('/'), std::string::npos);
  }
}

TEST(KeyPart, WhatIsNoneIsRefused) {
  for (const char* part : {"a/b", "%", "a%2", "%2g", "%2f", "%61", "a\nb"}) {
    EXPECT_EQ(text_of_key_part(part), std::nullopt) << part;
  }
}

}  // namespace
}  // namespace holdfast::detail
