// SPDX-License-Identifier: Apache-2.0
#include <holdfast/deadlock.hpp>

#include "wait_graph.hpp"

namespace holdfast {

namespace {

std::string describe(const std::vector<DeadlockStep>& cycle) {
  std::string text = "deadlock: '" + cycle.front().owner + "'";
  bool first = true;
  for (const auto& step : cycle) {
    text += first ? " waits for " : ", which waits for ";
    const bool is_its_own = step.waits_for == "its branch" || step.waits_for == "its child";
    text += step.waits_for + (is_its_own ? " '" : ", held by '");
    text += step.held_by + "'";
    first = false;
  }
  return text;
}

}  // namespace

DeadlockError::DeadlockError(std::vector<DeadlockStep> cycle)
    : Error(ErrorCode::kDeadlock, describe(cycle)), cycle_(std::move(cycle)) {}

std::string LockOrderInversion::text() const {
  std::string text = "lock order: '" + owner + "' holds " + held + " and asks for " + wanted +
                     "; before, the order was ";
  for (std::size_t i = 0; i < before.size(); ++i) {
    text += (i == 0 ? "" : ", then ") + before[i];
  }
  return text;
}

DeadlockDetector::DeadlockDetector(DeadlockDetectorOptions options)
    : graph_(std::make_unique<detail::WaitGraph>(std::move(options))) {}

DeadlockDetector::~DeadlockDetector() = default;

std::vector<LockOrderInversion> DeadlockDetector::inversions() const {
  return graph_->inversions();
}

}  // namespace holdfast
