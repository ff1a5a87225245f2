// SPDX-License-Identifier: Apache-2.0
// What it costs to start a run whose workflow has a limit, on SQLite at full sync.
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <holdfast/engine.hpp>
#include <holdfast/executor.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/sqlite_store.hpp>

#include "base/temp_folder.hpp"
#include "benchmarks/harness.hpp"

namespace holdfast::bench {

namespace {

using namespace std::chrono_literals;

constexpr int kStarts = 1'000;
constexpr int kCustomers = 16;

Task<int> serve_customer(Context& ctx, int customer) {
  auto step = ctx.run("serve", [customer] { return customer; });
  const int served = co_await step;
  co_return served;
}
const auto kServe = workflow("serve", serve_customer);
const auto kServeLimited =
    kServe.concurrency({.max = 2}, [](int customer) { return std::to_string(customer); });

/// From the call to the moment at which it is durable; what the run does then is not counted.
Task<double> us_per_start(Engine& engine, const Workflow<int, int>& workflow) {
  double total_ns = 0;
  for (int i = 0; i < kStarts; ++i) {
    const Stopwatch stopwatch;
    auto run = co_await engine.start(workflow, i % kCustomers);
    total_ns += stopwatch.elapsed_ns();
    const int served = co_await run.result();
    require(served == i % kCustomers, "a run gave another result");
  }
  co_return total_ns / 1e3 / kStarts;
}

double start_us(const Workflow<int, int>& workflow) {
  const testing::TempFolder folder(std::filesystem::current_path());
  ThreadPool pool(1);
  const auto store = open_sqlite_store(folder.path() / "store.db", {});
  const auto session = sync_wait(pool, Session::open(*store, {.executor = &pool}));
  double us = 0;
  {
    Engine engine(*session, EngineOptions{.executor = &pool});
    engine.add(workflow);
    sync_wait(pool, engine.begin());
    us = sync_wait(pool, us_per_start(engine, workflow));
    sync_wait(pool, engine.stop());
  }
  sync_wait(pool, session->close());
  return us;
}

const Registration kAdmission({.suite = "limits",
                               .name = "admission",
                               .ours = [] { return start_us(kServeLimited); },
                               .peer = [] { return start_us(kServe); },
                               .peer_name = "a start without it",
                               .unit = "us",
                               .limit = {.ratio_max = 1.15},
                               .rounds = 5});

}  // namespace

}  // namespace holdfast::bench
