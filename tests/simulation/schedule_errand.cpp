// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <utility>

#include <holdfast/schedule.hpp>

#include "errand.hpp"

namespace holdfast::testing {

namespace {

Task<void> set(Engine& engine, const Timetable& timetable, std::int64_t most_ms) {
  const Beat beat{most_ms, timetable.grace.count() % 2 == 0};
  co_await Schedules(engine).set(timetable.name, beat_workflow(timetable.is_limited), beat,
                                 timetable.spec());
}

Task<void> ask(Engine& engine, Errand::Kind kind, Wanted wanted, const Timetable& timetable) {
  Schedules schedules(engine);
  switch (kind) {
    case Errand::Kind::kPauseSchedule:
      return schedules.pause(timetable.name, "by a client");
    case Errand::Kind::kResumeSchedule:
      return schedules.resume(timetable.name);
    case Errand::Kind::kRunNow:
      return schedules.run_now(timetable.name, "now " + std::to_string(wanted.value));
    case Errand::Kind::kRemoveSchedule:
      return schedules.remove(timetable.name);
    default:
      break;
  }
  return set(engine, timetable, wanted.value);
}

}  // namespace

Task<void> carry_out(Engine& engine, Errand::Kind kind, Wanted wanted, const Timetable& timetable,
                     std::shared_ptr<Errand::Answer> answer) {
  Errand::Verdict verdict = Errand::Verdict::kAcknowledged;
  try {
    co_await ask(engine, kind, wanted, timetable);
  } catch (const NoSuchRun&) {
    verdict = Errand::Verdict::kGone;
    if (kind != Errand::Kind::kRemoveSchedule) {
      answer->fault = "schedule " + timetable.name + " is gone";
    }
  } catch (const Error& error) {
    verdict = verdict_of(error, "schedule " + timetable.name, *answer);
  }
  answer->verdict = verdict;
}

}  // namespace holdfast::testing
