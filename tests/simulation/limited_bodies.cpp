// SPDX-License-Identifier: Apache-2.0
#include "limited_bodies.hpp"

#include <algorithm>
#include <utility>

#include "mortal_process.hpp"
#include "program.hpp"

namespace holdfast::testing {

namespace {

bool counts(const LimitedBodies::Body& body) {
  return body.where->is_reliable() && !body.stop.stop_requested();
}

}  // namespace

LimitedBodies::Presence::Presence(LimitedBodies& bodies, int limit, Body body)
    : others_(bodies.under_way_[limit]), body_(std::move(body)) {
  bodies.check(limit, body_);
  others_.insert(&body_);
}

LimitedBodies::Presence::~Presence() { others_.erase(&body_); }

void LimitedBodies::check(int limit, const Body& comes) {
  if (!counts(comes)) {
    return;
  }
  ++seen;
  const std::string name = "limit " + std::to_string(limit);
  const std::set<const Body*>& there = under_way_[limit];
  const auto others = std::ranges::count_if(there, [](const Body* body) { return counts(*body); });
  if (others >= capacity_of_limit(limit)) {
    faults.push_back(std::to_string(others + 1) + " steps are under way at " + name);
  }
  if (comes.fence == 0) {
    faults.push_back("a step has no fence of " + name);
  }
  std::uint64_t& last = last_fence_[limit];
  if (capacity_of_limit(limit) == 1 && comes.fence < last) {
    faults.push_back("a step has the fence " + std::to_string(comes.fence) + " of " + name +
                     ", and one before it had " + std::to_string(last));
  }
  last = std::max(last, comes.fence);
}

}  // namespace holdfast::testing
