// SPDX-License-Identifier: Apache-2.0
// Workflows that call a vendor's API, which takes three calls at a time and twelve in a minute,
// over all processes. On virtual time, with a crash at every commit.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include <holdfast/testing.hpp>
#include <holdfast/this_task.hpp>

namespace {

using holdfast::Context;
using holdfast::GateDefinition;
using holdfast::Limit;
using holdfast::StepContext;
using holdfast::Task;
using holdfast::testing::StepCall;
using holdfast::testing::TestEngine;
using namespace std::chrono_literals;

constexpr int kOrders = 18;

Task<std::string> ask_vendor(std::string order, std::string key);

// [limit]
GateDefinition three_at_once_and_twelve_a_minute() {
  GateDefinition definition;
  definition.capacity = 3;
  definition.rate_count = 12;
  definition.rate_period = 1min;
  return definition;
}
const Limit kVendor("vendor api", three_at_once_and_twelve_a_minute());

Task<std::string> quote(Context& ctx, std::string order) {
  auto asking =
      ctx.run("ask the vendor",
              [&](StepContext& step) { return ask_vendor(order, step.idempotency_key()); },
              {.limit = &kVendor});
  const std::string price = co_await asking;
  co_return order + ": " + price;
}
const auto kQuote = holdfast::workflow("quote", quote);
// [limit]

Task<std::string> ask_vendor(std::string /*order*/, std::string /*key*/) {
  throw std::logic_error("a test must not ask the vendor");
}

void check(bool holds, const char* what) {
  if (!holds) {
    throw std::runtime_error(what);
  }
}

/// A vendor that is slow, and out of order twice.
class Vendor {
 public:
  Task<std::string> answer() {
    const Call call(*this);
    auto thinking = holdfast::this_task::sleep_for(4s);
    co_await thinking;
    if (++answers_ <= 2) {
      throw std::runtime_error("503");
    }
    co_return "42 euros";
  }
  [[nodiscard]] int most_at_once() const { return most_at_once_; }

 private:
  class Call {
   public:
    explicit Call(Vendor& vendor) : vendor_(vendor) {
      vendor_.most_at_once_ = std::max(vendor_.most_at_once_, ++vendor_.at_once_);
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    ~Call() { --vendor_.at_once_; }

   private:
    Vendor& vendor_;
  };

  int answers_ = 0;
  int at_once_ = 0;
  int most_at_once_ = 0;
};

void ask_for_all(TestEngine& world) {
  Vendor vendor;
  world.fake_step("ask the vendor", [&](StepCall&) { return vendor.answer(); });
  const auto began = world.now();
  std::vector<holdfast::testing::TestRun<std::string>> quotes;
  quotes.reserve(kOrders);
  for (int i = 0; i < kOrders; ++i) {
    quotes.push_back(world.start(kQuote, std::string("order ").append(std::to_string(i))));
  }
  for (const auto& one : quotes) {
    check(world.result(one).ends_with("42 euros"), "each gets its price");
  }
  check(vendor.most_at_once() == 3, "three at a time, and never more");
  const auto at_once = 12;  // If the vendor had not been asked for a while.
  check(world.now() - began >= 5s * (kOrders - at_once), "no more in a minute than it allows");
}

}  // namespace

int main() {
  try {
    const auto report = holdfast::testing::crash_everywhere({kQuote}, ask_for_all);
    std::printf("%d quotes, three calls at a time; and so with %d crashes\n", kOrders,
                static_cast<int>(report.crashes));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
