// SPDX-License-Identifier: Apache-2.0
// The spellings that users write inside co_await. g++ 12 destroys some temporaries twice there:
// what compiles must run clean under AddressSanitizer.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <holdfast/sync.hpp>

namespace holdfast {
namespace {

using namespace std::chrono_literals;

// Too long for the buffer inside a std::string, so that a double free is one.
const std::string kLong = "a text that is much too long for the small buffer of a string";

class CoroutineGuards : public testing::Test {
 protected:
  template <typename T>
  T run(Task<T> task) {
    return sync_wait(executor_, std::move(task));
  }

  VirtualClock clock_;
  ManualExecutor executor_{clock_};
  Mutex mutex_;
  Semaphore semaphore_{2};
  SharedMutex shared_;
  KeyedMutex<std::string> keyed_;
  RateLimiter limiter_{clock_, {.at_once = 2, .rate = {.count = 10, .period = 1s}}};
  KeyedRateLimiter<std::string> keyed_limiter_{clock_, {.rate = {.count = 10, .period = 1s}}};
};

Task<std::string> twice(std::string text) {
  co_await this_task::yield();
  co_return text + text;
}

std::vector<Task<std::string>> make_list() {
  std::vector<Task<std::string>> list;
  list.push_back(twice(kLong));
  return list;
}

TEST_F(CoroutineGuards, ANamedOperationMayCaptureAnything) {
  const auto body = [&]() -> Task<std::size_t> {
    const std::string text = kLong;
    auto size = mutex_.run_exclusive([text] { return text.size(); });
    auto by_key = keyed_.run_exclusive(kLong, [text] { return text.size(); });
    auto task = semaphore_.run_exclusive([text] { return twice(text); });
    const std::size_t a = co_await size;
    const std::size_t b = co_await by_key;
    const std::string c = co_await task;
    co_return a + b + c.size();
  };
  EXPECT_EQ(run(body()), 4 * kLong.size());
}

TEST_F(CoroutineGuards, AnInlineLambdaMayCaptureByReference) {
  const auto body = [&]() -> Task<std::size_t> {
    const std::string text = kLong;
    const auto a = co_await mutex_.run_exclusive([&] { return text.size(); });
    const auto b = co_await semaphore_.run_exclusive([&text] { return text.size(); });
    const auto c = co_await shared_.run_shared([&] { return text; });
    const auto d = co_await limiter_.run([&] { return twice(text); });
    const auto e = co_await keyed_.run_exclusive("a key that is long enough for the heap, too",
                                                 [&] { return text; });
    const auto f = co_await keyed_limiter_.run(kLong, [&] { return text.size(); });
    co_return a + b + c.size() + d.size() + e.size() + f;
  };
  EXPECT_EQ(run(body()), 7 * kLong.size());
}

TEST_F(CoroutineGuards, AnInlineLambdaWithoutCapturesMayReturnATask) {
  const auto body = [&]() -> Task<std::string> {
    co_return co_await mutex_.run_exclusive([] { return twice(kLong); });
  };
  EXPECT_EQ(run(body()), kLong + kLong);
}

TEST_F(CoroutineGuards, OptionsAndTokensMayBeWrittenInline) {
  const auto body = [&]() -> Task<void> {
    std::stop_source source;
    {
      const Hold a = co_await mutex_.lock({.timeout = 5s, .priority = 3}, source.get_token());
      const Hold b = co_await semaphore_.acquire(1, {.timeout = 5s}, source.get_token());
      const Hold c = co_await shared_.lock_shared({.deadline = clock_.now() + 1s});
      const Hold d = co_await limiter_.acquire(1, {.priority = -1}, source.get_token());
      EXPECT_TRUE(a && b && c && d);
    }
    co_await mutex_.run_exclusive([] {}, {.timeout = 5s}, source.get_token());
    const Hold hold = co_await mutex_.lock({.timeout = 5s}, this_task::stop_token());
  };
  run(body());
  EXPECT_FALSE(mutex_.is_locked());
}

TEST_F(CoroutineGuards, KeysMayBeWrittenInline) {
  const auto body = [&]() -> Task<void> {
    const Hold a = co_await keyed_.lock("a long string that does not fit into a small buffer");
    const Hold b = co_await keyed_.lock(kLong + kLong, {.timeout = 5s});
    const Hold c = co_await keyed_limiter_.acquire(std::string(100, 'x'), 1, {.timeout = 5s});
    EXPECT_EQ(keyed_.size(), 2U);
  };
  run(body());
  EXPECT_EQ(keyed_.size(), 0U);
}

TEST_F(CoroutineGuards, SeveralKeysAreNamedFirst) {
  const auto body = [&]() -> Task<void> {
    std::vector<std::string> keys{kLong, kLong + "2", kLong};
    const auto holds = co_await keyed_.lock_all(keys, {.timeout = 1s});
    EXPECT_EQ(holds.size(), 2U);
    const auto more = co_await keyed_.lock_all(std::vector<std::string>(1, "one more of them"));
    EXPECT_EQ(keyed_.size(), 3U);
  };
  run(body());
}

TEST_F(CoroutineGuards, ASpawnedTaskMayBeNamedInline) {
  std::stop_source source;
  const auto body = [&]() -> Task<std::string> {
    const auto plain = co_await spawn(executor_, twice("a"));
    EXPECT_EQ(plain, "aa");
    const auto named =
        co_await spawn(executor_, twice("b"), {.name = "a name that is too long for the buffer"});
    EXPECT_EQ(named, "bb");
    const auto computed =
        co_await spawn(executor_, twice("c"), {.name = kLong + std::to_string(plain.size())});
    EXPECT_EQ(computed, "cc");
    co_return co_await spawn(executor_, twice(kLong), {.name = "named"}, source.get_token());
  };
  EXPECT_EQ(run(body()), kLong + kLong);
}

TEST_F(CoroutineGuards, AllAndAnyTakeTemporaries) {
  const auto body = [&]() -> Task<std::size_t> {
    auto [a, b] = co_await all(twice(kLong), twice(std::string(50, 'x')));
    const auto first = co_await any(twice(kLong + "!"), twice(kLong));
    std::vector<Task<std::string>> list;
    list.push_back(twice(kLong));
    const auto values = co_await all(std::move(list));
    const auto many = co_await any(make_list());
    co_return a.size() + b.size() + first.index() + values.size() + many.index;
  };
  EXPECT_EQ(run(body()), 2 * kLong.size() + 100 + 1);
}

TEST_F(CoroutineGuards, LocksMayBeTakenTogetherInline) {
  const auto body = [&]() -> Task<void> {
    std::stop_source source;
    {
      auto [a, b] = co_await lock_all(mutex_, semaphore_.request(2));
      EXPECT_TRUE(a && b);
    }
    auto [c, d] = co_await lock_all({.timeout = 5s}, source.get_token(), mutex_, shared_);
    EXPECT_TRUE(c && d);
  };
  run(body());
}

TEST_F(CoroutineGuards, AConditionMayAwaitInABodyThatHasLocals) {
  const auto body = [&]() -> Task<int> {
    const bool free = co_await mutex_.run_exclusive([] { return true; });
    if (free) {
      co_return 1;
    }
    co_return 0;
  };
  EXPECT_EQ(run(body()), 1);
}

}  // namespace
}  // namespace holdfast
