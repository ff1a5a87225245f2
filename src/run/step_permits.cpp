// SPDX-License-Identifier: Apache-2.0
#include "step_permits.hpp"

#include <algorithm>
#include <utility>

namespace holdfast::detail {

StepPermits::StepPermits(StepLimits limits, FirstPermit first)
    : limits_(std::move(limits)),
      waiter_key_(std::move(first.waiter_key)),
      // NOLINTNEXTLINE(bugprone-throw-keyword-missing): it is kept, to be thrown later.
      refusal_(std::move(first.refusal)) {
  if (first.fence != 0) {
    fences_.push_back(first.fence);
  }
}

Version StepPermits::fence() const noexcept {
  return limits_.own < fences_.size() ? fences_[limits_.own] : 0;
}

void StepPermits::take(Version fence) {
  fences_.push_back(fence);
  waiter_key_.clear();
}

std::vector<StepPermits::Place> StepPermits::places() const {
  std::vector<Place> places = former_;
  for (std::size_t i = 0; i < fences_.size(); ++i) {
    places.push_back({limits_.wanted[i].gate, {}});
  }
  if (!waiter_key_.empty()) {
    places.push_back({next()->gate, waiter_key_});
  }
  return places;
}

void StepPermits::give_back() {
  former_.clear();
  fences_.clear();
  waiter_key_.clear();
  deadline.reset();
  messages.clear();
}

std::vector<std::string> StepPermits::former_limits() const {
  std::vector<std::string> former;
  for (const std::string& gate : limits_.in_journal) {
    if (std::ranges::find(limits_.wanted, gate, &LockTerms::gate) == limits_.wanted.end()) {
      former.push_back(gate);
    }
  }
  return former;
}

}  // namespace holdfast::detail
