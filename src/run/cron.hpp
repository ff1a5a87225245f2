// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace date {
class time_zone;  // NOLINT(readability-identifier-naming): it is not ours.
}

namespace holdfast::detail {

/// Which minutes of the calendar a cron expression names, in whatever zone.
///
/// Five fields: minute (0-59), hour (0-23), day of month (1-31), month (1-12 or jan-dec), day of
/// week (0-7 or sun-sat; 0 and 7 are Sunday). Each is `*`, or a list of numbers and ranges `a-b`,
/// with steps:
/// `*/n`, `a-b/n`, `a/n` from `a` on. If both days are restricted, that is, do not begin with `*`,
/// one of them is enough. Also `@hourly`, `@daily`, `@midnight`, `@weekly`, `@monthly`, `@yearly`,
/// `@annually`.
class CronFields {
 public:
  /// Throws `InvalidArgument`, which names the field and what is wrong with it; also if no day ever
  /// fits, as for February 30.
  explicit CronFields(std::string_view text);

  /// A minute on somebody's wall, since 1970.
  using LocalMinute = std::chrono::duration<std::int64_t, std::ratio<60>>;
  /// The first that fits after this one.
  [[nodiscard]] LocalMinute next_after(LocalMinute minute) const;

 private:
  [[nodiscard]] bool has_day(std::int64_t days_since_1970) const;

  std::uint64_t minutes_ = 0;
  std::uint64_t hours_ = 0;
  std::uint64_t days_of_month_ = 0;
  std::uint64_t months_ = 0;
  std::uint64_t days_of_week_ = 0;
  bool one_day_is_enough_ = false;
};

/// The times of a cron expression in a time zone of the system's tables.
///
/// A time that does not exist, because clocks are put forward, is the end of the gap; one that
/// exists twice, because they are put back, is the first of the two. So each time of the calendar
/// is one moment, and several that fall together are one.
class CronTimes {
 public:
  /// Throws `InvalidArgument`, also for a zone that this machine does not know.
  CronTimes(std::string_view expression, std::string_view zone);

  [[nodiscard]] std::chrono::sys_seconds next_after(std::chrono::sys_seconds moment) const;

 private:
  CronFields fields_;
  const date::time_zone* zone_;
};

}  // namespace holdfast::detail
