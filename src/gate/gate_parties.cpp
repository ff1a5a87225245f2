// SPDX-License-Identifier: Apache-2.0
#include "gate_parties.hpp"

#include <utility>

#include "gate_records.hpp"
#include "store/record_out.hpp"

namespace holdfast::detail {

namespace {

void write_notice(RecordOut& out, int field, const GateRequest::Notice& notice) {
  out.record(field, [&] {
    out.text(record::GateNotice::kKeyFieldNumber, notice.key);
    out.text(record::GateNotice::kValueFieldNumber, notice.value);
    out.text(record::GateNotice::kLostSuffixFieldNumber, notice.lost_suffix);
  });
}

/// What rows of waiters and of holders begin with.
template <class Record>
void write_request(RecordOut& out, const GateRequest& request) {
  out.number(Record::kFormatFieldNumber, kGateFormat);
  out.text(Record::kHolderFieldNumber, request.asker->holder);
  out.text(Record::kLeaseKeyFieldNumber, request.asker->lease_key);
  out.text(Record::kRequestIdFieldNumber, request.request_id);
  out.number(Record::kWeightFieldNumber, request.weight);
  out.number(Record::kSharedFieldNumber, request.shared);
}

/// Both take the strings out of the record.
template <class Record>
GateAsker asker_in(Record& record) {
  return {std::move(*record.mutable_holder()), {}, std::move(*record.mutable_lease_key()), {}};
}

template <class Record>
GateRequest request_in(Record& record) {
  GateRequest request;
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

void write_row(const GateWaiter& waiter, std::string& row) {
  using Row = record::GateWaiter;
  const GateRequest& request = *waiter.request;
  RecordOut out(row);
  write_request<Row>(out, request);
  out.signed_number(Row::kAskedAtNsFieldNumber, ns_of_time(waiter.asked_at));
  out.signed_number(Row::kDeadlineNsFieldNumber, ns_of_time(request.deadline));
  out.text(Row::kReasonFieldNumber, request.reason);
  out.zigzag_number(Row::kPriorityFieldNumber, request.priority);
  out.number(Row::kTicketFieldNumber, waiter.ticket);
  out.text(Row::kOwnerFieldNumber, request.asker->owner);
  for (const std::string& actor : request.asker->actors) {
    out.text_that_is_there(Row::kActorsFieldNumber, actor);
  }
  out.number(Row::kIsIndexedFieldNumber, request.may_hold_others);
  if (request.notice) {
    write_notice(out, Row::kNoticeFieldNumber, *request.notice);
  }
  if (request.slot_seed) {
    out.number_that_is_there(Row::kSlotSeedFieldNumber, *request.slot_seed);
  }
}

void write_row(const GateHolder& holder, std::string& row) {
  using Row = record::GateHolder;
  const GateRequest& request = *holder.request;
  RecordOut out(row);
  write_request<Row>(out, request);
  out.numbers(Row::kSlotsFieldNumber, holder.slots);
  out.signed_number(Row::kAskedAtNsFieldNumber, ns_of_time(holder.asked_at));
  out.signed_number(Row::kGrantedAtNsFieldNumber, ns_of_time(holder.granted_at));
  out.text(Row::kReasonFieldNumber, request.reason);
  if (!request.asker->actors.empty()) {
    out.text(Row::kActorFieldNumber, request.asker->actors.front());
  }
  if (request.notice && !request.notice->lost_suffix.empty()) {
    write_notice(out, Row::kNoticeFieldNumber, *request.notice);
  }
}

GateWaiter read_waiter(const Entry& row) {
  auto record = parse_gate_record<record::GateWaiter>(row, "the waiter at a gate");
  GateRequest request = request_in(record);
  GateAsker asker = asker_in(record);
  asker.owner = std::move(*record.mutable_owner());
  request.priority = record.priority();
  request.deadline = store_time(record.deadline_ns());
  asker.actors.reserve(static_cast<std::size_t>(record.actors_size()));
  for (std::string& actor : *record.mutable_actors()) {
    asker.actors.push_back(std::move(actor));
  }
  request.asker = shared_asker(std::move(asker));
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
  GateAsker asker = asker_in(record);
  if (!record.actor().empty()) {
    asker.actors.push_back(std::move(*record.mutable_actor()));
  }
  request.asker = shared_asker(std::move(asker));
  return {.request = std::make_shared<const GateRequest>(std::move(request)),
          .asked_at = store_time(record.asked_at_ns()),
          .granted_at = store_time(record.granted_at_ns()),
          .slots = {record.slots().begin(), record.slots().end()},
          .fence = row.version};
}

}  // namespace holdfast::detail
