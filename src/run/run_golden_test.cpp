// SPDX-License-Identifier: Apache-2.0
// Journals that were written once, and must be read for ever. See tests/golden/run_journals.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <holdfast/permit_pool.hpp>
#include <holdfast/replay.hpp>
#include <holdfast/workflow.hpp>

#include "permit_run.hpp"
#include "run_by_hand.hpp"

namespace holdfast::detail {
namespace {

Task<boost::json::value> with_step(Context& ctx, boost::json::value input) {
  auto charge = ctx.run("charge", [] { return std::string(); });
  const auto receipt = co_await charge;
  auto send = ctx.run("send", [] {});
  const auto sent = co_await ctx.attempt(send);
  co_return boost::json::value{input, receipt.c_str(), sent.message().c_str()};
}
Task<boost::json::value> with_sleep(Context& ctx, boost::json::value) {
  co_await ctx.sleep(24h);
  const bool in_time = co_await ctx.wait_until([] { return false; }, 1h);
  co_await ctx.sleep_until(ctx.started_at());
  co_return in_time;
}
Task<boost::json::value> with_signal(Context& ctx, boost::json::value) {
  auto go = ctx.signal<std::string>("go");
  const auto first = co_await ctx.any(go, ctx.sleep(1h));
  const auto second = co_await ctx.signal<int>("early");
  co_return boost::json::value{first.index(), second};
}
Task<boost::json::value> with_child(Context& ctx, boost::json::value input) {
  const auto sum = co_await ctx.child<std::int64_t>("sum", input);
  const auto failed = co_await ctx.attempt(ctx.child<void>("broken", nullptr));
  co_return boost::json::value{sum, failed.message().c_str()};
}
Task<boost::json::value> with_state(Context& ctx, boost::json::value) {
  auto count = ctx.state<std::int64_t>("count");
  const auto now = co_await count.update([](std::int64_t& it) { ++it; });
  co_await ctx.user("42").cell<std::string>("name").set("x");
  const std::int64_t version = ctx.version("change", 0, 1);
  co_return boost::json::value{now, version};
}
Task<boost::json::value> with_permit(Context& ctx, boost::json::value) {
  const PermitPool gpus("gpus", 2);
  Permit gpu = co_await gpus.acquire(ctx, {.lease = 48h});
  const bool is_renewed = co_await gpu.renew(ctx, 24h);
  co_await gpu.until_expired(ctx);
  const bool is_revived = co_await gpu.renew(ctx, 24h);
  co_return boost::json::value{gpu.slot().c_str(), is_renewed, is_revived};
}
Task<boost::json::value> permit_itself(Context& ctx, boost::json::value) {
  const PermitInput input{"gpus", "1", 7, Duration(36h).count()};
  return permit_workflow().code()->run(ctx, to_payload(input));
}

Task<boost::json::value> with_lock(Context& ctx, boost::json::value) {
  const RunLock first = co_await ctx.lock("m");
  const Limit limit("l", 2);
  const LockOptions for_a_minute{.timeout = 1min, .weight = 2};
  auto wait = ctx.acquire(limit, for_a_minute);
  const auto second = co_await ctx.attempt(wait);
  const std::optional<RunLock> third = co_await ctx.try_lock("n");
  auto fourth = ctx.shared_lock("table", {.scope = LockScope::kWorkflow});
  const auto crossed = co_await ctx.attempt(fourth);
  co_return boost::json::value{first.fence(), second.message().c_str(), third.has_value(),
                               crossed.message().c_str()};
}
Task<boost::json::value> with_limited_step(Context& ctx, boost::json::value) {
  const Limit limit("vendor", 3);
  auto call = ctx.run("call", [] { return 0; }, {.limit = &limit});
  const int said = co_await call;
  co_return said;
}

Task<boost::json::value> with_refused_wait(Context& ctx, boost::json::value) {
  const RunLock lock = co_await ctx.lock("m");
  auto child = ctx.child<int>("child", nullptr);
  co_await ctx.sleep(1h);
  const auto said = co_await ctx.attempt(child);
  co_return boost::json::value{said.message().c_str()};
}

/// What happens to a run, activation by activation.
struct Script {
  Body body;
  struct Part {
    std::vector<Event> events;
    std::vector<Event> held;
  };
  std::vector<Part> parts;
  std::string root_uid{};
};

Event with_code(Event event, const char* type, const char* message, int code) {
  event.mutable_failure()->set_type(type);
  event.mutable_failure()->set_message(message);
  event.mutable_failure()->set_code(code);
  return event;
}

std::map<std::string, Script> scripts() {
  Event second_try =
      with_code(event_of(Event::STEP_ENDED, 1), "holdfast::PermanentFailure", "no address", 407);
  second_try.set_attempts(2);
  const Event broken =
      with_code(event_of(Event::CHILD_ENDED, 1), "std::runtime_error", "it broke", 0);
  const Event locked = with(event_of(Event::LOCK_SETTLED, 0), boost::json::value{17});
  const Event not_now = with(event_of(Event::LOCK_SETTLED, 2), nullptr);
  Event circle = with_code(event_of(Event::LOCK_SETTLED, 3), "holdfast::DeadlockError", "", 300);
  circle.set_payload(R"([["run-1","table","run-2"],["run-2","m","run-1"]])");
  Event no_wait = with_code(event_of(Event::WAIT_REFUSED, 1), "holdfast::DeadlockError", "", 300);
  no_wait.set_payload(R"([["run-1","its child","run-2"],["run-2","m","run-1"]])");
  return {
      {"lock",
       {with_lock,
        {{{started()}, {}},
         {{locked}, {}},
         {{fired(1)}, {not_now}},
         {{}, {circle}},
         {{cancel()}, {}}}}},
      {"refused_wait",
       {with_refused_wait,
        {{{started()}, {}}, {{locked}, {}}, {{fired(2)}, {no_wait}}, {{signalled("x", 1)}, {}}}}},
      {"limited_step", {with_limited_step, {{{started()}, {}}, {{ended(0, 42)}, {}}}}},
      {"step", {with_step, {{{started()}, {}}, {{ended(0, "r-1")}, {}}, {{second_try}, {}}}}},
      {"sleep", {with_sleep, {{{started()}, {}}, {{fired(0)}, {}}, {{fired(1)}, {}}}}},
      {"signal",
       {with_signal,
        {{{started(), signalled("early", 7, "r-1"), signalled("early", 7, "r-1")}, {}},
         {{signalled("go", "now"), cancel()}, {}}}}},
      {"child", {with_child, {{{started()}, {}}, {{child_ended(0, 6)}, {}}, {{broken}, {}}}}},
      {"state",
       {with_state,
        {{{started()}, {settled(0, 1)}}, {{}, {settled(1, nullptr)}}, {{signalled("x", 1)}, {}}}}},
      {"state_by_uid",
       {with_state,
        {{{started()}, {settled(0, 1)}}, {{}, {settled(1, nullptr)}}, {{signalled("x", 1)}, {}}},
        "uid-0"}},
      {"permit",
       {with_permit,
        {{{started()}, {}},
         {{with(event_of(Event::LOCK_SETTLED, 0), {7, 1})}, {event_of(Event::CHILD_STARTED, 1)}},
         {{}, {}},
         {{with(event_of(Event::CHILD_TOLD, 1), 1)}, {}},
         {{child_ended(1, "lease_expired")}, {}}}}},
      {"permit_run",
       {permit_itself,
        {{{started()}, {}},
         {{signalled("renew", renewal_value({1, 36h}))}, {}},
         {{cancel()}, {}}}}},
  };
}

RunMachine::Facts facts_of(const RecordedRun& run) {
  return {run.id,        run.type,       run.input,         run.uid,     run.root_id,
          run.parent_id, run.started_at, run.requests_done, run.root_uid};
}

/// The journal that today's code writes.
RecordedRun record(const std::string& name, const Script& script) {
  RecordedRun run{.id = "run-1",
                  .type = name,
                  .input = boost::json::value{1, 2, 3},
                  .uid = "uid-1",
                  .root_id = "run-1",
                  .started_at = at(0s),
                  .root_uid = script.root_uid};
  const CodeOf code(script.body);
  RunMachine machine(code, facts_of(run));
  Duration now = 0s;
  for (const Script::Part& part : script.parts) {
    record::Activation row = machine.activate(at(now), part.events).record;
    for (const Event& event : part.held) {
      *row.add_held() = event;
    }
    machine.hold(part.held);
    run.rows.push_back(row.SerializeAsString());
    now += 24h;
  }
  EXPECT_TRUE(machine.has_ended()) << name;
  return run;
}

std::filesystem::path file_of(const std::string& name) {
  return std::filesystem::path(HOLDFAST_GOLDEN_JOURNALS) / (name + ".txt");
}

RecordedRun golden(const std::string& name) {
  std::ifstream file(file_of(name));
  EXPECT_TRUE(file) << "there is no " << file_of(name);
  std::ostringstream text;
  text << file.rdbuf();
  return RecordedRun::from_text(text.str());
}

class GoldenJournals : public ::testing::TestWithParam<std::string> {};

/// With HOLDFAST_WRITE_GOLDEN=1 those that are missing are written; none is ever changed.
void write_if_missing(const std::string& name, const Script& script) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread.
  if (std::getenv("HOLDFAST_WRITE_GOLDEN") != nullptr && !std::filesystem::exists(file_of(name))) {
    std::ofstream file(file_of(name));
    file << "# A journal with operations of kind '" << name
         << "'. Never change it: see README.md.\n"
         << record(name, script).to_text();
  }
}

TEST_P(GoldenJournals, FitTheCodeOfToday) {
  const Script script = scripts().at(GetParam());
  write_if_missing(GetParam(), script);
  const RecordedRun run = golden(GetParam());
  const CodeOf code(script.body);
  const ReplayVerdict verdict = check_replay_of(run.type, code, run);
  EXPECT_TRUE(verdict) << verdict.complaint;
  EXPECT_TRUE(verdict.ended);
}

TEST_P(GoldenJournals, AreWhatTheCodeOfTodayWrites) {
  const RecordedRun today = record(GetParam(), scripts().at(GetParam()));
  EXPECT_EQ(golden(GetParam()).to_text(), today.to_text());
}

INSTANTIATE_TEST_SUITE_P(Operations, GoldenJournals,
                         ::testing::Values("step", "sleep", "signal", "child", "state",
                                           "state_by_uid", "permit", "permit_run", "lock",
                                           "limited_step", "refused_wait"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace holdfast::detail
