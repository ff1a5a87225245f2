// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <holdfast/clock.hpp>
#include <holdfast/workflow.hpp>

namespace holdfast::testing {

/// A run to which clients send signals, and which they start if it does not go on: it ends whenever
/// none has come for a while.
struct Gathering {
  std::string id;
  std::string queue;
  Duration pause{};
  /// Of each signal: how often it may have been sent by an attempt of which nobody knows whether it
  /// happened.
  std::map<std::int64_t, int> unknown;
};

/// What comes is put into this cell of the workflow.
inline constexpr const char* kGatheredCell = "gathered";
inline constexpr const char* kGatherSignal = "value";

/// Gets how many ms it waits for the next one.
[[nodiscard]] const Workflow<std::int64_t, void>& gather_workflow();

}  // namespace holdfast::testing
