// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <run.pb.h>

#include <holdfast/engine.hpp>
#include <holdfast/store.hpp>

#include "run_machine.hpp"

namespace holdfast::detail {

class LiveRun;

/// A step of a run that has begun and not ended: its attempts, the pauses between them, and its
/// time-outs. Thread-safe.
///
/// The function of a step may refer to variables of the workflow, so nothing goes on while an
/// attempt is under way: one that takes too long, or that nobody wants any more, is asked to stop,
/// and counts as failed when it has.
class StepRun : public std::enable_shared_from_this<StepRun> {
 public:
  /// Of one that waits for a permit, `waits_from_the_start` says that there is a row about it.
  StepRun(BegunStep begun, StoreTime began_at, bool is_limited, bool waits_from_the_start);
  StepRun(const StepRun&) = delete;
  StepRun& operator=(const StepRun&) = delete;

  [[nodiscard]] std::uint64_t operation() const noexcept { return begun_.operation; }

  /// What the store knows of earlier attempts. Before `begin`.
  void recall(const record::RunAttempts& attempts);
  /// The first attempt, for which `version` must be durable, unless it has no effect outside:
  /// nothing leaves the process before it cannot be lost any more.
  void begin(const std::shared_ptr<LiveRun>& run, Version version);
  /// In another process than the one that began it, or later: an attempt of which nothing is known
  /// may have been made. Between two attempts it is left to the timer.
  void resume(const std::shared_ptr<LiveRun>& run);
  /// The pause is over, or is to be.
  void begin_next(const std::shared_ptr<LiveRun>& run);

  // Of one under limits: whoever drives the run takes the permits, and then begins the attempts.

  /// By when all of it has to be over.
  [[nodiscard]] std::optional<StoreTime> deadline() const;
  /// The attempt that is under way, or comes next.
  [[nodiscard]] std::uint32_t attempt_number() const;
  /// It pauses, and the next attempt may begin once the pause is over.
  [[nodiscard]] bool is_between_attempts() const;
  [[nodiscard]] bool waits_for_permit() const;
  /// From now on: the pause is over.
  void wait_for_permit();
  /// Has all permits. `version` has to be durable before.
  void begin_with_permit(const std::shared_ptr<LiveRun>& run, Version fence, Version version,
                         bool may_have_run);
  /// The attempt cannot begin.
  void fail_to_begin(const std::shared_ptr<LiveRun>& run, const std::exception_ptr& error,
                     bool may_try_again);
  /// Waited until its deadline.
  void end_waiting(const std::shared_ptr<LiveRun>& run);
  /// The permit was taken away: the attempt is asked to stop, and counts as failed.
  void lose_permit(const std::string& gate);

  /// In a transaction that also writes how it ends: its function, with the text of its result.
  /// Throws what that throws, or `Cancelled` if it is not to be; then it is to be taken back.
  [[nodiscard]] std::string transact(std::uint32_t attempt, Transaction& transaction) const;
  /// An attempt of a transaction has come to nothing.
  void fail_transaction(const std::shared_ptr<LiveRun>& run, std::uint32_t attempt,
                        const std::exception_ptr& error, bool may_try_again);
  [[nodiscard]] const std::string& name() const noexcept { return begun_.name; }
  /// The workflow does not want it any more, and waits for its end: it is not tried again, and
  /// `stop` asks an attempt that is under way to end.
  void set_unwanted();
  void stop(const std::shared_ptr<LiveRun>& run);
  /// Nobody waits for its end.
  void abandon();

  /// Nothing is done for it at present.
  [[nodiscard]] bool is_pausing() const;
  /// Of its pauses: the one that is written down, and the one that is to be.
  [[nodiscard]] std::vector<StoreTime> timers() const;
  /// What is to be written about it.
  struct Change {
    record::RunAttempts row;
    std::optional<StoreTime> due;      ///< A timer to set.
    std::optional<StoreTime> old_due;  ///< One that has done its duty.
    bool pauses = false;               ///< No attempt is under way.
  };
  [[nodiscard]] Change take_change();
  /// The same, if it waits for a permit instead of a time.
  [[nodiscard]] record::RunAttempts row_while_waiting() const;
  /// There is a row about it.
  [[nodiscard]] bool has_row() const;

 private:
  class Link;
  using Run = std::shared_ptr<LiveRun>;
  using Step = std::shared_ptr<StepRun>;
  /// How an attempt ended.
  struct Ended {
    std::string payload;
    std::optional<record::RunFailure> failure;
    bool try_again = true;
  };

  /// What an attempt begins with.
  struct Start {
    std::uint32_t number = 0;
    bool may_have_run = false;
    Version wait_for = 0;  ///< To be durable; zero: nothing.
    Version fence = 0;
  };
  void begin_attempt(const Run& run, Start start);
  [[nodiscard]] static Task<void> attempt(Step step, Run run, Start start);
  [[nodiscard]] Task<Ended> call(const Run& run, Start start);
  void ask_for_transaction(const Run& run, std::uint32_t number) const;
  void check_is_wanted(std::uint32_t attempt, const char* before) const;
  [[nodiscard]] Ended failed_with(const std::exception_ptr& error) const;
  void end_attempt(const Run& run, Ended ended, std::uint32_t number);
  [[nodiscard]] Task<boost::json::value> run_code(const LiveRun& run, StepContext& context) const;
  [[nodiscard]] static Task<void> watch_time(Step step, Run run, std::uint32_t number);
  [[nodiscard]] static Task<void> keep_progress(Step step, Run run, std::uint32_t number);
  [[nodiscard]] bool decide(Ended& ended);
  [[nodiscard]] static Task<void> pause(Step step, Run run);
  [[nodiscard]] std::optional<TimePoint> next_deadline(std::uint32_t number) const;
  void heartbeat(const Run& run, std::uint32_t number, std::string progress);
  /// Its time is up, for this attempt or for all.
  void stop_late(std::uint32_t number, TimePoint now);
  void ask_for_row(const Run& run) const;
  void tell(const Run& run, Ended ended, std::uint32_t attempts) const;
  [[nodiscard]] bool is_abandoned() const;
  [[nodiscard]] record::RunAttempts row() const;
  [[nodiscard]] bool has_time_limit() const noexcept;
  [[nodiscard]] std::string too_long() const;

  const BegunStep begun_;
  const StoreTime began_at_;
  const bool is_limited_;

  mutable std::mutex mutex_;
  std::uint32_t current_ = 0;  // Which attempt is under way; zero: none.
  std::uint32_t failed_ = 0;
  bool waits_ = false;  // For a permit.
  bool unwanted_ = false;
  bool abandoned_ = false;
  std::optional<record::RunFailure> failure_;
  std::string progress_;
  bool progress_is_new_ = false;
  bool keeps_progress_ = false;
  std::optional<StoreTime> due_;
  std::optional<StoreTime> old_due_;
  bool has_row_ = false;
  std::optional<record::RunFailure> stopped_by_;  // Why the attempt was asked to stop.
  bool may_not_go_on_ = false;
  TimePoint attempt_began_{};
  TimePoint last_heartbeat_{};
  std::optional<TimePoint> all_over_at_;
  std::stop_source stop_;
};

}  // namespace holdfast::detail
