// SPDX-License-Identifier: Apache-2.0
// A change that became durable after the watch was made is never missed.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "store_test.hpp"

namespace holdfast::conformance {
namespace {

template <typename Kind>
class Watches : public StoreTest<Kind> {
 protected:
  /// Starts to wait for a change, and has come to wait when it returns.
  Spawned<void> start_waiting(Watch& watch) {
    auto waiting = spawn(executor_, watch.changed());
    executor_.drain();
    return waiting;
  }
  void finish(Spawned<void>& waiting) {
    const Deadline deadline(clock_);
    const std::stop_callback give_up(deadline.token(), [&] { waiting.request_stop(); });
    executor_.drive_until([&] { return waiting.ended(); });
    waiting.get();
  }

  SystemClock clock_;
  ManualExecutor executor_{clock_};
};
TYPED_TEST_SUITE(Watches, StoreKinds, StoreKindNames);

TYPED_TEST(Watches, WakeForEachKindOfChange) {
  const Client store = this->open();
  Watch watch = store->watch("w/");
  const auto wakes_for = [&](const Batch& batch) {
    auto waiting = this->start_waiting(watch);
    static_cast<void>(store.commit(batch));
    this->finish(waiting);
  };
  wakes_for(Batch().put("w/a", "1"));
  wakes_for(Batch().put("w/a", "1"));
  wakes_for(Batch().erase("w/a"));
  wakes_for(Batch().put("other", "").put("w/", ""));
}

TYPED_TEST(Watches, KnowOfAChangeThatCameBeforeTheWait) {
  const Client store = this->open();
  Watch watch = store->watch("w/");
  store.put("w/a", "1");
  store.run(watch.changed());
  store.put("w/a", "2");
  store.put("w/a", "3");
  store.run(watch.changed());
}

TYPED_TEST(Watches, WakeForWhatTheOtherConnectionCommits) {
  const Client store = this->open();
  const Client other = this->open();
  Watch watch = store->watch("w/");
  for (int i = 0; i < 20; ++i) {
    auto waiting = this->start_waiting(watch);
    other.put("w/a", std::to_string(i));
    this->finish(waiting);
  }
}

TYPED_TEST(Watches, OnOnePrefixAllWake) {
  const Client store = this->open();
  const Client other = this->open();
  Watch first = store->watch("w/");
  Watch second = store->watch("w/");
  Watch third = other->watch("w/");
  auto waits_first = this->start_waiting(first);
  auto waits_second = this->start_waiting(second);
  auto waits_third = this->start_waiting(third);
  store.put("w/a", "1");
  this->finish(waits_first);
  this->finish(waits_second);
  this->finish(waits_third);
}

TYPED_TEST(Watches, OnPrefixesOfOneKeyAllWake) {
  const Client store = this->open();
  for (const std::string& prefix :
       {std::string(), std::string("w"), std::string("w/\0", 3), std::string("w/\0%_\xff", 6)}) {
    Watch watch = store->watch(prefix);
    auto waiting = this->start_waiting(watch);
    store.put(std::string("w/\0%_\xff", 6), "1");
    this->finish(waiting);
  }
}

/// They are found in another way than a few.
TYPED_TEST(Watches, OfWhomThereAreManyWakeForTheirOwnPrefix) {
  const Client store = this->open();
  std::vector<Watch> others;
  for (int i = 0; i < 40; ++i) {
    others.push_back(store->watch(std::string("other/").append(std::to_string(i)).append("/")));
  }
  Watch watch = store->watch("w/");
  for (int i = 0; i < 3; ++i) {
    auto waiting = this->start_waiting(watch);
    auto waits_besides = this->start_waiting(others[7]);
    store.put("w/a", std::to_string(i));
    this->finish(waiting);
    EXPECT_FALSE(waits_besides.ended());
    store.put("other/7/a", std::to_string(i));
    this->finish(waits_besides);
  }
}

TYPED_TEST(Watches, OfEverythingSeeEverything) {
  const Client store = this->open();
  Watch watch = store->watch("");
  for (const std::string& key : {std::string("\0", 1), std::string("\xff"), std::string("a")}) {
    auto waiting = this->start_waiting(watch);
    store.put(key, "v");
    this->finish(waiting);
  }
}

TYPED_TEST(Watches, CopyTheirPrefix) {
  const Client store = this->open();
  auto prefix = std::make_unique<std::string>("w/ that is too long to be kept in place");
  const std::string key = *prefix + "/key";
  Watch watch = store->watch(*prefix);
  *prefix = "x";
  prefix.reset();
  store.put(key, "v");
  store.run(watch.changed());
}

TYPED_TEST(Watches, GoOnWhenTheyAreMoved) {
  const Client store = this->open();
  Watch first = store->watch("w/");
  Watch moved = std::move(first);
  store.put("w/a", "1");
  store.run(moved.changed());
  moved = store->watch("x/");
  store.put("x/a", "1");
  store.run(moved.changed());
}

TYPED_TEST(Watches, EndWithClosedWhenTheStoreIsClosed) {
  Client store = this->open();
  const Client other = this->open();
  Watch watch = store->watch("w/");
  Watch not_waiting = store->watch("w/");
  auto waiting = this->start_waiting(watch);
  store.close();
  EXPECT_THROW(this->finish(waiting), Closed);
  EXPECT_THROW(other.run(watch.changed()), Closed) << "and for good";
  EXPECT_THROW(other.run(not_waiting.changed()), Closed);
}

TYPED_TEST(Watches, MayOutliveTheirStore) {
  std::optional<Watch> watch;
  {
    const Client store = this->open();
    watch.emplace(store->watch("w/"));
    store.put("w/a", "1");
  }
  EXPECT_THROW(this->run(watch->changed()), Closed);
  watch.reset();
  const Client again = this->open();
  EXPECT_EQ(again.value("w/a"), "1");
}

TYPED_TEST(Watches, EndWithCancelledWhenStoppedAndMissNothing) {
  const Client store = this->open();
  Watch watch = store->watch("w/");
  auto waiting = this->start_waiting(watch);
  waiting.request_stop();
  EXPECT_THROW(this->finish(waiting), Cancelled);
  store.put("w/a", "1");
  store.run(watch.changed());
}

TYPED_TEST(Watches, ThatAreGoneDisturbNobody) {
  const Client store = this->open();
  for (int i = 0; i < 50; ++i) {
    Watch kept = store->watch("w/");
    {
      const Watch dropped = store->watch("w/");
      const Watch another = store->watch("w");
    }
    store.put("w/a", std::to_string(i));
    store.run(kept.changed());
  }
}

Task<void> until_value(Store& store, std::string key, std::string value) {
  Watch watch = store.watch(key);
  for (;;) {
    const std::optional<Entry> entry = co_await store.get(key);
    if (entry && entry->value == value) {
      co_return;
    }
    co_await watch.changed();
  }
}

Task<void> put_each(Store& store, std::string key, int from, int to) {
  for (int i = from; i <= to; ++i) {
    Batch batch;
    batch.put(key, std::to_string(i));
    if (i % 2 == 0) {
      static_cast<void>(co_await store.commit(std::move(batch)));
    } else {
      static_cast<void>(co_await store.apply(std::move(batch)));
    }
  }
}

// The watch, the read and the wait race with the writes; a lost wake-up hangs.
TYPED_TEST(Watches, ThatRaceWithAWriterAlwaysReadItsLastWrite) {
  const Client store = this->open();
  const Client other = this->open();
  const Deadline deadline(this->clock_);
  int last = 0;
  for (int round = 0; round < this->kRounds; ++round) {
    const int from = last + 1;
    last += 1 + round % 3;
    Store& writer = round % 2 == 0 ? *store : *other;
    auto watching = spawn(this->pool_, until_value(*store, "w/key", std::to_string(last)), {},
                          deadline.token());
    auto writing = spawn(this->pool_, put_each(writer, "w/key", from, last));
    writing.get();
    ASSERT_NO_THROW(watching.get()) << "lost in round " << round;
  }
}

}  // namespace
}  // namespace holdfast::conformance
