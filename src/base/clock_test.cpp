// SPDX-License-Identifier: Apache-2.0
#include <holdfast/clock.hpp>

#include <gtest/gtest.h>

#include <future>
#include <list>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <holdfast/error.hpp>

namespace holdfast {
namespace {

using namespace std::chrono_literals;

struct Recorder : Timer {
  explicit Recorder(std::function<void()> on_fire)
      : Timer([](Timer& timer) noexcept { static_cast<Recorder&>(timer).action(); }),
        action(std::move(on_fire)) {}
  std::function<void()> action;
};

TEST(VirtualClock, StandsStillUntilItIsAdvanced) {
  VirtualClock clock;
  const TimePoint start = clock.now();
  EXPECT_EQ(clock.now(), start);
  clock.advance(5s);
  EXPECT_EQ(clock.now(), start + 5s);
}

TEST(VirtualClock, FiresTimersInOrderEachAtItsOwnMoment) {
  VirtualClock clock;
  const TimePoint start = clock.now();
  std::vector<std::pair<int, Duration>> fired;
  Recorder third([&] { fired.emplace_back(3, clock.now() - start); });
  Recorder first([&] { fired.emplace_back(1, clock.now() - start); });
  Recorder second([&] { fired.emplace_back(2, clock.now() - start); });
  clock.arm(third, start + 30ms);
  clock.arm(first, start + 10ms);
  clock.arm(second, start + 20ms);
  clock.advance(25ms);
  EXPECT_EQ(fired, (std::vector<std::pair<int, Duration>>{{1, 10ms}, {2, 20ms}}));
  EXPECT_EQ(clock.armed_count(), 1U);
  clock.advance(5ms);
  EXPECT_EQ(fired.back(), (std::pair<int, Duration>{3, 30ms}));
}

TEST(VirtualClock, EqualTimesFireInTheOrderOfArming) {
  VirtualClock clock;
  std::vector<int> fired;
  std::list<Recorder> timers;
  for (int i = 0; i < 100; ++i) {
    timers.emplace_back([&fired, i] { fired.push_back(i); });
    clock.arm(timers.back(), clock.now() + 1s);
  }
  clock.advance(1s);
  ASSERT_EQ(fired.size(), 100U);
  EXPECT_TRUE(std::is_sorted(fired.begin(), fired.end()));
}

TEST(VirtualClock, DisarmedTimersDoNotFire) {
  VirtualClock clock;
  Recorder timer([] { FAIL() << "was disarmed"; });
  clock.arm(timer, clock.now() + 1s);
  clock.disarm(timer);
  clock.disarm(timer);
  EXPECT_FALSE(clock.try_disarm(timer));
  clock.advance(2s);
}

TEST(VirtualClock, ATimerMayArmItselfAgainWhenItFires) {
  VirtualClock clock;
  int count = 0;
  Recorder* again = nullptr;
  Recorder timer([&] {
    if (++count < 5) {
      clock.arm(*again, clock.now() + 1s);
    }
  });
  again = &timer;
  clock.arm(timer, clock.now() + 1s);
  clock.advance(10s);
  EXPECT_EQ(count, 5);
}

TEST(VirtualClock, AdvanceToNextJumpsToTheFirstTimerAndSaysIfThereIsNone) {
  VirtualClock clock;
  const TimePoint start = clock.now();
  int count = 0;
  Recorder a([&] { ++count; });
  Recorder b([&] { ++count; });
  clock.arm(a, start + 1h);
  clock.arm(b, start + 1h);
  EXPECT_TRUE(clock.advance_to_next());
  EXPECT_EQ(count, 2);
  EXPECT_EQ(clock.now(), start + 1h);
  EXPECT_FALSE(clock.advance_to_next());
}

TEST(VirtualClock, RefusesToGoBack) {
  VirtualClock clock;
  EXPECT_THROW(clock.advance(-1ns), InvalidArgument);
}

// The heap against the plainest model there is, over random arming, disarming and advancing.
TEST(VirtualClock, BehavesLikeASortedListForThousandsOfRandomSteps) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    VirtualClock clock;
    std::vector<int> fired;
    std::vector<std::unique_ptr<Recorder>> timers;
    std::list<std::pair<TimePoint, int>> model;  // Armed, in the order of arming.
    std::vector<int> expected;
    for (int step = 0; step < 200; ++step) {
      const auto choice = random() % 10;
      if (choice < 6) {
        const int id = static_cast<int>(timers.size());
        timers.push_back(std::make_unique<Recorder>([&fired, id] { fired.push_back(id); }));
        const TimePoint at = clock.now() + Duration{random() % 50};
        clock.arm(*timers.back(), at);
        model.emplace_back(at, id);
      } else if (choice < 8 && !model.empty()) {
        const auto victim = std::next(model.begin(), static_cast<long>(random() % model.size()));
        clock.disarm(*timers[static_cast<std::size_t>(victim->second)]);
        model.erase(victim);
      } else {
        const TimePoint until = clock.now() + Duration{random() % 20};
        model.sort([](const auto& a, const auto& b) { return a.first < b.first; });  // Stable.
        while (!model.empty() && model.front().first <= until) {
          expected.push_back(model.front().second);
          model.pop_front();
        }
        clock.advance(until - clock.now());
        ASSERT_EQ(fired, expected) << "seed " << seed << ", step " << step;
      }
    }
    ASSERT_EQ(clock.armed_count(), model.size()) << "seed " << seed;
    clock.advance(1s);
  }
}

TEST(SystemClock, NeverFiresEarlyAndKeepsTheOrder) {
  SystemClock clock;
  std::promise<void> done;
  std::vector<int> fired;
  std::vector<Duration> early;
  const TimePoint start = clock.now();
  const auto note = [&](int id, Duration due) {
    fired.push_back(id);
    if (clock.now() - start < due) {
      early.push_back(due);
    }
  };
  Recorder second([&] {
    note(2, 4ms);
    done.set_value();
  });
  Recorder first([&] { note(1, 2ms); });
  // Nothing fires before both are armed, however long this thread is kept from it.
  std::promise<void> armed;
  Recorder opening([&] { armed.get_future().wait(); });
  clock.arm(opening, start);
  clock.arm(second, start + 4ms);
  clock.arm(first, start + 2ms);
  armed.set_value();
  done.get_future().wait();
  clock.disarm(second);
  EXPECT_EQ(fired, (std::vector<int>{1, 2}));
  EXPECT_TRUE(early.empty());
}

TEST(SystemClock, ATimeInThePastFiresAtOnce) {
  SystemClock clock;
  std::promise<void> done;
  Recorder timer([&] { done.set_value(); });
  clock.arm(timer, TimePoint{});
  done.get_future().wait();
  clock.disarm(timer);
}

TEST(SystemClock, DisarmWaitsForACallbackThatIsRunning) {
  SystemClock clock;
  std::promise<void> started;
  std::promise<void> go_on;
  std::atomic<bool> ended = false;
  Recorder timer([&] {
    started.set_value();
    go_on.get_future().wait();
    ended = true;
  });
  clock.arm(timer, clock.now());
  started.get_future().wait();
  std::thread releaser([&] { go_on.set_value(); });
  clock.disarm(timer);
  EXPECT_TRUE(ended);
  releaser.join();
}

TEST(SystemClock, EndsQuicklyWhenNothingIsDue) {
  SystemClock clock;
  Recorder timer([] {});
  clock.arm(timer, clock.now() + 1h);
  clock.disarm(timer);
}

TEST(ClockDeathTest, ATimerThatIsDestroyedWhileArmedIsNamed) {
  EXPECT_DEATH(
      {
        VirtualClock clock;
        Recorder timer([] {});
        clock.arm(timer, clock.now() + 1s);
      },
      "a Timer was destroyed while armed");
}

}  // namespace
}  // namespace holdfast
