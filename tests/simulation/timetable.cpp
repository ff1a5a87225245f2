// SPDX-License-Identifier: Apache-2.0
#include "timetable.hpp"

#include <utility>

#include "play.hpp"

namespace holdfast::testing {

using namespace std::chrono_literals;

namespace {

Duration between_seconds(Dice& dice, std::uint64_t least, std::uint64_t most) {
  return std::chrono::seconds(least + dice.below(most - least + 1));
}

/// Since an hour that is on every grid.
std::int64_t grid_index(WallTime time, WallTime origin, Duration period) {
  const Duration since = time - origin;
  return since / period - (since % period < Duration::zero() ? 1 : 0);
}

Task<void> wait_a_while(Context& ctx, std::int64_t most_ms) {
  const std::uint64_t time_ms = ctx.random() % static_cast<std::uint64_t>(most_ms);
  co_await ctx.sleep(std::chrono::milliseconds(time_ms));
}

Task<void> beat(Context& ctx, Beat what) {
  if (what.is_stubborn) {
    co_await ctx.shielded(wait_a_while(ctx, what.most_ms));
  } else {
    co_await wait_a_while(ctx, what.most_ms);
  }
  const std::string id = ctx.run_id();
  auto step = ctx.run("beat", [id] { outside->beats.insert(id); });
  co_await step;
}

}  // namespace

ScheduleSpec Timetable::spec() const {
  ScheduleSpec spec;
  spec.every = every;
  if (every == Duration::zero()) {
    spec.cron = cron_minutes == 1 ? "* * * * *" : "*/2 * * * *";
    spec.zone = "Europe/Berlin";
  }
  spec.jitter = jitter;
  spec.overlap = overlap;
  spec.missed = missed;
  spec.missed_max = missed_max;
  spec.grace = grace;
  spec.queue = queue;
  return spec;
}

Duration Timetable::period() const {
  return every == Duration::zero() ? Duration(std::chrono::minutes(cron_minutes)) : every;
}

std::int64_t Timetable::times_between(WallTime after, WallTime last, WallTime begin) const {
  const WallTime origin = every == Duration::zero() ? kFirstDay : begin;
  return grid_index(last, origin, period()) - grid_index(after, origin, period());
}

bool Timetable::is_time(WallTime time, WallTime begin) const {
  return times_between(time - 1ns, time, begin) == 1;
}

Timetable make_timetable(Dice& dice, std::string name) {
  Timetable made;
  made.name = std::move(name);
  if (dice.one_in(3)) {
    made.cron_minutes = dice.one_in(2) ? 1 : 2;
  } else {
    made.every = between_seconds(dice, 5, 60);
  }
  if (dice.one_in(2)) {
    made.jitter = made.period() / static_cast<Duration::rep>(1 + dice.below(4));
  }
  made.overlap = static_cast<Overlap>(dice.below(4));
  made.missed = static_cast<Missed>(dice.below(3));
  made.missed_max = 1 + static_cast<std::uint32_t>(dice.below(4));
  made.grace = between_seconds(dice, 0, 40);
  made.queue = dice.one_in(4) ? kOtherQueue : "";
  made.is_limited = dice.one_in(2);
  made.has_pause = dice.one_in(3);
  made.asked_for = dice.below(3);
  return made;
}

const Workflow<Beat, void>& beat_workflow(bool is_limited) {
  static const auto unlimited = workflow("beat", beat);
  static const auto limited = workflow("beat one at a time", beat).concurrency({.max = 1});
  return is_limited ? limited : unlimited;
}

}  // namespace holdfast::testing
