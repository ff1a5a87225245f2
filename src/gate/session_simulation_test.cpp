// SPDX-License-Identifier: Apache-2.0
// Sessions against a store that is slow, breaks and forgets to answer, with clocks at the limits of
// their drift, and someone who buries whatever has expired at the very moment.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/memory_store.hpp>
#include <holdfast/session.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/this_task.hpp>

#include "session_far_store.hpp"
#include "session_rules.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;

constexpr Duration kLength = 5min;

/// What happened over all seeds: a simulation in which nothing happens shows nothing.
struct Tally {
  int buried = 0;
  int survived = 0;
  int came_back = 0;
};

class Simulation {
 public:
  explicit Simulation(std::uint64_t seed) : random_(seed), executor_(clock_, seed) {
    clock_.advance(between(0s, 10min));
    far_.rate_percent = static_cast<std::int64_t>(random_() % 3) - 1;
    far_.delay_max = std::vector<Duration>{0s, 50ms, 2s, 12s}[random_() % 4];
    far_.busy_chance = 0.5;
    beside_.rate_percent = far_.rate_percent;
  }

  void run(Tally& tally) {
    session_ =
        sync_wait(executor_, Session::open(far_, {.executor = &executor_, .seed = random_() | 1}));
    disk_->set_faults(
        {.seed = random_(), .busy_chance = 0.1, .conflict_chance = 0.1, .unknown_chance = 0.1});
    std::stop_source stop;
    auto digging = spawn(executor_, dig(), {}, stop.get_token());
    auto breaking = spawn(executor_, break_the_line(), {}, stop.get_token());
    auto watching = spawn(executor_, watch(tally), {}, stop.get_token());
    sync_wait(executor_, sleep(kLength));
    tally.buried += buried_ ? 1 : 0;
    tally.survived += session_->state() != SessionState::kLost ? 1 : 0;
    stop.request_stop();
    session_.reset();
    executor_.drain();
  }

 private:
  Duration between(Duration least, Duration most) {
    const auto span = static_cast<std::uint64_t>((most - least).count()) + 1;
    return least + Duration(static_cast<Duration::rep>(random_() % span));
  }
  static Task<void> sleep(Duration duration) { co_await this_task::sleep_for(duration); }

  /// When it is this late over there, as seen from here.
  [[nodiscard]] Duration until(StoreTime there) {
    const Duration left = there - beside_.time_there();
    return std::max<Duration>(left * 100 / (100 + beside_.rate_percent), 0ns);
  }

  /// Sleeps until the row expires, and buries it then, unless it was renewed.
  Task<void> dig() {
    for (;;) {
      const std::optional<Entry> row = co_await beside_.get(session_->key());
      if (!row) {
        notice_burial();
        break;
      }
      const SessionInfo info = detail::read_session(*row, beside_.time_there());
      if (info.live) {
        const Duration left = until(info.expires);
        co_await this_task::sleep_for(std::clamp<Duration>(left, 1ns, 1s));
        continue;
      }
      co_await bury(*row);
    }
    for (;;) {
      co_await this_task::sleep_for(1s);
      const std::optional<Entry> row = co_await beside_.get(session_->key());
      EXPECT_FALSE(row) << "a renewal that was under way made it again";
    }
  }

  Task<void> bury(Entry row) {
    Batch batch;
    detail::bury(batch, row);
    try {
      const CommitOutcome outcome = co_await beside_.commit(std::move(batch));
      if (outcome.committed() != nullptr) {
        notice_burial();
      }
    } catch (const StoreBusy&) {       // Look again.
    } catch (const OutcomeUnknown&) {  // Look again.
    }
  }

  /// No time has passed since the row was erased.
  void notice_burial() {
    buried_ = true;
    EXPECT_FALSE(session_->valid()) << "it was buried while it believed in itself";
    EXPECT_EQ(session_->state(), SessionState::kLost);
  }

  Task<void> break_the_line() {
    for (;;) {
      co_await this_task::sleep_for(between(1s, 90s));
      far_.broken_from = clock_.now();
      far_.broken_until = far_.broken_from + between(1s, 40s);
      co_await this_task::sleep_for(far_.broken_until - far_.broken_from);
    }
  }

  /// Once lost, for ever; once buried, never valid; and the tokens say the same as the state.
  Task<void> watch(Tally& tally) {
    bool was_lost = false;
    SessionState last = SessionState::kLive;
    for (;;) {
      co_await this_task::sleep_for(between(1ms, 500ms));
      const SessionState now = session_->state();
      EXPECT_FALSE(was_lost && now != SessionState::kLost);
      EXPECT_FALSE(buried_ && session_->valid());
      EXPECT_EQ(now != SessionState::kLost, session_->valid());
      tally.came_back += last == SessionState::kAtRisk && now == SessionState::kLive ? 1 : 0;
      was_lost = now == SessionState::kLost;
      last = now;
    }
  }

  std::mt19937_64 random_;
  VirtualClock clock_;
  std::shared_ptr<MemoryDisk> disk_ = std::make_shared<MemoryDisk>(clock_);
  std::unique_ptr<Store> store_ = open_memory_store(disk_);
  testing::FarStore far_{*store_, random_()};
  testing::FarStore beside_{*store_};
  SeededExecutor executor_;
  std::unique_ptr<Session> session_;
  bool buried_ = false;
};

TEST(SessionSimulation, NobodyIsBuriedWhileItBelievesInItself) {
  Tally tally;
  for (std::uint64_t seed = 1; seed <= 3'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Simulation(seed).run(tally);
    if (HasFailure()) {
      break;
    }
  }
  EXPECT_GT(tally.buried, 100);
  EXPECT_GT(tally.survived, 100);
  EXPECT_GT(tally.came_back, 100);
}

}  // namespace
}  // namespace holdfast
