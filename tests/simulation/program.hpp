// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/describe/class.hpp>

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "tests/crash/dice.hpp"

namespace holdfast::testing {

/// What a part of a program does.
enum class Act : int {
  kSequence,
  kAll,
  kAny,      ///< Which part wins depends on the weather, so its value does not.
  kStep,     ///< `first` attempts fail; one takes up to `second` ms.
  kSleep,    ///< Up to `first` ms.
  kNever,    ///< Waits for what does not happen, for `first` ms.
  kSignals,  ///< `second` signals of name `first`.
  kUpdates,  ///< Until `second` updates have come.
  kPush,     ///< Its label into cell `first`.
  kChild,  ///< Its one part; `first` is what becomes of it without its parent, `second` its queue.
  kThrow,
  kLocked,        ///< Its one part, under lock `first`.
  kLockedAWhile,  ///< The same, or nothing, if it has to wait for more than `second` ms.
  kPermitted,     ///< Its one part, with a permit that is leased for `first` s.
  kCrowd,         ///< `second` branches that push into one limit, and stay for up to `first` ms.
};

/// A program of a run, as a tree. Labels are those of one node alone, in the whole simulation.
struct Node {
  int act = 0;
  int label = 0;
  int first = 0;
  int second = 0;
  std::vector<Node> parts;

  [[nodiscard]] Act what() const { return static_cast<Act>(act); }
};
BOOST_DESCRIBE_STRUCT(Node, (), (act, label, first, second, parts))

/// What the workflow `play` gets. With more than one part it goes on as a new run.
struct Program {
  std::int64_t sum = 0;
  int cleanup = 0;  ///< The label of the step that comes last if something is thrown.
  std::vector<Node> chain;
};
BOOST_DESCRIBE_STRUCT(Program, (), (sum, cleanup, chain))

/// A step fails for good from so many failing attempts on.
inline constexpr int kAttemptsMax = 3;
inline constexpr int kCells = 3;
inline constexpr int kSignalNames = 2;
/// The last of these is held by two at a time, the others by one.
inline constexpr int kLocks = 3;
inline constexpr int kPermits = 2;
/// At which those who crowd take one or more.
inline constexpr int kCrowdCapacity = 3;
/// At which some of the steps stand in line.
inline constexpr int kStepLimits = 2;
[[nodiscard]] constexpr int capacity_of_limit(int limit) noexcept { return 1 + limit; }
/// Nothing: the step with this label is under none.
[[nodiscard]] constexpr std::optional<int> step_limit_of(int label) noexcept {
  return label % 3 == 1 ? std::optional(label % kStepLimits) : std::nullopt;
}

/// A signal or an update that a program waits for.
struct Wanted {
  bool is_update = false;
  int name = 0;
  std::int64_t value = 0;
};

/// What has to come of a program, said without any engine.
struct Expected {
  std::int64_t result = 0;
  bool fails = false;
  std::set<int> effects;  ///< Labels of steps that must have been done.
  std::set<int> pushes;
  std::set<int> possible_effects;  ///< These, too, or not.
  std::set<int> possible_pushes;
  std::vector<Wanted> wanted;
};

/// `next_label` is counted on.
[[nodiscard]] Program make_program(Dice& dice, int& next_label);
[[nodiscard]] Expected evaluate(const Program& program);
/// Whether it takes locks or permits anywhere.
[[nodiscard]] bool takes_locks(const Program& program);

}  // namespace holdfast::testing
