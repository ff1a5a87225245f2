// SPDX-License-Identifier: Apache-2.0
// Starts that are collected before one run does what they ask for.
#include <holdfast/collected.hpp>

#include <gtest/gtest.h>

#include <boost/describe/class.hpp>

#include <string>
#include <vector>

#include <holdfast/engine.hpp>

#include "engine_world.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using testing_runs::Process;

struct Page {
  std::string url;
  int version = 0;
};
BOOST_DESCRIBE_STRUCT(Page, (), (url, version))

std::string url_of(const Page& page) { return page.url; }

int times_indexed = 0;
Task<int> index_page(Context& ctx, Page page) {
  times_indexed += ctx.is_replaying() ? 0 : 1;
  co_await ctx.sleep(1s);
  co_return page.version;
}
Task<std::vector<int>> index_pages(Context& ctx, std::vector<Page> pages) {
  times_indexed += ctx.is_replaying() ? 0 : 1;
  co_await ctx.sleep(1s);
  std::vector<int> versions;
  for (const Page& page : pages) {
    versions.push_back(page.version);
  }
  co_return versions;
}

const Debounce kSoon{.quiet = 5s, .wait_max = 12s};
const Batching kFew{.size_max = 3, .wait_max = 10s};
const auto kIndex = debounced(workflow("index", index_page), kSoon, url_of);
const auto kIndexAll = batched(workflow("index all", index_pages), kFew, url_of);

class CollectedTest : public testing_runs::EngineWorld {
 protected:
  void SetUp() override { times_indexed = 0; }
  void add_workflows(Engine& engine) override {
    engine.add(kIndex);
    engine.add(kIndexAll);
  }
  auto index(Process& in, const std::string& url, int version) {
    const Page page{url, version};
    return run(in, in.engine->start(kIndex, page));
  }
  auto index_all(Process& in, const std::string& url, int version) {
    const Page page{url, version};
    return run(in, in.engine->start(kIndexAll, page));
  }
  auto index_once(Process& in, const std::string& url, int version, std::string_view key) {
    const Page page{url, version};
    return run(in, in.engine->start(kIndex, page, {.idempotency_key = key}));
  }
  auto index_all_once(Process& in, const std::string& url, int version, std::string_view key) {
    const Page page{url, version};
    return run(in, in.engine->start(kIndexAll, page, {.idempotency_key = key}));
  }
};

TEST_F(CollectedTest, TheLastOfManyStartsIsDoneWhenNoMoreCome) {
  Process& here = process();
  Process& there = process();
  const auto first = index(here, "/a", 1);
  advance(4s);
  const auto second = index(there, "/a", 2);
  const auto other = index(here, "/b", 7);
  EXPECT_EQ(first.id(), second.id());
  EXPECT_NE(first.id(), other.id());
  advance(4s);
  EXPECT_EQ(times_indexed, 0);
  advance(2s);
  EXPECT_EQ(times_indexed, 2);
  advance(1s);
  EXPECT_EQ(run(here, first.result()), 2);
  EXPECT_EQ(run(there, second.result()), 2);
  EXPECT_EQ(run(here, other.result()), 7);
}

TEST_F(CollectedTest, StartsThatKeepComingAreNotPutOffForEver) {
  Process& here = process();
  for (int version = 0; version < 4; ++version) {
    index(here, "/a", version);
    advance(4s);
  }
  EXPECT_EQ(times_indexed, 1) << "12 s after the first";
}

TEST_F(CollectedTest, WhatComesWhenTheRunHasBegunIsForTheNextOne) {
  Process& here = process();
  const auto first = index(here, "/a", 1);
  advance(5s);
  const auto second = index(here, "/a", 2);
  EXPECT_NE(first.id(), second.id());
  advance(10s);
  EXPECT_EQ(run(here, first.result()), 1);
  EXPECT_EQ(run(here, second.result()), 2);
}

TEST_F(CollectedTest, AHandleWaitsForTheRunThatIsToCome) {
  Process& here = process();
  Process& there = client();
  const auto handle = index(there, "/a", 3);
  auto waiting = begin(there, handle.result());
  EXPECT_FALSE(waiting.ended());
  advance(10s);
  ASSERT_TRUE(waiting.ended());
  EXPECT_EQ(waiting.get(), 3);
  EXPECT_EQ(run(here, here.engine->describe(handle.id()))->state, RunState::kCompleted);
}

TEST_F(CollectedTest, NothingIsLostOrDoneTwiceWhenAProcessDies) {
  Process& here = process();
  index(here, "/a", 1);
  const auto second = index(here, "/a", 2);
  kill(here);
  Process& next = process();
  advance(1min);
  EXPECT_EQ(times_indexed, 1);
  const auto again = run(next, next.engine->describe(second.id()));
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->result, 2);
}

TEST_F(CollectedTest, ABatchIsDoneWhenItIsFullOrOld) {
  Process& here = process();
  std::vector<RunHandle<std::vector<int>>> handles;
  for (int version = 1; version <= 4; ++version) {
    handles.push_back(index_all(here, "/a", version));
  }
  EXPECT_EQ(times_indexed, 1);
  advance(1s);
  EXPECT_EQ(run(here, handles[0].result()), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(run(here, handles[2].result()), (std::vector<int>{1, 2, 3}));
  advance(10s);
  EXPECT_EQ(run(here, handles[3].result()), std::vector<int>{4});
}

TEST_F(CollectedTest, TheSameStartMadeTwiceIsCollectedOnce) {
  Process& here = process();
  Process& there = process();
  const auto first = index_all_once(here, "/a", 1, "one");
  const auto again = index_all_once(there, "/a", 1, "one");
  const auto second = index_all_once(there, "/a", 2, "two");
  const auto once_more = index_all_once(here, "/a", 2, "two");
  const auto without_key = index_all(here, "/a", 3);
  EXPECT_EQ(first.id(), again.id());
  EXPECT_EQ(second.id(), once_more.id());
  advance(20s);
  EXPECT_EQ(run(here, without_key.result()), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(times_indexed, 1);
}

TEST_F(CollectedTest, TheSameStartCountsOnceAlsoWhenItsRunHasBegunOrEnded) {
  Process& here = process();
  const auto first = index_all_once(here, "/a", 1, "one");
  const auto second = index_all_once(here, "/a", 2, "two");
  advance(10s);
  EXPECT_EQ(times_indexed, 1);
  EXPECT_EQ(index_all_once(here, "/a", 2, "two").id(), second.id()) << "it goes on";
  kill(here);
  Process& next = process();
  advance(1min);
  // Also while others are collected.
  const auto other = index_all(next, "/a", 7);
  EXPECT_EQ(index_all_once(next, "/a", 1, "one").id(), first.id()) << "it has ended";
  EXPECT_EQ(run(next, index_all_once(next, "/a", 2, "two").result()), (std::vector<int>{1, 2}));
  advance(20s);
  EXPECT_EQ(run(next, other.result()), std::vector<int>{7});
  EXPECT_EQ(times_indexed, 2);
}

TEST_F(CollectedTest, TheSameStartDoesNotPutOffWhatIsDebounced) {
  Process& here = process();
  const auto first = index_once(here, "/a", 1, "one");
  advance(4s);
  const auto last = index_once(here, "/a", 2, "two");
  advance(4s);
  EXPECT_EQ(index_once(here, "/a", 1, "one").id(), first.id());
  EXPECT_EQ(index_once(here, "/a", 2, "two").id(), last.id());
  advance(2s);
  EXPECT_EQ(times_indexed, 1) << "five seconds after the last new one";
  EXPECT_EQ(run(here, index_once(here, "/a", 1, "one").result()), 2);
}

TEST_F(CollectedTest, AKeyIsKnownUntilItsRunIsPurged) {
  Process& here = process();
  const auto first = index_once(here, "/a", 1, "one");
  advance(1min);
  EXPECT_EQ(run(here, first.result()), 1);
  run(here, here.engine->purge(0s));
  const auto anew = index_once(here, "/a", 5, "one");
  EXPECT_NE(anew.id(), first.id());
  advance(1min);
  EXPECT_EQ(run(here, anew.result()), 5);
}

TEST_F(CollectedTest, ManyThatComeAtOnceAreInOneBatchEach) {
  Process& here = process();
  std::vector<Spawned<RunHandle<std::vector<int>>>> starts;
  std::vector<Page> pages;
  for (int version = 0; version < 10; ++version) {
    pages.push_back({"/a", version});
  }
  for (const Page& page : pages) {
    starts.push_back(spawn(here.executor, here.engine->start(kIndexAll, page)));
  }
  advance(1min);
  std::vector<int> counts(10);
  for (auto& start : starts) {
    const auto handle = start.get();
    const std::vector<int> batch = run(here, handle.result());
    EXPECT_LE(batch.size(), 3U);
    for (const int version : batch) {
      ++counts.at(static_cast<std::size_t>(version));
    }
  }
  for (std::size_t i = 0; i < counts.size(); ++i) {
    EXPECT_GE(counts[i], 1) << "version " << i << " is in no batch";
    EXPECT_LE(counts[i], 3) << "it was told to each of its batch, and to nobody else";
  }
}

TEST_F(CollectedTest, ACollectorThatIsTerminatedStartsNothing) {
  Process& here = process();
  const auto handle = index(here, "/a", 1);
  run(here, here.engine->terminate("debounce/index//a", "not needed"));
  EXPECT_THROW(run(here, handle.result()), NoSuchRun);
  advance(1min);
  EXPECT_EQ(times_indexed, 0);
}

TEST_F(CollectedTest, BadTermsAndKeysAreRefused) {
  const auto plain = workflow("plain", index_page);
  EXPECT_THROW(static_cast<void>(debounced(plain, {.quiet = 0s, .wait_max = 1s}, url_of)),
               InvalidArgument);
  EXPECT_THROW(static_cast<void>(debounced(plain, {.quiet = 1s}, url_of)), InvalidArgument);
  const auto all = workflow("all", index_pages);
  EXPECT_THROW(static_cast<void>(batched(all, {.size_max = 0, .wait_max = 1s}, url_of)),
               InvalidArgument);
  EXPECT_THROW(static_cast<void>(batched(all, {.size_max = 1}, url_of)), InvalidArgument);
  Process& here = process();
  EXPECT_THROW(index(here, std::string(250, 'x'), 1), InvalidArgument);
  EXPECT_EQ(run(here, here.store->scan("run/")).entries.size(), 0U);
}

}  // namespace
}  // namespace holdfast
