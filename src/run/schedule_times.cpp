// SPDX-License-Identifier: Apache-2.0
#include "schedule_times.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "cron.hpp"
#include "stable_hash.hpp"

namespace holdfast::detail {

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kDayNs = 86'400 * kSecond;
/// Times that are longer ago are not even counted.
constexpr std::int64_t kLookBack = 366 * kDayNs;
/// A calendar that is set back by less is waited for, so that no time comes twice; by more, and the
/// clock was wrong before: it would be a long wait.
constexpr std::int64_t kSetBackMax = kDayNs;

std::int64_t floor_div(std::int64_t value, std::int64_t by) {
  return value / by - (value % by < 0 ? 1 : 0);
}

void keep_last(std::vector<std::int64_t>& times, std::int64_t time) {
  if (times.size() == kScheduleQueueMax) {
    times.erase(times.begin());
  }
  times.push_back(time);
}

}  // namespace

std::string text_of_time(std::int64_t ns) {
  const std::chrono::sys_time<std::chrono::milliseconds> time(
      std::chrono::milliseconds(floor_div(ns, 1'000'000)));
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  std::array<char, 64> text{};
  int length = std::snprintf(
      text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02d", static_cast<int>(date.year()),
      static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
      static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
      static_cast<int>(clock.seconds().count()));
  std::string whole(text.data(), static_cast<std::size_t>(length));
  if (const auto thousandths = clock.subseconds().count(); thousandths != 0) {
    length = std::snprintf(text.data(), text.size(), ".%03d", static_cast<int>(thousandths));
    whole.append(text.data(), static_cast<std::size_t>(length));
  }
  return whole.append("Z");
}

ScheduleTimes::ScheduleTimes(const ScheduleState& state) : state_(state) {
  if (!state.definition.cron.empty()) {
    cron_ = std::make_unique<CronTimes>(state.definition.cron, state.definition.zone);
  }
}
ScheduleTimes::~ScheduleTimes() = default;

std::optional<std::int64_t> ScheduleTimes::next_after(std::int64_t ns,
                                                      std::int64_t anchor_ns) const {
  const ScheduleDefinition& definition = state_.definition;
  const std::int64_t after = std::max(ns, definition.from_ns.value_or(ns + 1) - 1);
  std::int64_t next = 0;
  if (cron_ != nullptr) {
    const std::chrono::sys_seconds second(std::chrono::seconds(floor_div(after, kSecond)));
    next = cron_->next_after(second).time_since_epoch().count() * kSecond;
  } else {
    const std::int64_t every = definition.every_ns;
    next = anchor_ns + (floor_div(after - anchor_ns, every) + 1) * every;
  }
  const bool is_over = definition.until_ns && next >= *definition.until_ns;
  return is_over ? std::nullopt : std::optional(next);
}

std::int64_t ScheduleTimes::jitter_at(std::int64_t ns) const {
  const std::int64_t jitter = state_.definition.jitter_ns;
  if (jitter == 0) {
    return 0;
  }
  const std::uint64_t hash = stable_hash(state_.definition.name + "@" + std::to_string(ns));
  return static_cast<std::int64_t>(hash % (static_cast<std::uint64_t>(jitter) + 1));
}

Agenda ScheduleTimes::agenda(WallTime wall, StoreTime store, const ScheduleStart& start) const {
  const ScheduleDefinition& definition = state_.definition;
  Agenda agenda;
  agenda.now_ns = ns_of_wall(wall);
  if (cron_ == nullptr) {
    const std::int64_t store_ns = store.time_since_epoch().count();
    agenda.calendar_ns = state_.calendar_ns.value_or(agenda.now_ns - store_ns);
    agenda.now_ns = store_ns + *agenda.calendar_ns;
  }
  const std::int64_t now = agenda.now_ns;
  if (cron_ == nullptr) {
    const std::int64_t made_ns = now - (store - start.made_at).count();
    agenda.anchor_ns = state_.anchor_ns ? state_.anchor_ns : definition.from_ns.value_or(made_ns);
  }
  agenda.cursor_ns = state_.cursor_ns.value_or(now - (store - start.since).count());
  if (agenda.cursor_ns > now + kSetBackMax) {
    agenda.cursor_ns = now;
  }
  agenda.cursor_ns = std::max(agenda.cursor_ns, now - kLookBack);
  std::int64_t taken_at = agenda.cursor_ns;
  for (;;) {
    const std::optional<std::int64_t> time =
        next_after(agenda.cursor_ns, agenda.anchor_ns.value_or(0));
    if (!time) {
      break;
    }
    taken_at = std::max(taken_at, *time + jitter_at(*time));
    if (taken_at > now) {
      agenda.next_ns = taken_at;
      break;
    }
    const bool is_missed = now - taken_at > definition.grace_ns;
    keep_last(is_missed ? agenda.missed_ns : agenda.on_time_ns, *time);
    ++(is_missed ? agenda.missed : agenda.on_time);
    agenda.cursor_ns = *time;
  }
  return agenda;
}

std::vector<WallTime> ScheduleTimes::next(std::int64_t after_ns, std::size_t count) const {
  std::vector<WallTime> times;
  std::optional<std::int64_t> time = after_ns;
  while (times.size() < count) {
    time = next_after(*time, state_.anchor_ns.value_or(after_ns));
    if (!time) {
      break;
    }
    times.push_back(wall_of(*time + jitter_at(*time)));
  }
  return times;
}

}  // namespace holdfast::detail
