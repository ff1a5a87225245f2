// SPDX-License-Identifier: Apache-2.0
#include "gate_room.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <system_error>
#include <type_traits>
#include <utility>

#include <holdfast/error.hpp>
#include <holdfast/this_task.hpp>

#include <holdfast/detail/frame_allocator.hpp>
#include "base/fetch_ahead.hpp"
#include "gate_deadlock.hpp"

namespace holdfast::detail {

namespace {

/// How much it had; 0: it is over.
std::uint64_t end_hold(GateRows& rows, const std::string& holder_key, Version fence,
                       StoreTime now) {
  const auto holder = rows.holders().find(holder_key);
  if (holder == rows.holders().end() || holder->second.fence != fence) {
    return 0;
  }
  const std::uint64_t weight = holder->second.request->weight;
  rows.end(holder_key, record::GateGrant::RELEASED, now);
  return weight;
}

[[noreturn]] void throw_not_free(const std::string& gate) {
  throw TimedOut("'" + gate + "' is not free, and nothing was to be waited for");
}

[[noreturn]] void throw_queue_full(const std::string& gate, const WhyNot& why) {
  std::string text("'");
  text.append(gate).append("': ").append(to_string(why));
  throw QueueFull(text.append(", and no more may wait there"));
}

}  // namespace

/// Takes a request back if the task that made it does not come to its end.
class GateRoom::Withdrawal {
 public:
  Withdrawal() = default;
  Withdrawal(GateRoom& room, std::uint64_t request) noexcept : room_(&room), request_(request) {}
  Withdrawal(Withdrawal&& other) noexcept
      : room_(other.room_),
        request_(other.request_),
        arrival_(std::move(other.arrival_)),
        made_(std::exchange(other.made_, false)) {}
  Withdrawal& operator=(Withdrawal&& other) noexcept {
    std::swap(room_, other.room_);
    std::swap(request_, other.request_);
    std::swap(arrival_, other.arrival_);
    std::swap(made_, other.made_);
    return *this;
  }
  ~Withdrawal() {
    if (made_) {
      room_->run_as_duty([room = room_, request = request_,
                          key = arrival_ ? arrival_->waiter_key : std::string()] {
        return room->withdraw(request, key);
      });
    }
  }
  void made() noexcept { made_ = true; }
  void waits_as(std::shared_ptr<Arrival> arrival) noexcept { arrival_ = std::move(arrival); }
  void not_needed() noexcept { made_ = false; }

  [[nodiscard]] std::uint64_t request() const noexcept { return request_; }
  /// Null: it does not wait.
  [[nodiscard]] Arrival* arrival() const noexcept { return arrival_.get(); }

 private:
  GateRoom* room_ = nullptr;
  std::uint64_t request_ = 0;
  std::shared_ptr<Arrival> arrival_;
  bool made_ = false;
};

/// What one is who has asked.
struct GateRoom::Entered {
  Withdrawal withdrawal;
  Arrival::Grant granted;  ///< If it neither waits nor is refused.
  std::uint64_t actor = 0;
  bool refused = false;
};

/// Those that a change takes along. If it comes to nothing they are let go of still.
class GateRoom::TakenEndings {
 public:
  explicit TakenEndings(GateRoom& room) : room_(room) {
    const std::lock_guard lock(room.endings_mutex_);
    endings_ = std::exchange(room.endings_, {});
  }
  TakenEndings(const TakenEndings&) = delete;
  TakenEndings& operator=(const TakenEndings&) = delete;
  ~TakenEndings() {
    const std::lock_guard lock(room_.endings_mutex_);
    std::ranges::move(endings_, std::back_inserter(room_.endings_));
  }

  /// How much they had.
  [[nodiscard]] std::uint64_t end_in(GateRows& rows, StoreTime now) const {
    std::uint64_t freed = 0;
    for (const Ending& ending : endings_) {
      freed += end_hold(rows, ending.holder_key, ending.fence, now);
    }
    return freed;
  }
  void are_over(Version version) {
    if (!endings_.empty()) {
      room_.watch_over(version, std::exchange(endings_, {}));
    }
  }

 private:
  GateRoom& room_;
  std::vector<Ending> endings_;
};

GateRoom::GateRoom(Session& session, Executor& executor, std::shared_ptr<HoldCounts> hold_counts,
                   GateDefinition definition, std::string_view name)
    : session_(session),
      store_(session.store()),
      hold_counts_(std::move(hold_counts)),
      definition_(std::move(definition)),
      ledger_(store_, GateKeys(name), &session),
      own_holders_(keys().holders_of(session.id())),
      background_(executor) {
  check_definition(name, definition_);
}

// --- Asking --------------------------------------------------------------------------------------

GateRequest GateRoom::request_for(const Wish& wish, std::span<const std::uint64_t> actors) const {
  const AcquireOptions& options = wish.options;
  GateRequest request;
  GateAsker asker{wish.holder, session_.id(), session_.key(), {}};
  request.weight = options.weight;
  request.shared = wish.shared;
  request.priority = options.priority;
  request.reason = wish.reason;
  request.queue_max = options.timeout == Duration::zero() ? 0 : options.queue_max;
  if (!wish.actor.empty()) {
    asker.actors.push_back("@" + wish.actor);
    for (const std::string& other : wish.needed_by) {
      asker.actors.push_back("@" + other);
    }
    request.may_hold_others = true;
  } else {
    for (const std::uint64_t actor : actors) {
      asker.actors.push_back(std::to_string(actor));
    }
    request.may_hold_others = hold_counts_->any_of(actors);
  }
  request.asker = shared_asker(std::move(asker));
  return request;
}

Task<DurableHold> GateRoom::acquire(const std::shared_ptr<GateRoom>& room, Wish wish) {
  return stay<DurableHold>(room, room->enter(std::move(wish)));
}

Task<std::optional<DurableHold>> GateRoom::try_acquire(const std::shared_ptr<GateRoom>& room,
                                                       Wish wish) {
  return stay<std::optional<DurableHold>>(room, room->enter(std::move(wish)));
}

Task<GateRoom::Entered> GateRoom::enter(Wish wish) {
  const AcquireOptions& options = wish.options;
  if (options.timeout && *options.timeout < Duration::zero()) {
    throw InvalidArgument("the time-out of an acquire is below zero");
  }
  const bool only_at_once = options.timeout == Duration::zero();
  const auto give_up_at =
      options.timeout ? std::optional(this_task::clock().now() + *options.timeout) : std::nullopt;
  const std::vector<std::uint64_t> actors = current_actors();
  GateRequest request = request_for(wish, actors);

  Asked asked;
  Entered entered;
  entered.actor = wish.actor.empty() && !actors.empty() ? actors.front() : 0;
  {
    const EndingsAfterTurn endings_after(*this);
    const Hold turn = co_await turn_.lock();
    const std::uint64_t number = next_request_++;
    entered.withdrawal = Withdrawal(*this, number);
    request.request_id = std::to_string(number);
    const Plan plan = [&](GateRows& rows, KnownLeases& leases, StoreTime now) {
      define(rows, definition_);
      check_request(rows, request);
      if (options.timeout && !only_at_once) {
        request.deadline = now + *options.timeout;
      }
      asked = ask(rows, leases, std::make_shared<const GateRequest>(request), now);
      entered.withdrawal.made();
      return asked.served;
    };
    GateLedger::Terms terms;
    if (request.may_hold_others) {
      terms.check = [&](GateRows& rows) { return check_wait(rows, asked, request); };
    }
    const Changed changed = co_await change(plan, std::move(terms));
    welcome(changed);
    switch (asked.outcome) {
      case Asked::Outcome::kRefused:
        entered.withdrawal.not_needed();
        entered.refused = true;
        break;
      case Asked::Outcome::kHeld:
        entered.granted.fence = changed.version;
        entered.granted.slots = ledger_.rows()->slots_of(asked.key);
        entered.granted.handed_over = is_handed_over(changed, request.weight);
        break;
      case Asked::Outcome::kWaits: {
        auto arrival = std::allocate_shared<Arrival>(FrameAllocator<Arrival>(), name(), give_up_at);
        arrival->waiter_key = std::move(asked.key);
        waiting_.emplace_hint(waiting_.end(), number, arrival);
        entered.withdrawal.waits_as(std::move(arrival));
        break;
      }
    }
  }
  if (entered.refused && !only_at_once && options.queue_max != 0) {
    throw_queue_full(name(), *asked.why);
  }
  co_return entered;
}

template <class Result>
Task<Result> GateRoom::stay(std::shared_ptr<GateRoom> room, Task<Entered> entering) {
  Entered entered = co_await entering;
  static_cast<void>(Task<Entered>(std::move(entering)));  // Its frame goes.
  if (entered.refused) {
    if constexpr (std::is_same_v<Result, DurableHold>) {
      throw_not_free(room->name());
    } else {
      co_return std::nullopt;
    }
  }
  if (entered.withdrawal.arrival() != nullptr) {
    room->attend();
    Arrival& wait = *entered.withdrawal.arrival();
    entered.granted = co_await wait;
  }
  if (!entered.granted.handed_over) {
    co_await room->store_.until_durable(entered.granted.fence);
  }
  entered.withdrawal.not_needed();
  DurableHold::Granted hold{room->own_holder(entered.withdrawal.request()), entered.granted.fence,
                            std::move(entered.granted.slots), entered.actor};
  room->hold_counts_->add(hold.actor);
  co_return DurableHold(std::move(room), std::move(hold));
}

std::string GateRoom::own_holder(std::uint64_t request) const {
  std::string key(own_holders_);
  return key.append(std::to_string(request));
}

Task<void> GateRoom::check_wait(GateRows& rows, const Asked& asked, const GateRequest& request) {
  if (asked.outcome == Asked::Outcome::kWaits) {
    co_await check_for_deadlock(store_, rows, asked.key,
                                std::make_shared<const GateRequest>(request));
  }
}

Task<void> GateRoom::withdraw(std::uint64_t request, std::string waiter_key) {
  const EndingsAfterTurn endings_after(*this);
  const Hold turn = co_await turn_.lock();
  waiting_.erase(request);
  const std::string holder_key = own_holder(request);
  const Plan plan = [&](GateRows& rows, KnownLeases& leases, StoreTime now) {
    if (rows.holders().contains(holder_key)) {
      rows.end(holder_key, record::GateGrant::ABANDONED, now);
    } else if (rows.waiters().contains(waiter_key)) {
      rows.leave(waiter_key);
    }
    return serve(rows, leases, now);
  };
  GateLedger::Terms terms;
  terms.waiter_key = waiter_key;
  const Changed changed = co_await change(plan, std::move(terms));
  welcome(changed);
}

// --- Letting go ----------------------------------------------------------------------------------

Task<bool> GateRoom::release(std::shared_ptr<GateRoom> room, std::string holder_key,
                             Version fence) {
  std::uint64_t freed = 0;
  Changed changed;
  {
    const EndingsAfterTurn endings_after(*room);
    const Hold turn = co_await room->turn_.lock();
    const Plan plan = [&](GateRows& rows, KnownLeases& leases, StoreTime now) {
      freed = end_hold(rows, holder_key, fence, now);
      return serve(rows, leases, now);
    };
    changed = co_await room->change(plan);
    changed.freed += freed;
    room->welcome(changed);
  }
  if (changed.version != 0) {
    co_await room->store_.until_durable(changed.version);
  }
  co_return freed > 0;
}

void GateRoom::release_in_background(std::string holder_key, Version fence) {
  {
    const std::lock_guard lock(endings_mutex_);
    endings_.push_back({std::move(holder_key), fence, Duties::Duty(duties_)});
  }
  see_to_endings();
}

/// If someone has the turn, or is about to get it, it does so afterwards.
void GateRoom::see_to_endings() {
  {
    const std::lock_guard lock(endings_mutex_);
    if (endings_.empty() || ending_ || turn_.is_locked()) {
      return;
    }
    ending_ = true;
  }
  run_as_duty([this] { return end_until_none_is_left(); });
}

Task<void> GateRoom::end_until_none_is_left() {
  for (;;) {
    co_await end_what_was_let_go();
    const std::lock_guard lock(endings_mutex_);
    ending_ = !endings_.empty();
    if (!ending_) {
      co_return;
    }
  }
}

Task<void> GateRoom::end_what_was_let_go() {
  const EndingsAfterTurn endings_after(*this);
  const Hold turn = co_await turn_.lock();
  const Plan plan = [](GateRows& rows, KnownLeases& leases, StoreTime now) {
    return serve(rows, leases, now);
  };
  const Changed changed = co_await change(plan);
  welcome(changed);
}

/// One task for all of them: it is woken once for each sync, not once for each hold.
void GateRoom::watch_over(Version version, std::vector<Ending> endings) {
  if (version == 0) {
    return;  // They were over before.
  }
  {
    const std::lock_guard lock(endings_mutex_);
    not_durable_.push_back({version, std::move(endings)});
    if (std::exchange(watched_over_, true)) {
      return;
    }
  }
  run_in_background(see_that_they_last());
}

Task<void> GateRoom::see_that_they_last() {
  for (;;) {
    std::vector<Ended> ended;
    {
      const std::lock_guard lock(endings_mutex_);
      ended = std::exchange(not_durable_, {});
      watched_over_ = !ended.empty();
    }
    if (ended.empty()) {
      co_return;
    }
    for (Ended& one : ended) {
      const bool lasts = co_await unless_lost(one.version);
      if (!lasts) {
        const std::lock_guard lock(endings_mutex_);
        std::ranges::move(one.endings, std::back_inserter(endings_));
      }
    }
    see_to_endings();
  }
}

Task<GateRoom::Changed> GateRoom::change(const Plan& plan) {
  GateLedger::Terms terms;
  return change(plan, std::move(terms));
}

Task<GateRoom::Changed> GateRoom::change(const Plan& plan, GateLedger::Terms terms) {
  TakenEndings endings(*this);
  Changed changed;
  const Plan whole = [&](GateRows& rows, KnownLeases& leases, StoreTime now) {
    changed.freed = endings.end_in(rows, now);
    return plan(rows, leases, now);
  };
  GateLedger::Changed done = co_await ledger_.change(whole, std::move(terms));
  changed.version = done.version;
  changed.served = std::move(done.served);
  // Not if others came in between: whom they let in is not known here. But if nobody waits, it can
  // be nobody.
  if (changed.version != 0 && (done.after == told_up_to_ || waiting_.empty())) {
    told_up_to_ = changed.version;
  }
  endings.are_over(changed.version);
  co_return changed;
}

/// What passes from hand to hand inside a session is held by it all along: whatever becomes of the
/// commit, nobody else can have it. So the next one need not wait for the disk.
bool GateRoom::is_handed_over(const Changed& changed, std::uint64_t weight) const noexcept {
  std::uint64_t passed_on = weight;
  for (const Admitted& admitted : changed.served.admitted) {
    passed_on += admitted.request->weight;
  }
  return passed_on <= changed.freed && definition_.kind == GateDefinition::Kind::kPermits;
}

/// Requests of this session have no ids but their numbers.
GateRoom::Waiting::iterator GateRoom::find_waiting(std::string_view request_id) {
  std::uint64_t request = 0;
  const char* const begin = request_id.data();
  const char* const end = begin + request_id.size();
  const auto [read_to, error] = std::from_chars(begin, end, request);
  return error == std::errc() && read_to == end ? waiting_.find(request) : waiting_.end();
}

void GateRoom::welcome(const Changed& changed) {
  const bool handed_over = is_handed_over(changed, 0);
  if (changed.served.look_again_at && !waiting_.empty()) {
    plan_to_look_at(*changed.served.look_again_at);
  }
  for (const Admitted& admitted : changed.served.admitted) {
    if (admitted.request->asker->lease_key != session_.key()) {
      continue;
    }
    const auto found = find_waiting(admitted.request->request_id);
    if (found == waiting_.end()) {
      continue;
    }
    found->second->let_in(
        {changed.version, ledger_.rows()->slots_of(admitted.holder_key), handed_over});
    if (const auto next = waiting_.erase(found); next != waiting_.end()) {
      next->second->comes_soon();
      if (const auto later = std::next(next); later != waiting_.end()) {
        fetch_ahead(later->second.get());
      }
    }
  }
}

}  // namespace holdfast::detail
