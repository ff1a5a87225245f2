// SPDX-License-Identifier: Apache-2.0
#include "wait_graph.hpp"

#include <algorithm>
#include <deque>

namespace holdfast::detail {

namespace {

template <typename Container, typename Value>
void erase_one(Container& container, const Value& value) noexcept {
  if (auto found = std::find(container.begin(), container.end(), value); found != container.end()) {
    container.erase(found);
  }
}

}  // namespace

void WaitGraph::lock_made(std::uint64_t lock, const std::string& what, std::uint32_t capacity) {
  const std::scoped_lock guard(mutex_);
  Lock& made = locks_[lock];
  made.what = what;
  made.capacity = capacity;
}

void WaitGraph::lock_gone(std::uint64_t lock) noexcept {
  const std::scoped_lock guard(mutex_);
  const auto found = locks_.find(lock);
  for (const Holder* holder : found->second.holders) {
    if (auto owner = owners_.find(holder->owner.id); owner != owners_.end()) {
      erase_one(owner->second.holds, lock);
      drop_if_unused(holder->owner.id);
    }
  }
  order_count_ -= found->second.wanted_while_held.size();
  locks_.erase(found);
  for (auto& [id, other] : locks_) {
    order_count_ -= other.wanted_while_held.erase(lock);
  }
}

void WaitGraph::capacity_changed(std::uint64_t lock, std::uint32_t capacity) noexcept {
  const std::scoped_lock guard(mutex_);
  locks_.at(lock).capacity = capacity;
}

std::vector<LockOrderInversion> WaitGraph::wants(const Holder& holder) {
  const std::scoped_lock guard(mutex_);
  std::vector<LockOrderInversion> found;
  const auto owner = owners_.find(holder.owner.id);
  if (holder.owner.id == 0 || owner == owners_.end()) {
    return found;
  }
  for (const std::uint64_t held : owner->second.holds) {
    if (held == holder.lock_id || order_count_ >= kOrdersMax ||
        !locks_.at(held).wanted_while_held.insert(holder.lock_id).second) {
      continue;
    }
    ++order_count_;
    const auto path = order_path(holder.lock_id, held);
    if (path.empty() || !reported_.insert(std::minmax(held, holder.lock_id)).second) {
      continue;
    }
    LockOrderInversion inversion{.owner = holder.owner.name,
                                 .held = locks_.at(held).what,
                                 .wanted = locks_.at(holder.lock_id).what,
                                 .before = {}};
    for (const std::uint64_t lock : path) {
      inversion.before.push_back(locks_.at(lock).what);
    }
    inversions_.push_back(inversion);
    found.push_back(std::move(inversion));
  }
  return found;
}

void WaitGraph::report(const std::vector<LockOrderInversion>& inversions) const {
  if (options_.on_inversion) {
    std::for_each(inversions.begin(), inversions.end(), options_.on_inversion);
  }
}

std::vector<std::uint64_t> WaitGraph::order_path(std::uint64_t from, std::uint64_t to) const {
  std::unordered_map<std::uint64_t, std::uint64_t> came_from{{from, from}};
  std::deque<std::uint64_t> open{from};
  while (!open.empty()) {
    const std::uint64_t lock = open.front();
    open.pop_front();
    if (lock == to) {
      std::vector<std::uint64_t> path{to};
      while (path.back() != from) {
        path.push_back(came_from.at(path.back()));
      }
      std::reverse(path.begin(), path.end());
      return path;
    }
    for (const std::uint64_t next : locks_.at(lock).wanted_while_held) {
      if (came_from.emplace(next, lock).second) {
        open.push_back(next);
      }
    }
  }
  return {};
}

void WaitGraph::start_wait(const Holder& holder, int priority) {
  const std::scoped_lock guard(mutex_);
  auto& waiters = locks_.at(holder.lock_id).waiters;
  const auto place = std::find_if(waiters.begin(), waiters.end(),
                                  [&](const Waiting& other) { return other.priority < priority; });
  waiters.insert(place, {&holder, priority});
  if (holder.owner.id == 0) {
    return;
  }
  owner_of(holder).waits = &holder;
  for (const auto& ancestor : holder.owner.waiting_ancestors) {
    OwnerState& state = owners_[ancestor.id];
    state.name = ancestor.name;
    state.waiting_branches.push_back(holder.owner.id);
  }
  const auto stuck = stuck_with(holder.owner.id);
  if (stuck.contains(holder.owner.id)) {
    auto cycle = cycle_through(holder.owner.id, stuck);
    remove_wait(holder);
    throw DeadlockError(std::move(cycle));
  }
}

void WaitGraph::stop_wait(const Holder& holder) noexcept {
  const std::scoped_lock guard(mutex_);
  remove_wait(holder);
}

void WaitGraph::remove_wait(const Holder& holder) noexcept {
  if (const auto lock = locks_.find(holder.lock_id); lock != locks_.end()) {
    std::erase_if(lock->second.waiters,
                  [&](const Waiting& waiting) { return waiting.holder == &holder; });
  }
  const auto owner = owners_.find(holder.owner.id);
  if (owner == owners_.end() || owner->second.waits != &holder) {
    return;
  }
  owner->second.waits = nullptr;
  drop_if_unused(holder.owner.id);
  for (const auto& ancestor : holder.owner.waiting_ancestors) {
    erase_one(owners_.at(ancestor.id).waiting_branches, holder.owner.id);
    drop_if_unused(ancestor.id);
  }
}

void WaitGraph::granted(const Holder& holder) {
  const std::scoped_lock guard(mutex_);
  remove_wait(holder);
  locks_.at(holder.lock_id).holders.push_back(&holder);
  if (holder.owner.id != 0) {
    owner_of(holder).holds.push_back(holder.lock_id);
  }
}

void WaitGraph::released(const Holder& holder) noexcept {
  const std::scoped_lock guard(mutex_);
  erase_one(locks_.at(holder.lock_id).holders, &holder);
  if (const auto owner = owners_.find(holder.owner.id); owner != owners_.end()) {
    erase_one(owner->second.holds, holder.lock_id);
    drop_if_unused(holder.owner.id);
  }
}

std::vector<LockOrderInversion> WaitGraph::inversions() const {
  const std::scoped_lock guard(mutex_);
  return inversions_;
}

WaitGraph::OwnerState& WaitGraph::owner_of(const Holder& holder) {
  OwnerState& state = owners_[holder.owner.id];
  state.name = holder.owner.name;
  return state;
}

void WaitGraph::drop_if_unused(std::uint64_t owner) noexcept {
  if (const auto found = owners_.find(owner); found != owners_.end() && found->second.unused()) {
    owners_.erase(found);
  }
}

// Everything that `owner` may be waiting for, directly or through others.
std::unordered_set<std::uint64_t> WaitGraph::dependencies_of(std::uint64_t owner) const {
  std::unordered_set<std::uint64_t> seen{owner};
  std::deque<std::uint64_t> open{owner};
  while (!open.empty()) {
    const std::uint64_t next = open.front();
    open.pop_front();
    for (const auto& obstacle : obstacles(next)) {
      if (seen.insert(obstacle.owner).second) {
        open.push_back(obstacle.owner);
      }
    }
  }
  return seen;
}

std::vector<WaitGraph::Obstacle> WaitGraph::obstacles(std::uint64_t owner) const {
  std::vector<Obstacle> result;
  const auto found = owners_.find(owner);
  if (found == owners_.end()) {
    return result;
  }
  if (found->second.waits != nullptr) {
    const Lock& lock = locks_.at(found->second.waits->lock_id);
    for (const Holder* holder : lock.holders) {
      result.push_back({holder->owner.id, lock.what});
    }
  }
  for (const std::uint64_t branch : found->second.waiting_branches) {
    result.push_back({branch, "its branch"});
  }
  return result;
}

// With `stuck` never letting go of anything, can `owner` still get what it waits for? Those ahead
// of it in the queue come first, so the heaviest of them must fit, too.
bool WaitGraph::can_go_on(std::uint64_t owner,
                          const std::unordered_set<std::uint64_t>& stuck) const {
  const auto found = owners_.find(owner);
  if (found == owners_.end()) {
    return true;
  }
  const auto& branches = found->second.waiting_branches;
  if (std::any_of(branches.begin(), branches.end(),
                  [&](std::uint64_t branch) { return stuck.contains(branch); })) {
    return false;
  }
  if (found->second.waits == nullptr) {
    return true;
  }
  const Lock& lock = locks_.at(found->second.waits->lock_id);
  std::uint64_t kept = 0;
  for (const Holder* holder : lock.holders) {
    kept += stuck.contains(holder->owner.id) ? holder->weight : 0;
  }
  std::uint64_t needed = 0;
  for (const Waiting& waiting : lock.waiters) {
    needed = std::max<std::uint64_t>(needed, waiting.holder->weight);
    if (waiting.holder == found->second.waits) {
      break;
    }
  }
  return kept + needed <= lock.capacity;
}

// Assume that all are stuck, and free whoever can go on in spite of the rest, until none can.
std::unordered_set<std::uint64_t> WaitGraph::stuck_with(std::uint64_t owner) const {
  auto stuck = dependencies_of(owner);
  stuck.erase(0);
  bool changed = true;
  while (changed) {
    changed = std::erase_if(stuck, [&](std::uint64_t one) { return can_go_on(one, stuck); }) > 0;
  }
  return stuck;
}

std::vector<DeadlockStep> WaitGraph::cycle_through(
    std::uint64_t owner, const std::unordered_set<std::uint64_t>& stuck) const {
  struct Arrival {
    std::uint64_t from;
    std::string what;
  };
  std::unordered_map<std::uint64_t, Arrival> arrivals;
  std::deque<std::uint64_t> open{owner};
  while (!open.empty() && !arrivals.contains(owner)) {
    const std::uint64_t from = open.front();
    open.pop_front();
    for (const auto& obstacle : obstacles(from)) {
      if (obstacle.owner != from && stuck.contains(obstacle.owner) &&
          arrivals.emplace(obstacle.owner, Arrival{from, obstacle.what}).second) {
        open.push_back(obstacle.owner);
      }
    }
  }
  if (!arrivals.contains(owner)) {  // Nobody else is to blame: it waits for what it holds itself.
    arrivals.emplace(owner, Arrival{owner, locks_.at(owners_.at(owner).waits->lock_id).what});
  }
  std::vector<DeadlockStep> cycle;
  std::uint64_t at = owner;
  do {
    const Arrival& arrival = arrivals.at(at);
    cycle.push_back({owners_.at(arrival.from).name, arrival.what, owners_.at(at).name});
    at = arrival.from;
  } while (at != owner);
  std::reverse(cycle.begin(), cycle.end());
  return cycle;
}

}  // namespace holdfast::detail
