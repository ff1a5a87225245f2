// SPDX-License-Identifier: Apache-2.0
#include "schedule_watch.hpp"

#include <algorithm>
#include <utility>

#include "run/run_keys.hpp"
#include "run/run_rows.hpp"
#include "run/schedule_times.hpp"
#include "state/envelope.hpp"
#include "store/memory_disk.hpp"

namespace holdfast::testing {

using namespace std::chrono_literals;

namespace {

constexpr std::size_t kRowsAtOnce = 1'000'000;
constexpr std::string_view kCellsOfRuns = "cell/execution/";
/// From when a schedule may look at the clock to when it has: others may run before it.
constexpr Duration kLag = 2min;

WallTime wall_of_store(std::int64_t ns) { return kFirstDay + Duration(ns); }

std::optional<detail::ScheduleState> state_in(const Entry& entry) {
  if (!entry.key.starts_with(kCellsOfRuns) || !entry.key.ends_with(detail::kScheduleCell)) {
    return std::nullopt;
  }
  return detail::from_payload<detail::ScheduleState>(detail::Envelope(entry).value(), "cell");
}

/// Times, and what was asked for, that somebody has decided about.
std::uint64_t settled(const detail::ScheduleState& state) {
  return state.begun + state.skipped + state.missed + state.waiting.size();
}

/// Of those that it shows, the ones that nobody asked for.
std::ptrdiff_t runs_by_time(const detail::ScheduleState& state) {
  return std::ranges::count(state.last, false, &detail::FiredRun::asked_for);
}

}  // namespace

std::vector<Entry> ScheduleWatch::rows(std::string_view prefix) const {
  const MemoryDisk::State& disk = disk_->state();
  return disk.scan(disk.generation(), prefix, "", kRowsAtOnce, Read::kApplied).entries;
}

WallTime ScheduleWatch::now() const {
  return kFirstDay + disk_->state().clock().now().time_since_epoch();
}

/// What comes after the first one follows from it.
void ScheduleWatch::fault(const Timetable& timetable, const std::string& text) {
  if (broken_.insert(timetable.name).second) {
    faults_.push_back("schedule " + timetable.name + ": " + text);
  }
}

const Timetable* ScheduleWatch::timetable_of_run(std::string_view id) const {
  const auto found = std::ranges::find_if(timetables_, [&](const Timetable& timetable) {
    return id.starts_with(timetable.name + "@");
  });
  return found == timetables_.end() ? nullptr : &*found;
}

ScheduleWatch::Runs ScheduleWatch::runs_of(const Timetable& timetable) {
  Runs runs;
  for (const Entry& entry : rows(detail::kRunPrefix)) {
    const record::RunHead head = detail::read_run_head(entry);
    const WallTime began = wall_of_store(head.started_at_ns());
    if (head.id() == "schedule:" + timetable.name) {
      runs.set_at = runs.set_at ? std::min(*runs.set_at, began) : began;
    }
    if (timetable_of_run(head.id()) != &timetable) {
      continue;
    }
    if (!runs.begun.emplace(head.id(), began).second) {
      fault(timetable, "two runs have the id " + head.id());
    }
    if (!detail::has_ended(head)) {
      runs.open.insert(head.id());
    }
  }
  return runs;
}

/// As it is shown at present.
std::optional<detail::ScheduleState> ScheduleWatch::state_of(const Timetable& timetable) const {
  for (const Entry& entry : rows(kCellsOfRuns)) {
    std::optional<detail::ScheduleState> state = state_in(entry);
    if (state && state->definition.name == timetable.name) {
      return state;
    }
  }
  return std::nullopt;
}

/// The batch says what may be different. How it stands is in the store: while somebody waited for
/// the disk, others may have gone on.
void ScheduleWatch::after_commit(const Batch& batch) {
  if (timetables_.empty()) {
    return;
  }
  std::set<const Timetable*> with_runs;
  bool shows_states = false;
  for (const Batch::Write& write : batch.writes()) {
    shows_states = shows_states || write.key.starts_with(kCellsOfRuns);
    if (write.key.starts_with(detail::kRunPrefix) && write.value) {
      const Entry head{std::string(write.key), std::string(*write.value), 0};
      with_runs.insert(timetable_of_run(detail::read_run_head(head).id()));
    }
  }
  for (const Timetable& timetable : timetables_) {
    if (!shows_states && !with_runs.contains(&timetable)) {
      continue;
    }
    const Runs runs = runs_of(timetable);
    check_runs(timetable, runs);
    if (const std::optional<detail::ScheduleState> state = state_of(timetable)) {
      check_state(timetable, *state, runs);
    }
  }
}

void ScheduleWatch::check_runs(const Timetable& timetable, const Runs& runs) {
  if (timetable.runs_one_at_a_time() && runs.open.size() > 1) {
    fault(timetable, *runs.open.begin() + " and " + *runs.open.rbegin() + " go on at once");
  }
}

void ScheduleWatch::check_state(const Timetable& timetable, const detail::ScheduleState& state,
                                const Runs& runs) {
  if (!runs.set_at) {
    return;  // It is being purged, and its cells go last.
  }
  check_sums(timetable, state, *runs.set_at);
  check_last(timetable, state, runs);
  const std::uint64_t generation = disk_->state().generation();
  Seen& seen = seen_[timetable.name];
  if (seen.generation == generation) {
    check_change(timetable, seen.state, state, runs);
  }
  seen = {generation, state};
}

/// No time, and nothing that was asked for, is lost or counts twice.
void ScheduleWatch::check_sums(const Timetable& timetable, const detail::ScheduleState& state,
                               WallTime set_at) {
  if (state.asked > timetable.asked_for) {
    fault(timetable, std::to_string(state.asked) + " runs were asked for, it thinks, of " +
                         std::to_string(timetable.asked_for));
  }
  const bool passes_over_none =
      timetable.overlap == Overlap::kAllow || timetable.overlap == Overlap::kQueue;
  if (passes_over_none && state.skipped > 0) {
    fault(timetable, "it has passed over " + std::to_string(state.skipped) +
                         " times though nothing kept them from running");
  }
  const std::uint64_t made_up_for = timetable.missed == Missed::kRunAll ? timetable.missed_max : 1;
  if (timetable.overlap == Overlap::kSkip && state.waiting.size() > 1 + made_up_for) {
    fault(timetable, std::to_string(state.waiting.size()) + " times wait that were to be skipped");
  }
  if (!state.cursor_ns) {
    return;
  }
  const auto times = static_cast<std::uint64_t>(
      timetable.times_between(set_at, detail::wall_of(*state.cursor_ns), set_at));
  const std::uint64_t known = settled(state);
  if (known > times + state.asked || (known < times + state.asked && !timetable.has_pause)) {
    fault(timetable, std::to_string(times) + " times and " + std::to_string(state.asked) +
                         " runs that were asked for became " + std::to_string(state.begun) +
                         " runs, " + std::to_string(state.skipped) + " skipped, " +
                         std::to_string(state.missed) + " missed, " +
                         std::to_string(state.waiting.size()) + " waiting");
  }
}

/// What it says to have begun is there, and for a time that is one and has come.
void ScheduleWatch::check_last(const Timetable& timetable, const detail::ScheduleState& state,
                               const Runs& runs) {
  if (state.begun > runs.begun.size()) {
    fault(timetable, std::to_string(state.begun) + " runs are begun, it thinks, and there are " +
                         std::to_string(runs.begun.size()));
  }
  for (const detail::FiredRun& run : state.last) {
    const WallTime due = detail::wall_of(run.due_ns);
    const auto found = runs.begun.find(run.id);
    if (found == runs.begun.end()) {
      fault(timetable, run.id + " is begun, it thinks, and is not there");
      continue;
    }
    if (found->second < due) {
      fault(timetable, run.id + " began before its time");
    }
    if (!run.asked_for && (!timetable.is_time(due, *runs.set_at) || due <= *runs.set_at)) {
      fault(timetable, run.id + " is for a time that is none");
    }
  }
}

void ScheduleWatch::check_change(const Timetable& timetable, const detail::ScheduleState& was,
                                 const detail::ScheduleState& after, const Runs& runs) {
  begun_ += after.begun - std::min(was.begun, after.begun);
  if (after.begun < was.begun || after.skipped < was.skipped || after.missed < was.missed ||
      after.asked < was.asked ||
      (after.cursor_ns && was.cursor_ns && *after.cursor_ns < *was.cursor_ns)) {
    fault(timetable, "it goes back");
  }
  if (was.paused && after.paused && runs_by_time(after) > runs_by_time(was)) {
    fault(timetable, "a run began in a pause");
  }
  if (after.missed > was.missed && after.cursor_ns) {
    check_missed(timetable, was, after, *runs.set_at);
  }
}

/// Only what came too late was missed, and it was made up for as the policy says.
void ScheduleWatch::check_missed(const Timetable& timetable, const detail::ScheduleState& before,
                                 const detail::ScheduleState& after, WallTime set_at) {
  const WallTime from = before.cursor_ns ? detail::wall_of(*before.cursor_ns) : set_at;
  const WallTime late = std::min(detail::wall_of(*after.cursor_ns), now() - timetable.grace);
  const std::uint64_t missed = after.missed - before.missed;
  const std::int64_t times = late > from ? timetable.times_between(from, late, set_at) : 0;
  if (static_cast<std::int64_t>(missed) > times) {
    fault(timetable, std::to_string(missed) + " times were missed, and only " +
                         std::to_string(times) + " were late");
  }
  const std::uint64_t asked = after.asked - before.asked;
  const std::uint64_t kept = settled(after) - settled(before) - missed - asked;
  const std::uint64_t least = timetable.missed == Missed::kSkip      ? 0
                              : timetable.missed == Missed::kRunLast ? 1
                                                                     : timetable.missed_max;
  if (kept < least) {
    fault(timetable, std::to_string(missed) + " times are lost, and only " + std::to_string(kept) +
                         " made up for");
  }
}

void ScheduleWatch::check_is_driven(const Timetable& timetable) {
  const std::optional<detail::ScheduleState> state = state_of(timetable);
  if (!state) {
    fault(timetable, "nobody has driven it");
    return;
  }
  const WallTime due = now() - timetable.period() - timetable.jitter - kLag;
  if (!state->paused && state->cursor_ns && detail::wall_of(*state->cursor_ns) < due) {
    fault(timetable, "it has stopped looking at the clock");
  }
  if (state->asked != timetable.asked_for) {
    fault(timetable, "of " + std::to_string(timetable.asked_for) +
                         " runs that were asked for it knows " + std::to_string(state->asked));
  }
}

void ScheduleWatch::check_at_the_end(const std::set<std::string>& beats) {
  for (const Entry& entry : rows(detail::kRunPrefix)) {
    const record::RunHead head = detail::read_run_head(entry);
    const Timetable* const timetable = timetable_of_run(head.id());
    if (timetable == nullptr) {
      continue;
    }
    const bool may_be_cancelled = timetable->overlap == Overlap::kCancelRunning;
    if (head.state() == record::RunHead::COMPLETED) {
      if (!beats.contains(head.id())) {
        fault(*timetable, head.id() + " has not done what it is for");
      }
    } else if (head.state() != record::RunHead::CANCELLED || !may_be_cancelled) {
      fault(*timetable, head.id() + " was to be completed");
    }
  }
}

}  // namespace holdfast::testing
