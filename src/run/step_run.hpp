// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
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
class StepRun : public std::enable_shared_from_this<StepRun> {
 public:
  StepRun(BegunStep begun, StoreTime began_at);
  StepRun(const StepRun&) = delete;
  StepRun& operator=(const StepRun&) = delete;

  [[nodiscard]] std::uint64_t operation() const noexcept { return begun_.operation; }
  [[nodiscard]] bool is_side_effect_free() const noexcept {
    return begun_.terms.options.side_effect_free;
  }

  /// What the store knows of earlier attempts. Before `begin`.
  void recall(const record::RunAttempts& attempts);
  /// Tries it, or, between two attempts, leaves it to the timer. `may_have_run`: an attempt of
  /// which nothing is known may have been made before.
  void begin(const std::shared_ptr<LiveRun>& run, bool may_have_run);
  /// The pause is over, or is to be.
  void begin_next(const std::shared_ptr<LiveRun>& run);
  /// Nobody waits for it any more.
  void stop();

  /// Nothing is done for it at present.
  [[nodiscard]] bool is_pausing() const;
  /// The timer of its pause.
  [[nodiscard]] std::optional<StoreTime> due() const;
  /// There is a row about it.
  [[nodiscard]] bool has_row() const;
  [[nodiscard]] OpenStep describe() const;

 private:
  class Link;
  /// How an attempt ended.
  struct Ended {
    std::string payload;
    std::optional<record::RunFailure> failure;
    bool permanent = false;
  };

  void begin_attempt(const std::shared_ptr<LiveRun>& run, bool may_have_run);
  [[nodiscard]] static Task<void> attempt(std::shared_ptr<StepRun> step,
                                          std::shared_ptr<LiveRun> run, std::uint32_t number,
                                          bool may_have_run, std::stop_token stop);
  [[nodiscard]] static Task<void> watch_time(std::shared_ptr<StepRun> step,
                                             std::shared_ptr<LiveRun> run, std::uint32_t number);
  [[nodiscard]] static Task<void> keep_progress(std::shared_ptr<StepRun> step,
                                                std::shared_ptr<LiveRun> run, std::uint32_t number);
  [[nodiscard]] Task<void> attempt_ended(std::shared_ptr<LiveRun> run, std::uint32_t number,
                                         Ended ended);
  [[nodiscard]] Duration pause_after(std::uint32_t failed) const;
  [[nodiscard]] bool is_current(std::uint32_t number) const;

  BegunStep begun_;
  StoreTime began_at_;

  mutable std::mutex mutex_;
  std::uint32_t current_ = 0;  // Which attempt is under way; zero: none.
  std::uint32_t failed_ = 0;
  bool stopped_ = false;
  std::optional<record::RunFailure> failure_;
  std::string progress_;
  bool progress_is_new_ = false;
  bool keeps_progress_ = false;
  std::optional<StoreTime> due_;
  bool has_row_ = false;
  TimePoint attempt_began_{};
  TimePoint last_heartbeat_{};
  std::stop_source stop_;
};

}  // namespace holdfast::detail
