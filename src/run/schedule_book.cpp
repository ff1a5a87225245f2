// SPDX-License-Identifier: Apache-2.0
#include "schedule_book.hpp"

#include <algorithm>
#include <utility>

namespace holdfast::detail {

namespace {

bool have_same_times(const ScheduleDefinition& one, const ScheduleDefinition& other) {
  return one.cron == other.cron && one.zone == other.zone && one.every_ns == other.every_ns &&
         one.from_ns == other.from_ns;
}

}  // namespace

ScheduleBook::ScheduleBook(ScheduleState state, StoreTime now)
    : state_(std::move(state)), start_{now, now} {}

// --- What people want ----------------------------------------------------------------------------

void ScheduleBook::set(ScheduleDefinition definition, StoreTime now) {
  if (definition == state_.definition) {
    return;
  }
  if (!have_same_times(definition, state_.definition)) {
    state_.anchor_ns.reset();
    state_.calendar_ns.reset();
    start_.made_at = now;
    count_from(now);
  }
  state_.definition = std::move(definition);
  has_changed_ = true;
}

void ScheduleBook::pause(std::string reason) {
  state_.paused = true;
  state_.pause_reason = std::move(reason);
  has_changed_ = true;
}

void ScheduleBook::resume(StoreTime now) {
  if (std::exchange(state_.paused, false)) {
    state_.pause_reason.clear();
    count_from(now);
    has_changed_ = true;
  }
}

void ScheduleBook::count_from(StoreTime now) {
  state_.cursor_ns.reset();
  start_.since = now;
  has_new_times_ = true;
}

void ScheduleBook::ask_for_run() {
  ++asked_for_;
  has_changed_ = true;
}

// --- What the clock says -------------------------------------------------------------------------

/// For another time, by the overlap policy.
bool ScheduleBook::has_room() const {
  switch (overlap_of(state_.definition.overlap)) {
    case Overlap::kSkip:
      return !is_running() && state_.waiting.empty();
    case Overlap::kQueue:
      return state_.waiting.size() < kScheduleQueueMax;
    case Overlap::kCancelRunning:
      return !shall_stop_;
    case Overlap::kAllow:
      break;
  }
  return true;
}

bool ScheduleBook::wants_time() const { return asked_for_ > 0 || (!state_.paused && has_room()); }

void ScheduleBook::accept(Firing firing) {
  if (!has_room()) {
    ++state_.skipped;
  } else if (overlap_of(state_.definition.overlap) == Overlap::kAllow) {
    unwatched_.push_back(firing);
  } else {
    state_.waiting.push_back(firing);
    shall_stop_ = is_running() && overlap_of(state_.definition.overlap) == Overlap::kCancelRunning;
  }
}

/// Those that are made up for stand in line even where others would be passed over: whoever wants
/// all of them does not mean the first one.
void ScheduleBook::accept_missed(const Agenda& agenda) {
  std::size_t kept = 0;
  switch (missed_of(state_.definition.missed)) {
    case Missed::kSkip:
      break;
    case Missed::kRunLast:
      kept = agenda.on_time == 0 ? 1 : 0;
      break;
    case Missed::kRunAll:
      kept = state_.definition.missed_max;
      break;
  }
  kept = std::min(kept, agenda.missed_ns.size());
  state_.missed += agenda.missed - kept;
  std::vector<Firing>& line =
      overlap_of(state_.definition.overlap) == Overlap::kAllow ? unwatched_ : state_.waiting;
  for (std::size_t i = agenda.missed_ns.size() - kept; i < agenda.missed_ns.size(); ++i) {
    line.push_back({agenda.missed_ns[i], 0});
  }
}

bool ScheduleBook::decide(const Agenda& agenda) {
  if (has_new_times_) {
    return false;
  }
  if (state_.cursor_ns != agenda.cursor_ns) {
    state_.cursor_ns = agenda.cursor_ns;
    has_changed_ = true;
  }
  state_.anchor_ns = agenda.anchor_ns;
  state_.calendar_ns = agenda.calendar_ns;
  if (state_.paused) {
    // They pass.
  } else if (std::exchange(had_no_room_, false)) {
    state_.skipped += agenda.on_time + agenda.missed;
  } else {
    accept_missed(agenda);
    state_.skipped += agenda.on_time - agenda.on_time_ns.size();
    for (const std::int64_t due : agenda.on_time_ns) {
      accept({due, 0});
    }
  }
  for (; asked_for_ > 0; --asked_for_) {
    accept({agenda.now_ns, ++state_.asked});
  }
  had_no_room_ = !has_room();
  return true;
}

std::vector<FiredRun> ScheduleBook::begin_unwatched() {
  std::vector<FiredRun> runs;
  for (const Firing& firing : std::exchange(unwatched_, {})) {
    runs.push_back(begin(firing));
  }
  return runs;
}

// --- One run at a time ---------------------------------------------------------------------------

FiredRun ScheduleBook::begin(const Firing& firing) {
  FiredRun run;
  run.id = state_.definition.name + "@" + text_of_time(firing.due_ns);
  if (firing.asked > 0) {
    run.id.append("#").append(std::to_string(firing.asked));
  }
  run.due_ns = firing.due_ns;
  run.asked_for = firing.asked > 0;
  run.state = word_of(RunState::kRunning);
  state_.last.insert(state_.last.begin(), run);
  if (state_.last.size() > kScheduleRunsShown) {
    state_.last.pop_back();
  }
  ++state_.begun;
  has_changed_ = true;
  return run;
}

std::vector<Firing>::const_iterator ScheduleBook::next_in_line() const {
  return std::ranges::find_if(state_.waiting,
                              [&](const Firing& one) { return !state_.paused || one.asked > 0; });
}

bool ScheduleBook::has_next() const {
  return !is_running() && next_in_line() != state_.waiting.end();
}

FiredRun ScheduleBook::begin_next() {
  const auto next = next_in_line();
  const Firing firing = *next;
  state_.waiting.erase(next);
  FiredRun run = begin(firing);
  running_ = run.id;
  return run;
}

void ScheduleBook::end_running(RunState state, std::string failure) {
  const auto run = std::ranges::find(state_.last, *running_, &FiredRun::id);
  if (run != state_.last.end()) {  // Otherwise many have begun since.
    run->state = word_of(state);
    run->failure = std::move(failure);
  }
  forget_running();
}

void ScheduleBook::refuse_running() {
  std::erase_if(state_.last, [&](const FiredRun& run) { return run.id == *running_; });
  --state_.begun;
  ++state_.skipped;
  forget_running();
}

void ScheduleBook::forget_running() {
  running_.reset();
  shall_stop_ = false;
  has_changed_ = true;
}

}  // namespace holdfast::detail
