// SPDX-License-Identifier: Apache-2.0
#include "cron.hpp"

#include <date/tz.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <span>
#include <stdexcept>
#include <utility>

#include <holdfast/error.hpp>

namespace holdfast::detail {

namespace {

using Names = std::span<const std::string_view>;

constexpr std::array<std::string_view, 12> kMonthNames{"jan", "feb", "mar", "apr", "may", "jun",
                                                       "jul", "aug", "sep", "oct", "nov", "dec"};
constexpr std::array<std::string_view, 7> kDayNames{"sun", "mon", "tue", "wed",
                                                    "thu", "fri", "sat"};
constexpr std::array<unsigned, 12> kLongestMonths{31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

/// What one of the five may say.
struct FieldKind {
  const char* name;
  unsigned min;
  unsigned max;
  Names names{};  ///< The first one is `min`.
};
constexpr std::array<FieldKind, 5> kFields{{{"minute", 0, 59},
                                            {"hour", 0, 23},
                                            {"day of month", 1, 31},
                                            {"month", 1, 12, kMonthNames},
                                            {"day of week", 0, 7, kDayNames}}};

constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kShortForms{
    {{"@hourly", "0 * * * *"},
     {"@daily", "0 0 * * *"},
     {"@midnight", "0 0 * * *"},
     {"@weekly", "0 0 * * 0"},
     {"@monthly", "0 0 1 * *"},
     {"@yearly", "0 0 1 1 *"},
     {"@annually", "0 0 1 1 *"}}};

std::string quoted(std::string_view text) {
  std::string whole("'");
  return whole.append(text).append("'");
}

[[noreturn]] void refuse_cron(std::string_view expression, const std::string& fault) {
  throw InvalidArgument("cron " + quoted(expression) + ": " + fault);
}

char lower(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

bool is_same_word(std::string_view one, std::string_view other) {
  return std::ranges::equal(one, other, {}, lower, lower);
}

/// Reads one field of an expression.
class FieldReader {
 public:
  FieldReader(std::string_view expression, const FieldKind& kind, std::string_view text)
      : expression_(expression), kind_(kind), text_(text) {}

  /// A bit for each value.
  [[nodiscard]] std::uint64_t read() const {
    std::uint64_t values = 0;
    std::string_view rest = text_;
    for (bool more = true; more;) {
      const std::size_t comma = rest.find(',');
      more = comma != std::string_view::npos;
      values |= read_item(rest.substr(0, comma));
      rest.remove_prefix(more ? comma + 1 : rest.size());
    }
    return values;
  }

 private:
  [[noreturn]] void refuse(const std::string& fault) const {
    refuse_cron(expression_, "the " + std::string(kind_.name) + " " + quoted(text_) + " " + fault);
  }
  [[nodiscard]] std::string limits() const {
    return std::to_string(kind_.min) + " to " + std::to_string(kind_.max);
  }

  [[nodiscard]] std::uint64_t read_item(std::string_view item) const {
    if (item.empty()) {
      refuse("has an empty item: a number is missing before or after a comma");
    }
    const std::size_t slash = item.find('/');
    const std::string_view range = item.substr(0, slash);
    const unsigned step =
        slash == std::string_view::npos ? 1 : read_step(item.substr(slash + 1), item);
    unsigned first = kind_.min;
    unsigned last = kind_.max;
    if (range != "*") {
      const std::size_t dash = range.find('-');
      first = read_value(range.substr(0, dash), item);
      if (dash != std::string_view::npos) {
        last = read_value(range.substr(dash + 1), item);
        if (last == 0 && kind_.names.data() == kDayNames.data() && first > 0) {
          last = 7;  // A week may end with Sunday by either number.
        }
      } else if (slash == std::string_view::npos) {
        last = first;
      }
    }
    if (first > last) {
      refuse("has a range that goes backwards, " + quoted(range) + ": write it as two, up to " +
             std::to_string(kind_.max) + " and from " + std::to_string(kind_.min));
    }
    std::uint64_t values = 0;
    for (unsigned value = first; value <= last; value += step) {
      values |= std::uint64_t{1} << value;
    }
    return values;
  }

  [[nodiscard]] unsigned read_step(std::string_view text, std::string_view item) const {
    const std::optional<unsigned> step = read_number(text);
    if (!step || *step == 0 || *step > kind_.max) {
      refuse("has a step that is none, " + quoted(item) + ": give a whole number from 1 to " +
             std::to_string(kind_.max));
    }
    return *step;
  }

  [[nodiscard]] unsigned read_value(std::string_view text, std::string_view item) const {
    for (std::size_t i = 0; i < kind_.names.size(); ++i) {
      if (is_same_word(text, kind_.names[i])) {
        return kind_.min + static_cast<unsigned>(i);
      }
    }
    const std::optional<unsigned> number = read_number(text);
    if (!number) {
      std::string words;
      if (!kind_.names.empty()) {
        words.append(", or ").append(kind_.names.front()).append(" to ").append(kind_.names.back());
      }
      refuse("has " + quoted(text) + " in " + quoted(item) + ", which is no number: give " +
             limits() + words);
    }
    if (*number < kind_.min || *number > kind_.max) {
      refuse("has " + std::to_string(*number) + ", which is out of range: give " + limits());
    }
    return *number;
  }

  [[nodiscard]] static std::optional<unsigned> read_number(std::string_view text) {
    unsigned number = 0;
    const char* const begin = text.data();
    const char* const end = begin + text.size();
    const auto [read, error] = std::from_chars(begin, end, number);
    const bool is_number = error == std::errc{} && read == end && !text.empty();
    return is_number ? std::optional(number) : std::nullopt;
  }

  std::string_view expression_;
  const FieldKind& kind_;
  std::string_view text_;
};

std::string_view without_short_form(std::string_view text) {
  if (!text.starts_with('@')) {
    return text;
  }
  for (const auto& [name, meaning] : kShortForms) {
    if (is_same_word(text, name)) {
      return meaning;
    }
  }
  refuse_cron(text,
              "there is no such short form: use @hourly, @daily, @midnight, @weekly, @monthly, "
              "@yearly or @annually, or five fields");
}

std::array<std::string_view, 5> split(std::string_view expression) {
  std::array<std::string_view, 5> fields;
  std::size_t count = 0;
  for (std::size_t at = 0; at < expression.size();) {
    const std::size_t begin = expression.find_first_not_of(" \t", at);
    if (begin == std::string_view::npos) {
      break;
    }
    const std::size_t end = std::min(expression.find_first_of(" \t", begin), expression.size());
    if (count < fields.size()) {
      fields[count] = expression.substr(begin, end - begin);
    }
    ++count;
    at = end;
  }
  if (count != fields.size()) {
    refuse_cron(expression, "it has " + std::to_string(count) +
                                " fields: give five, which are minute, hour, day of month, month "
                                "and day of week");
  }
  return fields;
}

/// The lowest bit that is set from `from` on.
std::optional<unsigned> next_bit(std::uint64_t bits, unsigned from) {
  const std::uint64_t left = from >= 64 ? 0 : bits >> from << from;
  return left == 0 ? std::nullopt : std::optional(static_cast<unsigned>(std::countr_zero(left)));
}

constexpr std::int64_t kMinutesPerHour = 60;
constexpr std::int64_t kMinutesPerDay = 24 * kMinutesPerHour;

}  // namespace

CronFields::CronFields(std::string_view text) {
  const std::array<std::string_view, 5> fields = split(without_short_form(text));
  const auto read = [&](std::size_t field) {
    return FieldReader(text, kFields[field], fields[field]).read();
  };
  minutes_ = read(0);
  hours_ = read(1);
  days_of_month_ = read(2);
  months_ = read(3);
  days_of_week_ = read(4);
  days_of_week_ |= days_of_week_ >> 7U;  // Sunday is 0 and 7.
  one_day_is_enough_ = !fields[2].starts_with('*') && !fields[4].starts_with('*');
  bool is_possible = one_day_is_enough_;
  for (unsigned month = 1; month <= 12; ++month) {
    const bool has_month = (months_ >> month & 1U) != 0;
    const auto first_day = static_cast<unsigned>(std::countr_zero(days_of_month_));
    is_possible = is_possible || (has_month && first_day <= kLongestMonths[month - 1]);
  }
  if (!is_possible) {
    refuse_cron(text, "the day of month " + quoted(fields[2]) + " does not exist in month " +
                          quoted(fields[3]) + ": it would never be due");
  }
}

bool CronFields::has_day(std::int64_t days_since_1970) const {
  const date::local_days day{date::days(static_cast<int>(days_since_1970))};
  const date::year_month_day ymd(day);
  if ((months_ >> unsigned(ymd.month()) & 1U) == 0) {
    return false;
  }
  const bool fits_month = (days_of_month_ >> unsigned(ymd.day()) & 1U) != 0;
  const bool fits_week = (days_of_week_ >> date::weekday(day).c_encoding() & 1U) != 0;
  return one_day_is_enough_ ? fits_month || fits_week : fits_month && fits_week;
}

CronFields::LocalMinute CronFields::next_after(LocalMinute minute) const {
  const std::int64_t from = minute.count() + 1;
  std::int64_t day = from / kMinutesPerDay - (from % kMinutesPerDay < 0 ? 1 : 0);
  auto left = static_cast<unsigned>(from - day * kMinutesPerDay);
  // Something fits in every eight years: at the longest it waits for a leap day past a century.
  for (;; ++day, left = 0) {
    if (!has_day(day)) {
      continue;
    }
    for (std::optional<unsigned> hour = next_bit(hours_, left / 60); hour;
         hour = next_bit(hours_, *hour + 1)) {
      const unsigned first = *hour == left / 60 ? left % 60 : 0;
      if (const std::optional<unsigned> found = next_bit(minutes_, first)) {
        return LocalMinute(day * kMinutesPerDay + *hour * kMinutesPerHour + *found);
      }
    }
  }
}

namespace {

const date::time_zone* find_zone(std::string_view name) {
  try {
    return date::locate_zone(name);
  } catch (const std::runtime_error&) {
    throw InvalidArgument("time zone " + quoted(name) +
                          " is not known on this machine: give a name of the tz database, such as "
                          "Europe/Berlin or UTC");
  }
}

/// When a clock on the wall shows this.
date::sys_seconds moment_of(const date::time_zone& zone, date::local_seconds shown) {
  const date::local_info info = zone.get_info(shown);
  if (info.result == date::local_info::nonexistent) {
    return info.second.begin;
  }
  return date::sys_seconds(shown.time_since_epoch()) - info.first.offset;
}

}  // namespace

CronTimes::CronTimes(std::string_view expression, std::string_view zone)
    : fields_(expression), zone_(find_zone(zone)) {}

/// What is shown later comes later or at the same moment, so it is enough to go on from what is
/// shown now. In the second of two equal hours that is what has been there already, until the end
/// of it.
std::chrono::sys_seconds CronTimes::next_after(std::chrono::sys_seconds moment) const {
  const date::local_seconds shown = zone_->to_local(moment);
  auto minute = date::floor<CronFields::LocalMinute>(shown.time_since_epoch());
  for (;;) {
    minute = fields_.next_after(minute);
    const date::sys_seconds due = moment_of(*zone_, date::local_seconds(minute));
    if (due > moment) {
      return due;
    }
  }
}

}  // namespace holdfast::detail
