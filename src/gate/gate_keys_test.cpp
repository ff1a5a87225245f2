// SPDX-License-Identifier: Apache-2.0
#include "gate_keys.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace holdfast::detail {
namespace {

TEST(GateKeys, APartOfAKeyLeadsBackToItsText) {
  std::string all_bytes;
  for (int byte = 0; byte < 256; ++byte) {
    all_bytes.push_back(static_cast<char>(byte));
  }
  for (const std::string& text :
       {std::string(), std::string("gpus"), std::string("a/b%2f c"), std::string("%"), all_bytes}) {
    EXPECT_EQ(text_of_key_part(key_part(text)), text);
    EXPECT_EQ(key_part(text).find('/'), std::string::npos);
  }
}

TEST(GateKeys, WhatIsNoPartOfAKeyIsRefused) {
  for (const char* part : {"a/b", "%", "a%2", "%2g", "%2F", "%61", "a\nb"}) {
    EXPECT_EQ(text_of_key_part(part), std::nullopt) << part;
  }
}

}  // namespace
}  // namespace holdfast::detail
