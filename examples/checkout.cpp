// SPDX-License-Identifier: Apache-2.0
// A shop on a busy day: customers press the button five times, and there are more orders than
// goods. Each order must be charged at most once, and no product sold that is not there.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <holdfast/holdfast.hpp>

#include "scenario.hpp"

namespace examples {

namespace {

using namespace std::chrono_literals;

constexpr int kProducts = 6;
constexpr int kStockPerProduct = 4;
constexpr int kOrdersPerProduct = 10;
constexpr int kRequestsPerOrder = 5;
constexpr int kRequests = kProducts * kOrdersPerProduct * kRequestsPerOrder;

struct Order {
  std::string product;
  bool settled = false;
  int charges = 0;
};

struct Shop {
  Shop() {
    for (int product = 0; product < kProducts; ++product) {
      const std::string name = fmt::format("product {}", product);
      stock[name] = kStockPerProduct;
      for (int order = 0; order < kOrdersPerProduct; ++order) {
        orders[fmt::format("order {}-{}", product, order)].product = name;
      }
    }
  }

  std::map<std::string, Order> orders;
  std::map<std::string, int> stock;
  holdfast::KeyedMutex<std::string> order_locks;
  holdfast::KeyedMutex<std::string> product_locks;
};

// Stand for calls to other systems, during which other requests run.
holdfast::Task<void> ask_warehouse() { co_await holdfast::this_task::sleep_for(80ms); }
holdfast::Task<void> ask_bank() { co_await holdfast::this_task::sleep_for(120ms); }

// [checkout]
holdfast::Task<bool> take_from_stock(Shop& shop, std::string product) {
  const holdfast::Hold hold = co_await shop.product_locks.lock(product);
  int& left = shop.stock.at(product);
  if (left == 0) {
    co_return false;
  }
  co_await ask_warehouse();
  --left;
  co_return true;
}

holdfast::Task<void> check_out(Shop& shop, std::string order_id) {
  // Requests for this order come one at a time from here on; other orders are not held up.
  const holdfast::Hold hold = co_await shop.order_locks.lock(order_id);
  Order& order = shop.orders.at(order_id);
  if (order.settled) {
    co_return;  // The button was pressed again.
  }
  const bool in_stock = co_await take_from_stock(shop, order.product);
  if (in_stock) {
    co_await ask_bank();
    ++order.charges;
  }
  order.settled = true;
}
// [checkout]

// [naive]
holdfast::Task<void> check_out_without_lock(Shop& shop, std::string order_id) {
  Order& order = shop.orders.at(order_id);
  int& left = shop.stock.at(order.product);
  if (order.settled || left <= 0) {
    co_return;
  }
  co_await ask_bank();  // Meanwhile others find the order open and the goods there, too.
  --left;
  ++order.charges;
  order.settled = true;
}
// [naive]

holdfast::Task<void> serve(Stage& stage, Shop& shop, std::atomic<std::size_t>& served,
                           std::string order_id) {
  co_await check_out(shop, std::move(order_id));
  stage.progress(++served, kRequests);
}

void play_with_locks(Stage& stage) {
  Shop shop;
  std::atomic<std::size_t> served = 0;
  std::vector<holdfast::Task<void>> requests;
  for (int i = 0; i < kRequestsPerOrder; ++i) {
    for (const auto& [id, order] : shop.orders) {
      requests.push_back(serve(stage, shop, served, id));
    }
  }
  stage.say(fmt::format("{} requests at once for {} orders, of which the stock can serve {}",
                        requests.size(), shop.orders.size(), kProducts * kStockPerProduct));
  holdfast::ThreadPool pool(4);
  holdfast::sync_wait(pool, holdfast::all(std::move(requests)), {}, stage.stop());

  int charges = 0;
  int charges_most = 0;
  for (const auto& [id, order] : shop.orders) {
    charges += order.charges;
    charges_most = std::max(charges_most, order.charges);
  }
  stage.check("no order was charged twice", charges_most == 1);
  stage.check(fmt::format("all {} pieces were sold, and none that was not there",
                          kProducts * kStockPerProduct),
              charges == kProducts * kStockPerProduct &&
                  std::all_of(shop.stock.begin(), shop.stock.end(),
                              [](const auto& product) { return product.second == 0; }));
  stage.check("the keyed locks left no entry behind",
              shop.order_locks.size() == 0 && shop.product_locks.size() == 0);
}

void play_without_locks(Stage& stage) {
  // On one thread and a virtual clock everything happens in the same order every time: what goes
  // wrong here is no matter of luck.
  Shop shop;
  holdfast::VirtualClock clock;
  holdfast::ManualExecutor executor(clock);
  std::vector<holdfast::Task<void>> requests;
  for (int i = 0; i < kRequestsPerOrder; ++i) {
    for (const auto& [id, order] : shop.orders) {
      requests.push_back(check_out_without_lock(shop, id));
    }
  }
  holdfast::sync_wait(executor, holdfast::all(std::move(requests)), {}, stage.stop());

  const int charges = shop.orders.begin()->second.charges;
  const int left = shop.stock.begin()->second;
  stage.say(fmt::format("without the locks: {} charged {} times, stock of {} at {}",
                        shop.orders.begin()->first, charges, shop.stock.begin()->first, left));
  stage.check("without the locks the same requests charge twice and oversell",
              charges > 1 && left < 0);
}

}  // namespace

void checkout(Stage& stage) {
  play_with_locks(stage);
  play_without_locks(stage);
}

}  // namespace examples
