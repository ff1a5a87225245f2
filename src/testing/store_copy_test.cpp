// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/engine.hpp>
#include <holdfast/sqlite_store.hpp>
#include <holdfast/testing.hpp>

#include "base/temp_folder.hpp"

namespace holdfast::testing {
namespace {

using namespace std::chrono_literals;

int bakes = 0;
Task<std::string> bake(Context& ctx, std::string what) {
  auto mixing = ctx.run("mix", [&] {
    ++bakes;
    return what + " dough";
  });
  const std::string dough = co_await mixing;
  const int degrees = co_await ctx.signal<int>("oven is hot");
  co_await ctx.sleep(1h);
  auto baking = ctx.run("bake", [&] {
    ++bakes;
    return std::string("really baked");
  });
  const std::string result = co_await baking;
  co_return std::string(dough)
      .append(" at ")
      .append(std::to_string(degrees))
      .append(": ")
      .append(result);
}
const auto kBake = workflow("bake", bake);

TEST(StoreCopyTest, WhatHappensInACopyHappensThereAlone) {
  TestEngine world({kBake});
  world.fake_step("bake", "good");
  const auto run = world.start(kBake, "rye", {.id = "loaf"});
  world.skip(10min);
  TestEngine copy = world.copy();
  EXPECT_EQ(copy.now(), world.now());
  EXPECT_EQ(copy.calls("mix"), 0U);
  copy.fake_step("bake", "burnt");
  copy.signal(run, "oven is hot", 300);
  EXPECT_EQ(copy.result(run), "rye dough at 300: burnt");
  EXPECT_EQ(copy.calls("mix"), 0U) << "it went on, and did not begin anew";
  copy.start(kBake, "spelt");
  EXPECT_FALSE(world.has_ended(run));
  world.signal(run, "oven is hot", 200);
  EXPECT_EQ(world.result(run), "rye dough at 200: good");
  EXPECT_EQ(world.run([](Engine& engine) { return engine.list(); }).runs.size(), 1U);
}

TEST(StoreCopyTest, ACopyOfACopyThatHasCrashedGoesOnToo) {
  TestEngine world({kBake});
  const auto run = world.start(kBake, "rye");
  TestEngine first = world.copy();
  first.crash();
  TestEngine second = first.copy();
  second.fake_step("bake", "good");
  second.signal(run, "oven is hot", 1);
  EXPECT_EQ(second.result(run), "rye dough at 1: good");
}

Task<std::vector<Entry>> everything(Store& store) {
  Page page = co_await store.scan("");
  co_return std::move(page.entries);
}

TEST(StoreCopyTest, ARunOfAStoreOnDiskCanBeTriedWithoutTouchingIt) {
  bakes = 0;
  const TempFolder folder;
  const auto store = open_sqlite_store(folder.path() / "bakery.db");
  std::unique_ptr<Session> session;
  ThreadPool pool(2);
  session = sync_wait(pool, Session::open(*store, {.ttl = 24h}));
  {
    Engine engine(*session, {.executor = &pool});
    engine.add(kBake);
    sync_wait(pool, engine.begin());
    sync_wait(pool, engine.start(kBake, "rye", {.id = "loaf"}));
    sync_wait(pool, engine.stop());
  }
  ASSERT_EQ(bakes, 1);
  const auto before = sync_wait(pool, everything(*store));
  const StoreTime time = sync_wait(pool, store->time());

  TestEngine world = TestEngine::on_copy_of(*store, {kBake});
  EXPECT_GE(world.now(), time);
  world.forbid_real_steps();
  world.fake_step("bake", "faked");
  world.signal("loaf", "oven is hot", 250);
  EXPECT_EQ(world.result(world.find(kBake, "loaf")), "rye dough at 250: faked");
  EXPECT_EQ(bakes, 1) << "nothing real was done";

  const auto after = sync_wait(pool, everything(*store));
  EXPECT_EQ(after, before);
}

}  // namespace
}  // namespace holdfast::testing
