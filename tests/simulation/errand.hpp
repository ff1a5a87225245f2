// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <holdfast/engine.hpp>
#include <holdfast/spawn.hpp>

#include "gathering.hpp"
#include "play.hpp"
#include "program.hpp"
#include "timetable.hpp"

namespace holdfast::testing {

class MortalProcess;

/// A run as its clients want it.
struct Order {
  /// How it is to end.
  enum class Fate : std::uint8_t {
    kResult,
    kCancel,
    kTerminate,
    kTimeout,
    kReset,  ///< And in time: what it has waited for need not come again. It takes no locks.
  };

  std::string id;
  Program program;
  PlayLimit limit = PlayLimit::kNone;
  Expected expected;
  Fate fate = Fate::kResult;
  std::string queue;
  Duration delay{};
  Duration timeout{};
};

/// Something that a client wants of a run or a schedule, and tries until it is acknowledged.
struct Errand {
  enum class Kind : std::uint8_t {
    kStart,
    kSignal,
    kUpdate,
    kCancel,
    kTerminate,
    kReset,  ///< To `wanted.value` rows of its journal.
    kResult,
    kSetSchedule,  ///< `wanted.value` is how long its runs take.
    kPauseSchedule,
    kResumeSchedule,
    kRunNow,  ///< `wanted.value` tells one from the other.
    kRemoveSchedule,
    kStartOrSignal,
    // These are tried once.
    kBadUpdate,
    kQuery,
    kRetryNow,
  };
  Kind kind = Kind::kStart;
  const Order* order = nullptr;  ///< Or one of the others.
  const Timetable* timetable = nullptr;
  Gathering* gathering = nullptr;
  Wanted wanted{};
  TimePoint at{};                      ///< Not before.
  std::vector<const Errand*> after{};  ///< These have to be done before.
  bool is_done = false;

  /// How an attempt ended.
  enum class Verdict : std::uint8_t { kUnderWay, kAcknowledged, kAgain, kUnknown, kGone };
  struct Answer {
    Verdict verdict = Verdict::kUnderWay;
    std::string fault;
  };
  std::shared_ptr<Answer> answer{};
  std::optional<Spawned<void>> attempt{};
  MortalProcess* where = nullptr;

  [[nodiscard]] bool is_tried_once() const { return kind >= Kind::kBadUpdate; }
};

/// Tries it once. Throws nothing. What it is about outlives it.
[[nodiscard]] Task<void> carry_out(Engine& engine, Errand::Kind kind, Wanted wanted,
                                   const Order& order, std::shared_ptr<Errand::Answer> answer);
[[nodiscard]] Task<void> carry_out(Engine& engine, Errand::Kind kind, Wanted wanted,
                                   const Timetable& timetable,
                                   std::shared_ptr<Errand::Answer> answer);
[[nodiscard]] Task<void> carry_out(Engine& engine, Wanted wanted, const Gathering& gathering,
                                   std::shared_ptr<Errand::Answer> answer);

/// How an attempt ended that threw this.
[[nodiscard]] Errand::Verdict verdict_of(const Error& error, const std::string& about,
                                         Errand::Answer& answer);

}  // namespace holdfast::testing
