// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/describe/class.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <holdfast/wall_clock.hpp>

#include "schedule_state.hpp"

namespace holdfast::detail {

class CronTimes;

[[nodiscard]] constexpr std::int64_t ns_of_wall(WallTime time) noexcept {
  return time.time_since_epoch().count();
}
[[nodiscard]] constexpr WallTime wall_of(std::int64_t ns) noexcept {
  return WallTime(Duration(ns));
}
/// "2026-11-17T02:30:00Z", with thousandths if there are some.
[[nodiscard]] std::string text_of_time(std::int64_t ns);

/// How things stand when somebody looks at the clock: what has come since, and what comes.
struct Agenda {
  std::int64_t now_ns = 0;
  /// Times that have come, the last ones, at most `kScheduleQueueMax` of each kind, and how many in
  /// all.
  std::vector<std::int64_t> on_time_ns;
  std::vector<std::int64_t> missed_ns;
  std::uint64_t on_time = 0;
  std::uint64_t missed = 0;
  /// Up to here all is done with, when these are.
  std::int64_t cursor_ns = 0;
  std::optional<std::int64_t> anchor_ns;
  std::optional<std::int64_t> calendar_ns;
  /// When the next one is to be taken, its jitter included. Nothing: there is none any more.
  std::optional<std::int64_t> next_ns;
};
BOOST_DESCRIBE_STRUCT(Agenda, (),
                      (now_ns, on_time_ns, missed_ns, on_time, missed, cursor_ns, anchor_ns,
                       calendar_ns, next_ns))

/// What counts as long as the state says nothing.
struct ScheduleStart {
  StoreTime made_at{};  ///< With these times: an interval begins here, without an anchor.
  StoreTime since{};    ///< Times count from here on, without a cursor.
};

/// The times of a schedule. Pure but for the tables of time zones.
class ScheduleTimes {
 public:
  /// Throws `InvalidArgument` if the zone is not known here. `state` outlives it.
  explicit ScheduleTimes(const ScheduleState& state);
  ~ScheduleTimes();
  ScheduleTimes(const ScheduleTimes&) = delete;
  ScheduleTimes& operator=(const ScheduleTimes&) = delete;

  /// By the calendar and the store's clock.
  [[nodiscard]] Agenda agenda(WallTime wall, StoreTime store, const ScheduleStart& start) const;
  /// The next few from a time on, each with its jitter.
  [[nodiscard]] std::vector<WallTime> next(std::int64_t after_ns, std::size_t count) const;

 private:
  /// The next time after another one, without its jitter.
  [[nodiscard]] std::optional<std::int64_t> next_after(std::int64_t ns,
                                                       std::int64_t anchor_ns) const;
  /// The same for a time whenever it is asked, also by another process.
  [[nodiscard]] std::int64_t jitter_at(std::int64_t ns) const;

  const ScheduleState& state_;
  std::unique_ptr<CronTimes> cron_;  // Null: it is an interval.
};

}  // namespace holdfast::detail
