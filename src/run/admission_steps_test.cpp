// SPDX-License-Identifier: Apache-2.0
// Limits of a definition that each attempt of a step holds, and the run itself does not.
#include <gtest/gtest.h>

#include <boost/describe/class.hpp>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/admission.hpp>
#include <holdfast/engine.hpp>
#include <holdfast/gate_control.hpp>
#include <holdfast/gate_inspection.hpp>
#include <holdfast/this_task.hpp>

#include "engine_world.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using testing_runs::Process;
using Names = std::vector<std::string>;

struct Fetch {
  std::string customer;
  std::string does;
};
BOOST_DESCRIBE_STRUCT(Fetch, (), (customer, does))

std::string customer_of_fetch(const Fetch& fetch) { return fetch.customer; }

/// What the steps use.
struct Server {
  std::map<std::string, int> under_way;  ///< By customer.
  int most_of_one = 0;
  int most_of_all = 0;
  int fetched = 0;
  int fails = 0;  ///< So many of the next ones.
  Names began;    ///< Runs whose code was called; not when it was replayed.
  std::vector<std::uint64_t> fences;
};
Server server;

/// Goes back also if the process dies.
class Fetching {
 public:
  explicit Fetching(std::string customer) : customer_(std::move(customer)) {
    server.most_of_one = std::max(server.most_of_one, ++server.under_way[customer_]);
    int all = 0;
    for (const auto& [name, count] : server.under_way) {
      all += count;
    }
    server.most_of_all = std::max(server.most_of_all, all);
  }
  Fetching(const Fetching&) = delete;
  Fetching& operator=(const Fetching&) = delete;
  ~Fetching() { --server.under_way[customer_]; }

 private:
  std::string customer_;
};

Task<int> fetch_one(std::string customer, std::uint64_t fence) {
  const Fetching fetching(std::move(customer));
  server.fences.push_back(fence);
  auto working = this_task::sleep_for(10s);
  co_await working;
  if (server.fails > 0) {
    --server.fails;
    throw std::runtime_error("the server says no");
  }
  co_return ++server.fetched;
}

std::string fetch_name(std::string name, int number) {
  return std::move(name.append("-").append(std::to_string(number)));
}

const Limit kLineLimit("line", 1);

Task<int> fetch_twice(Context& ctx, Fetch fetch) {
  if (!ctx.is_replaying()) {
    server.began.push_back(ctx.run_id());
  }
  const auto code = [&](StepContext& step) { return fetch_one(fetch.customer, step.fence()); };
  if (fetch.does == "sleep first") {
    co_await ctx.sleep(1min);
  }
  const bool has_own = fetch.does == "own limit";
  const StepOptions options{.retry = {.pause_first = 5s}, .limit = has_own ? &kLineLimit : nullptr};
  auto first = ctx.run("first", code, options);
  const int one = co_await first;
  if (fetch.does == "once") {
    co_return one;
  }
  if (fetch.does == "continue") {
    fetch.does = "once";
    ctx.continue_as_new(fetch);
  }
  auto second = ctx.run("second", code, options);
  const int two = co_await second;
  co_return two;
}

const Concurrency kOneOfAKey{.max = 1, .hold = HoldSlot::kForStep};
const Concurrency kTwoOfAKeyAndThree{.max = 2, .max_total = 3, .hold = HoldSlot::kForStep};
const auto kFetch = workflow("fetch", fetch_twice).concurrency(kOneOfAKey, customer_of_fetch);
const auto kFetchBoth =
    workflow("both", fetch_twice).concurrency(kTwoOfAKeyAndThree, customer_of_fetch);
const auto kFetchAny = workflow("any", fetch_twice).concurrency(kOneOfAKey);

Task<int> delegate_fetch(Context& ctx, Fetch fetch) {
  const int fetched = co_await ctx.child(kFetch, fetch);
  co_return fetched;
}
const auto kDelegate = workflow("delegate fetch", delegate_fetch);

constexpr std::string_view kOfAcme = "admission/fetch/acme";

class StepAdmissionTest : public testing_runs::EngineWorld {
 protected:
  void SetUp() override { server = {}; }
  void add_workflows(Engine& engine) override {
    engine.add(fetch_);
    engine.add(kFetchBoth);
    engine.add(kFetchAny);
    engine.add(kDelegate);
  }

  RunHandle<int> start(Process& in, std::string_view id, const Workflow<Fetch, int>& workflow,
                       const std::string& customer, const std::string& does = "once",
                       StartOptions options = {}) {
    options.id = id;
    const Fetch fetch{customer, does};
    return run(in, in.engine->start(workflow, fetch, options));
  }
  GateInfo gate(Process& in, std::string_view name) {
    return run(in, inspect_gate(*in.store, name)).value_or(GateInfo{});
  }
  Names holders(Process& in, std::string_view name) {
    Names names;
    for (const GateHolderInfo& holder : gate(in, name).holders) {
      names.push_back(holder.holder);
    }
    std::ranges::sort(names);
    return names;
  }
  Names waiters(Process& in, std::string_view name) {
    Names names;
    for (const GateWaiterInfo& waiter : gate(in, name).waiters) {
      names.push_back(waiter.holder);
    }
    return names;
  }
  RunInfo info(Process& in, std::string_view id) {
    return run(in, in.engine->describe(id)).value_or(RunInfo{});
  }
  void expect_nothing_left(Process& in) {
    for (const char* name : {"admission/fetch/acme", "admission/both/acme", "admission/both/bolt",
                             "admission/both", "admission/any", "line"}) {
      EXPECT_EQ(holders(in, name), Names{}) << name;
      EXPECT_EQ(gate(in, name).waiter_count, 0U) << name;
    }
    for (const char* prefix : {"timer/", "inbox/", "unattended/", "wait/"}) {
      EXPECT_EQ(run(in, in.store->scan(prefix)).entries.size(), 0U) << prefix;
    }
  }

  /// What processes that are made from here on say of it.
  Workflow<Fetch, int> fetch_ = kFetch;
};

TEST_F(StepAdmissionTest, RunsBeginAtOnceAndTheirStepsTakeTurns) {
  Process& here = process();
  auto first = start(here, "a", kFetch, "acme", "twice");
  auto second = start(here, "b", kFetch, "acme", "twice");
  start(here, "c", kFetch, "bolt");
  EXPECT_EQ(server.began, (Names{"a", "b", "c"}));
  EXPECT_EQ(holders(here, kOfAcme), Names{"a"});
  EXPECT_EQ(gate(here, kOfAcme).holders.at(0).reason, "step 'first'");
  EXPECT_EQ(waiters(here, kOfAcme), Names{"b"});
  EXPECT_FALSE(info(here, "b").queued.has_value()) << "the step waits, and not the run";
  ASSERT_EQ(info(here, "b").open_steps.size(), 1U);
  EXPECT_TRUE(info(here, "b").open_steps.front().waits);
  advance(10s);
  EXPECT_EQ(holders(here, kOfAcme), Names{"b"});
  EXPECT_EQ(waiters(here, kOfAcme), Names{"a"}) << "its next step, behind the others";
  advance(30s);
  EXPECT_EQ(run(here, first.result()), 4);
  EXPECT_EQ(run(here, second.result()), 5);
  EXPECT_EQ(server.most_of_one, 1);
  EXPECT_EQ(server.most_of_all, 2);
  EXPECT_TRUE(std::ranges::all_of(server.fences, [](auto fence) { return fence > 0; }));
  expect_nothing_left(here);
}

TEST_F(StepAdmissionTest, WithoutKeysTheStepsOfAllRunsShareOneLimit) {
  Process& here = process();
  start(here, "a", kFetchAny, "acme");
  start(here, "b", kFetchAny, "bolt");
  EXPECT_EQ(holders(here, "admission/any"), Names{"a"});
  EXPECT_EQ(waiters(here, "admission/any"), Names{"b"});
  advance(20s);
  EXPECT_EQ(server.most_of_all, 1);
  expect_nothing_left(here);
}

TEST_F(StepAdmissionTest, WhoWaitsForItsKeyKeepsNothingFromOtherKeys) {
  Process& here = process();
  for (const char* id : {"a1", "a2", "a3", "a4"}) {
    start(here, id, kFetchBoth, "acme");
  }
  start(here, "b1", kFetchBoth, "bolt");
  start(here, "b2", kFetchBoth, "bolt");
  EXPECT_EQ(holders(here, "admission/both"), (Names{"a1", "a2", "b1"}));
  EXPECT_EQ(waiters(here, "admission/both/acme"), (Names{"a3", "a4"}));
  EXPECT_EQ(waiters(here, "admission/both"), Names{"b2"}) << "it has the permit of its key";
  advance(10s);
  EXPECT_EQ(holders(here, "admission/both"), (Names{"a3", "a4", "b2"}));
  advance(10s);
  EXPECT_EQ(server.fetched, 6);
  EXPECT_EQ(server.most_of_one, 2);
  EXPECT_EQ(server.most_of_all, 3);
  expect_nothing_left(here);
}

TEST_F(StepAdmissionTest, AStepWithALimitOfItsOwnIsUnderBothAndHasTheFenceOfItsOwn) {
  Process& here = process();
  start(here, "a", kFetchBoth, "acme", "own limit");
  start(here, "b", kFetchBoth, "bolt", "own limit");
  settle();
  EXPECT_EQ(holders(here, "admission/both"), (Names{"a", "b"}));
  EXPECT_EQ(holders(here, "line"), Names{"a"});
  EXPECT_EQ(waiters(here, "line"), Names{"b"});
  ASSERT_EQ(server.fences.size(), 1U);
  EXPECT_EQ(server.fences.front(), gate(here, "line").holders.at(0).fence);
  advance(1min);
  EXPECT_EQ(server.fetched, 4);
  EXPECT_EQ(server.most_of_all, 1);
  expect_nothing_left(here);
}

TEST_F(StepAdmissionTest, BetweenTwoAttemptsAStepHoldsNothing) {
  Process& here = process();
  server.fails = 1;
  start(here, "a", kFetchBoth, "acme");
  advance(10s);
  EXPECT_EQ(holders(here, "admission/both"), Names{});
  EXPECT_EQ(holders(here, "admission/both/acme"), Names{});
  advance(5s);
  EXPECT_EQ(holders(here, "admission/both"), Names{"a"});
  EXPECT_EQ(holders(here, "admission/both/acme"), Names{"a"});
  advance(10s);
  EXPECT_EQ(server.fetched, 1);
  expect_nothing_left(here);
}

TEST_F(StepAdmissionTest, TheStepsOfAMoreUrgentRunGoFirst) {
  Process& here = process();
  start(here, "a", kFetch, "acme");
  start(here, "b", kFetch, "acme");
  start(here, "urgent", kFetch, "acme", "once", {.priority = 10});
  advance(10s);
  EXPECT_EQ(holders(here, kOfAcme), Names{"urgent"});
}

TEST_F(StepAdmissionTest, ARunWhoseStepWaitsNeedsNoMemory) {
  Process& here = process();
  GateControl control(*here.store);
  start(here, "a", kFetchBoth, "acme");
  advance(10s);
  run(here, control.pause("admission/both", {.by = "ada", .reason = "a look"}));
  start(here, "b", kFetchBoth, "acme");
  settle();
  EXPECT_EQ(waiters(here, "admission/both"), Names{"b"});
  advance(10min);
  EXPECT_EQ(here.engine->live_runs(), 0U);
  run(here, control.resume("admission/both", {.by = "ada", .reason = "seen"}));
  advance(1min);
  EXPECT_EQ(server.fetched, 2);
  expect_nothing_left(here);
}

// --- Crashes, and runs that are stopped ----------------------------------------------------------

TEST_F(StepAdmissionTest, CapacityIsNeverExceededOverManyRunsAndTwoEnginesWhateverDies) {
  constexpr int kRuns = 8;
  for (int round = 0; round < 3; ++round) {
    Process& here = process();
    Process& there = process();
    for (int i = 0; i < kRuns; ++i) {
      start(i % 2 == 0 ? here : there, fetch_name(std::to_string(round), i), kFetchBoth,
            i % 3 == 0 ? "acme" : "bolt", "twice");
    }
    advance(15s);
    kill(here);
    advance(47s);
    kill(there);
  }
  Process& last = process();
  advance(1h);
  EXPECT_LE(server.most_of_one, 2);
  EXPECT_LE(server.most_of_all, 3);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < kRuns; ++i) {
      const std::string id = fetch_name(std::to_string(round), i);
      EXPECT_EQ(info(last, id).state, RunState::kCompleted) << id;
    }
  }
  expect_nothing_left(last);
}

TEST_F(StepAdmissionTest, AProcessThatDiesBetweenTheGrantAndTheStepLosesNothing) {
  // At each of the commits in which the second run comes to its step.
  for (int deaths = 1; deaths <= 6; ++deaths) {
    Process& here = process();
    start(here, fetch_name("a", deaths), kFetchBoth, "acme");
    start(here, fetch_name("b", deaths), kFetchBoth, "acme");
    start(here, fetch_name("c", deaths), kFetchBoth, "acme");
    advance(10s - 1ns);
    int commits = 0;
    here.store->before_commit = [&](const Batch& /*batch*/) {
      if (++commits > deaths) {
        throw Cancelled("killed");
      }
    };
    advance(1ns);
    here.kill();
    Process& next = process();
    advance(5min);
    EXPECT_EQ(info(next, fetch_name("c", deaths)).state, RunState::kCompleted) << deaths;
    expect_nothing_left(next);
    kill(next);
  }
  EXPECT_EQ(server.most_of_one, 2);
}

TEST_F(StepAdmissionTest, ARunThatIsStoppedWhileItsStepWaitsLeavesEveryLine) {
  Process& here = process();
  for (const char* id : {"a1", "a2", "a3"}) {
    start(here, id, kFetchBoth, "acme");
  }
  for (const char* id : {"b1", "b2"}) {
    start(here, id, kFetchBoth, "bolt");
  }
  settle();
  EXPECT_EQ(holders(here, "admission/both/bolt"), (Names{"b1", "b2"}));
  EXPECT_EQ(waiters(here, "admission/both"), Names{"b2"});
  run(here, here.engine->cancel("b2"));
  EXPECT_EQ(info(here, "b2").state, RunState::kCancelled);
  EXPECT_EQ(holders(here, "admission/both/bolt"), Names{"b1"}) << "with what it had already";
  EXPECT_EQ(waiters(here, "admission/both"), Names{});
  run(here, here.engine->cancel("a3"));
  EXPECT_EQ(waiters(here, "admission/both/acme"), Names{});
  run(here, here.engine->terminate("a1", "enough"));
  EXPECT_EQ(holders(here, "admission/both"), (Names{"a2", "b1"}));
  advance(1min);
  EXPECT_EQ(server.fetched, 2);
  expect_nothing_left(here);
}

// --- What it was started with --------------------------------------------------------------------

TEST_F(StepAdmissionTest, WhatARunWasStartedWithCountsWhateverTheProgramSaysLater) {
  for (const auto& changed :
       {workflow("fetch", fetch_twice), workflow("fetch", fetch_twice).concurrency({.max = 5}),
        workflow("fetch", fetch_twice)
            .concurrency({.max = 1, .hold = HoldSlot::kWhileBusy}, customer_of_fetch),
        workflow("fetch", fetch_twice)
            .concurrency({.max = 9, .hold = HoldSlot::kForStep}, customer_of_fetch)}) {
    server = {};
    fetch_ = kFetch;
    Process& first = process();
    advance(1min);  // Until it has what the one before left behind.
    start(first, "a", fetch_, "acme", "sleep first");
    start(first, "b", fetch_, "acme", "sleep first");
    kill(first);
    fetch_ = changed;
    Process& second = process();
    advance(70s);
    EXPECT_EQ(gate(second, kOfAcme).holders.size(), 1U);
    EXPECT_EQ(gate(second, kOfAcme).waiter_count, 1U);
    advance(5min);
    EXPECT_EQ(server.fetched, 4);
    EXPECT_EQ(server.most_of_one, 1);
    expect_nothing_left(second);
    kill(second);
  }
}

TEST_F(StepAdmissionTest, ARunThatBeganWithoutALimitGoesOnWithoutIt) {
  fetch_ = workflow("fetch", fetch_twice);
  Process& first = process();
  start(first, "a", fetch_, "acme", "sleep first");
  start(first, "b", fetch_, "acme", "sleep first");
  kill(first);
  fetch_ = kFetch;
  Process& second = process();
  advance(70s);
  EXPECT_EQ(server.most_of_one, 2);
  advance(5min);
  EXPECT_EQ(server.fetched, 4);
  expect_nothing_left(second);
}

TEST_F(StepAdmissionTest, ADefinitionThatSaysSomethingElseIsToldAtTheStart) {
  Process& here = process();
  start(here, "a", kFetch, "acme");
  const auto other = workflow("fetch", fetch_twice)
                         .concurrency({.max = 2, .hold = HoldSlot::kForStep}, customer_of_fetch);
  EXPECT_THROW(start(here, "b", other, "acme"), DefinitionMismatch);
  EXPECT_FALSE(run(here, here.engine->describe("b")).has_value());
  start(here, "c", other, "bolt");
  advance(1min);
  EXPECT_EQ(server.fetched, 2) << "of that key nobody has said anything yet";
}

TEST_F(StepAdmissionTest, AnOperatorCanChangeTheLimitUnderThem) {
  Process& here = process();
  for (const char* id : {"a", "b", "c"}) {
    start(here, id, kFetch, "acme");
  }
  GateControl control(*here.store);
  run(here, control.set_capacity(kOfAcme, 2, {.by = "ada", .reason = "more"}));
  EXPECT_EQ(holders(here, kOfAcme), (Names{"a", "b"}));
  start(here, "d", kFetch, "acme");
  advance(1min);
  EXPECT_EQ(server.fetched, 4);
  EXPECT_EQ(server.most_of_one, 2);
}

TEST_F(StepAdmissionTest, HoweverARunIsStartedItsStepsAreUnderTheLimit) {
  Process& here = process();
  start(here, "a", kFetch, "acme");
  start(here, "parent", kDelegate, "acme");
  start(here, "later", kFetch, "acme", "once", {.delay = 1s});
  start(here, "continued", kFetch, "acme", "continue");
  const boost::json::value fetch = {{"customer", "acme"}, {"does", "once"}};
  run(here, here.engine->start_run("fetch", fetch, {.id = "by name"}));
  const std::string word = "go";
  const Fetch last{"acme", "once"};
  run(here, here.engine->start_or_signal(kFetch, last, {.id = "signalled"}, "unused", word));
  advance(1s);
  EXPECT_EQ(gate(here, kOfAcme).holders.size(), 1U);
  EXPECT_EQ(gate(here, kOfAcme).waiter_count, 5U);
  advance(2min);
  EXPECT_EQ(server.fetched, 7);
  EXPECT_EQ(server.most_of_one, 1);
  expect_nothing_left(here);
}

TEST_F(StepAdmissionTest, ARunThatIsResetIsUnderTheSameLimit) {
  Process& here = process();
  start(here, "a", kFetch, "acme", "twice");
  start(here, "b", kFetch, "acme");
  run(here, here.engine->reset("a", 1, "once more"));
  EXPECT_EQ(gate(here, kOfAcme).holders.size(), 1U);
  advance(2min);
  EXPECT_EQ(info(here, "a").state, RunState::kCompleted);
  EXPECT_EQ(server.most_of_one, 1);
  expect_nothing_left(here);
}

TEST_F(StepAdmissionTest, TermsForStartsThatWaitAreRefused) {
  const auto plain = workflow("plain", fetch_twice);
  const auto fault_of = [&](Concurrency terms) {
    terms.max = 1;
    terms.hold = HoldSlot::kForStep;
    try {
      static_cast<void>(plain.concurrency(terms));
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  for (const WhenFull policy :
       {WhenFull::kReject, WhenFull::kSkip, WhenFull::kReplace, WhenFull::kJoin}) {
    EXPECT_EQ(fault_of({.when_full = policy}),
              "Concurrency of workflow 'plain': when_full is not WhenFull::kQueue, and with "
              "HoldSlot::kForStep every run begins at once: give kQueue, as its steps wait their "
              "turn");
  }
  EXPECT_NE(fault_of({.rate = StartRate{.count = 1, .period = 1s}}).find("rate is set"),
            std::string::npos);
  EXPECT_NE(fault_of({.wait_max = 1s}).find("StepOptions::timeout"), std::string::npos);
  EXPECT_NE(fault_of({.queue_max = 7}).find("queue_max is 7"), std::string::npos);
  EXPECT_EQ(fault_of({}), "nothing");
}

}  // namespace
}  // namespace holdfast
