// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/json/value.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <holdfast/clock.hpp>
#include <holdfast/engine.hpp>
#include <holdfast/task.hpp>
#include <holdfast/wall_clock.hpp>
#include <holdfast/workflow_definition.hpp>

namespace holdfast {

/// What happens at a time at which the run of an earlier one still goes on. One that waits for its
/// admission goes on, too.
enum class Overlap : std::uint8_t {
  kSkip,           ///< The time is passed over.
  kQueue,          ///< It waits its turn; of more than `kScheduleQueueMax` those are passed over.
  kCancelRunning,  ///< The earlier one is asked to stop, and when it has ended this one begins.
  kAllow,          ///< Both go on. To bound how many: limit the workflow.
};

/// What happens to times at which nobody was there, once somebody is.
enum class Missed : std::uint8_t {
  kSkip,
  kRunLast,  ///< One run for all of them, unless one is due now anyway.
  kRunAll,  ///< The last `missed_max` of them, one after the other; with `Overlap::kAllow` at once.
};

inline constexpr std::size_t kScheduleQueueMax = 100;

/// When a schedule is due. Trivially destructible on purpose, as `WaitOptions`; views are copied at
/// the call.
struct ScheduleSpec {
  /// Minute, hour, day of month, month, day of week, on the walls of `zone`: "30 2 * * mon-fri".
  /// Either this or `every`.
  std::string_view cron{};
  /// As the tz database names it: "Europe/Berlin".
  std::string_view zone = "UTC";
  /// At least a second, by the store's clock: from when the schedule was made, or `from`.
  Duration every{};
  /// Each time is up to so much later; how much follows from the schedule's name and the time, so
  /// it is the same after a restart. Not longer than `every`. A time is not taken before the one
  /// before it.
  Duration jitter{};
  Overlap overlap = Overlap::kSkip;
  Missed missed = Missed::kRunLast;
  std::uint32_t missed_max = 10;  ///< 1 to `kScheduleQueueMax`.
  /// A time that is taken later than this counts as missed.
  Duration grace = std::chrono::minutes(1);
  /// No times before the one, and none from the other on.
  std::optional<WallTime> from{};
  std::optional<WallTime> until{};
  /// Which processes drive the runs. Empty: those that drive the schedule.
  std::string_view queue{};
};

/// A `ScheduleSpec`, kept.
struct ScheduleTerms {
  std::string cron;
  std::string zone;
  Duration every{};
  Duration jitter{};
  Overlap overlap = Overlap::kSkip;
  Missed missed = Missed::kRunLast;
  std::uint32_t missed_max = 0;
  Duration grace{};
  std::optional<WallTime> from{};
  std::optional<WallTime> until{};
  std::string queue;

  bool operator==(const ScheduleTerms&) const = default;
};

/// A run that a schedule has begun.
struct ScheduledRun {
  std::string id;  ///< NAME@2026-11-17T02:30:00Z; with a number behind it, if it was asked for.
  WallTime due{};  ///< For which time, without the jitter.
  bool asked_for = false;  ///< By `run_now`.
  /// Nothing: it has ended, and was purged before the schedule learned how.
  std::optional<RunState> state = RunState::kRunning;
  std::string failure;
};

/// A schedule, as all can see it.
struct ScheduleInfo {
  std::string name;
  std::string workflow;
  boost::json::value input;
  ScheduleTerms terms;
  bool paused = false;
  std::string pause_reason;
  /// Some of the times to come, with their jitter. One that has passed: nobody drives the schedule.
  std::vector<WallTime> next;
  std::vector<ScheduledRun> last;  ///< The newest first, at most `kScheduleRunsShown`.
  std::vector<WallTime> waiting;   ///< Times whose turn has not come yet.
  std::uint64_t begun = 0;         ///< Runs.
  std::uint64_t skipped = 0;       ///< Times that were passed over as a run went on.
  std::uint64_t missed = 0;        ///< Times that were passed over as nobody was there.
  /// Why it does not go on though it could: `RunInfo::parked`, or, said by `describe` alone, what
  /// keeps it from finding its times, such as a zone that is not known where it is driven.
  std::string trouble;
};

inline constexpr std::size_t kScheduleRunsShown = 20;

/// Workflows that begin by the clock: once for each time, whatever crashes.
///
/// ```
/// Schedules schedules(engine);
/// co_await schedules.set("nightly", reconcile, books,
///                        {.cron = "30 2 * * *", .zone = "Europe/Berlin"});
/// ```
///
/// A schedule is a run itself, `schedule:NAME`, of the queue of the engine that made it: any engine
/// of that queue drives it, and no program has to know it. What is asked for here is durable when
/// it returns, and happens as soon as an engine drives it. Thread-safe; the engine outlives it. All
/// but `set` throw `NoSuchRun` if there is no such schedule.
class Schedules {
 public:
  explicit Schedules(Engine& engine) noexcept : engine_(&engine) {}

  /// Makes the schedule, or changes it; a program can call it at each start, as what is the same
  /// already stays as it is, the times that were missed meanwhile included. Where the times change,
  /// those from now on count. Throws `InvalidArgument`, and then nothing was changed.
  template <Payload In, Payload Out>
    requires(!std::is_void_v<In>)
  [[nodiscard]] Task<void> set(std::string_view name, const Workflow<In, Out>& workflow,
                               const std::type_identity_t<In>& input, const ScheduleSpec& spec) {
    return set_type(name, workflow.name(), detail::to_payload(input), spec);
  }
  template <Payload Out>
  [[nodiscard]] Task<void> set(std::string_view name, const Workflow<void, Out>& workflow,
                               const ScheduleSpec& spec) {
    return set_type(name, workflow.name(), nullptr, spec);
  }
  /// Of a type that this process does not know.
  [[nodiscard]] Task<void> set_type(std::string_view name, std::string_view type,
                                    boost::json::value input, const ScheduleSpec& spec);

  /// Times pass, and nothing begins; what runs goes on. They do not count as missed later.
  [[nodiscard]] Task<void> pause(std::string_view name, std::string_view reason);
  [[nodiscard]] Task<void> resume(std::string_view name);
  /// One run more, as if a time were due: the overlap policy counts. Also while it is paused. Two
  /// with one `request_id` count once; empty: each counts.
  [[nodiscard]] Task<void> run_now(std::string_view name, std::string_view request_id = {});
  /// Ends the schedule; what it has begun goes on.
  [[nodiscard]] Task<void> remove(std::string_view name);

  /// Nothing: there is none.
  [[nodiscard]] Task<std::optional<ScheduleInfo>> describe(std::string_view name);
  /// All of them, by name.
  [[nodiscard]] Task<std::vector<ScheduleInfo>> list();

 private:
  Engine* engine_;
};

}  // namespace holdfast
