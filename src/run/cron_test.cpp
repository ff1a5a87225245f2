// SPDX-License-Identifier: Apache-2.0
#include "cron.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <holdfast/error.hpp>

namespace holdfast::detail {
namespace {

using namespace std::chrono_literals;
using std::chrono::sys_days;
using std::chrono::sys_seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// "2026-03-29 00:30", in UTC.
sys_seconds moment(const char* text) {
  int year = 0;
  unsigned month = 0;
  unsigned day = 0;
  int hour = 0;
  int minute = 0;
  EXPECT_EQ(std::sscanf(text, "%d-%u-%u %d:%d", &year, &month, &day, &hour, &minute), 5) << text;
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month),
                                         std::chrono::day(day)};
  return sys_days(date) + std::chrono::hours(hour) + std::chrono::minutes(minute);
}

std::string shown(sys_seconds time) {
  const auto days = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(days);
  const std::chrono::hh_mm_ss clock(time - days);
  char text[64];
  std::snprintf(text, sizeof text, "%04d-%02u-%02u %02d:%02d", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()));
  return text;
}

/// The next few after a moment, in UTC.
std::vector<std::string> times(const char* expression, const char* after, std::size_t count,
                               const char* zone = "UTC") {
  const CronTimes cron(expression, zone);
  std::vector<std::string> found;
  sys_seconds last = moment(after);
  while (found.size() < count) {
    last = cron.next_after(last);
    found.push_back(shown(last));
  }
  return found;
}

std::string complaint(const char* expression, const char* zone = "UTC") {
  try {
    const CronTimes cron(expression, zone);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "it is fine";
}

TEST(Cron, AStarIsEveryMinute) {
  EXPECT_THAT(times("* * * * *", "2026-12-31 23:58", 3),
              ElementsAre("2026-12-31 23:59", "2027-01-01 00:00", "2027-01-01 00:01"));
}

TEST(Cron, TheNextTimeIsAfterTheMomentAndNotAtIt) {
  EXPECT_THAT(times("30 2 * * *", "2026-11-17 02:30", 1), ElementsAre("2026-11-18 02:30"));
  const CronTimes cron("30 2 * * *", "UTC");
  EXPECT_EQ(shown(cron.next_after(moment("2026-11-17 02:29") + 59s)), "2026-11-17 02:30");
  EXPECT_EQ(shown(cron.next_after(moment("2026-11-17 02:30") + 1s)), "2026-11-18 02:30");
}

TEST(Cron, ListsRangesAndStepsCanBeMixed) {
  EXPECT_THAT(times("0,30 9-10 * * *", "2026-11-17 00:00", 5),
              ElementsAre("2026-11-17 09:00", "2026-11-17 09:30", "2026-11-17 10:00",
                          "2026-11-17 10:30", "2026-11-18 09:00"));
  EXPECT_THAT(times("*/20 0 * * *", "2026-11-17 00:00", 3),
              ElementsAre("2026-11-17 00:20", "2026-11-17 00:40", "2026-11-18 00:00"));
  EXPECT_THAT(
      times("10-40/15,59 5 * * *", "2026-11-17 00:00", 4),
      ElementsAre("2026-11-17 05:10", "2026-11-17 05:25", "2026-11-17 05:40", "2026-11-17 05:59"));
  EXPECT_THAT(times("50/5 5 * * *", "2026-11-17 00:00", 3),
              ElementsAre("2026-11-17 05:50", "2026-11-17 05:55", "2026-11-18 05:50"));
}

TEST(Cron, NamesAreAsGoodAsNumbersInAnyCase) {
  EXPECT_THAT(times("0 8 * Jan-FEB mon", "2026-01-20 00:00", 3),
              ElementsAre("2026-01-26 08:00", "2026-02-02 08:00", "2026-02-09 08:00"));
  EXPECT_EQ(times("0 0 * * sun", "2026-11-17 00:00", 3), times("0 0 * * 0", "2026-11-17 00:00", 3));
  EXPECT_EQ(times("0 0 * * 7", "2026-11-17 00:00", 3), times("0 0 * * 0", "2026-11-17 00:00", 3));
  EXPECT_EQ(times("0 0 * * fri-sun", "2026-11-17 00:00", 5),
            times("0 0 * * 5-7", "2026-11-17 00:00", 5));
}

TEST(Cron, ShortFormsAreWhatTheySay) {
  const char* const from = "2026-11-17 13:37";
  EXPECT_THAT(times("@hourly", from, 1), ElementsAre("2026-11-17 14:00"));
  EXPECT_THAT(times("@daily", from, 1), ElementsAre("2026-11-18 00:00"));
  EXPECT_THAT(times("@midnight", from, 1), ElementsAre("2026-11-18 00:00"));
  EXPECT_THAT(times("@weekly", from, 1), ElementsAre("2026-11-22 00:00"));
  EXPECT_THAT(times("@monthly", from, 1), ElementsAre("2026-12-01 00:00"));
  EXPECT_THAT(times("@Yearly", from, 1), ElementsAre("2027-01-01 00:00"));
  EXPECT_THAT(times("@annually", from, 1), ElementsAre("2027-01-01 00:00"));
}

TEST(Cron, IfBothDaysAreRestrictedOneIsEnough) {
  // The 13th, and every Friday.
  EXPECT_THAT(times("0 0 13 * 5", "2026-11-01 00:00", 5),
              ElementsAre("2026-11-06 00:00", "2026-11-13 00:00", "2026-11-20 00:00",
                          "2026-11-27 00:00", "2026-12-04 00:00"));
  EXPECT_THAT(times("0 0 15 * 5", "2026-11-14 00:00", 2),
              ElementsAre("2026-11-15 00:00", "2026-11-20 00:00"));
  // A star restricts nothing, also with a step: then both have to fit.
  EXPECT_THAT(times("0 0 */2 * 5", "2026-11-01 00:00", 2),
              ElementsAre("2026-11-13 00:00", "2026-11-27 00:00"));
}

TEST(Cron, ADayThatAMonthDoesNotHaveIsPassedOver) {
  EXPECT_THAT(
      times("0 0 31 * *", "2026-01-31 00:00", 4),
      ElementsAre("2026-03-31 00:00", "2026-05-31 00:00", "2026-07-31 00:00", "2026-08-31 00:00"));
}

TEST(Cron, LeapDaysAreWaitedForPastACentury) {
  EXPECT_THAT(times("0 12 29 2 *", "2026-01-01 00:00", 2),
              ElementsAre("2028-02-29 12:00", "2032-02-29 12:00"));
  EXPECT_THAT(times("0 12 29 2 *", "2096-03-01 00:00", 1), ElementsAre("2104-02-29 12:00"));
}

TEST(Cron, ADayThatNeverComesIsRefused) {
  EXPECT_EQ(complaint("0 0 30 2 *"),
            "cron '0 0 30 2 *': the day of month '30' does not exist in month '2': it would never "
            "be due");
  EXPECT_THAT(complaint("0 0 31 feb,apr,jun,sep,nov *"), HasSubstr("it would never be due"));
  EXPECT_EQ(complaint("0 0 30 2 mon"), "it is fine") << "Mondays in February exist";
  EXPECT_EQ(complaint("0 0 29-31 2 *"), "it is fine");
}

TEST(Cron, BeforeThe1970sTimesAreFoundAsWell) {
  EXPECT_THAT(times("30 6 * * *", "1969-12-30 10:00", 3),
              ElementsAre("1969-12-31 06:30", "1970-01-01 06:30", "1970-01-02 06:30"));
}

// --- Clocks that are put forward and back --------------------------------------------------------

TEST(Cron, TimesAreThoseOnTheWallsOfTheZone) {
  EXPECT_THAT(times("0 9 * * *", "2026-01-10 00:00", 1, "Europe/Berlin"),
              ElementsAre("2026-01-10 08:00"));
  EXPECT_THAT(times("0 9 * * *", "2026-07-10 00:00", 1, "Europe/Berlin"),
              ElementsAre("2026-07-10 07:00"));
  EXPECT_THAT(times("0 9 * * *", "2026-07-10 00:00", 1, "Asia/Kathmandu"),
              ElementsAre("2026-07-10 03:15"));
}

TEST(Cron, InBerlinATimeInTheGapComesOnceAtItsEnd) {
  // On March 29 it is 03:00 (01:00 UTC) right after 01:59.
  EXPECT_THAT(times("30 2 * * *", "2026-03-27 12:00", 3, "Europe/Berlin"),
              ElementsAre("2026-03-28 01:30", "2026-03-29 01:00", "2026-03-30 00:30"));
  EXPECT_THAT(times("*/15 2 * * *", "2026-03-28 12:00", 2, "Europe/Berlin"),
              ElementsAre("2026-03-29 01:00", "2026-03-30 00:00"));
  EXPECT_THAT(
      times("0 * * * *", "2026-03-28 23:30", 4, "Europe/Berlin"),
      ElementsAre("2026-03-29 00:00", "2026-03-29 01:00", "2026-03-29 02:00", "2026-03-29 03:00"));
}

TEST(Cron, InBerlinATimeThatExistsTwiceComesOnce) {
  // On October 25 it is 02:00 again (01:00 UTC) after 02:59.
  EXPECT_THAT(times("30 2 * * *", "2026-10-24 12:00", 2, "Europe/Berlin"),
              ElementsAre("2026-10-25 00:30", "2026-10-26 01:30"));
  EXPECT_THAT(times("30 2 * * *", "2026-10-25 01:10", 1, "Europe/Berlin"),
              ElementsAre("2026-10-26 01:30"))
      << "also if it is asked for within the second of the two hours";
  EXPECT_THAT(times("0 * * * *", "2026-10-24 23:30", 3, "Europe/Berlin"),
              ElementsAre("2026-10-25 00:00", "2026-10-25 02:00", "2026-10-25 03:00"));
}

TEST(Cron, InNewYorkATimeInTheGapComesOnceAtItsEnd) {
  // On March 8 it is 03:00 (07:00 UTC) right after 01:59.
  EXPECT_THAT(times("30 2 * * *", "2026-03-07 12:00", 2, "America/New_York"),
              ElementsAre("2026-03-08 07:00", "2026-03-09 06:30"));
}

TEST(Cron, InNewYorkATimeThatExistsTwiceComesOnce) {
  // On November 1 it is 01:00 again (06:00 UTC) after 01:59.
  EXPECT_THAT(times("30 1 * * *", "2026-10-31 12:00", 2, "America/New_York"),
              ElementsAre("2026-11-01 05:30", "2026-11-02 06:30"));
  EXPECT_THAT(times("30 1 * * *", "2026-11-01 06:10", 1, "America/New_York"),
              ElementsAre("2026-11-02 06:30"));
}

TEST(Cron, ADayThatAZoneLeftOutEndsWhenTheNextOneBegins) {
  // Apia went from December 29 to 31 of 2011, at 10:00 UTC.
  EXPECT_THAT(times("0 12 30 12 *", "2011-12-01 00:00", 1, "Pacific/Apia"),
              ElementsAre("2011-12-30 10:00"));
}

TEST(Cron, EveryTimeOfAYearIsOneMomentAndComesInOrder) {
  for (const char* const zone : {"Europe/Berlin", "America/New_York", "Australia/Lord_Howe"}) {
    const CronTimes cron("7,37 * * * *", zone);
    sys_seconds last = moment("2026-01-01 00:00");
    const sys_seconds end = moment("2027-01-01 00:00");
    while (last < end) {
      const sys_seconds next = cron.next_after(last);
      ASSERT_GT(next, last) << zone << " " << shown(last);
      ASSERT_LE(next - last, 2h) << zone << " " << shown(last);
      ASSERT_EQ(cron.next_after(next - 1s), next) << zone << " " << shown(last);
      last = next;
    }
  }
}

TEST(Cron, AZoneThatIsNotKnownIsNamed) {
  EXPECT_EQ(complaint("@daily", "Europe/Atlantis"),
            "time zone 'Europe/Atlantis' is not known on this machine: give a name of the tz "
            "database, such as Europe/Berlin or UTC");
  EXPECT_THAT(complaint("@daily", ""), HasSubstr("time zone '' is not known"));
}

// --- What is wrong -------------------------------------------------------------------------------

TEST(Cron, TheNumberOfFieldsIsFive) {
  EXPECT_EQ(complaint("* * * *"),
            "cron '* * * *': it has 4 fields: give five, which are minute, hour, day of month, "
            "month and day of week");
  EXPECT_THAT(complaint("0 0 * * * *"), HasSubstr("it has 6 fields"));
  EXPECT_THAT(complaint(""), HasSubstr("it has 0 fields"));
  EXPECT_THAT(complaint("  "), HasSubstr("it has 0 fields"));
  EXPECT_EQ(complaint("\t0  0 * *\t* "), "it is fine");
}

TEST(Cron, NumbersOutOfRangeAreNamedWithTheirField) {
  EXPECT_EQ(complaint("60 * * * *"),
            "cron '60 * * * *': the minute '60' has 60, which is out of range: give 0 to 59");
  EXPECT_THAT(complaint("0 24 * * *"), HasSubstr("the hour '24' has 24"));
  EXPECT_THAT(complaint("0 0 0 * *"),
              ::testing::AllOf(HasSubstr("the day of month '0'"), HasSubstr("1 to 31")));
  EXPECT_THAT(complaint("0 0 32 * *"), HasSubstr("the day of month '32'"));
  EXPECT_THAT(complaint("0 0 * 0 *"),
              ::testing::AllOf(HasSubstr("the month '0'"), HasSubstr("1 to 12")));
  EXPECT_THAT(complaint("0 0 * 13 *"), HasSubstr("the month '13'"));
  EXPECT_THAT(complaint("0 0 * * 8"),
              ::testing::AllOf(HasSubstr("the day of week '8'"), HasSubstr("0 to 7")));
  EXPECT_THAT(complaint("1,2,99 * * * *"), HasSubstr("the minute '1,2,99' has 99"));
}

TEST(Cron, WhatIsNoNumberIsNamedWithItsField) {
  EXPECT_EQ(complaint("x * * * *"),
            "cron 'x * * * *': the minute 'x' has 'x' in 'x', which is no number: give 0 to 59");
  EXPECT_THAT(complaint("0 0 * juni *"), HasSubstr("give 1 to 12, or jan to dec"));
  EXPECT_THAT(complaint("0 0 * * montag"), HasSubstr("give 0 to 7, or sun to sat"));
  EXPECT_THAT(complaint("0 mon * * *"), HasSubstr("the hour 'mon' has 'mon'"));
  EXPECT_THAT(complaint("-1 * * * *"), HasSubstr("the minute '-1' has ''"));
  EXPECT_THAT(complaint("5- * * * *"), HasSubstr("the minute '5-' has ''"));
  EXPECT_THAT(complaint("1.5 * * * *"), HasSubstr("'1.5'"));
  EXPECT_THAT(complaint("? * * * *"), HasSubstr("'?'"));
  EXPECT_THAT(complaint("** * * * *"), HasSubstr("'**'"));
  EXPECT_THAT(complaint("99999999999 * * * *"), HasSubstr("no number"));
}

TEST(Cron, ListsStepsAndRangesThatAreNoneAreNamedWithTheirField) {
  EXPECT_THAT(complaint("1,,2 * * * *"), HasSubstr("the minute '1,,2' has an empty item"));
  EXPECT_THAT(complaint("1, * * * *"), HasSubstr("the minute '1,' has an empty item"));
  EXPECT_THAT(complaint("*/0 * * * *"),
              HasSubstr("the minute '*/0' has a step that is none, '*/0': give a whole number"));
  EXPECT_THAT(complaint("*/ * * * *"), HasSubstr("has a step that is none"));
  EXPECT_THAT(complaint("*/x * * * *"), HasSubstr("has a step that is none"));
  EXPECT_THAT(complaint("* */24 * * *"), HasSubstr("from 1 to 23"));
  EXPECT_THAT(complaint("*/2/2 * * * *"), HasSubstr("has a step that is none"));
  EXPECT_THAT(complaint("* 22-4 * * *"),
              HasSubstr("the hour '22-4' has a range that goes backwards, '22-4'"));
  EXPECT_THAT(complaint("1-2-3 * * * *"), HasSubstr("'2-3'"));
}

TEST(Cron, AShortFormThatIsNoneIsNamed) {
  EXPECT_THAT(complaint("@nightly"), HasSubstr("cron '@nightly': there is no such short form"));
  EXPECT_THAT(complaint("@reboot"), HasSubstr("use @hourly, @daily"));
}

}  // namespace
}  // namespace holdfast::detail
