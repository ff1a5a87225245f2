// SPDX-License-Identifier: Apache-2.0
#include "gate_parties.hpp"

#include <utility>

#include "gate_records.hpp"

namespace holdfast::detail {

namespace {

std::int64_t ns_of_time(StoreTime time) noexcept { return time.time_since_epoch().count(); }

/// The record of the last row that this thread has written. Each field is written over: to clear it
/// would let go of its memory, which takes longer to get than all else.
template <class Record>
Record& last_written() {
  thread_local Record record;
  return record;
}

/// What rows of waiters and of holders have of a request.
template <class Record>
void write_request(const GateRequest& request, bool with_notice, Record& record) {
  record.set_format(kGateFormat);
  record.set_holder(request.holder);
  record.set_lease_key(request.lease_key);
  record.set_request_id(request.request_id);
  record.set_weight(request.weight);
  record.set_shared(request.shared);
  record.set_reason(request.reason);
  if (with_notice) {
    record::GateNotice& notice = *record.mutable_notice();
    notice.set_key(request.notice->key);
    notice.set_value(request.notice->value);
    notice.set_lost_suffix(request.notice->lost_suffix);
  } else {
    record.clear_notice();
  }
}

/// Takes the strings out of the record.
template <class Record>
GateRequest request_in(Record& record) {
  GateRequest request;
  request.holder = std::move(*record.mutable_holder());
  request.lease_key = std::move(*record.mutable_lease_key());
  request.request_id = std::move(*record.mutable_request_id());
  request.weight = record.weight();
  request.shared = record.shared();
  request.reason = std::move(*record.mutable_reason());
  if (record.has_notice()) {
    record::GateNotice& notice = *record.mutable_notice();
    request.notice.emplace(GateRequest::Notice{std::move(*notice.mutable_key()),
                                               std::move(*notice.mutable_value()),
                                               std::move(*notice.mutable_lost_suffix())});
  }
  return request;
}

}  // namespace

std::string row_of(const GateWaiter& waiter) {
  const GateRequest& request = *waiter.request;
  auto& record = last_written<record::GateWaiter>();
  write_request(request, request.notice.has_value(), record);
  record.set_owner(request.owner);
  record.set_asked_at_ns(ns_of_time(waiter.asked_at));
  record.set_deadline_ns(ns_of_time(request.deadline));
  record.set_priority(request.priority);
  record.set_ticket(waiter.ticket);
  record.clear_actors();
  for (const std::string& actor : request.actors) {
    record.add_actors(actor);
  }
  record.set_is_indexed(request.may_hold_others);
  record.clear_slot_seed();
  if (request.slot_seed) {
    record.set_slot_seed(*request.slot_seed);
  }
  return record.SerializeAsString();
}

std::string row_of(const GateHolder& holder) {
  const GateRequest& request = *holder.request;
  auto& record = last_written<record::GateHolder>();
  write_request(request, request.notice && !request.notice->lost_suffix.empty(), record);
  record.clear_slots();
  for (const std::uint64_t slot : holder.slots) {
    record.add_slots(slot);
  }
  record.set_asked_at_ns(ns_of_time(holder.asked_at));
  record.set_granted_at_ns(ns_of_time(holder.granted_at));
  record.clear_actor();
  if (!request.actors.empty()) {
    record.set_actor(request.actors.front());
  }
  return record.SerializeAsString();
}

GateWaiter read_waiter(const Entry& row) {
  auto record = parse_gate_record<record::GateWaiter>(row, "the waiter at a gate");
  GateRequest request = request_in(record);
  request.owner = std::move(*record.mutable_owner());
  request.priority = record.priority();
  request.deadline = store_time(record.deadline_ns());
  request.actors.reserve(static_cast<std::size_t>(record.actors_size()));
  for (std::string& actor : *record.mutable_actors()) {
    request.actors.push_back(std::move(actor));
  }
  request.may_hold_others = record.is_indexed();
  if (record.has_slot_seed()) {
    request.slot_seed = record.slot_seed();
  }
  return {.request = std::make_shared<const GateRequest>(std::move(request)),
          .asked_at = store_time(record.asked_at_ns()),
          .ticket = record.ticket()};
}

GateHolder read_holder(const Entry& row) {
  auto record = parse_gate_record<record::GateHolder>(row, "the holder of a gate");
  GateRequest request = request_in(record);
  if (!record.actor().empty()) {
    request.actors.push_back(std::move(*record.mutable_actor()));
  }
  return {.request = std::make_shared<const GateRequest>(std::move(request)),
          .asked_at = store_time(record.asked_at_ns()),
          .granted_at = store_time(record.granted_at_ns()),
          .slots = {record.slots().begin(), record.slots().end()},
          .fence = row.version};
}

}  // namespace holdfast::detail
