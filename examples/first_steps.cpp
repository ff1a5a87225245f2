// SPDX-License-Identifier: Apache-2.0
// The program of the README: checkouts that cannot charge twice, and a bank that is not overrun.
#include <chrono>
#include <cstdio>
#include <numeric>
#include <utility>
#include <vector>

// [first_steps]
#include <holdfast/holdfast.hpp>

using namespace std::chrono_literals;

struct Shop {
  explicit Shop(holdfast::Clock& clock)
      : bank(clock, {.at_once = 10, .rate = {.count = 100, .period = 1s, .burst = 10}}) {}

  holdfast::KeyedMutex<int> orders;  // One checkout per order;
  holdfast::RateLimiter bank;        // ten calls to the bank at once, a hundred a second.
  std::vector<int> charges = std::vector<int>(20);
};

holdfast::Task<void> check_out(Shop& shop, int order) {
  const holdfast::Hold one_at_a_time = co_await shop.orders.lock(order, {.timeout = 5s});
  int& charges = shop.charges.at(static_cast<std::size_t>(order));
  if (charges > 0) {
    co_return;  // Somebody pressed the button twice.
  }
  const holdfast::Hold call = co_await shop.bank.acquire();
  co_await holdfast::this_task::sleep_for(10ms);  // Ask the bank.
  ++charges;
}  // Both are released here, also when an exception passes or the task is cancelled.

int main() {
  holdfast::ThreadPool pool;
  Shop shop(pool.clock());
  std::vector<holdfast::Task<void>> requests;
  requests.reserve(60);
  for (int i = 0; i < 60; ++i) {
    requests.push_back(check_out(shop, i % 20));
  }
  holdfast::sync_wait(pool, holdfast::all(std::move(requests)));
  const auto total = std::accumulate(shop.charges.begin(), shop.charges.end(), 0);
  std::printf("60 requests for 20 orders, %d charges\n", total);
  return total == 20 ? 0 : 1;
}
// [first_steps]
