// SPDX-License-Identifier: Apache-2.0
#include "entrance.hpp"

#include <algorithm>
#include <limits>
#include <string_view>
#include <tuple>
#include <utility>

#include <holdfast/gate_inspection.hpp>

#include "gate/gate_keys.hpp"
#include "gate/gate_rows.hpp"
#include "gate/gate_rules.hpp"
#include "run_directory.hpp"
#include "run_failure.hpp"
#include "run_keys.hpp"
#include "run_payload.hpp"
#include "run_rows.hpp"
#include "run_world.hpp"

namespace holdfast::detail {

namespace {

constexpr std::string_view kEntranceRequest = "admission";

std::vector<AdmissionGate> gates_to_ask(const Admission& admission, const record::RunHead& head) {
  if (head.step_limits_size() > 0) {
    return {};  // Whatever the definition says by now, it would have to wait for itself.
  }
  const std::string key = admission.key_of(parse_payload(head.input()));
  std::vector<AdmissionGate> gates = admission.gates(key);
  std::erase_if(gates, [&](const AdmissionGate& gate) {
    return std::ranges::any_of(head.holds(),
                               [&](const auto& hold) { return hold.gate() == gate.name; });
  });
  return gates;
}

std::uint64_t queue_max_of(const Applicant& who) {
  if (who.has_begun) {
    return std::numeric_limits<std::uint64_t>::max();
  }
  const Concurrency& terms = who.admission.terms();
  const bool may_wait =
      terms.when_full == WhenFull::kQueue || terms.when_full == WhenFull::kReplace;
  return may_wait ? terms.queue_max : 0;
}

/// Since its first ask: at the second gate it does not wait anew.
StoreTime deadline_of_wait(const Applicant& who, StoreTime now) {
  const std::optional<Duration>& wait_max = who.admission.terms().wait_max;
  if (!wait_max || who.has_begun) {
    return {};
  }
  const std::int64_t known = who.head.admission().deadline_ns();
  return known != 0 ? time_of(known) : now + *wait_max;
}

SharedRequest request_of(const Applicant& who, bool is_first, RunWorld& world, StoreTime now) {
  GateRequest request;
  request.asker = shared_asker(
      {id_of(who.head, who.place), who.place.uid, {}, run_actors(who.head, who.place.uid)});
  request.request_id = kEntranceRequest;
  request.priority = who.head.priority();
  request.reason = "to run '" + who.head.type() + "'";
  request.queue_max = queue_max_of(who);
  request.deadline = deadline_of_wait(who, now);
  request.may_hold_others = who.head.has_parent() || request.asker->actors.size() > 1 ||
                            !is_first || who.holds_locks || who.head.holds_size() > 0;
  record::RunMessage message;
  message.set_format(kRunFormat);
  message.set_uid(who.place.uid);
  message.set_kind(record::RunMessage::WAKE);
  const PartitionKeys there(who.place.queue, who.place.partition);
  request.notice.emplace(
      GateRequest::Notice{there.message(world.next_uid(now)), message.SerializeAsString()});
  return std::make_shared<const GateRequest>(std::move(request));
}

bool is_held_at(const Entrance& entrance, const AdmissionGate& gate) {
  const RunGates::Ask& ask = entrance.ask_at(gate);
  return !ask.error && ask.asked.outcome == Asked::Outcome::kHeld;
}

std::exception_ptr refusal_at(const Entrance& entrance, const Applicant& who) {
  const AdmissionGate& gate = entrance.gates.back();
  const std::optional<WhyNot>& why = entrance.ask_at(gate).asked.why;
  const GateRows* const rows = entrance.change.rows_at(gate.name);
  const bool is_rate = why && why->kind == WhyNot::Kind::kRate;
  const std::uint64_t limit = is_rate ? gate.definition.rate_count : capacity_of(rows->head());
  std::string text = "at '" + gate.name + "': " + (why ? to_string(*why) : "it is not free");
  if (queue_max_of(who) > 0 && !rows->head().draining()) {
    text.append(", and ").append(std::to_string(rows->waiter_count()));
    text.append(" are queued there, as many as may (Concurrency::queue_max)");
  }
  text.append("; nothing was started: try again later");
  const std::string key = who.admission.key_of(parse_payload(who.head.input()));
  return std::make_exception_ptr(ConcurrencyLimitExceeded(who.head.type(), key, limit, text));
}

/// All that go on or are queued at the gate beside `own`, in the order in which they came.
std::vector<std::string> others_at(const GateRows& rows, const std::string& own_waiter) {
  std::vector<std::pair<std::string_view, const GateHolder*>> holders;
  holders.reserve(rows.holders().size());
  for (const auto& [key, holder] : rows.holders()) {
    holders.emplace_back(key, &holder);
  }
  // The keys are their own, so that the order is the same each time.
  std::ranges::sort(holders, {}, [](const auto& one) {
    return std::tuple(one.second->granted_at, one.second->fence, one.first);
  });
  std::vector<std::string> ids;
  ids.reserve(holders.size());
  for (const auto& [key, holder] : holders) {
    ids.push_back(holder->request->asker->holder);
  }
  for (const auto& [key, waiter] : rows.waiters()) {
    if (key != own_waiter) {
      ids.push_back(waiter.request->asker->holder);
    }
  }
  return ids;
}

/// The newest ones stay, as many as may go on at once, itself included.
std::vector<std::string> ids_to_replace(const Entrance& entrance) {
  const AdmissionGate& gate = entrance.gates.back();
  const GateRows* const rows = entrance.change.rows_at(gate.name);
  std::vector<std::string> others = others_at(*rows, entrance.ask_at(gate).asked.key);
  const std::uint64_t stay = capacity_of(rows->head()) - 1;
  others.resize(others.size() > stay ? others.size() - stay : 0);
  return others;
}

Task<void> find_replaced(Store& store, Entrance& entrance) {
  for (const std::string& id : ids_to_replace(entrance)) {
    std::optional<RunRow> run = co_await find_run(store, id, Read::kApplied);
    if (run && !has_ended(run->head)) {
      entrance.replaced.push_back({id, std::move(run->place)});
    }
  }
}

Task<void> find_one_to_join(Store& store, Entrance& entrance) {
  const GateRows* const rows = entrance.change.rows_at(entrance.gates.back().name);
  for (const std::string& id : others_at(*rows, {})) {
    const std::optional<RunRow> run = co_await find_run(store, id, Read::kApplied);
    if (run && !has_ended(run->head)) {
      entrance.to_join = id;
      co_return;
    }
  }
}

bool is_of_definition(const std::exception_ptr& error) {
  return failure_of(error).code() == static_cast<int>(ErrorCode::kDefinitionMismatch);
}

/// Fails it if the store says something else of one of them.
Task<void> check_step_limits(Store& store, Entrance& entrance) {
  for (const AdmissionGate& gate : entrance.step_limits) {
    GateRows rows{GateKeys(gate.name)};
    const std::optional<Entry> head = co_await store.get(rows.keys().head(), Read::kApplied);
    if (head) {
      rows.read_head(*head);
    }
    try {
      define(rows, gate.definition);
    } catch (const DefinitionMismatch&) {
      entrance.outcome = Entrance::Outcome::kFailed;
      entrance.error = std::current_exception();
    }
  }
}

/// What the store says of a gate.
Task<void> read_definition(Store& store, AdmissionGate& gate) {
  const std::optional<GateInfo> info = co_await inspect_gate(store, gate.name, 1);
  if (info) {
    gate.definition = info->definition;
  }
}

/// Asks at the first ones; how many of them it would hold, one after the other.
Task<std::size_t> ask_at_first(RunWorld& world, const Applicant& who, Entrance& entrance,
                               const std::vector<AdmissionGate>& gates, std::size_t count,
                               StoreTime now) {
  entrance.change = {};  // Others have their turn, and whoever waits for it waits for nothing else.
  entrance.deeds.clear();
  entrance.gates.assign(gates.begin(), gates.begin() + static_cast<std::ptrdiff_t>(count));
  for (const AdmissionGate& gate : entrance.gates) {
    RunGates::Ask ask;
    ask.operation = kAdmissionOperation;
    ask.definition = gate.definition;
    ask.request = request_of(who, &gate == &entrance.gates.front(), world, now);
    ask.ends_at_once = !gate.is_held;
    entrance.deeds[gate.name].asks.push_back(std::move(ask));
  }
  entrance.change = co_await world.gates.prepare(entrance.deeds);
  const auto held = std::ranges::find_if_not(
      entrance.gates, [&](const AdmissionGate& gate) { return is_held_at(entrance, gate); });
  co_return static_cast<std::size_t>(held - entrance.gates.begin());
}

}  // namespace

const RunGates::Ask& Entrance::ask_at(const AdmissionGate& gate) const {
  return deeds.at(gate.name).asks.front();
}

std::vector<Limit> step_limits_of(const record::RunHead& head) {
  std::vector<Limit> limits;
  for (const record::RunStepLimit& limit : head.step_limits()) {
    limits.emplace_back(limit.gate(), limit.capacity());
  }
  return limits;
}

std::string entrance_holder_key(std::string_view gate, std::string_view uid) {
  return GateKeys(gate).holder(uid, kEntranceRequest);
}

std::vector<Outgoing> stop_messages(RunWorld& world, const Entrance& entrance, StoreTime now) {
  std::vector<Outgoing> messages;
  for (const Entrance::Replaced& one : entrance.replaced) {
    record::RunMessage message;
    message.set_format(kRunFormat);
    message.set_uid(one.place.uid);
    message.mutable_event()->set_kind(record::RunEvent::CANCEL_REQUESTED);
    const PartitionKeys there(one.place.queue, one.place.partition);
    messages.push_back({one.place, there.message(world.next_uid(now)), std::move(message)});
  }
  return messages;
}

bool read_word(const RunGates::Change::Told& told, record::RunMessage& message) {
  if (!message.ParseFromString(told.notice().value)) {
    return false;
  }
  // One that is told to begin needs no more.
  if (told.grant && message.kind() == record::RunMessage::EVENT) {
    message.mutable_event()->set_payload(grant_text(*told.grant));
  }
  return true;
}

std::vector<Outgoing> messages_of(const std::vector<RunGates::Change::Told>& told) {
  std::vector<Outgoing> messages;
  for (const RunGates::Change::Told& one : told) {
    record::RunMessage message;
    if (read_word(one, message)) {
      const std::string& key = one.notice().key;
      RunPlace to = place_in_message_key(key, message.uid());
      messages.push_back({std::move(to), key, std::move(message)});
    }
  }
  return messages;
}

/// It may wait at one while it holds those before it, but must not have asked at those behind.
/// Mostly it is let in at all of them, so that is tried first.
Task<Entrance> ask_for_entrance(RunWorld& world, Applicant who, StoreTime now) {
  Entrance entrance;
  std::vector<AdmissionGate> gates;
  try {
    gates = gates_to_ask(who.admission, who.head);
  } catch (const Error&) {
    entrance.outcome = Entrance::Outcome::kFailed;
    entrance.error = std::current_exception();
  }
  if (who.admission.terms().hold == HoldSlot::kForStep) {
    if (!who.has_begun) {  // Else it goes on as it began.
      entrance.step_limits = std::move(gates);
      co_await check_step_limits(world.store, entrance);
    }
    co_return entrance;
  }
  bool is_read_anew = false;
  std::size_t count = gates.size();
  while (count > 0) {
    const std::size_t held = co_await ask_at_first(world, who, entrance, gates, count, now);
    if (held == gates.size()) {
      co_return entrance;
    }
    if (held == count) {
      count = gates.size();  // There was room by now.
      continue;
    }
    if (held + 1 < count) {
      count = held + 1;
      continue;
    }
    const RunGates::Ask& last = entrance.ask_at(entrance.gates.back());
    if (last.error && who.has_begun && is_of_definition(last.error)) {
      co_await read_definition(world.store, gates[held]);
      continue;
    }
    const bool is_refused = !last.error && last.asked.outcome == Asked::Outcome::kRefused;
    if (is_refused && !std::exchange(is_read_anew, true)) {
      continue;  // No commit will tell whether what was known of the gate is old.
    }
    break;
  }
  if (count == 0) {
    co_return entrance;
  }
  const AdmissionGate& gate = entrance.gates.back();
  const RunGates::Ask& ask = entrance.ask_at(gate);
  const WhenFull policy = who.admission.terms().when_full;
  if (ask.error) {
    entrance.outcome = Entrance::Outcome::kFailed;
    entrance.error = ask.error;
  } else if (ask.asked.outcome == Asked::Outcome::kRefused) {
    entrance.outcome = Entrance::Outcome::kRefused;
    entrance.error = refusal_at(entrance, who);
    if (policy == WhenFull::kJoin) {
      co_await find_one_to_join(world.store, entrance);
    }
  } else {
    entrance.outcome = Entrance::Outcome::kWaits;
    if (policy == WhenFull::kReplace && gate.is_of_key && !who.has_begun) {
      co_await find_replaced(world.store, entrance);
      if (!entrance.replaced.empty() && who.admission.terms().replace_grace) {
        entrance.terminate_at = now + *who.admission.terms().replace_grace;
      }
    }
  }
  co_return entrance;
}

void note_entrance(record::RunHead& head, const Entrance& entrance, std::string_view uid,
                   StoreTime now) {
  record::RunAdmission& stands = *head.mutable_admission();
  const bool waits = entrance.outcome == Entrance::Outcome::kWaits;
  head.set_waits(waits);
  for (const AdmissionGate& gate : entrance.step_limits) {
    record::RunStepLimit& limit = *head.add_step_limits();
    limit.set_gate(gate.name);
    limit.set_capacity(gate.definition.capacity);
  }
  for (const AdmissionGate& gate : entrance.gates) {
    const bool is_held = !waits || &gate != &entrance.gates.back();
    if (is_held && gate.is_held) {
      record::RunHold& hold = *head.add_holds();
      hold.set_gate(gate.name);
      hold.set_holder_key(entrance_holder_key(gate.name, uid));
    }
  }
  if (!waits) {
    stands.Clear();
    stands.set_state(record::RunAdmission::IN);
    return;
  }
  const RunGates::Ask& ask = entrance.ask_at(entrance.gates.back());
  stands.set_state(record::RunAdmission::WAITS);
  stands.set_gate(entrance.gates.back().name);
  stands.set_waiter_key(ask.asked.key);
  if (stands.asked_at_ns() == 0) {
    stands.set_asked_at_ns(ns_of(now));
  }
  stands.set_deadline_ns(ns_of(ask.request->deadline));
  stands.clear_replaced();
  for (const Entrance::Replaced& one : entrance.replaced) {
    stands.add_replaced(one.id);
  }
  stands.set_terminate_at_ns(ns_of(entrance.terminate_at));
}

}  // namespace holdfast::detail
