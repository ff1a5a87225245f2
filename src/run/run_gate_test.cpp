// SPDX-License-Identifier: Apache-2.0
// The plain operations at gates inside of runs.
#include <holdfast/run_gate.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/engine.hpp>
#include <holdfast/gate_control.hpp>

#include "engine_world.hpp"
#include "gate_payloads.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using testing_runs::Process;
using Texts = std::vector<std::string>;

std::string text_of(const LeasedGrant& grant) {
  return (grant.acquired ? "held" : "not held") +
         std::string(" at ").append(std::to_string(grant.position));
}

GateDefinition with_capacity(std::uint64_t capacity) {
  GateDefinition definition;
  definition.capacity = capacity;
  return definition;
}

/// Takes it, renews it, is asked to go on, and lets go; what came of each.
Task<Texts> holds_for_a_while(Context& ctx, std::string holder) {
  Texts said;
  RunGate gate = ctx.gate("m");
  const LeasedRequest request{.holder = holder, .lease = 1min};
  const LeasedGrant grant = co_await gate.try_acquire(request);
  said.push_back(text_of(grant));
  if (!grant.acquired) {
    co_return said;
  }
  const LeasedGrant again = co_await gate.try_acquire(request);
  said.push_back(again.fence == grant.fence ? "the same" : "another");
  const LeasedHold hold{.holder = holder, .fence = grant.fence};
  const bool renewed = co_await gate.renew(hold, 10min);
  said.emplace_back(renewed ? "renewed" : "not renewed");
  const auto word = co_await ctx.signal<std::string>("go");
  const bool later = co_await gate.renew(hold, 10min);
  said.emplace_back(later ? "renewed" : "not renewed");
  const bool first = co_await gate.release(hold);
  const bool second = co_await gate.release(hold);
  said.push_back(std::string(first ? "released" : "too late").append(second ? " twice" : ""));
  co_return said;
}
const auto kHoldsForAWhile = workflow("holds_for_a_while", holds_for_a_while);

Task<Texts> looks(Context& ctx) {
  RunGate gate = ctx.gate("m");
  const std::optional<GateInfo> before = co_await gate.inspect();
  co_await ctx.signal<std::string>("go");
  const std::optional<GateInfo> after = co_await gate.inspect();
  Texts said{before ? "something" : "nothing"};
  if (after) {
    for (const GateHolderInfo& holder : after->holders) {
      const Duration left = *holder.expires_at - ctx.now();
      said.push_back(holder.holder + " for " + std::to_string(left / 1s));
    }
    for (const GateWaiterInfo& waiter : after->waiters) {
      said.push_back(waiter.holder + " waits");
    }
  }
  co_return said;
}
const auto kLooks = workflow("looks", looks);

Task<std::string> asks_wrongly(Context& ctx, int how) {
  try {
    if (how == 0) {
      RunGate gate = ctx.gate("m", with_capacity(2));
      auto asking = gate.try_acquire({.holder = "a"});
      static_cast<void>(co_await asking);
    } else if (how == 1) {
      static_cast<void>(ctx.gate("m", with_capacity(0)));
    } else if (how == 2) {
      static_cast<void>(ctx.gate("m").try_acquire({.holder = "a", .lease = 0s}));
    } else {
      RunGate gate = ctx.gate("m");
      auto first = gate.inspect();
      auto second = gate.inspect();
      static_cast<void>(co_await first);
    }
  } catch (const Error& error) {
    co_return error.what();
  }
  co_return "fine";
}
const auto kAsksWrongly = workflow("asks_wrongly", asks_wrongly);

Task<std::string> locks_it(Context& ctx) {
  const RunLock lock = co_await ctx.lock("m");
  co_return "in";
}
const auto kLocksIt = workflow("locks_it", locks_it);

class RunGateTest : public testing_runs::EngineWorld {
 protected:
  void add_workflows(Engine& engine) override {
    engine.add(kHoldsForAWhile);
    engine.add(kLooks);
    engine.add(kAsksWrongly);
    engine.add(kLocksIt);
  }
  template <typename Workflow, typename... Input>
  auto start(Process& in, std::string_view id, const Workflow& workflow, const Input&... input) {
    return run(in, in.engine->start(workflow, input..., {.id = id}));
  }
  void go(Process& in, std::string_view id) {
    run(in, in.engine->signal(id, "go", std::string("on")));
  }
  Texts holders(Process& in) {
    Texts names;
    const std::optional<GateInfo> info = run(in, inspect_gate(*in.store, "m"));
    for (const GateHolderInfo& holder : info->holders) {
      names.push_back(holder.holder);
    }
    return names;
  }
};

TEST_F(RunGateTest, ARunTakesRenewsAndReleasesAsAnybodyElse) {
  Process& here = process();
  auto holding = start(here, "a", kHoldsForAWhile, "first");
  EXPECT_EQ(holders(here), Texts{"first"});
  EXPECT_EQ(run(here, start(here, "b", kHoldsForAWhile, "second").result()),
            Texts{"not held at 0"});
  EXPECT_EQ(run(here, start(here, "c", kHoldsForAWhile, "third").result()), Texts{"not held at 1"});
  advance(1min);
  go(here, "a");
  EXPECT_EQ(run(here, holding.result()),
            (Texts{"held at -1", "the same", "renewed", "renewed", "released"}));
}

TEST_F(RunGateTest, AReplaySeesTheSameAndDoesNothingTwice) {
  Process& first = process();
  auto holding = start(first, "a", kHoldsForAWhile, "first");
  const auto before = run(first, inspect_gate(*first.store, "m"))->holders.front();
  kill(first);
  advance(1min);
  Process& second = process();
  advance(1min);
  const auto after = run(second, inspect_gate(*second.store, "m"))->holders.front();
  EXPECT_EQ(after.fence, before.fence);
  EXPECT_EQ(after.expires_at, before.expires_at) << "it is not renewed again";
  go(second, "a");
  EXPECT_EQ(run(second, second.engine->handle(kHoldsForAWhile, "a").result()),
            (Texts{"held at -1", "the same", "renewed", "renewed", "released"}));
  EXPECT_EQ(holders(second), Texts{});
}

TEST_F(RunGateTest, ADeathAtAnyCommitLosesNoGrantAndMakesNoneTwice) {
  for (int deadly = 1; deadly <= 8; ++deadly) {
    Process& first = process();
    const std::string id = std::string("a").append(std::to_string(deadly));
    int commits = 0;
    first.store->before_commit = [&](const Batch& batch) {
      const bool is_of_run = std::ranges::any_of(batch.writes(), [](const Batch::Write& write) {
        return write.key.starts_with("run/") || write.key.starts_with("journal/");
      });
      commits += is_of_run ? 1 : 0;
      if (commits >= deadly) {
        throw Cancelled("killed");
      }
    };
    auto starting = begin(first, first.engine->start(kHoldsForAWhile, id, {.id = id}));
    first.kill();
    Process& second = process();
    advance(1min);
    if (!run(second, second.engine->describe(id))) {
      start(second, id, kHoldsForAWhile, id);
    }
    go(second, id);
    EXPECT_EQ(run(second, second.engine->handle(kHoldsForAWhile, id).result()),
              (Texts{"held at -1", "the same", "renewed", "renewed", "released"}))
        << deadly;
    EXPECT_EQ(holders(second), Texts{}) << deadly;
    try {
      static_cast<void>(starting.get());
    } catch (const std::exception&) {
      // It died with its process.
    }
    kill(second);
    advance(1min);
  }
}

TEST_F(RunGateTest, WhatItHoldsHangsOnItsLeaseAlone) {
  Process& here = process();
  auto holding = start(here, "a", kHoldsForAWhile, "first");
  auto waiting = start(here, "b", kLocksIt);
  run(here, here.engine->terminate("a", "not wanted"));
  EXPECT_EQ(holders(here), Texts{"first"}) << "it outlives the run";
  advance(10min - 1ns);
  EXPECT_EQ(holders(here), Texts{"first"});
  advance(1ns);
  EXPECT_EQ(run(here, waiting.result()), "in");
}

TEST_F(RunGateTest, OneWhoseLeaseRanOutIsToldSo) {
  Process& here = process();
  auto holding = start(here, "a", kHoldsForAWhile, "first");
  advance(11min);
  EXPECT_EQ(run(here, start(here, "b", kLocksIt).result()), "in");
  go(here, "a");
  EXPECT_EQ(run(here, holding.result()),
            (Texts{"held at -1", "the same", "renewed", "not renewed", "too late"}));
}

TEST_F(RunGateTest, WhatItSawIsInTheJournal) {
  Process& first = process();
  auto looking = start(first, "l", kLooks);
  start(first, "a", kHoldsForAWhile, "first");
  static_cast<void>(run(first, start(first, "b", kHoldsForAWhile, "second").result()));
  kill(first);
  advance(1min);
  Process& second = process();
  advance(1min);
  go(second, "l");
  EXPECT_EQ(run(second, second.engine->handle(kLooks, "l").result()),
            (Texts{"nothing", "first for 480", "second waits"}));
}

TEST_F(RunGateTest, AReleaseLetsInARun) {
  Process& here = process();
  auto holding = start(here, "a", kHoldsForAWhile, "first");
  auto waiting = start(here, "b", kLocksIt);
  go(here, "a");
  EXPECT_EQ(run(here, waiting.result()), "in");
}

TEST_F(RunGateTest, WhatIsWrongIsSaidAndChangesNothing) {
  Process& here = process();
  start(here, "a", kHoldsForAWhile, "first");
  const auto said = [&](int how) {
    const std::string id = std::string("w").append(std::to_string(how));
    return run(here, start(here, id, kAsksWrongly, how).result());
  };
  EXPECT_NE(said(0).find("capacity 1, and here as"), std::string::npos);
  EXPECT_NE(said(1).find("the capacity of 'm' is 0"), std::string::npos);
  EXPECT_NE(said(2).find("the lease asked of 'm' is 0 ns"), std::string::npos);
  EXPECT_NE(said(3).find("two things at 'm' at once"), std::string::npos);
  EXPECT_EQ(holders(here), Texts{"first"});
}

TEST_F(RunGateTest, AllThatAnInspectionSaysIsKept) {
  Process& here = process();
  GateDefinition definition = with_capacity(2);
  definition.rate_count = 5;
  definition.rate_period = 1min;
  LeasedGate gate(*here.store, "g", definition);
  const StoreTime now = run(here, here.store->time());
  for (const char* holder : {"a", "b", "c"}) {
    static_cast<void>(run(
        here, gate.try_acquire({.holder = holder, .now = now, .priority = 3, .reason = "why"})));
  }
  const std::optional<GateInfo> info = run(here, gate.inspect());
  ASSERT_TRUE(info);
  const boost::json::value kept = detail::gate_info_value(info);
  const std::optional<GateInfo> back = detail::read_gate_info(kept);
  EXPECT_EQ(detail::gate_info_value(back), kept);
  EXPECT_EQ(back->definition, info->definition);
  EXPECT_EQ(back->holders.at(1).fence, info->holders.at(1).fence);
  EXPECT_EQ(back->waiters.at(0).why.kind, info->waiters.at(0).why.kind);
  EXPECT_EQ(back->waiters.at(0).priority, 3);
}

}  // namespace
}  // namespace holdfast
