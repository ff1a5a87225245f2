// SPDX-License-Identifier: Apache-2.0
// A courier takes three calls at a time. Twelve parcels are booked by as many workflows, which
// share three permits; the process that drives them dies at every commit that there is, one after
// the other, and never are there more calls than that.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include <holdfast/permit_pool.hpp>
#include <holdfast/testing.hpp>
#include <holdfast/this_task.hpp>

namespace {

using holdfast::Context;
using holdfast::Permit;
using holdfast::PermitPool;
using holdfast::Task;
using holdfast::testing::TestEngine;
using namespace std::chrono_literals;

std::string book(int parcel, const std::string& line);

// [gate]
const PermitPool kCourier("courier", 3);

Task<std::string> send(Context& ctx, int parcel) {
  const Permit line = co_await kCourier.acquire(ctx, {.lease = 10min});
  auto call = ctx.run("book", [&] { return book(parcel, line.slot()); });
  const std::string label = co_await call;
  co_return label;
}  // The line is free, and whoever is next in the queue has it.
const auto kSend = holdfast::workflow("send", send);
// [gate]

std::string book(int /*parcel*/, const std::string& /*line*/) {
  throw std::logic_error("nobody is called in an example");
}

constexpr int kParcels = 12;

/// How many calls there are at once; those of a process end with it.
class Calls {
 public:
  class Call {
   public:
    explicit Call(Calls& calls) : calls_(calls) {
      calls_.most_ = std::max(calls_.most_, ++calls_.now_);
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    ~Call() { --calls_.now_; }

   private:
    Calls& calls_;
  };
  [[nodiscard]] int most() const { return most_; }

 private:
  int now_ = 0;
  int most_ = 0;
};

Task<std::string> one_minute(Calls& calls) {
  const Calls::Call call(calls);
  co_await holdfast::this_task::sleep_for(1min);
  co_return "a label";
}

void check(bool holds, const char* what) {
  if (!holds) {
    throw std::runtime_error(what);
  }
}

void send_all(TestEngine& world) {
  Calls calls;
  world.fake_step("book", [&] { return one_minute(calls); });
  std::vector<holdfast::testing::TestRun<std::string>> parcels;
  parcels.reserve(kParcels);
  for (int parcel = 0; parcel < kParcels; ++parcel) {
    parcels.push_back(world.start(kSend, parcel, {.id = "parcel " + std::to_string(parcel)}));
  }
  for (const auto& parcel : parcels) {
    check(world.result(parcel) == "a label", "each is booked");
  }
  check(calls.most() == 3, "three lines, and never more");
}

}  // namespace

int main() {
  try {
    const auto report = holdfast::testing::crash_everywhere({kSend}, send_all);
    std::printf("%d parcels, three calls at a time; it died %d times, and there were never more\n",
                kParcels, static_cast<int>(report.crashes));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
