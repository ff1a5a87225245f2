// SPDX-License-Identifier: Apache-2.0
#include <holdfast/detail/wait_queue.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <list>
#include <vector>

namespace holdfast::detail {
namespace {

std::vector<Waiter*> in_order(const WaitQueue& queue) {
  std::vector<Waiter*> order;
  for (Waiter* waiter = queue.first(); waiter != nullptr; waiter = waiter->next) {
    order.push_back(waiter);
  }
  return order;
}

TEST(WaitQueue, ServesHigherPrioritiesFirstAndEqualOnesInOrderOfArrival) {
  WaitQueue queue;
  std::list<Waiter> waiters(5);
  std::vector<Waiter*> w;
  for (auto& waiter : waiters) {
    w.push_back(&waiter);
  }
  const int priorities[] = {0, 5, 0, -3, 5};
  for (std::size_t i = 0; i < 5; ++i) {
    w[i]->priority = priorities[i];
    queue.push(*w[i]);
  }
  EXPECT_EQ(in_order(queue), (std::vector<Waiter*>{w[1], w[4], w[0], w[2], w[3]}));
  EXPECT_EQ(queue.oldest_of_lowest(), w[3]);
  for (auto* waiter : w) {
    queue.erase(*waiter);
  }
  EXPECT_TRUE(queue.empty());
}

// Against a vector that is kept in order.
RC_GTEST_PROP(WaitQueue, BehavesLikeASortedList, (const std::vector<int>& choices)) {
  WaitQueue queue;
  std::list<Waiter> waiters;
  std::vector<Waiter*> model;
  for (const int choice : choices) {
    if (choice >= 0 || model.empty()) {
      Waiter& waiter = waiters.emplace_back();
      waiter.priority = choice % 4;
      queue.push(waiter);
      const auto place = std::find_if(model.begin(), model.end(), [&](const Waiter* other) {
        return other->priority < waiter.priority;
      });
      model.insert(place, &waiter);
    } else {
      const auto victim = static_cast<std::size_t>(-(choice + 1)) % model.size();
      queue.erase(*model[victim]);
      RC_ASSERT(!model[victim]->queued);
      model.erase(model.begin() + static_cast<long>(victim));
    }
    RC_ASSERT(in_order(queue) == model);
    RC_ASSERT(queue.size() == model.size());
    if (!model.empty()) {
      const int lowest = model.back()->priority;
      const auto oldest = std::find_if(model.begin(), model.end(), [&](const Waiter* waiter) {
        return waiter->priority == lowest;
      });
      RC_ASSERT(queue.oldest_of_lowest() == *oldest);
    }
  }
}

}  // namespace
}  // namespace holdfast::detail
