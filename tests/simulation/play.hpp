// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <holdfast/error.hpp>
#include <holdfast/outcome.hpp>
#include <holdfast/workflow.hpp>

#include "limited_bodies.hpp"
#include "program.hpp"

namespace holdfast::testing {

/// What steps do to the world outside, which outlives all processes.
struct Outside {
  /// For each label the keys with which it was asked for, and how often.
  std::map<int, std::map<std::string, int>> effects;
  std::vector<std::string> faults;
  std::map<std::string, int> resets;  ///< Of the runs with an id, as many as may have happened.
  std::uint64_t circles = 0;          ///< Deadlocks that were found, replays included.
  LimitedBodies bodies;
  std::set<std::string> beats;  ///< The ids of scheduled runs that did what they are for.
};

/// Workflows are plain functions: this is the world of the simulation under way.
inline Outside* outside = nullptr;

/// The child's queue when it is not that of its parent.
inline constexpr const char* kOtherQueue = "other";

/// How many of the runs that clients start, or of their steps, may go on at once.
enum class PlayLimit : std::uint8_t {
  kNone,
  kByKey,      ///< One of a key, and two in all.
  kWhileBusy,  ///< Two that do something.
  kForStep,    ///< Any number, with one step of a key and two in all.
};
inline constexpr int kPlayLimits = 4;

/// What was thrown because the run, or this part of it, is to stop is thrown on.
template <typename T>
bool has_failed(const Outcome<T>& outcome) {
  try {
    outcome.rethrow();
  } catch (const Cancelled&) {
    throw;
  } catch (const Error&) {
    return true;
  }
  return false;
}

/// The workflow that does what its program says.
[[nodiscard]] const Workflow<Program, std::int64_t>& play_workflow(
    PlayLimit limit = PlayLimit::kNone);

}  // namespace holdfast::testing
