// SPDX-License-Identifier: Apache-2.0
// A client of somebody else's API, whose terms allow so many calls at once and so many per second.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <holdfast/holdfast.hpp>

#include "scenario.hpp"

namespace examples {

namespace {

using namespace std::chrono_literals;

constexpr int kAtOnce = 4;
constexpr int kPerSecond = 50;

/// What the other side would see. Thread-safe.
class Meter {
 public:
  void begin(holdfast::TimePoint now) {
    const std::scoped_lock lock(mutex_);
    starts_.push_back(now);
    running_most_ = std::max(running_most_, ++running_);
  }
  void end() {
    const std::scoped_lock lock(mutex_);
    --running_;
  }

  // For when all calls have ended.
  [[nodiscard]] int running_most() const noexcept { return running_most_; }
  [[nodiscard]] const std::vector<holdfast::TimePoint>& starts() const noexcept { return starts_; }

 private:
  std::mutex mutex_;
  std::vector<holdfast::TimePoint> starts_;
  int running_ = 0;
  int running_most_ = 0;
};

// [client]
struct ApiClient {
  explicit ApiClient(holdfast::Clock& clock)
      : limiter(clock, {.at_once = kAtOnce, .rate = {.count = kPerSecond, .period = 1s}}) {}

  holdfast::RateLimiter limiter;
  Meter meter;
};

holdfast::Task<void> call(ApiClient& client, holdfast::Duration takes) {
  const holdfast::Hold slot = co_await client.limiter.acquire();
  client.meter.begin(holdfast::this_task::clock().now());
  co_await holdfast::this_task::sleep_for(takes);  // The call itself.
  client.meter.end();
}
// [client]

// Some calls are quick, others are not: both limits get their turn.
holdfast::Duration duration_of(int number) { return number % 20 < 10 ? 5ms : 120ms; }

/// The most starts that any stretch of one second has seen.
std::ptrdiff_t starts_per_second_most(std::vector<holdfast::TimePoint> starts) {
  std::sort(starts.begin(), starts.end());
  std::ptrdiff_t most = 0;
  for (auto first = starts.begin(); first != starts.end(); ++first) {
    most = std::max(most, std::lower_bound(first, starts.end(), *first + 1s) - first);
  }
  return most;
}

holdfast::Task<void> call_and_count(Stage& stage, ApiClient& client,
                                    std::atomic<std::size_t>& ended, std::size_t total,
                                    int number) {
  co_await call(client, duration_of(number));
  stage.progress(++ended, total);
}

void play_in_real_time(Stage& stage) {
  constexpr int kCalls = 40;
  holdfast::ThreadPool pool(4);
  ApiClient client(pool.clock());
  std::atomic<std::size_t> ended = 0;
  std::vector<holdfast::Task<void>> calls;
  calls.reserve(kCalls);
  for (int i = 0; i < kCalls; ++i) {
    calls.push_back(call_and_count(stage, client, ended, kCalls, i));
  }
  stage.say(
      fmt::format("{} calls, at most {} at once and {} per second", kCalls, kAtOnce, kPerSecond));
  const auto start = pool.clock().now();
  holdfast::sync_wait(pool, holdfast::all(std::move(calls)), {}, stage.stop());
  const auto took = pool.clock().now() - start;

  stage.say(fmt::format("took {} ms; at most {} were running",
                        std::chrono::duration_cast<std::chrono::milliseconds>(took).count(),
                        client.meter.running_most()));
  stage.check(fmt::format("never more than {} calls were running", kAtOnce),
              client.meter.running_most() <= kAtOnce);
  stage.check(
      fmt::format("{} calls took no less time than {} per second allow", kCalls, kPerSecond),
      took >= 1s * (kCalls - 1) / kPerSecond);
}

void play_on_a_virtual_clock(Stage& stage) {
  // A virtual clock jumps to the next timer: a minute of calls is over at once, and every start has
  // its exact moment.
  constexpr int kCalls = 2'000;
  holdfast::VirtualClock clock;
  holdfast::ManualExecutor executor(clock);
  ApiClient client(clock);
  std::vector<holdfast::Task<void>> calls;
  calls.reserve(kCalls);
  for (int i = 0; i < kCalls; ++i) {
    calls.push_back(call(client, duration_of(i)));
  }
  const auto start = clock.now();
  holdfast::sync_wait(executor, holdfast::all(std::move(calls)), {}, stage.stop());

  stage.say(
      fmt::format("{} calls on a virtual clock took {} seconds of it, and none of ours", kCalls,
                  std::chrono::duration_cast<std::chrono::seconds>(clock.now() - start).count()));
  stage.check(fmt::format("{} calls on a virtual clock: no second saw more than {} start", kCalls,
                          kPerSecond),
              client.meter.starts().size() == kCalls &&
                  starts_per_second_most(client.meter.starts()) <= kPerSecond);
  stage.check(
      fmt::format("{} calls on a virtual clock: at its busiest {} were running", kCalls, kAtOnce),
      client.meter.running_most() == kAtOnce);
}

}  // namespace

void api_client(Stage& stage) {
  play_in_real_time(stage);
  play_on_a_virtual_clock(stage);
}

}  // namespace examples
