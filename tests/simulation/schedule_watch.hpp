// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <holdfast/batch.hpp>
#include <holdfast/memory_store.hpp>

#include "run/schedule_state.hpp"
#include "timetable.hpp"

namespace holdfast::testing {

/// Looks after every commit whether schedules keep what they promise: one run at a time, none
/// twice, and of each time it is known what became of it.
class ScheduleWatch {
 public:
  explicit ScheduleWatch(std::shared_ptr<MemoryDisk> disk) : disk_(std::move(disk)) {}

  Timetable& add(Timetable timetable) { return timetables_.emplace_back(std::move(timetable)); }
  void after_commit(const Batch& batch);
  /// Nothing has gone wrong for a while, and all that was asked of it was acknowledged.
  void check_is_driven(const Timetable& timetable);
  /// When all runs have ended; `beats` are the ids of those that did what they are for.
  void check_at_the_end(const std::set<std::string>& beats);

  [[nodiscard]] const std::vector<std::string>& faults() const noexcept { return faults_; }
  [[nodiscard]] std::uint64_t begun() const noexcept { return begun_; }

 private:
  /// The runs of a schedule, as the store has them.
  struct Runs {
    std::optional<WallTime> set_at;  ///< When the schedule was made.
    std::map<std::string, WallTime> begun;
    std::set<std::string> open;
  };
  /// What it showed last, for as long as that cannot have been taken back.
  struct Seen {
    std::uint64_t generation = 0;
    detail::ScheduleState state;
  };

  [[nodiscard]] std::vector<Entry> rows(std::string_view prefix) const;
  [[nodiscard]] Runs runs_of(const Timetable& timetable);
  [[nodiscard]] const Timetable* timetable_of_run(std::string_view id) const;
  [[nodiscard]] std::optional<detail::ScheduleState> state_of(const Timetable& timetable) const;
  [[nodiscard]] WallTime now() const;
  void check_runs(const Timetable& timetable, const Runs& runs);
  void check_state(const Timetable& timetable, const detail::ScheduleState& state,
                   const Runs& runs);
  void check_sums(const Timetable& timetable, const detail::ScheduleState& state, WallTime set_at);
  void check_last(const Timetable& timetable, const detail::ScheduleState& state, const Runs& runs);
  void check_change(const Timetable& timetable, const detail::ScheduleState& was,
                    const detail::ScheduleState& after, const Runs& runs);
  void check_missed(const Timetable& timetable, const detail::ScheduleState& before,
                    const detail::ScheduleState& after, WallTime set_at);
  void fault(const Timetable& timetable, const std::string& text);

  std::shared_ptr<MemoryDisk> disk_;
  std::deque<Timetable> timetables_;
  std::map<std::string, Seen> seen_;
  std::set<std::string> broken_;
  std::uint64_t begun_ = 0;
  std::vector<std::string> faults_;
};

}  // namespace holdfast::testing
