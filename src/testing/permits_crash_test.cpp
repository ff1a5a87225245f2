// SPDX-License-Identifier: Apache-2.0
// Permits of a pool, with a crash at every commit: no slot is lost, and none is given twice.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/gate_inspection.hpp>
#include <holdfast/permit_pool.hpp>
#include <holdfast/testing.hpp>

namespace holdfast::testing {
namespace {

using namespace std::chrono_literals;

const PermitPool kBenches("benches", 2);
const PermitPool kAnyBench("any bench", 2, {.order = PermitOrder::kRandom});

/// Uses a bench twice, and holds on to it in between.
Task<std::string> uses_bench(Context& ctx, std::string how) {
  const PermitPool& pool = how == "any" ? kAnyBench : kBenches;
  Permit bench = co_await pool.acquire(ctx, {.lease = 1min});
  auto first = ctx.run("use", [] {});
  co_await first;
  if (how == "silent") {
    co_await ctx.sleep(3min);
    co_return bench.expired() ? "expired" : "held";
  }
  co_await ctx.sleep(50s);
  const bool is_renewed = co_await bench.renew(ctx, 1min);
  co_await ctx.sleep(30s);
  auto second = ctx.run("use", [] {});
  co_await second;
  co_return is_renewed && !bench.expired() ? "held" : "expired";
}
const auto kUsesBench = workflow("uses_bench", uses_bench);

void must(bool holds, const std::string& what) {
  if (!holds) {
    throw std::runtime_error(what);
  }
}

Task<int> look_at_gate(Store& store, std::string pool) {
  const std::optional<GateInfo> gate = co_await inspect_gate(store, pool);
  std::set<std::uint64_t> slots;
  for (const GateHolderInfo& holder : gate->holders) {
    must(slots.insert(holder.slots.at(0)).second, "two in one slot");
  }
  must(slots.size() <= 2, "more than there are");
  co_return 0;
}

/// Each slot was somebody's until the next one had it.
void check_history(TestEngine& world, const std::string& pool, std::size_t grants) {
  const auto ended =
      world.run([&](Engine& /*engine*/) { return gate_history(world.store(), pool); });
  must(ended.size() == grants, std::to_string(ended.size()) + " grants");
  std::map<std::uint64_t, StoreTime> next;  // They come the last one first.
  for (const GateGrantInfo& grant : ended) {
    const auto [later, is_last] = next.emplace(grant.slots.at(0), grant.granted_at);
    must(is_last || grant.ended_at <= later->second, "two in one slot");
    later->second = grant.granted_at;
  }
}

void check_nothing_is_left(TestEngine& world, const std::string& pool) {
  const auto gate =
      world.run([&](Engine& /*engine*/) { return inspect_gate(world.store(), pool); });
  must(gate->holders.empty(), "a slot is lost");
  must(gate->waiter_count == 0, "somebody waits");
  const RunPage open =
      world.run([](Engine& engine) { return engine.list({.state = RunState::kRunning}); });
  must(open.runs.empty(), "a run goes on");
}

void use_benches(TestEngine& world) {
  world.fake_step(
      "use", [&world](StepContext& /*step*/) { return look_at_gate(world.store(), "benches"); });
  const auto renews = world.start(kUsesBench, "renews", {.id = "renews"});
  const auto silent = world.start(kUsesBench, "silent", {.id = "silent"});
  const auto next = world.start(kUsesBench, "renews", {.id = "next"});
  world.start(kUsesBench, "renews", {.id = "cancelled"});
  world.start(kUsesBench, "renews", {.id = "terminated"});
  world.skip(70s);  // The silent one has lost its bench to the next one.
  world.skip(20s);
  world.cancel("cancelled");
  world.terminate("terminated", "enough");
  must(world.result(renews) == "held", "renewed");
  must(world.result(silent) == "expired", "silent");
  must(world.result(next) == "held", "next");
  world.skip(1min);
  check_nothing_is_left(world, "benches");
  check_history(world, "benches", 5);
}

TEST(PermitsCrashTest, NoSlotIsLostOrGivenTwiceWhereverTheProcessDies) {
  const CrashReport report = crash_everywhere({kUsesBench}, use_benches);
  EXPECT_GE(report.commits, 40U);
  EXPECT_NO_THROW(crash_everywhere({kUsesBench}, {.seed = 7, .shuffle = true}, use_benches));
  EXPECT_NO_THROW(crash_everywhere({kUsesBench}, {.forget_waiting = false}, use_benches));
}

void use_any_bench(TestEngine& world) {
  world.fake_step(
      "use", [&world](StepContext& /*step*/) { return look_at_gate(world.store(), "any bench"); });
  std::vector<TestRun<std::string>> runs;
  for (const char* id : {"a", "b", "c"}) {
    runs.push_back(world.start(kUsesBench, "any", {.id = id}));
  }
  for (const TestRun<std::string>& run : runs) {
    must(world.result(run) == "held", run.id());
  }
  world.skip(1min);
  check_nothing_is_left(world, "any bench");
  check_history(world, "any bench", 3);
}

TEST(PermitsCrashTest, InRandomOrderTheSame) {
  EXPECT_NO_THROW(crash_everywhere({kUsesBench}, use_any_bench));
}

}  // namespace
}  // namespace holdfast::testing
