// SPDX-License-Identifier: Apache-2.0
// Orders are charged, reserved and shipped. If a parcel cannot be shipped, what was done before is
// undone, the last first. All of it outlives the process: start the program again after a kill, and
// it goes on where it stood.
#include <boost/describe/class.hpp>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>

#include <holdfast/engine.hpp>
#include <holdfast/open_store.hpp>
#include <holdfast/saga.hpp>
#include <holdfast/spawn.hpp>

namespace {

using holdfast::Context;
using holdfast::PermanentFailure;
using holdfast::Saga;
using holdfast::StepContext;
using holdfast::Task;

struct Order {
  std::string id;
  std::string item;
  std::string town;
  std::int64_t cents = 0;
};
BOOST_DESCRIBE_STRUCT(Order, (), (id, item, town, cents))

void tell(const Order& order, const std::string& what) {
  std::printf("  %s: %s\n", order.id.c_str(), what.c_str());
}

// What is outside. With the key, a bank can tell a second request from a second payment.
std::string charge(const Order& order, const std::string& idempotency_key) {
  tell(order, "charged " + std::to_string(order.cents));
  return "payment " + idempotency_key;
}
void refund(const Order& order, const std::string& /*payment*/) {
  tell(order, "refunded " + std::to_string(order.cents));
}
std::string reserve(const Order& order) {
  tell(order, "reserved a " + order.item);
  return "shelf 7";
}
void unreserve(const Order& order, const std::string& shelf) {
  tell(order, "put the " + order.item + " back on " + shelf);
}
std::string ship(const Order& order) {
  if (order.town == "Atlantis") {
    throw PermanentFailure("no carrier goes to Atlantis");  // To try again would be in vain.
  }
  tell(order, "shipped to " + order.town);
  return "parcel to " + order.town;
}

// [fulfil]
Task<std::string> fulfil(Context& ctx, Order order) {
  // It may capture, as it has a name, and so outlives what it returns.
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-capturing-lambda-coroutines)
  const auto all_or_nothing = [&](Context& run, Saga& saga) -> Task<std::string> {
    auto charging =
        run.run("charge", [&](StepContext& step) { return charge(order, step.idempotency_key()); });
    const std::string payment = co_await charging;
    saga.undo("refund", [&order, payment] { refund(order, payment); });

    auto reserving = run.run("reserve", [&] { return reserve(order); });
    const std::string shelf = co_await reserving;
    saga.undo("unreserve", [&order, shelf] { unreserve(order, shelf); });

    auto shipping = run.run("ship", [&] { return ship(order); });
    std::string parcel = co_await shipping;  // If it throws, the two above are undone.
    co_return parcel;
  };
  std::string parcel = co_await run_saga(ctx, all_or_nothing);
  co_return parcel;
}
const auto kFulfilment = holdfast::workflow("fulfil", fulfil);
// [fulfil]

// [start]
Task<std::string> order_and_wait(holdfast::Engine& engine, Order order) {
  // Whoever orders the same twice waits for the one that goes on.
  const holdfast::StartOptions options{.id = order.id,
                                       .on_conflict = holdfast::OnConflict::kUseExisting};
  const auto run = co_await engine.start(kFulfilment, order, options);
  std::string end;
  try {
    end = co_await run.result();
  } catch (const holdfast::RunFailed& failed) {
    end = failed.what();
  }
  co_return end;
}

Task<void> sell(holdfast::Engine& engine) {
  const Order lamp{.id = "order-1", .item = "lamp", .town = "Lund", .cents = 4'200};
  const std::string first = co_await order_and_wait(engine, lamp);
  std::printf("order-1 ended: %s\n", first.c_str());
  const Order trident{.id = "order-2", .item = "trident", .town = "Atlantis", .cents = 9'900};
  const std::string second = co_await order_and_wait(engine, trident);
  std::printf("order-2 ended: %s\n", second.c_str());
}
// [start]

// [serve]
void serve(const std::string& url) {
  const auto store = holdfast::open_store(url);
  std::unique_ptr<holdfast::Session> session;  // Outlives the pool, on which its last tasks end.
  holdfast::ThreadPool pool(2);
  session = holdfast::sync_wait(pool, holdfast::Session::open(*store));
  holdfast::Engine engine(*session, {.executor = &pool});
  engine.add(kFulfilment);
  holdfast::sync_wait(pool, engine.begin());  // From here on it drives what there is to drive.
  holdfast::sync_wait(pool, sell(engine));
  holdfast::sync_wait(pool, engine.stop());
  holdfast::sync_wait(pool, session->close());
}
// [serve]

}  // namespace

int main(int argc, char** argv) {
  try {
    serve(argc > 1 ? argv[1] : "sqlite:orders.db");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
