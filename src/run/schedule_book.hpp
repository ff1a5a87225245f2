// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "schedule_state.hpp"
#include "schedule_times.hpp"

namespace holdfast::detail {

/// What the run of a schedule knows, and what it decides. Without a clock or a store: the same
/// calls lead to the same state, so it is the same when the run is replayed.
class ScheduleBook {
 public:
  ScheduleBook(ScheduleState state, StoreTime now);

  [[nodiscard]] const ScheduleState& state() const noexcept { return state_; }
  [[nodiscard]] const ScheduleStart& start() const noexcept { return start_; }
  /// Something is different from what all can see: true once for each time.
  [[nodiscard]] bool take_change() noexcept { return std::exchange(has_changed_, false); }
  [[nodiscard]] bool has_changed() const noexcept { return has_changed_; }

  // --- What people want --------------------------------------------------------------------------

  void set(ScheduleDefinition definition, StoreTime now);
  void pause(std::string reason);
  void resume(StoreTime now);
  void ask_for_run();

  // --- What the clock says -----------------------------------------------------------------------

  /// Otherwise no time makes a difference at present.
  [[nodiscard]] bool wants_time() const;
  /// Somebody looks at the clock, which may take a while.
  void begin_look() noexcept { has_new_times_ = false; }
  /// False: the times were changed meanwhile, so nothing was decided.
  [[nodiscard]] bool decide(const Agenda& agenda);
  /// What is to begin at once, whatever goes on: nobody waits for its end.
  [[nodiscard]] std::vector<FiredRun> begin_unwatched();

  // --- One run at a time -------------------------------------------------------------------------

  [[nodiscard]] bool is_running() const noexcept { return running_.has_value(); }
  [[nodiscard]] bool has_next() const;
  [[nodiscard]] FiredRun begin_next();
  [[nodiscard]] const std::optional<std::string>& running() const noexcept { return running_; }
  /// The state with that one was.
  void was_shown(std::optional<std::string> running) { shown_ = std::move(running); }
  /// The one that runs is to make room for the next one, and can: what is begun and given up at
  /// once has not been begun, so it is left until all can see it.
  [[nodiscard]] bool shall_stop() const noexcept { return shall_stop_ && shown_ == running_; }
  void end_running(RunState state, std::string failure);
  /// It did not begin: somebody else has a run of its id.
  void refuse_running();

 private:
  /// While it is paused, only those that were asked for have a turn.
  [[nodiscard]] std::vector<Firing>::const_iterator next_in_line() const;
  [[nodiscard]] bool has_room() const;
  void accept(Firing firing);
  void accept_missed(const Agenda& agenda);
  [[nodiscard]] FiredRun begin(const Firing& firing);
  void forget_running();
  void count_from(StoreTime now);

  ScheduleState state_;
  ScheduleStart start_;
  std::uint64_t asked_for_ = 0;  // Runs that were, and have no time yet.
  std::vector<Firing> unwatched_;
  std::optional<std::string> running_;  // Its id.
  std::optional<std::string> shown_;
  bool shall_stop_ = false;
  bool had_no_room_ = false;  // For the times that come meanwhile.
  bool has_new_times_ = false;
  bool has_changed_ = true;
};

}  // namespace holdfast::detail
