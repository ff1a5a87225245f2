// SPDX-License-Identifier: Apache-2.0
// Journals of schedules that were written once, and must be read for ever. See
// tests/golden/schedule_journals.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include <holdfast/memory_store.hpp>
#include <holdfast/schedule.hpp>
#include <holdfast/testing.hpp>

#include "schedule_state.hpp"
#include "schedule_workflow.hpp"

namespace holdfast::detail {
namespace {

using namespace std::chrono_literals;

Task<void> works_for_90_minutes(Context& ctx) { co_await ctx.sleep(90min); }
const auto kWork = workflow("works_for_90_minutes", works_for_90_minutes);

/// Something of everything that a schedule does, by one policy.
RecordedRun record_schedule(Overlap overlap) {
  testing::TestEngine world({kWork});
  const auto set = [&](const ScheduleSpec& spec) {
    world.run([&spec](Engine& engine) { return Schedules(engine).set("golden", kWork, spec); });
  };
  set({.cron = "@hourly", .zone = "Europe/Berlin", .jitter = 5min, .overlap = overlap});
  world.skip(3h + 30min);
  world.run([](Engine& engine) { return Schedules(engine).pause("golden", "a rest"); });
  world.skip(1h);
  world.run([](Engine& engine) { return Schedules(engine).run_now("golden"); });
  world.run([](Engine& engine) { return Schedules(engine).resume("golden"); });
  world.skip(2h);
  set({.every = 2h, .overlap = overlap, .missed = Missed::kRunAll});
  world.skip(5h);
  return world.record("schedule:golden");
}

std::filesystem::path golden_file(const std::string& name) {
  return std::filesystem::path(HOLDFAST_GOLDEN_SCHEDULES) / (name + ".txt");
}

TEST(GoldenSchedules, FitTheCodeOfToday) {
  const std::unique_ptr<Store> nowhere = open_memory_store();
  const auto code = schedule_code(std::make_shared<SystemWallClock>(), *nowhere);
  for (const Overlap overlap :
       {Overlap::kSkip, Overlap::kQueue, Overlap::kCancelRunning, Overlap::kAllow}) {
    const std::filesystem::path path = golden_file(std::string(word_of(overlap)));
    // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread.
    if (std::getenv("HOLDFAST_WRITE_GOLDEN") != nullptr && !std::filesystem::exists(path)) {
      std::ofstream(path) << "# A schedule with the overlap policy '" << word_of(overlap)
                          << "'. Never change it: see README.md.\n"
                          << record_schedule(overlap).to_text();
    }
    std::ifstream file(path);
    ASSERT_TRUE(file) << "there is no " << path;
    std::ostringstream text;
    text << file.rdbuf();
    const RecordedRun run = RecordedRun::from_text(text.str());
    const ReplayVerdict verdict = check_replay_of(kScheduleType, *code, run);
    EXPECT_TRUE(verdict) << path << ": " << verdict.complaint;
    EXPECT_GT(verdict.rows, 20U);
  }
}

}  // namespace
}  // namespace holdfast::detail
