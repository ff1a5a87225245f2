// SPDX-License-Identifier: Apache-2.0
// Many tasks and threads, two connections: nothing is lost, and nothing is won twice.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "compare_and_swap.hpp"
#include "store_test.hpp"

namespace holdfast::conformance {
namespace {

template <typename Kind>
class Races : public StoreTest<Kind> {};
TYPED_TEST_SUITE(Races, StoreKinds, StoreKindNames);

TYPED_TEST(Races, AThousandTasksThatIncrementOneCounterLoseNothing) {
  constexpr int kTasks = 1'000;
  const Client first = this->open();
  const Client second = this->open();
  std::vector<Spawned<void>> tasks;
  for (int i = 0; i < kTasks; ++i) {
    tasks.push_back(spawn(this->pool_, increment(i % 2 == 0 ? *first : *second, "counter", 1)));
  }
  for (auto& task : tasks) {
    task.get();
  }
  EXPECT_EQ(first.value("counter"), std::to_string(kTasks));
  EXPECT_EQ(second.value("counter"), std::to_string(kTasks));
}

TYPED_TEST(Races, TasksThatIncrementManyCountersLoseNothing) {
  constexpr int kTasks = 100;
  constexpr int kTimes = 20;
  const Client first = this->open();
  const Client second = this->open();
  std::vector<Spawned<void>> tasks;
  for (int i = 0; i < kTasks; ++i) {
    tasks.push_back(spawn(this->pool_, increment(i % 2 == 0 ? *first : *second,
                                                 numbered("counter", i % 10 / 2), kTimes)));
  }
  for (auto& task : tasks) {
    task.get();
  }
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(first.value(numbered("counter", i)), std::to_string(kTasks * kTimes / 5));
  }
}

TYPED_TEST(Races, OfTwoThatMakeAnAbsentKeyExactlyOneWins) {
  constexpr int kMany = 1'000;
  const std::array<Client, 2> clients{this->open(), this->open()};
  std::array<std::array<bool, kMany>, 2> won{};
  std::barrier start(2);
  const auto race = [&](std::size_t racer) {
    ThreadPool own(1);
    for (std::size_t round = 0; round < kMany; ++round) {
      const std::string key = numbered("k", round);
      auto commit =
          clients.at(racer)->commit(Batch().require_absent(key).put(key, std::to_string(racer)));
      start.arrive_and_wait();
      won.at(racer).at(round) = run_in_time(own, std::move(commit)).committed() != nullptr;
    }
  };
  std::thread other([&] { race(1); });
  race(0);
  other.join();
  for (std::size_t round = 0; round < kMany; ++round) {
    ASSERT_NE(won[0].at(round), won[1].at(round)) << "in round " << round;
    ASSERT_EQ(clients[0].value(numbered("k", round)), won[0].at(round) ? "0" : "1");
  }
}

Task<void> transfer(Store& store, int from, int to, int times) {
  for (int done = 0; done < times;) {
    const std::optional<Entry> payer = co_await store.get(numbered("account", from));
    const std::optional<Entry> payee = co_await store.get(numbered("account", to));
    Batch batch;
    batch.require_version(payer->key, payer->version).require_version(payee->key, payee->version);
    batch.put(payer->key, std::to_string(std::stoi(payer->value) - 1));
    batch.put(payee->key, std::to_string(std::stoi(payee->value) + 1));
    const CommitOutcome outcome = co_await store.commit(std::move(batch));
    done += outcome.committed() != nullptr ? 1 : 0;
  }
}

Task<int> sum_while(Store& store, const std::atomic<bool>& running, Read read) {
  int scans = 0;
  do {
    ScanOptions options;
    options.read = read;
    const Page page = co_await store.scan("account", options);
    int sum = 0;
    for (const Entry& entry : page.entries) {
      sum += std::stoi(entry.value);
    }
    if (sum != 500) {
      throw std::runtime_error("a scan saw half of a batch: the sum is " + std::to_string(sum));
    }
    ++scans;
  } while (running);
  co_return scans;
}

TYPED_TEST(Races, AScanIsOfOneMoment) {
  const Client first = this->open();
  const Client second = this->open();
  for (int i = 0; i < 5; ++i) {
    first.put(numbered("account", i), "100");
  }
  std::atomic<bool> running = true;
  ThreadPool readers(2);
  auto durable = spawn(readers, sum_while(*second, running, Read::kDurable));
  auto applied = spawn(readers, sum_while(*first, running, Read::kApplied));
  std::vector<Spawned<void>> transfers;
  for (int i = 0; i < 10; ++i) {
    transfers.push_back(spawn(
        this->pool_, transfer(i % 2 == 0 ? *first : *second, i % 5, (i + 1 + i / 5) % 5, 10)));
  }
  for (auto& one : transfers) {
    one.get();
  }
  running = false;
  EXPECT_GT(durable.get(), 0);
  EXPECT_GT(applied.get(), 0);
}

Task<std::vector<Version>> put_many(Store& store, int times, bool durable) {
  std::vector<Version> versions;
  for (int i = 0; i < times; ++i) {
    Batch batch;
    batch.put(numbered("k", i % 7), "v");
    auto writing = durable ? store.commit(std::move(batch)) : store.apply(std::move(batch));
    const CommitOutcome outcome = co_await std::move(writing);
    versions.push_back(outcome.committed()->version);
  }
  co_return versions;
}

TYPED_TEST(Races, NoVersionIsGivenTwice) {
  constexpr int kWriters = 8;
  constexpr int kTimes = 50;
  const Client first = this->open();
  const Client second = this->open();
  std::vector<Spawned<std::vector<Version>>> writers;
  for (int i = 0; i < kWriters; ++i) {
    writers.push_back(
        spawn(this->pool_, put_many(i % 2 == 0 ? *first : *second, kTimes, i % 4 < 2)));
  }
  std::map<Version, int> given;
  for (auto& writer : writers) {
    Version last = 0;
    for (const Version version : writer.get()) {
      ASSERT_GT(version, last);
      last = version;
      ASSERT_EQ(++given[version], 1) << "version " << version;
    }
  }
  EXPECT_EQ(given.size(), std::size_t{kWriters * kTimes});
}

}  // namespace
}  // namespace holdfast::conformance
