// SPDX-License-Identifier: Apache-2.0
// What cells do alike in memory and in a store.
#include <holdfast/cell.hpp>

#include <gtest/gtest.h>
#include <boost/describe/class.hpp>
#include <boost/json/parse.hpp>

#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/all_any.hpp>
#include <holdfast/memory_store.hpp>
#include <holdfast/state.hpp>
#include <holdfast/this_task.hpp>

#include "coro/test_world.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using Json = boost::json::value;
using testing::error_text;

struct Profile {
  std::string name;
  std::int64_t logins = 0;
  std::vector<std::string> tags;

  bool operator==(const Profile&) const = default;
};
BOOST_DESCRIBE_STRUCT(Profile, (), (name, logins, tags))

class InMemory {
 public:
  static constexpr bool kStored = false;
  explicit InMemory(testing::World& /*world*/) {}
  [[nodiscard]] State& state() noexcept { return state_; }

 private:
  State state_;
};

class InStore {
 public:
  static constexpr bool kStored = true;
  explicit InStore(testing::World& world)
      : store_(open_memory_store(std::make_shared<MemoryDisk>(world.clock))), state_(*store_) {}
  [[nodiscard]] State& state() noexcept { return state_; }

 private:
  std::unique_ptr<Store> store_;
  State state_;
};

template <typename Place>
class Cells : public ::testing::Test {
 protected:
  template <typename T>
  T run(Task<T> task) {
    return world_.run(std::move(task));
  }
  template <typename T>
  Cell<T> cell(const std::string& name, T initial = T{}) {
    return place_.state().global().template cell<T>(name, std::move(initial));
  }

  testing::World world_;
  Place place_{world_};
  testing::EndTasks end_tasks_{world_};
};

struct PlaceNames {
  template <typename Place>
  // NOLINTNEXTLINE(readability-identifier-naming): GoogleTest calls it so.
  static std::string GetName(int /*index*/) {
    return Place::kStored ? "stored" : "in_memory";
  }
};
using Places = ::testing::Types<InMemory, InStore>;
TYPED_TEST_SUITE(Cells, Places, PlaceNames);

TYPED_TEST(Cells, HoldWhatWasSetWhateverTheirType) {
  auto profile = this->template cell<Profile>("profile");
  const Profile ada{"Ada", 3, {"a", "b"}};
  this->run(profile.set(ada));
  EXPECT_EQ(this->run(profile.get()), ada);
  auto number = this->template cell<std::uint64_t>("number");
  this->run(number.set(std::numeric_limits<std::uint64_t>::max()));
  EXPECT_EQ(this->run(number.get()), std::numeric_limits<std::uint64_t>::max());
  auto fraction = this->template cell<double>("fraction");
  this->run(fraction.set(0.1 + 0.2));
  EXPECT_EQ(this->run(fraction.get()), 0.1 + 0.2) << "to the last bit";
  auto any = this->template cell<Json>("any");
  const Json tree = boost::json::parse(R"({"a":[1,-2,0.5,null,true,"\u00e9\n"]})");
  this->run(any.set(tree));
  EXPECT_EQ(this->run(any.get()), tree);
}

TYPED_TEST(Cells, TheInitialValueCountsOnlyBeforeTheFirstWrite) {
  auto cell = this->template cell<int>("n", 7);
  EXPECT_EQ(this->run(cell.get()), 7);
  EXPECT_EQ(this->run(cell.find()), std::nullopt);
  this->run(cell.set(0));
  EXPECT_EQ(this->run(cell.get()), 0);
  EXPECT_EQ(this->run(this->template cell<int>("n", 8).get()), 0);
  auto null = this->template cell<Json>("null", Json("first"));
  this->run(null.set(nullptr));
  EXPECT_EQ(this->run(null.get()), Json(nullptr)) << "null is a value like others";
}

TYPED_TEST(Cells, SettingTheInitialValueIsAWrite) {
  auto cell = this->template cell<int>("n", 7);
  this->run(cell.set(7));
  EXPECT_EQ(this->run(this->template cell<int>("n", 8).get()), 7);
}

TYPED_TEST(Cells, AnErasedOneIsAsIfItHadNeverBeenWritten) {
  auto cell = this->template cell<int>("n", 7);
  EXPECT_FALSE(this->run(cell.erase()));
  this->run(cell.set(1));
  EXPECT_TRUE(this->run(cell.erase()));
  EXPECT_EQ(this->run(cell.find()), std::nullopt);
  EXPECT_EQ(this->run(cell.get()), 7);
  EXPECT_FALSE(this->run(cell.erase()));
}

TYPED_TEST(Cells, UpdatesTakeAndGiveTheValueInEveryForm) {
  auto cell = this->template cell<int>("n", 1);
  EXPECT_EQ(this->run(cell.update([](int n) { return n + 1; }).task()), 2);
  EXPECT_EQ(this->run(cell.update([](const int& n) { return n * 10; }).task()), 20);
  EXPECT_EQ(this->run(cell.update([](int& n) { n += 1; }).task()), 21);
  EXPECT_EQ(this->run(cell.update([](int n) -> Task<int> {
                            co_await this_task::sleep_for(1ms);
                            co_return n + 1;
                          })
                          .task()),
            22);
  EXPECT_EQ(this->run(cell.update([](int& n) -> Task<void> {
                            co_await this_task::sleep_for(1ms);
                            n = 5;
                          })
                          .task()),
            5);
  EXPECT_EQ(this->run(cell.get()), 5);
}

Task<int> add_by_name(Cell<int>& cell, std::string text) {
  auto change = cell.update([text](int n) { return n + static_cast<int>(text.size()); });
  const int first = co_await change;
  const int second = co_await cell.update([&text](int n) -> int {
    text.clear();
    return n + 1;
  });
  co_return first * 1000 + second;
}

TYPED_TEST(Cells, UpdatesAreAwaitedByNameOrAtOnceWithReferences) {
  auto cell = this->template cell<int>("n");
  EXPECT_EQ(this->run(add_by_name(cell, std::string(100, 'x'))), 100'101);
}

TYPED_TEST(Cells, ChangesAreMadeInTheOrderInWhichTheyWereAskedFor) {
  auto cell = this->template cell<std::vector<int>>("order");
  std::vector<Task<std::vector<int>>> tasks;
  std::vector<int> expected;
  for (int i = 0; i < 100; ++i) {
    // Handles of their own, and functions that suspend now and then.
    auto handle = this->template cell<std::vector<int>>("order");
    auto update = handle.update([i](std::vector<int>& order) -> Task<void> {
      co_await this_task::sleep_for(1ms * (i % 3));
      order.push_back(i);
    });
    tasks.push_back(update.task());
    expected.push_back(i);
  }
  this->run(all(std::move(tasks)));
  EXPECT_EQ(this->run(cell.get()), expected);
}

TYPED_TEST(Cells, AFunctionThatThrowsFailsItsCallerAloneAndChangesNothing) {
  auto cell = this->template cell<int>("n", 1);
  auto before = this->world_.start(cell.update([](int n) { return n + 1; }).task());
  auto failing = this->world_.start(cell.update([](int& n) {
                                          n = 99;
                                          throw std::runtime_error("no");
                                        })
                                        .task());
  auto failing_later = this->world_.start(cell.update([](int& n) -> Task<void> {
                                                n = 99;
                                                co_await this_task::yield();
                                                throw std::runtime_error("no");
                                              })
                                              .task());
  auto after = this->world_.start(cell.update([](int n) { return n + 1; }).task());
  EXPECT_EQ(before.get(), 2);
  EXPECT_THROW(failing.get(), std::runtime_error);
  EXPECT_THROW(failing_later.get(), std::runtime_error);
  EXPECT_EQ(after.get(), 3);
}

Task<int> change_twice(Cell<int> cell, Cell<int> nested) {
  auto outer = cell.update([nested](int n) mutable -> Task<int> {
    const int inner = co_await nested.update([](int m) { return m + 1; });
    co_return n + inner;
  });
  co_return co_await outer;
}

TYPED_TEST(Cells, ANestedChangeOfTheSameCellIsAnErrorAtOnce) {
  auto cell = this->template cell<int>("n", 1);
  auto same = this->template cell<int>("n", 1);
  const TimePoint before = this->world_.clock.now();
  const std::string text =
      error_text<ReentrantMutation>([&] { this->run(change_twice(cell, same)); });
  EXPECT_NE(text.find("'cell/global/n'"), std::string::npos) << text;
  EXPECT_EQ(this->world_.clock.now(), before) << "nobody waited";
  EXPECT_EQ(this->run(cell.get()), 1);
  EXPECT_EQ(this->run(cell.update([](int n) { return n + 1; }).task()), 2) << "it goes on";
}

TYPED_TEST(Cells, ANestedChangeOfAnotherCellIsFine) {
  auto cell = this->template cell<int>("n", 10);
  auto other = this->template cell<int>("m", 1);
  EXPECT_EQ(this->run(change_twice(cell, other)), 12);
  EXPECT_EQ(this->run(other.get()), 2);
}

TYPED_TEST(Cells, ANestedChangeIsFoundThroughBranchesAndOtherCells) {
  auto cell = this->template cell<int>("n", 1);
  auto other = this->template cell<int>("m", 1);
  auto through_branch = cell.update([cell](int n) -> Task<int> {
    auto nested = cell;
    auto branches = all(nested.set(5), nested.set(6));
    co_await branches;
    co_return n;
  });
  EXPECT_THROW(this->run(through_branch.task()), ReentrantMutation);
  auto through_other = cell.update([cell, other](int n) -> Task<int> {
    auto between = other;
    Task<int> inner = change_twice(between, cell);
    co_return n + co_await inner;
  });
  EXPECT_THROW(this->run(through_other.task()), ReentrantMutation);
  EXPECT_EQ(this->run(cell.get()), 1);
  EXPECT_EQ(this->run(other.get()), 1);
}

Task<int> read_inside(Cell<int> cell) {
  auto update = cell.update([cell](int n) -> Task<int> {
    const int read = co_await cell.get();
    co_return n + read;
  });
  co_return co_await update;
}

TYPED_TEST(Cells, ReadingInsideAnUpdateSeesTheOldValueAndWaitsForNobody) {
  EXPECT_EQ(this->run(read_inside(this->template cell<int>("n", 4))), 8);
}

TYPED_TEST(Cells, AStopInTheLineChangesNothing) {
  auto cell = this->template cell<int>("n", 1);
  auto first = this->world_.start(cell.update([](int n) -> Task<int> {
                                        co_await this_task::sleep_for(1s);
                                        co_return n + 1;
                                      })
                                      .task());
  auto second = this->world_.start(cell.update([](int n) { return n + 10; }).task());
  second.request_stop();
  this->world_.executor.drain();
  EXPECT_THROW(second.get(), Cancelled);
  this->world_.advance(1s);
  EXPECT_EQ(first.get(), 2);
  EXPECT_EQ(this->run(cell.get()), 2);
}

TYPED_TEST(Cells, AStopInsideTheFunctionChangesNothingAndFreesTheLine) {
  auto cell = this->template cell<int>("n", 1);
  auto first = this->world_.start(cell.update([](int n) -> Task<int> {
                                        co_await this_task::sleep_for(1s);
                                        co_return n + 1;
                                      })
                                      .task());
  first.request_stop();
  this->world_.executor.drain();
  EXPECT_THROW(first.get(), Cancelled);
  EXPECT_EQ(this->run(cell.update([](int n) { return n + 10; }).task()), 11);
}

TYPED_TEST(Cells, AValueOfAnotherTypeIsNamedAndKept) {
  this->run(this->template cell<Json>("p").set("text"));
  auto number = this->template cell<int>("p");
  const std::string text = error_text<InvalidArgument>([&] { this->run(number.get()); });
  EXPECT_NE(text.find("'cell/global/p'"), std::string::npos) << text;
  EXPECT_THROW(this->run(number.update([](int n) { return n; }).task()), InvalidArgument);
  EXPECT_EQ(this->run(this->template cell<Json>("p").get()), Json("text"));
}

TYPED_TEST(Cells, WhatJsonCannotSayIsRefused) {
  auto cell = this->template cell<Json>("j", Json(1));
  Json deep(1);
  for (int i = 0; i < 70; ++i) {
    deep = boost::json::array{std::move(deep)};
  }
  for (const Json& bad :
       {Json(std::numeric_limits<double>::infinity()), Json(boost::json::array{Json("\xff")}),
        Json(boost::json::object{{"\xff", 1}}), deep}) {
    EXPECT_THROW(this->run(cell.set(bad)), InvalidArgument);
  }
  EXPECT_EQ(this->run(cell.get()), Json(1));
}

TYPED_TEST(Cells, AWatchGivesTheValueThenEachLastChange) {
  auto cell = this->template cell<int>("n", 1);
  auto neighbour = this->template cell<int>("n2");
  CellWatch<int> watch = cell.watch();
  EXPECT_EQ(this->run(watch.next()), std::nullopt);
  auto next = this->world_.start(watch.next());
  this->run(neighbour.set(1));
  EXPECT_FALSE(next.ended()) << "another cell whose key begins alike";
  this->run(cell.set(5));
  this->world_.executor.drain();
  EXPECT_EQ(next.get(), 5);
  this->run(cell.set(6));
  this->run(cell.set(7));
  EXPECT_EQ(this->run(watch.next()), 7) << "what was missed in between is one change";
  auto last = this->world_.start(watch.next());
  this->run(cell.erase());
  this->world_.executor.drain();
  EXPECT_EQ(last.get(), std::nullopt);
}

TYPED_TEST(Cells, AWatchCanBeStoppedAndAskedAgain) {
  auto cell = this->template cell<int>("n", 1);
  CellWatch<int> watch = cell.watch();
  this->run(watch.next());
  auto next = this->world_.start(watch.next());
  next.request_stop();
  this->world_.executor.drain();
  EXPECT_THROW(next.get(), Cancelled);
  this->run(cell.set(2));
  EXPECT_EQ(this->run(watch.next()), 2);
}

// --- The verbs -----------------------------------------------------------------------------------

TYPED_TEST(Cells, TheVerbsChangeJsonInPlace) {
  auto cell = this->template cell<Json>("j");
  EXPECT_EQ(this->run(cell.patch({{"name", "Ada"}, {"old", 1}})),
            (Json{{"name", "Ada"}, {"old", 1}}));
  EXPECT_EQ(this->run(cell.patch({{"old", nullptr}})), (Json{{"name", "Ada"}}));
  EXPECT_EQ(this->run(cell.push("/cart/items", "pen")), 1U);
  EXPECT_EQ(this->run(cell.push("/cart/items", "ink")), 2U);
  EXPECT_EQ(this->run(cell.inc("/visits")), Json(1));
  EXPECT_EQ(this->run(cell.inc("/visits", -3)), Json(-2));
  EXPECT_EQ(this->run(cell.inc("/visits", 0.5)), Json(-1.5));
  this->run(cell.set_record("/by_id", "a/b", 1));
  this->run(cell.set_record("/by_id", "c", 2));
  EXPECT_TRUE(this->run(cell.delete_record("/by_id", "c")));
  EXPECT_FALSE(this->run(cell.delete_record("/by_id", "c")));
  EXPECT_EQ(this->run(cell.atomic([](Json& all) { all.as_object()["last"] = true; }).task()),
            boost::json::parse(R"({"name":"Ada","cart":{"items":["pen","ink"]},"visits":-1.5,
                                   "by_id":{"a/b":1},"last":true})"));
}

TYPED_TEST(Cells, AVerbThatDoesNotFitChangesNothing) {
  auto cell = this->template cell<Json>("j");
  const Json before = boost::json::parse(R"({"text":"x","list":[1],"n":9223372036854775807})");
  this->run(cell.set(before));
  EXPECT_THROW(this->run(cell.push("/text", 1)), InvalidArgument);
  EXPECT_THROW(this->run(cell.inc("/list")), InvalidArgument);
  EXPECT_THROW(this->run(cell.set_record("/list", "a", 1)), InvalidArgument);
  EXPECT_THROW(this->run(cell.inc("no_slash")), InvalidArgument);
  EXPECT_EQ(this->run(cell.get()), before);
}

}  // namespace
}  // namespace holdfast
