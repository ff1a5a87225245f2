// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/describe/class.hpp>

#include <chrono>
#include <cstdint>
#include <string>

#include <holdfast/clock.hpp>
#include <holdfast/schedule.hpp>
#include <holdfast/workflow.hpp>

#include "tests/crash/dice.hpp"

namespace holdfast::testing {

/// What the calendar says when the clock of the simulation begins.
inline constexpr WallTime kFirstDay = std::chrono::sys_days(std::chrono::year_month_day(
    std::chrono::year(2026), std::chrono::November, std::chrono::day(17)));

/// A schedule as its clients want it.
struct Timetable {
  std::string name;
  /// Zero: by `cron`, whose times are those of the full `cron_minutes`.
  Duration every{};
  std::int64_t cron_minutes = 0;
  Duration jitter{};
  Overlap overlap = Overlap::kSkip;
  Missed missed = Missed::kRunLast;
  std::uint32_t missed_max = 1;
  Duration grace{};
  std::string queue;
  bool is_limited = false;      ///< Its runs have to be admitted.
  bool has_pause = false;       ///< Times may pass of which nobody hears.
  std::uint64_t asked_for = 0;  ///< Runs, by clients.

  [[nodiscard]] ScheduleSpec spec() const;
  [[nodiscard]] Duration period() const;
  /// How many times there are after the one and up to the other, said without any tables: `begin`
  /// is when the schedule was made.
  [[nodiscard]] std::int64_t times_between(WallTime after, WallTime last, WallTime begin) const;
  [[nodiscard]] bool is_time(WallTime time, WallTime begin) const;
  [[nodiscard]] bool runs_one_at_a_time() const { return overlap != Overlap::kAllow; }
};

[[nodiscard]] Timetable make_timetable(Dice& dice, std::string name);

/// What a run of a schedule gets.
struct Beat {
  std::int64_t most_ms = 0;  ///< It takes up to this long.
  bool is_stubborn = false;  ///< It does not stop when it is asked to.
};
BOOST_DESCRIBE_STRUCT(Beat, (), (most_ms, is_stubborn))

/// What schedules begin: waits a while, and leaves its id in `Outside::beats`.
[[nodiscard]] const Workflow<Beat, void>& beat_workflow(bool is_limited);

}  // namespace holdfast::testing
