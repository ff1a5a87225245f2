// SPDX-License-Identifier: Apache-2.0
#include <holdfast/schedule.hpp>

#include <algorithm>
#include <utility>

#include <holdfast/state.hpp>

#include "engine_core.hpp"
#include "schedule_state.hpp"
#include "schedule_times.hpp"

namespace holdfast {

namespace {

constexpr std::size_t kNextTimesShown = 5;

std::string run_id_of(std::string_view name) { return std::string("schedule:").append(name); }

Task<void> wait_for_start(Task<std::string> start) { static_cast<void>(co_await start); }

bool is_open_schedule(const RunInfo& run) {
  return run.type == detail::kScheduleType && run.state == RunState::kRunning;
}

/// What it shows, or what it was started with, if nobody has driven it yet.
Task<detail::ScheduleState> current_state_of(Store& store, const RunInfo& run) {
  const State state(store);
  const auto cell =
      state.execution(run.root_uid).cell<detail::ScheduleState>(detail::kScheduleCell);
  std::optional<detail::ScheduleState> shown = co_await cell.find();
  co_return shown ? *std::move(shown)
                  : detail::from_payload<detail::ScheduleState>(run.input, "input");
}

/// One that its schedule takes for completed is; of the others the run itself knows more, if it is
/// there still.
Task<ScheduledRun> scheduled_run_of(Engine& engine, detail::FiredRun fired) {
  ScheduledRun shown;
  shown.id = fired.id;
  shown.due = detail::wall_of(fired.due_ns);
  shown.asked_for = fired.asked_for;
  shown.state = detail::run_state_of(fired.state);
  shown.failure = fired.failure;
  if (shown.state != RunState::kCompleted) {
    const std::optional<RunInfo> run = co_await engine.describe(fired.id);
    if (run) {
      shown.state = run->state;
      shown.failure = run->failure;
    } else if (shown.state == RunState::kRunning) {
      shown.state.reset();
    }
  }
  co_return shown;
}

std::string trouble_of(const RunInfo& run) {
  if (!run.parked.empty()) {
    return run.parked;
  }
  for (const OpenStep& step : run.open_steps) {
    if (!step.failure.empty()) {
      return step.failure;
    }
  }
  return {};
}

std::vector<WallTime> next_times(const detail::ScheduleState& state, bool is_blocked,
                                 WallTime now) {
  std::vector<WallTime> times;
  if (!state.paused) {
    const std::int64_t now_ns = detail::ns_of_wall(now);
    const std::int64_t cursor = state.cursor_ns.value_or(now_ns);
    const detail::ScheduleTimes all(state);
    times = all.next(is_blocked ? std::max(cursor, now_ns) : cursor, kNextTimesShown);
  }
  return times;
}

Task<ScheduleInfo> schedule_info_of(Engine& engine, Store& store, const WallClock& clock,
                                    RunInfo run) {
  detail::ScheduleState state = co_await current_state_of(store, run);
  ScheduleInfo info;
  info.name = state.definition.name;
  info.workflow = state.definition.workflow;
  info.input = state.definition.input;
  info.terms = detail::terms_of(state.definition);
  info.paused = state.paused;
  info.pause_reason = state.pause_reason;
  bool is_blocked = false;
  for (detail::FiredRun& fired : state.last) {
    ScheduledRun shown = co_await scheduled_run_of(engine, std::move(fired));
    is_blocked =
        is_blocked || (shown.state == RunState::kRunning && info.terms.overlap == Overlap::kSkip);
    info.last.push_back(std::move(shown));
  }
  info.next = next_times(state, is_blocked, clock.now());
  for (const detail::Firing& firing : state.waiting) {
    info.waiting.push_back(detail::wall_of(firing.due_ns));
  }
  info.begun = state.begun;
  info.skipped = state.skipped;
  info.missed = state.missed;
  info.trouble = trouble_of(run);
  co_return info;
}

Task<std::optional<ScheduleInfo>> describe_schedule(Engine& engine, Store& store,
                                                    const WallClock& clock, std::string name) {
  std::optional<RunInfo> run = co_await engine.describe(run_id_of(name));
  std::optional<ScheduleInfo> info;
  if (run && is_open_schedule(*run)) {
    info = co_await schedule_info_of(engine, store, clock, *std::move(run));
  }
  co_return info;
}

Task<std::vector<ScheduleInfo>> list_schedules(Engine& engine, Store& store,
                                               const WallClock& clock) {
  std::vector<ScheduleInfo> schedules;
  std::string after;
  for (bool more = true; more;) {
    const RunFilter filter{
        .type = detail::kScheduleType, .state = RunState::kRunning, .after = after};
    RunPage page = co_await engine.list(filter);
    for (RunInfo& run : page.runs) {
      ScheduleInfo info = co_await schedule_info_of(engine, store, clock, std::move(run));
      schedules.push_back(std::move(info));
    }
    after = std::move(page.next);
    more = !after.empty();
  }
  std::ranges::sort(schedules, {}, &ScheduleInfo::name);
  co_return schedules;
}

}  // namespace

Task<void> Schedules::set_type(std::string_view name, std::string_view type,
                               boost::json::value input, const ScheduleSpec& spec) {
  detail::ScheduleState state;
  state.definition = detail::checked_definition(name, type, std::move(input), spec);
  const std::string id = run_id_of(name);
  return wait_for_start(engine_->start_or_send(
      detail::kScheduleType, nullptr, detail::to_payload(state), {.id = id},
      std::string(detail::kSetSignal), detail::to_payload(state.definition), {}));
}

Task<void> Schedules::pause(std::string_view name, std::string_view reason) {
  return engine_->signal(run_id_of(name), detail::kPauseSignal, std::string(reason));
}
Task<void> Schedules::resume(std::string_view name) {
  return engine_->signal(run_id_of(name), detail::kResumeSignal, nullptr);
}
Task<void> Schedules::run_now(std::string_view name, std::string_view request_id) {
  return engine_->signal(run_id_of(name), detail::kRunNowSignal, nullptr, request_id);
}
Task<void> Schedules::remove(std::string_view name) {
  return engine_->terminate(run_id_of(name), "the schedule was removed");
}

Task<std::optional<ScheduleInfo>> Schedules::describe(std::string_view name) {
  const detail::EngineCore& core = *engine_->core_;
  return describe_schedule(*engine_, core.store(), core.wall_clock(), std::string(name));
}
Task<std::vector<ScheduleInfo>> Schedules::list() {
  const detail::EngineCore& core = *engine_->core_;
  return list_schedules(*engine_, core.store(), core.wall_clock());
}

}  // namespace holdfast
