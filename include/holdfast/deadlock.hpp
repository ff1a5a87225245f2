// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/error.hpp>

namespace holdfast {

namespace detail {
class WaitGraph;
}

/// One step of a cycle: `owner` waits for `waits_for`, which `held_by` has, the owner of the next
/// step. A task that waits for a branch of its own `all` waits for "its branch", and a run for "its
/// child".
struct DeadlockStep {
  std::string owner;
  std::string waits_for;
  std::string held_by;
};

/// Waiting would never have ended: this wait would have closed a circle. The one who gets this is
/// not queued; letting go of what it holds lets the others go on.
class DeadlockError final : public Error {
 public:
  explicit DeadlockError(std::vector<DeadlockStep> cycle);

  [[nodiscard]] const std::vector<DeadlockStep>& cycle() const noexcept { return cycle_; }

 private:
  std::vector<DeadlockStep> cycle_;
};

/// Two locks were taken in both orders. Nobody hangs yet; with worse timing somebody would.
struct LockOrderInversion {
  std::string owner;                ///< Who took them in the order that does not fit.
  std::string held;                 ///< What it held,
  std::string wanted;               ///< and what it then asked for.
  std::vector<std::string> before;  ///< The order seen before, from `wanted` to `held`.

  [[nodiscard]] std::string text() const;
};

struct DeadlockDetectorOptions {
  /// Called once for each pair, by the one who asks for the lock, before it waits.
  std::function<void(const LockOrderInversion&)> on_inversion{};
};

/// Finds deadlocks among the locks and limits that were given it, at the moment when a wait would
/// close the circle.
///
/// ```
/// DeadlockDetector detector;
/// Mutex a({.name = "a", .detector = &detector});
/// Mutex b({.name = "b", .detector = &detector});
/// ```
///
/// It reckons with capacities, weights and readers, and knows that a task waits for the branches of
/// its `all`. It takes the one who acquired for the one who holds, and cannot tell who waits behind
/// an Asio completion token: such a one is never blamed. Of the keys of a keyed lock it knows the
/// orders only while they are in use. A wait with a time-out counts as a wait.
/// Each acquisition of a watched lock takes the detector's mutex: made for tests and for programs
/// that rather fail than hang, not for the hottest lock. Thread-safe.
class DeadlockDetector {
 public:
  explicit DeadlockDetector(DeadlockDetectorOptions options = {});
  DeadlockDetector(const DeadlockDetector&) = delete;
  DeadlockDetector& operator=(const DeadlockDetector&) = delete;
  ~DeadlockDetector();

  /// Every inversion seen so far.
  [[nodiscard]] std::vector<LockOrderInversion> inversions() const;

  [[nodiscard]] detail::WaitGraph& graph() noexcept { return *graph_; }

 private:
  std::unique_ptr<detail::WaitGraph> graph_;
};

}  // namespace holdfast
