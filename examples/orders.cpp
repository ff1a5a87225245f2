// SPDX-License-Identifier: Apache-2.0
// Workers share the runs of a shop, and are killed while they charge. Others go on with what the
// dead ones had begun, and the bank, which knows each payment by its key, charges each order once.
#include "orders.hpp"

#include <boost/describe/class.hpp>

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <holdfast/all_any.hpp>
#include <holdfast/engine.hpp>
#include <holdfast/open_store.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/state.hpp>
#include <holdfast/this_task.hpp>

#include "folder.hpp"
#include "process.hpp"

namespace examples {

namespace {

using holdfast::Context;
using holdfast::StepContext;
using holdfast::Task;
using namespace std::chrono_literals;

constexpr std::size_t kWorkers = 3;
constexpr std::size_t kKills = 6;
constexpr std::size_t kOrdersPerKill = 20;
constexpr std::size_t kOrders = kKills * kOrdersPerKill;
/// How long the runs of a dead worker wait for another one.
constexpr auto kTtl = 1s;

struct Order {
  std::string name;
  std::int64_t cents = 0;
};
BOOST_DESCRIBE_STRUCT(Order, (), (name, cents))

// --- What workers do -----------------------------------------------------------------------------

holdfast::Store* bank = nullptr;  // A store of its own: what is outside, for the workflow.

// [bank]
/// Takes the money once for each key, whoever asks, and however often.
Task<std::string> charge(Order order, std::string key) {
  holdfast::Batch request;
  request.put("request/" + key + "/" + std::to_string(::getpid()), order.name);
  static_cast<void>(co_await bank->commit(std::move(request)));
  holdfast::Batch payment;
  payment.require_absent("payment/" + key).put("payment/" + key, std::to_string(order.cents));
  // A conflict: it has been paid before. That is as good.
  static_cast<void>(co_await bank->commit(std::move(payment)));
  co_await holdfast::this_task::sleep_for(20ms);  // The answer takes its time.
  co_return "payment " + key;
}
// [bank]

// [sell]
Task<std::string> sell(Context& ctx, Order order) {
  auto charging =
      ctx.run("charge", [&](StepContext& step) { return charge(order, step.idempotency_key()); });
  std::string payment = co_await charging;
  auto revenue = ctx.global().cell<std::int64_t>("revenue");
  auto earn = revenue.update([&](std::int64_t& cents) { cents += order.cents; });
  co_await earn;  // In the commit that records it: never twice.
  co_await ctx.sleep(50ms);
  co_return payment;
}
// [sell]
const auto kSale = holdfast::workflow("sell", sell);

// --- The play ------------------------------------------------------------------------------------

class Shop {
 public:
  explicit Shop(Stage& stage)
      : stage_(stage),
        runs_(holdfast::open_store(folder_.url("runs.db"))),
        bank_(holdfast::open_store(folder_.url("bank.db"))) {
    session_ = holdfast::sync_wait(pool_, holdfast::Session::open(*runs_, {.name = "shop"}));
    engine_.emplace(*session_, holdfast::EngineOptions{.executor = &pool_});
  }

  void run() {
    stage_.say(fmt::format("{} workers, {} orders; the runs of a dead worker wait for {} s",
                           kWorkers, kOrders, kTtl.count()));
    for (std::size_t i = 0; i < kWorkers; ++i) {
      workers_.push_back(start_worker());
    }
    for (std::size_t kill = 0; kill < kKills; ++kill) {
      take_orders(kOrdersPerKill);
      until_charged(charged() + 1);
      replace_worker(kill);
    }
    until_charged(kOrders);
    const auto payments = holdfast::sync_wait(pool_, all_results(), {}, stage_.stop());
    tell(fmt::format("all {} orders have ended", payments.size()));
    prove(payments);
  }

 private:
  using Steady = std::chrono::steady_clock;

  std::unique_ptr<Process> start_worker() {
    auto worker = std::make_unique<Process>(std::vector<std::string>{
        std::string(kOrdersPart), folder_.url("runs.db"), folder_.url("bank.db")});
    static_cast<void>(worker->line(stage_.stop()));
    return worker;
  }

  void replace_worker(std::size_t number) {
    auto& victim = workers_[number % kWorkers];
    victim->kill();
    tell(fmt::format("worker {} is killed with -9, after {} payments", victim->id(), charged()));
    victim = start_worker();
  }

  void take_orders(std::size_t count) {
    std::vector<Task<holdfast::RunHandle<std::string>>> starts;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t number = sales_.size() + i;
      const Order order{.name = fmt::format("order-{}", number),
                        .cents = static_cast<std::int64_t>(100 + number)};
      expected_ += order.cents;
      starts.push_back(engine_->start(kSale, order, {.id = order.name}));
    }
    for (auto& sale : holdfast::sync_wait(pool_, holdfast::all(std::move(starts)))) {
      sales_.push_back(std::move(sale));
    }
  }

  Task<std::vector<std::string>> all_results() {
    std::vector<Task<std::string>> results;
    results.reserve(sales_.size());
    for (const auto& sale : sales_) {
      results.push_back(sale.result());
    }
    auto all = holdfast::all(std::move(results));
    auto payments = co_await all;
    co_return payments;
  }

  std::vector<holdfast::Entry> rows(std::string_view prefix) {
    return holdfast::sync_wait(pool_, bank_->scan(prefix, {.limit = 10 * kOrders})).entries;
  }
  std::size_t charged() { return rows("payment/").size(); }

  void until_charged(std::size_t count) {
    const auto give_up_at = Steady::now() + 30s;
    for (std::size_t now = charged(); now < std::min(count, sales_.size()); now = charged()) {
      stage_.progress(now, kOrders);
      if (stage_.stop().stop_requested()) {
        throw holdfast::Cancelled("the scenario was asked to end");
      }
      if (Steady::now() > give_up_at) {
        throw std::runtime_error("the workers do not go on");
      }
      std::this_thread::sleep_for(2ms);
    }
  }

  void prove(const std::vector<std::string>& payments) {
    std::int64_t taken = 0;
    for (const holdfast::Entry& payment : rows("payment/")) {
      taken += std::stoll(payment.value);
    }
    const std::size_t requests = rows("request/").size();
    tell(fmt::format("the bank was asked {} times for {} payments", requests, charged()));
    const std::set<std::string> different(payments.begin(), payments.end());
    stage_.check(fmt::format("all {} orders ended, though {} workers were killed", kOrders, kKills),
                 different.size() == kOrders);
    stage_.check("each was charged once: as many payments, and the sum is right",
                 charged() == kOrders && taken == expected_);
    const holdfast::State state(*runs_);
    const auto revenue =
        holdfast::sync_wait(pool_, state.global().cell<std::int64_t>("revenue").get());
    stage_.check("and each was counted once in the shop's own revenue", revenue == expected_);
  }

  void tell(std::string_view what) {
    const auto since = std::chrono::duration<double>(Steady::now() - began_);
    stage_.say(fmt::format("{:5.2f} s  {}", since.count(), what));
  }

  Stage& stage_;
  Folder folder_;
  std::unique_ptr<holdfast::Store> runs_;
  std::unique_ptr<holdfast::Store> bank_;
  std::unique_ptr<holdfast::Session> session_;
  holdfast::ThreadPool pool_{2};
  std::optional<holdfast::Engine> engine_;
  std::vector<std::unique_ptr<Process>> workers_;
  std::vector<holdfast::RunHandle<std::string>> sales_;
  std::int64_t expected_ = 0;
  Steady::time_point began_ = Steady::now();
};

}  // namespace

int play_orders_part(const std::string& runs_url, const std::string& bank_url) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // Nobody is left behind, should the play be killed.
  const auto runs = holdfast::open_store(runs_url);
  const auto own_bank = holdfast::open_store(bank_url);
  bank = own_bank.get();
  std::unique_ptr<holdfast::Session> session;
  holdfast::ThreadPool pool(2);
  session =
      holdfast::sync_wait(pool, holdfast::Session::open(*runs, {.ttl = kTtl, .name = "worker"}));
  holdfast::Engine engine(*session, {.executor = &pool});
  engine.add(kSale);
  holdfast::sync_wait(pool, engine.begin());
  std::cout << "ready" << std::endl;
  std::string line;
  while (std::getline(std::cin, line)) {  // Until it is killed: nobody says anything.
  }
  return 0;
}

void orders(Stage& stage) { Shop(stage).run(); }

}  // namespace examples
