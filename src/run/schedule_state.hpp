// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/describe/class.hpp>
#include <boost/json/value.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <holdfast/schedule.hpp>

/// What the store has of a schedule, as JSON: the input of its run, what that goes on with as a new
/// one, and the cell in which all can see how it stands. Times are nanoseconds since 1970.
namespace holdfast::detail {

/// Runs of it are schedules; every engine knows its code.
inline constexpr std::string_view kScheduleType = "holdfast.schedule";
/// The cell of the run's execution.
inline constexpr std::string_view kScheduleCell = "schedule";

// The signals that its run takes.
inline constexpr std::string_view kSetSignal = "set";
inline constexpr std::string_view kPauseSignal = "pause";
inline constexpr std::string_view kResumeSignal = "resume";
inline constexpr std::string_view kRunNowSignal = "run_now";

/// What to begin, and when. It is compared as a whole, so a default is written as well.
struct ScheduleDefinition {
  std::string name;
  std::string workflow;
  boost::json::value input;
  std::string cron;
  std::string zone;
  std::int64_t every_ns = 0;
  std::int64_t jitter_ns = 0;
  std::string overlap;
  std::string missed;
  std::uint32_t missed_max = 0;
  std::int64_t grace_ns = 0;
  std::optional<std::int64_t> from_ns;
  std::optional<std::int64_t> until_ns;
  std::string queue;

  bool operator==(const ScheduleDefinition&) const = default;
};
BOOST_DESCRIBE_STRUCT(ScheduleDefinition, (),
                      (name, workflow, input, cron, zone, every_ns, jitter_ns, overlap, missed,
                       missed_max, grace_ns, from_ns, until_ns, queue))

/// One time for which a run is to begin.
struct Firing {
  std::int64_t due_ns = 0;
  std::uint64_t asked = 0;  ///< The how manieth that was asked for; 0: it was not.

  bool operator==(const Firing&) const = default;
};
BOOST_DESCRIBE_STRUCT(Firing, (), (due_ns, asked))

/// A run that was begun.
struct FiredRun {
  std::string id;
  std::int64_t due_ns = 0;
  bool asked_for = false;
  std::string state;
  std::string failure;

  bool operator==(const FiredRun&) const = default;
};
BOOST_DESCRIBE_STRUCT(FiredRun, (), (id, due_ns, asked_for, state, failure))

struct ScheduleState {
  ScheduleDefinition definition;
  bool paused = false;
  std::string pause_reason;
  /// All times up to here are done with. Nothing: those up to when it began, was changed or
  /// resumed.
  std::optional<std::int64_t> cursor_ns;
  /// Of an interval: the times are so many intervals after this one.
  std::optional<std::int64_t> anchor_ns;
  /// Of an interval: what the calendar said, less what the store's clock said, when it began.
  std::optional<std::int64_t> calendar_ns;
  std::vector<FiredRun> last;   ///< The newest first.
  std::vector<Firing> waiting;  ///< In their order.
  std::uint64_t begun = 0;
  std::uint64_t skipped = 0;
  std::uint64_t missed = 0;
  std::uint64_t asked = 0;

  bool operator==(const ScheduleState&) const = default;
};
BOOST_DESCRIBE_STRUCT(ScheduleState, (),
                      (definition, paused, pause_reason, cursor_ns, anchor_ns, calendar_ns, last,
                       waiting, begun, skipped, missed, asked))

/// Throws `InvalidArgument`, which names the schedule, the field and its value.
[[nodiscard]] ScheduleDefinition checked_definition(std::string_view name,
                                                    std::string_view workflow,
                                                    boost::json::value input,
                                                    const ScheduleSpec& spec);
[[nodiscard]] ScheduleTerms terms_of(const ScheduleDefinition& definition);

[[nodiscard]] std::string_view word_of(Overlap overlap);
[[nodiscard]] Overlap overlap_of(std::string_view word);
[[nodiscard]] std::string_view word_of(Missed missed);
[[nodiscard]] Missed missed_of(std::string_view word);
/// Of a run that was begun: as far as its schedule knows, it goes on, is completed or has failed.
[[nodiscard]] std::string_view word_of(RunState state);
[[nodiscard]] RunState run_state_of(std::string_view word);

}  // namespace holdfast::detail
