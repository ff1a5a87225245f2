// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include <run.pb.h>

#include <holdfast/admission.hpp>
#include <holdfast/run_lock.hpp>

#include "run_gates.hpp"
#include "run_place.hpp"

namespace holdfast::detail {

struct RunWorld;

/// The operation of asks that are of none: the run itself wants in.
inline constexpr std::uint64_t kAdmissionOperation = static_cast<std::uint64_t>(-1);

/// What a run comes to at the gates of its workflow, to be committed with what follows from it.
struct Entrance {
  enum class Outcome : std::uint8_t {
    kIn,       ///< It holds all of them.
    kWaits,    ///< It holds those before the last one asked, and waits there.
    kRefused,  ///< By the policy; `error` says how.
    kFailed,   ///< What it asked for is wrong, or it would close a circle.
  };
  Outcome outcome = Outcome::kIn;
  std::exception_ptr error{};
  /// In the order in which they were asked; those behind the one where it waits were not.
  std::vector<AdmissionGate> gates;
  /// Those that its steps ask at, instead of itself.
  std::vector<AdmissionGate> step_limits;
  RunGates::DeedsByGate deeds;
  RunGates::Change change;
  /// A run that it can join instead. Empty: none.
  std::string to_join;
  /// Runs that it replaces.
  struct Replaced {
    std::string id;
    RunPlace place;
  };
  std::vector<Replaced> replaced;
  /// When those that are left of them are terminated; zero: never.
  StoreTime terminate_at{};

  [[nodiscard]] const RunGates::Ask& ask_at(const AdmissionGate& gate) const;
};

/// One that wants in.
struct Applicant {
  const Admission& admission;
  const RunPlace& place;
  /// What it holds already is not asked for again.
  const record::RunHead& head;
  bool has_begun = false;  ///< Then it is not refused, whatever the policy is.
  bool holds_locks = false;
};

/// Asks at the gates that it does not hold yet. What cannot be read is thrown.
[[nodiscard]] Task<Entrance> ask_for_entrance(RunWorld& world, Applicant applicant, StoreTime now);

/// Writes into the head where it stands then.
void note_entrance(record::RunHead& head, const Entrance& entrance, std::string_view uid,
                   StoreTime now);

/// A message to a run, whose row is part of a commit.
struct Outgoing {
  RunPlace to;
  std::string key;
  record::RunMessage message;
};
/// To those that it replaces: they are asked to stop.
[[nodiscard]] std::vector<Outgoing> stop_messages(RunWorld& world, const Entrance& entrance,
                                                  StoreTime now);
/// To one who was let in by a commit. False: that cannot be read.
[[nodiscard]] bool read_word(const RunGates::Change::Told& told, record::RunMessage& message);
/// To those who were let in by a commit; their rows are there.
[[nodiscard]] std::vector<Outgoing> messages_of(const std::vector<RunGates::Change::Told>& told);

/// Under which the steps of the run are.
[[nodiscard]] std::vector<Limit> step_limits_of(const record::RunHead& head);

/// The row of a run that is let in.
[[nodiscard]] std::string entrance_holder_key(std::string_view gate, std::string_view uid);

}  // namespace holdfast::detail
