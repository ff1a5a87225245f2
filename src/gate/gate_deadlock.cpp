// SPDX-License-Identifier: Apache-2.0
#include "gate_deadlock.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/deadlock.hpp>

#include "gate_ledger.hpp"
#include "gate_rules.hpp"

namespace holdfast::detail {

namespace {

/// How many in front of an actor are looked at. Those further on only matter if one of them is too
/// big for what will ever be free, and the actor is not.
constexpr std::size_t kWaitersAhead = 64;

/// What one who waits for the end of another waits for, as `DeadlockStep` says it.
constexpr const char* kItsChild = "its child";

/// The part of the world that an actor waits for, directly or through others. An actor is known by
/// the key of the row that says where it waits.
class WaitingWorld {
 public:
  /// What is seen becomes conditions of `batch`.
  WaitingWorld(Store& store, Batch& batch, std::vector<std::string> leaving)
      : store_(store), batch_(batch), leaving_(leaving.begin(), leaving.end()) {}

  [[nodiscard]] Task<void> explore(const GateRows& rows, std::string waiter_key,
                                   SharedRequest request) {
    now_ = co_await store_.time();
    add_asking(rows.keys().name(), waiter_key, request);
    Gate& gate = gates_.emplace(rows.keys().name(), Gate{}).first->second;
    gate.head = rows.head();
    gate.waiters = shapes_of(rows);
    co_await add_holders(gate, rows);
    co_await visit_all();
  }

  [[nodiscard]] Task<void> explore(WaitForEnd wait) {
    now_ = co_await store_.time();
    const std::string other = wait_key({}, wait.of_actor);
    for (const std::string& name : wait.actors) {
      std::string key = wait_key({}, name);
      Actor& actor = actors_.emplace(key, Actor{}).first->second;
      actor.name = wait.name;
      actor.ends_after = {other, wait.of_name};
      asking_.push_back(std::move(key));
    }
    co_await add_actor(other, wait.of_name);
    co_await visit_all();
  }

  /// Nothing: it ends.
  [[nodiscard]] std::optional<DeadlockCircle> circle() const {
    if (actors_.size() > kDeadlockActorsMax) {
      return std::nullopt;
    }
    const std::set<std::string> stuck = stuck_for_ever();
    for (const std::string& start : asking_) {
      if (stuck.contains(start)) {
        if (auto found = way_back(start, stuck)) {
          return found;
        }
      }
    }
    return std::nullopt;
  }

  /// It will leave, if it waits still when this is committed.
  void let_leave(const DeadlockCircle::Member& member) {
    batch_.require_version(member.waiter_key, member.version);
    for (auto& [key, actor] : actors_) {
      if (actor.gate && actor.member.waiter_key == member.waiter_key) {
        gates_.at(*actor.gate).waiters.erase(member.waiter_key);
        actor.gate.reset();
      }
    }
  }

 private:
  /// How much of a gate someone wants, or has.
  struct Shape {
    std::uint64_t weight = 0;
    bool shared = false;
  };
  struct GateHold {
    std::string actor;
    std::string name;
    Shape shape;
  };
  struct Gate {
    record::GateHead head;
    std::vector<GateHold> holds;
    std::map<std::string, Shape> waiters;
  };
  /// To one that another waits for.
  struct Edge {
    std::string to;
    std::string name;
  };
  struct Actor {
    std::string name;
    std::optional<std::string> gate;  ///< At which it waits.
    std::optional<Edge> ends_after;   ///< Or for whose end it does.
    DeadlockCircle::Member member;
    Shape shape;

    [[nodiscard]] bool waits() const noexcept { return gate || ends_after; }
  };

  static std::map<std::string, Shape> shapes_of(const GateRows& rows) {
    std::map<std::string, Shape> shapes;
    for (const auto& [key, waiter] : rows.waiters()) {
      if (shapes.size() == kWaitersAhead) {
        break;
      }
      shapes.emplace(key, Shape{waiter.request->weight, waiter.request->shared});
    }
    return shapes;
  }

  void add_asking(const std::string& gate, const std::string& waiter_key,
                  const SharedRequest& request) {
    for (const std::string& name : request->asker->actors) {
      std::string key = wait_key(request->asker->lease_key, name);
      Actor& actor = actors_.emplace(key, Actor{}).first->second;
      actor.name = request->asker->holder;
      actor.gate = gate;
      actor.member = {waiter_key, 0, request};
      actor.shape = {request->weight, request->shared};
      asking_.push_back(std::move(key));
    }
  }

  Task<void> visit_all() {
    while (!to_visit_.empty() && actors_.size() <= kDeadlockActorsMax) {
      const std::string name = std::move(to_visit_.front());
      to_visit_.pop_front();
      co_await visit(name);
    }
  }

  Task<void> visit(std::string name) {
    GateRows rows = co_await load_gate(store_, GateKeys(name), kWaitersAhead, Read::kApplied);
    batch_.require_version(rows.keys().head(), rows.head_version());
    Gate& gate = gates_.at(name);
    gate.head = rows.head();
    gate.waiters = shapes_of(rows);
    co_await add_holders(gate, rows);
  }

  Task<void> add_holders(Gate& gate, const GateRows& rows) {
    for (const auto& [key, holder] : rows.holders()) {
      const GateRequest& request = *holder.request;
      if (leaving_.contains(key)) {
        continue;
      }
      const bool alive = co_await is_alive(request.asker->lease_key);
      if (!alive || request.asker->actors.empty()) {
        continue;
      }
      std::string actor = wait_key(request.asker->lease_key, request.asker->actors.front());
      if (!actors_.contains(actor)) {
        co_await add_actor(actor, request.asker->holder);
      }
      gate.holds.push_back(
          {std::move(actor), request.asker->holder, {request.weight, request.shared}});
    }
  }

  Task<bool> is_alive(std::string lease_key) {
    if (lease_key.empty()) {
      co_return true;  // Whoever has it sees to its end.
    }
    const auto known = alive_.find(lease_key);
    if (known != alive_.end()) {
      co_return known->second;
    }
    const std::optional<Entry> row = co_await store_.get(lease_key, Read::kApplied);
    const bool alive = read_lease(lease_key, row, now_, now_).liveness == Liveness::kLive;
    alive_.emplace(std::move(lease_key), alive);
    co_return alive;
  }

  Task<void> add_actor(std::string key, std::string name) {
    Actor& actor = actors_.emplace(key, Actor{}).first->second;
    actor.name = std::move(name);
    const std::optional<Entry> row = co_await store_.get(key, Read::kApplied);
    if (!row) {
      batch_.require_absent(key);
      co_return;
    }
    batch_.require_version(key, row->version);
    const auto wait = parse_gate_record<record::GateWait>(*row, "the wait of an actor");
    if (!wait.for_actor().empty()) {
      const std::string other = wait_key({}, wait.for_actor());
      actor.ends_after = {other, wait.for_name()};
      if (!actors_.contains(other) && actors_.size() <= kDeadlockActorsMax) {
        co_await add_actor(other, wait.for_name());
      }
      co_return;
    }
    const std::optional<Entry> waiter = co_await store_.get(wait.waiter_key(), Read::kApplied);
    if (!waiter) {
      co_return;
    }
    const SharedRequest request = read_waiter(*waiter).request;
    // It may have waited in another process than it holds in, and only that one is dead.
    const bool alive = co_await is_alive(request->asker->lease_key);
    if (!alive) {
      co_return;
    }
    actor.gate = wait.gate();
    actor.member = {wait.waiter_key(), waiter->version, request};
    actor.shape = {request->weight, request->shared};
    if (gates_.emplace(wait.gate(), Gate{}).second) {
      to_visit_.push_back(wait.gate());
    }
  }

  /// Those who cannot go in, even when all have let go who can.
  [[nodiscard]] std::set<std::string> stuck_for_ever() const {
    std::set<std::string> stuck;
    for (const auto& [key, actor] : actors_) {
      if (actor.waits()) {
        stuck.insert(key);
      }
    }
    for (bool changed = true; changed;) {
      changed = std::erase_if(stuck, [&](const std::string& key) {
                  return can_go_on(actors_.at(key), stuck);
                }) > 0;
    }
    return stuck;
  }

  [[nodiscard]] bool can_go_on(const Actor& actor, const std::set<std::string>& stuck) const {
    if (actor.ends_after) {
      return !stuck.contains(actor.ends_after->to);
    }
    const Gate& gate = gates_.at(*actor.gate);
    GateUsage usage;
    for (const GateHold& hold : gate.holds) {
      if (stuck.contains(hold.actor)) {
        usage.add(hold.shape.weight, hold.shape.shared);
      }
    }
    const auto fits = [&](const Shape& shape) {
      const auto why = why_not_beside(usage, gate.head, shape.weight, shape.shared);
      return !why || why->kind == WhyNot::Kind::kTooHeavy;
    };
    for (const auto& [key, shape] : gate.waiters) {
      if (key >= actor.member.waiter_key) {
        break;
      }
      if (!fits(shape)) {
        return false;
      }
    }
    return fits(actor.shape);
  }

  /// The shortest circle.
  [[nodiscard]] std::optional<DeadlockCircle> way_back(const std::string& start,
                                                       const std::set<std::string>& stuck) const {
    std::map<std::string, std::string> come_from;
    std::deque<std::string> next{start};
    while (!next.empty()) {
      const std::string key = std::move(next.front());
      next.pop_front();
      for (const Edge& edge : edges_of(actors_.at(key))) {
        if (!stuck.contains(edge.to)) {
          continue;
        }
        if (std::ranges::find(asking_, edge.to) != asking_.end()) {
          return steps(start, key, edge, come_from);
        }
        if (come_from.emplace(edge.to, key).second) {
          next.push_back(edge.to);
        }
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] std::vector<Edge> edges_of(const Actor& actor) const {
    if (actor.ends_after) {
      return {*actor.ends_after};
    }
    std::vector<Edge> edges;
    for (const GateHold& hold : gates_.at(*actor.gate).holds) {
      edges.push_back({hold.actor, hold.name});
    }
    return edges;
  }

  [[nodiscard]] DeadlockCircle steps(const std::string& start, std::string key, const Edge& last,
                                     const std::map<std::string, std::string>& come_from) const {
    DeadlockCircle cycle;
    std::string held_by = last.name;
    for (;;) {
      const Actor& actor = actors_.at(key);
      cycle.steps.insert(cycle.steps.begin(),
                         {actor.name, actor.gate.value_or(kItsChild), std::move(held_by)});
      cycle.members.insert(cycle.members.begin(), actor.member);
      if (key == start) {
        return cycle;
      }
      held_by = actor.name;
      key = come_from.at(key);
    }
  }

  Store& store_;
  Batch& batch_;
  const std::set<std::string> leaving_;
  StoreTime now_{};
  std::vector<std::string> asking_;
  std::map<std::string, Actor> actors_;
  std::map<std::string, Gate> gates_;
  std::deque<std::string> to_visit_;
  std::map<std::string, bool> alive_;
};

}  // namespace

Task<void> check_for_deadlock(Store& store, GateRows& rows, std::string waiter_key,
                              SharedRequest request, std::vector<std::string> leaving,
                              ChooseVictim choose) {
  WaitingWorld world(store, rows.batch(), std::move(leaving));
  co_await world.explore(rows, std::move(waiter_key), std::move(request));
  while (auto found = world.circle()) {
    const std::optional<std::size_t> victim = choose ? choose(*found) : std::nullopt;
    if (!victim) {
      throw DeadlockError(std::move(found->steps));
    }
    world.let_leave(found->members[*victim]);
  }
}

Task<void> begin_wait_for_end(Store& store, Batch& batch, WaitForEnd wait,
                              std::vector<std::string> leaving) {
  WaitingWorld world(store, batch, std::move(leaving));
  co_await world.explore(wait);
  if (auto found = world.circle()) {
    throw DeadlockError(std::move(found->steps));
  }
  record::GateWait row;
  row.set_format(kGateFormat);
  row.set_for_actor(wait.of_actor);
  row.set_for_name(wait.of_name);
  for (const std::string& actor : wait.actors) {
    batch.put(wait_key({}, actor), row.SerializeAsString());
  }
}

void end_wait_for_end(Batch& batch, const WaitForEnd& wait) {
  for (const std::string& actor : wait.actors) {
    batch.erase(wait_key({}, actor));
  }
}

}  // namespace holdfast::detail
