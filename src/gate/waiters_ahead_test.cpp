// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "waiters_ahead.hpp"

namespace holdfast::detail {
namespace {

/// Some of them have a notice, as those have that do not look after it themselves.
GateWaiter waiter_with(std::uint64_t ticket) {
  GateRequest request;
  request.asker = shared_asker({.owner = "owner of ticket " + std::to_string(ticket)});
  if (ticket % 2 == 0) {
    request.notice.emplace(GateRequest::Notice{"a key", "a value"});
  }
  return {.request = std::make_shared<const GateRequest>(std::move(request)), .ticket = ticket};
}

TEST(WaitersAhead, AreTakenAsTheyCame) {
  constexpr std::uint64_t kCount = 2'000;
  WaitersAhead waiters;
  std::uint64_t taken = 0;
  const auto take = [&] {
    const KeyedWaiter next = waiters.pop();
    EXPECT_EQ(next.key, std::to_string(taken));
    EXPECT_EQ(next.waiter.ticket, taken);
    EXPECT_EQ(next.waiter.request->asker->owner, "owner of ticket " + std::to_string(taken));
    ++taken;
  };
  for (std::uint64_t i = 0; i < kCount; ++i) {
    waiters.push({std::to_string(i), waiter_with(i)});
    EXPECT_EQ(waiters.last_key(), std::to_string(i));
    if (i % 3 == 0) {
      take();
    }
  }
  while (!waiters.empty()) {
    take();
  }
  EXPECT_EQ(taken, kCount);
}

TEST(WaitersAhead, MayBeUsedAgainAfterTheyWereCleared) {
  WaitersAhead waiters;
  waiters.push({"a", waiter_with(1)});
  waiters.push({"b", waiter_with(2)});
  static_cast<void>(waiters.pop());
  waiters.clear();
  EXPECT_TRUE(waiters.empty());
  waiters.push({"c", waiter_with(3)});
  EXPECT_EQ(waiters.size(), 1U);
  EXPECT_EQ(waiters.pop().waiter.ticket, 3U);
}

}  // namespace
}  // namespace holdfast::detail
