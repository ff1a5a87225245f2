// SPDX-License-Identifier: Apache-2.0
#include "run_gates.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <iterator>
#include <set>
#include <system_error>
#include <utility>

#include <run.pb.h>

#include <holdfast/deadlock.hpp>
#include <holdfast/error.hpp>
#include <holdfast/store_error.hpp>

#include "gate/gate_deadlock.hpp"
#include "gate/gate_keys.hpp"
#include "gate/gate_rows.hpp"
#include "gate/leased_use.hpp"
#include "run_failure.hpp"
#include "run_payload.hpp"

namespace holdfast::detail {

namespace {

/// Of the gates that were used lately, so many are kept in memory.
constexpr std::size_t kRoomsKept = 1'024;
constexpr std::size_t kUnattendedRead = 1'000;
/// Runs of a shorter queue are in one of the processor's caches still.
constexpr std::uint64_t kLongQueue = 128;

/// The fault is in what was asked for, and not in the store.
bool is_of_ask(const Error& error) {
  switch (error.code()) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kUnsatisfiable:
    case ErrorCode::kDefinitionMismatch:
    case ErrorCode::kDeadlock:
      return true;
    default:
      return false;
  }
}

void end_or_leave(GateRows& rows, RunGates::Ending& ending, StoreTime now) {
  const auto holder = rows.holders().find(ending.holder_key);
  const bool is_held = holder != rows.holders().end();
  ending.fence = is_held ? holder->second.fence : 0;
  if (is_held) {
    rows.end(ending.holder_key, ending.how, now);
  } else if (rows.waiters().contains(ending.waiter_key)) {
    static_cast<void>(rows.leave(ending.waiter_key));
  }
}

void add(Served& all, Served more) {
  std::ranges::move(more.admitted, std::back_inserter(all.admitted));
  if (more.look_again_at) {
    all.look_again_at =
        std::min(all.look_again_at.value_or(*more.look_again_at), *more.look_again_at);
  }
  all.needs_more_waiters = all.needs_more_waiters || more.needs_more_waiters;
}

GateRequest request_of(const GateUse& use) {
  GateRequest request;
  request.asker = shared_asker({.holder = use.holder});
  request.weight = use.weight;
  request.shared = use.shared;
  request.priority = use.priority;
  request.reason = use.reason;
  request.queue_max = use.queue_max;
  return request;
}

std::vector<std::uint64_t> slots_held(const GateRows& rows, const std::string& holder_key) {
  return rows.holders().at(holder_key).slots;
}

/// Told in the place of the news that it was let in.
GateRequest::Notice word_to(const DeadlockCircle& circle, std::size_t victim) {
  const GateRequest::Notice& granted = *circle.members[victim].request->notice;
  std::vector<DeadlockStep> steps = circle.steps;
  std::ranges::rotate(steps, steps.begin() + static_cast<std::ptrdiff_t>(victim));
  const auto error = std::make_exception_ptr(DeadlockError(std::move(steps)));
  record::RunMessage message;
  if (!message.ParseFromString(granted.value)) {
    throw StoreCorrupt("the waiter '" + circle.members[victim].waiter_key +
                       "' has a notice that cannot be read");
  }
  *message.mutable_event()->mutable_failure() = failure_of(error);
  message.mutable_event()->set_payload(circle_text(error));
  return {granted.key + "-deadlock", message.SerializeAsString()};
}

/// Runs are numbered in the order of their starts, and children come after their parents.
std::optional<std::size_t> give_way_to(RunGates::Ask& ask, GateRows& rows,
                                       const DeadlockCircle& circle) {
  std::optional<std::size_t> youngest;
  std::string_view latest = ask.request->asker->owner;
  for (std::size_t i = 0; i < circle.members.size(); ++i) {
    const DeadlockCircle::Member& member = circle.members[i];
    const bool is_other_run = member.version != 0 && member.request->notice;
    if (is_other_run && member.request->asker->owner > latest) {
      latest = member.request->asker->owner;
      youngest = i;
    }
  }
  if (youngest) {
    GateRequest::Notice word = word_to(circle, *youngest);
    rows.batch().put(word.key, word.value);
    ask.victims.push_back(std::move(word));
  }
  return youngest;
}

}  // namespace

std::string run_holder_key(std::string_view gate, std::string_view uid, std::uint64_t operation) {
  return holder_key(gate, uid, std::to_string(operation));
}

std::string run_actor(std::string_view uid) { return std::string("@run/").append(uid); }

std::string grant_text(const LockGrant& grant) {
  std::string text("[");
  text.append(std::to_string(grant.fence));
  for (const std::uint64_t slot : grant.slots) {
    text.append(",").append(std::to_string(slot));
  }
  return text.append("]");
}

Version fence_in(std::string_view grant_text) {
  Version fence = 0;
  grant_text.remove_prefix(std::min<std::size_t>(1, grant_text.size()));
  const auto [end, error] = std::from_chars(grant_text.begin(), grant_text.end(), fence);
  if (error != std::errc()) {
    throw StoreCorrupt("a journal has a lock without a fence");
  }
  return fence;
}

LockGrant read_grant(const boost::json::value& value) {
  const boost::json::array& numbers = value.as_array();
  LockGrant grant;
  grant.fence = numbers.at(0).to_number<std::uint64_t>();
  for (std::size_t i = 1; i < numbers.size(); ++i) {
    grant.slots.push_back(numbers[i].to_number<std::uint64_t>());
  }
  return grant;
}

/// The text of a grant needs no parser that knows all of JSON.
boost::json::value grant_value(std::string_view text) {
  boost::json::array numbers;
  numbers.reserve(2);  // There is mostly one slot.
  const char* at = text.data();
  const char* const end = at + text.size();
  for (char before = '['; end - at > 1 && *at == before; before = ',') {
    std::uint64_t number = 0;
    const auto [rest, error] = std::from_chars(at + 1, end, number);
    if (error != std::errc()) {
      break;
    }
    numbers.emplace_back(number);
    at = rest;
  }
  const bool is_whole = !numbers.empty() && end - at == 1 && *at == ']';
  return is_whole ? boost::json::value(std::move(numbers)) : parse_payload(text);
}

LockGrant grant_in(const Entry& holder) { return {holder.version, read_holder(holder).slots}; }

// --- Changes -------------------------------------------------------------------------------------

std::shared_ptr<RunGates::Room> RunGates::room_of(const std::string& gate) {
  const std::lock_guard lock(mutex_);
  if (rooms_.size() >= kRoomsKept && !rooms_.contains(gate)) {
    std::erase_if(rooms_, [](const auto& room) { return room.second.use_count() == 1; });
  }
  std::shared_ptr<Room>& room = rooms_[gate];
  if (room == nullptr) {
    room = std::make_shared<Room>(store_, gate);
  }
  return room;
}

Served RunGates::use_plainly(GateRows& rows, KnownLeases& leases, LeasedUse& leased, Use& use) {
  if (use.terms.kind != GateUse::Kind::kAcquire) {
    LeasedUse::GivenBack given = leased.give_back(rows, leases, use.terms.fence);
    use.was_there = given.was_there;
    return std::move(given.served);
  }
  use.asked =
      leased.acquire(rows, leases, use.terms.definition, request_of(use.terms), use.terms.lease);
  if (use.asked.outcome == Asked::Outcome::kHeld) {
    use.fence = rows.holders().at(leased.holder_key()).fence;
    use.slots = slots_held(rows, leased.holder_key());
  }
  return use.asked.served;
}

Task<void> RunGates::find_waiter(LeasedUse& leased, std::string& waiter_key) {
  co_await leased.read(store_);
  waiter_key = leased.waiter_key();
}

/// The deeds at one gate, as a plan for its ledger.
class RunGates::Doing {
 public:
  /// `all` are the deeds of the same commit.
  Doing(RunGates& gates, Room& room, Deeds& deeds, const DeedsByGate& all)
      : gates_(gates), room_(room), deeds_(deeds), all_(all) {
    if (!deeds.uses.empty()) {
      const GateUse& use = deeds.uses.front().terms;
      leased_.emplace(GateKeys(use.gate), use.holder, use.now);
    }
    if (std::exchange(room.was_used_plainly, leased_.has_value()) || leased_) {
      room.ledger.forget();
    }
    set_terms();
  }
  Doing(const Doing&) = delete;
  Doing& operator=(const Doing&) = delete;
  ~Doing() = default;

  /// False: see `GateLedger::prepare_known`.
  [[nodiscard]] bool prepare_known(StoreTime now, GateLedger::Prepared& prepared) {
    const bool is_known = room_.ledger.prepare_known(plan_, terms_, now, prepared);
    fault_of_ = nullptr;
    return is_known;
  }

  [[nodiscard]] Task<GateLedger::Prepared> prepare() {
    for (;;) {
      try {
        co_return co_await room_.ledger.prepare(plan_, terms_);
      } catch (const Error& error) {
        if (fault_of_ == nullptr || !is_of_ask(error)) {
          throw;
        }
        *std::exchange(fault_of_, nullptr) = std::current_exception();
      }
      // Without it, from the start: nothing of it may stay.
      room_.ledger.forget();
    }
  }

  Served operator()(GateRows& rows, KnownLeases& leases, StoreTime now) {
    for (Ending& ending : deeds_.endings) {
      end_or_leave(rows, ending, now);
    }
    Served served;
    bool is_served = false;
    for (Use& one : deeds_.uses) {
      if (!one.error) {
        fault_of_ = &one.error;
        add(served, use_plainly(rows, leases, *leased_, one));
        fault_of_ = nullptr;
      }
    }
    for (Ask& one : deeds_.asks) {
      if (one.error) {
        continue;
      }
      fault_of_ = &one.error;
      ask_for(one, rows, leases, now, served);
      fault_of_ = nullptr;
      is_served = true;
    }
    if (!is_served) {
      add(served, serve(rows, leases, now));
    }
    return served;
  }

 private:
  static void ask_for(Ask& one, GateRows& rows, KnownLeases& leases, StoreTime now,
                      Served& served) {
    if (!one.as_stored || !rows.exists()) {
      define(rows, one.definition);
    }
    check_request(rows, *one.request);
    one.asked = ask(rows, leases, one.request, now);
    if (one.asked.outcome == Asked::Outcome::kHeld) {
      one.slots = slots_held(rows, one.asked.key);
    }
    add(served, std::move(one.asked.served));
    if (one.ends_at_once && one.asked.outcome == Asked::Outcome::kHeld) {
      rows.end(one.asked.key, record::GateGrant::RELEASED, now);
      add(served, serve(rows, leases, now));
    }
  }

  void set_terms() {
    for (const Ending& ending : deeds_.endings) {
      if (!ending.waiter_key.empty()) {
        terms_.more_waiters.push_back(ending.waiter_key);
      }
    }
    if (std::ranges::any_of(deeds_.asks, &RunGates::may_close_a_circle)) {
      terms_.check = [this](GateRows& rows) {
        return gates_.check_waits(rows, deeds_, all_, fault_of_);
      };
    }
    if (leased_) {
      terms_.now = deeds_.uses.front().terms.now;
      terms_.prepare = [this](std::string& waiter_key) {
        return gates_.find_waiter(*leased_, waiter_key);
      };
    }
  }

  RunGates& gates_;
  Room& room_;
  Deeds& deeds_;
  const DeedsByGate& all_;
  std::optional<LeasedUse> leased_;
  std::exception_ptr* fault_of_ = nullptr;  // Of whom it is, if something is wrong.
  const GateLedger::Plan plan_ = std::ref(*this);
  GateLedger::Terms terms_;
};

void RunGates::Change::take(Part& part, Deeds& deeds) {
  for (Ask& ask : deeds.asks) {
    std::ranges::move(ask.victims, std::back_inserter(part.victims));
  }
  batch_.append(std::exchange(part.prepared.batch, {}));
}

bool RunGates::prepare_known(DeedsByGate& deeds, StoreTime now, Change& change) {
  change.gates_ = this;
  change.parts_.reserve(deeds.size());
  for (auto& [gate, at_gate] : deeds) {
    Change::Part& part = change.parts_.emplace_back();
    part.room = room_of(gate);
    std::optional<Hold> turn = part.room->turn.try_lock();
    if (!turn) {
      return false;
    }
    part.turn = *std::move(turn);
    Doing doing(*this, *part.room, at_gate, deeds);
    if (!doing.prepare_known(now, part.prepared)) {
      return false;
    }
    change.take(part, at_gate);
  }
  return true;
}

/// In the order of their names: whoever changes several waits for no one who waits for it.
Task<RunGates::Change> RunGates::prepare(DeedsByGate& deeds) {
  Change change;
  change.gates_ = this;
  for (auto& [gate, at_gate] : deeds) {
    Change::Part part;
    part.room = room_of(gate);
    part.turn = co_await part.room->turn.lock();
    Doing doing(*this, *part.room, at_gate, deeds);
    part.prepared = co_await doing.prepare();
    change.take(part, at_gate);
    change.parts_.push_back(std::move(part));
  }
  co_return change;
}

Task<void> RunGates::check_waits(GateRows& rows, Deeds& deeds, const DeedsByGate& all,
                                 std::exception_ptr*& fault_of) {
  std::vector<std::string> leaving;
  for (const auto& [gate, at_gate] : all) {
    for (const Ending& ending : at_gate.endings) {
      leaving.push_back(ending.holder_key);
    }
  }
  for (Ask& one : deeds.asks) {
    const bool waits = !one.error && one.asked.outcome == Asked::Outcome::kWaits;
    if (waits && may_close_a_circle(one)) {
      fault_of = &one.error;
      one.victims.clear();
      ChooseVictim choose;
      if (one.victim == DeadlockVictim::kYoungest) {
        choose = [&one, &rows](const DeadlockCircle& circle) {
          return give_way_to(one, rows, circle);
        };
      }
      co_await check_for_deadlock(store_, rows, one.asked.key, one.request, leaving, choose);
      fault_of = nullptr;
    }
  }
}

Batch RunGates::Change::take_batch() {
  for (const Batch::Condition& condition : batch_.conditions()) {
    if (!is_head(condition.key)) {
      founded_on_.emplace_back(condition.key);
    }
  }
  return std::exchange(batch_, {});
}

bool RunGates::Change::is_founded_on(std::string_view key) const {
  return is_head(key) || std::ranges::find(founded_on_, key) != founded_on_.end();
}

bool RunGates::Change::is_head(std::string_view key) const {
  return std::ranges::any_of(
      parts_, [&](const Part& part) { return part.room->ledger.keys().is_head(key); });
}

const GateRows* RunGates::Change::rows_at(std::string_view gate) const {
  const auto part = std::ranges::find_if(
      parts_, [&](const Part& one) { return one.room->ledger.keys().name() == gate; });
  return part == parts_.end() ? nullptr : part->prepared.rows.get();
}

std::vector<RunGates::Change::Told> RunGates::Change::committed(Version version) {
  std::vector<Told> told;
  for (Part& part : parts_) {
    GateLedger& ledger = part.room->ledger;
    const bool is_written = part.prepared.rows && part.prepared.rows->changed();
    ledger.settle(part.prepared, is_written ? version : 0);
    for (GateRequest::Notice& victim : part.victims) {
      told.push_back({nullptr, std::nullopt, std::move(victim)});
    }
    Served& served = part.prepared.changed.served;
    for (const Admitted& admitted : served.admitted) {
      if (admitted.has_notice) {
        LockGrant grant{version, ledger.rows()->slots_of(admitted.holder_key)};
        told.push_back({admitted.request, std::move(grant), std::nullopt});
      }
    }
    if (ledger.rows()->head().unattended()) {
      gates_->note(ledger.keys().name(), ledger.rows()->head_version(), served.look_again_at);
    }
  }
  return told;
}

std::vector<RunGates::Change::InLine> RunGates::Change::next_in_line() const {
  std::vector<InLine> next;
  for (const Part& part : parts_) {
    const GateRows* const rows = part.room->ledger.rows();
    const bool has_moved = !part.prepared.changed.served.admitted.empty();
    if (!has_moved || rows == nullptr || rows->waiter_count() < kLongQueue) {
      continue;
    }
    std::size_t before = 0;
    next.reserve(next.size() + kFetchSteps);
    for (auto one = rows->waiters().begin(); one != rows->waiters().end() && before < kFetchSteps;
         ++one) {
      next.push_back({one->second.request.get(), static_cast<FetchStep>(before++)});
    }
  }
  return next;
}

// --- Gates at which runs wait --------------------------------------------------------------------

void RunGates::note(const std::string& gate, Version head, std::optional<StoreTime> look_again_at) {
  bool is_earlier = false;
  {
    const std::lock_guard lock(mutex_);
    Seen& seen = seen_[gate];
    is_earlier = look_again_at && (!seen.look_again_at || *look_again_at < *seen.look_again_at);
    seen = {head, look_again_at};
  }
  if (is_earlier) {
    earlier_.ring();
  }
}

std::optional<StoreTime> RunGates::next_look() const {
  std::optional<StoreTime> next;
  const std::lock_guard lock(mutex_);
  for (const auto& [gate, seen] : seen_) {
    if (seen.look_again_at) {
      next = std::min(next.value_or(*seen.look_again_at), *seen.look_again_at);
    }
  }
  return next;
}

Task<std::optional<StoreTime>> RunGates::attend() {
  std::set<std::string> gates;
  const std::string prefix(kUnattendedPrefix);
  std::string after;
  for (bool more = true; more;) {
    const ScanOptions next{.after = after, .limit = kUnattendedRead, .read = Read::kApplied};
    const Page page = co_await store_.scan(prefix, next);
    for (const Entry& entry : page.entries) {
      after = entry.key;
      gates.insert(gate_in_unattended_key(entry.key));
    }
    more = page.more;
  }
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(seen_, [&](const auto& seen) { return !gates.contains(seen.first); });
  }
  const StoreTime now = co_await store_.time();
  std::optional<StoreTime> next_look;
  for (const std::string& gate : gates) {
    const std::optional<StoreTime> look_again_at = co_await look_at(gate, now);
    if (look_again_at) {
      next_look = std::min(next_look.value_or(*look_again_at), *look_again_at);
    }
  }
  co_return next_look;
}

/// Reads no more than the head, unless something may have happened.
Task<std::optional<StoreTime>> RunGates::look_at(std::string gate, StoreTime now) {
  Seen seen;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = seen_.find(gate); found != seen_.end()) {
      seen = found->second;
    }
  }
  const std::optional<Entry> head = co_await store_.get(GateKeys(gate).head(), Read::kApplied);
  const bool is_due = seen.look_again_at && *seen.look_again_at <= now;
  if (head && head->version == seen.head && !is_due) {
    co_return seen.look_again_at;
  }
  const std::shared_ptr<Room> room = room_of(gate);
  const Hold turn = co_await room->turn.lock();
  const GateLedger::Plan plan = [](GateRows& rows, KnownLeases& leases, StoreTime at) {
    return serve(rows, leases, at);
  };
  const GateLedger::Changed changed = co_await room->ledger.change(plan);
  note(gate, room->ledger.rows()->head_version(), changed.served.look_again_at);
  co_return changed.served.look_again_at;
}

}  // namespace holdfast::detail
