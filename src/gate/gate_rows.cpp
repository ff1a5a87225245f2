// SPDX-License-Identifier: Apache-2.0
#include "gate_rows.hpp"

#include <algorithm>
#include <utility>

#include <holdfast/detail/check.hpp>
#include <holdfast/store_error.hpp>

#include "session_rules.hpp"
#include "store/printable.hpp"

namespace holdfast::detail {

namespace {

/// Ranks stay above zero, whatever the priority.
constexpr std::uint64_t kRankOfTicketZero = std::uint64_t{1} << 40U;

/// Who has a higher priority comes before some that were there earlier, but not before all: their
/// tickets are so much older than they are that none is overtaken for ever.
std::uint64_t rank_of(std::uint64_t ticket, int priority) {
  const auto steps =
      static_cast<std::int64_t>(priority) * static_cast<std::int64_t>(kGateOvertakesPerStep);
  return kRankOfTicketZero + ticket - static_cast<std::uint64_t>(steps);
}

}  // namespace

template <class Record>
Record parse_gate_record(const Entry& entry, std::string_view what) {
  Record record;
  if (!record.ParseFromString(entry.value) || record.format() == 0) {
    throw StoreCorrupt(std::string(what) + " " + printable(entry.key) +
                       " cannot be read: its record is damaged, or something else is stored there");
  }
  if (record.format() > kGateFormat) {
    throw NewerFormat(std::string(what) + " " + printable(entry.key) + " has format " +
                      std::to_string(record.format()) + ", and this version of Holdfast knows " +
                      std::to_string(kGateFormat) + "; use a newer one");
  }
  return record;
}

template record::GateGrant parse_gate_record(const Entry&, std::string_view);
template record::GateHolder parse_gate_record(const Entry&, std::string_view);
template record::GateLease parse_gate_record(const Entry&, std::string_view);
template record::GateOperatorChange parse_gate_record(const Entry&, std::string_view);
template record::GateWait parse_gate_record(const Entry&, std::string_view);

void GateRows::read_head(const Entry& entry) {
  head_ = parse_gate_record<record::GateHead>(entry, "the gate");
  head_version_ = entry.version;
}

void GateRows::read_holder(const Entry& entry) {
  holders_.insert_or_assign(entry.key, Holder{entry.version, parse_gate_record<record::GateHolder>(
                                                                 entry, "the holder of a gate")});
}

void GateRows::read_waiter(const Entry& entry) {
  waiters_.insert_or_assign(
      entry.key, Waiter{parse_gate_record<record::GateWaiter>(entry, "the waiter at a gate")});
}

void GateRows::read_next_waiter(const Entry& entry) {
  read_waiter(entry);
  waiters_known_to_ = entry.key;
}

std::vector<std::uint64_t> GateRows::slots_of(const std::string& holder_key) const {
  const auto holder = holders_.find(holder_key);
  if (holder == holders_.end()) {
    return {};
  }
  const auto& slots = holder->second.record.slots();
  return {slots.begin(), slots.end()};
}

record::GateHead& GateRows::change_head() noexcept {
  head_changed_ = true;
  return head_;
}

std::string GateRows::enqueue(record::GateWaiter waiter) {
  record::GateHead& head = change_head();
  const std::uint64_t ticket = head.next_ticket();
  head.set_next_ticket(ticket + 1);
  head.set_waiter_count(head.waiter_count() + 1);
  waiter.set_format(kGateFormat);
  waiter.set_ticket(ticket);
  std::string key = keys_.waiter(rank_of(ticket, waiter.priority()), ticket);
  batch_.put_new(key, waiter.SerializeAsString());
  if (waiter.is_indexed()) {
    write_waits(key, waiter);
  }
  if (waiter.has_notice() && !head.unattended()) {
    head.set_unattended(true);
    batch_.put(unattended_key(keys_.name()), "");
  }
  if (!more_waiters_ && waiters_.size() >= waiters_max_ && key > waiters_.rbegin()->first) {
    more_waiters_ = true;
    waiters_known_to_ = waiters_.rbegin()->first;
  }
  // Behind one that is not here it would seem to be next.
  if (!more_waiters_ || key < waiters_known_to_) {
    waiters_.emplace(key, Waiter{std::move(waiter)});
  } else {
    beyond_.emplace(key, std::move(waiter));
  }
  return key;
}

record::GateWaiter GateRows::leave(const std::string& waiter_key) {
  record::GateWaiter waiter;
  if (auto here = waiters_.extract(waiter_key)) {
    waiter = std::move(here.mapped().record);
  } else {
    auto beyond = beyond_.extract(waiter_key);
    // Counted out twice, it would hide another one.
    HOLDFAST_CHECK(!beyond.empty(), "a waiter left a gate at which it did not wait");
    waiter = std::move(beyond.mapped());
  }
  record::GateHead& head = change_head();
  head.set_waiter_count(head.waiter_count() - 1);
  batch_.erase(waiter_key);
  if (head.waiter_count() == 0 && head.unattended()) {
    head.clear_unattended();
    batch_.erase(unattended_key(keys_.name()));
  }
  if (waiter.is_indexed()) {
    for (const std::string& actor : waiter.actors()) {
      batch_.erase(wait_key(waiter.lease_key(), actor));
    }
  }
  return waiter;
}

void GateRows::write_waits(const std::string& waiter_key, const record::GateWaiter& waiter) {
  record::GateWait wait;
  wait.set_format(kGateFormat);
  wait.set_gate(keys_.name());
  wait.set_waiter_key(waiter_key);
  for (const std::string& actor : waiter.actors()) {
    batch_.put(wait_key(waiter.lease_key(), actor), wait.SerializeAsString());
  }
}

record::GateGrant::Tie tie_of(std::string_view lease_key) noexcept {
  return lease_key.empty()                       ? record::GateGrant::NOTHING
         : lease_key.starts_with(kSessionPrefix) ? record::GateGrant::SESSION
                                                 : record::GateGrant::LEASE;
}

void GateRows::grant(std::string holder_key, record::GateHolder holder) {
  const record::GateHead& head = change_head();
  if (head.unattended() && !holder.lease_key().empty()) {
    batch_.put(unattended_key(keys_.name()), "");  // Those who look after it have one more to mind.
  }
  holder.set_format(kGateFormat);
  batch_.put_new(holder_key, holder.SerializeAsString());
  granted_.push_back(holder_key);
  holders_.insert_or_assign(std::move(holder_key), Holder{0, std::move(holder)});
}

void GateRows::end(const std::string& holder_key, record::GateGrant::End how, StoreTime now) {
  record::GateGrant grant;
  grant.set_end(how);
  end(holder_key, std::move(grant), now);
}

void GateRows::end_by_force(const std::string& holder_key, const ByOperator& by, StoreTime now) {
  record::GateGrant grant;
  grant.set_end(record::GateGrant::FORCED);
  grant.set_ended_by(by.name);
  grant.set_reason(by.reason);
  if (const auto holder = holders_.find(holder_key);
      holder != holders_.end() && holder->second.record.has_notice()) {
    const record::GateNotice& notice = holder->second.record.notice();
    batch_.put(std::string(notice.key()).append(kLostMark),
               std::string(notice.value()).append(notice.lost_suffix()));
  }
  end(holder_key, std::move(grant), now);
}

void GateRows::end(const std::string& holder_key, record::GateGrant grant, StoreTime now) {
  record::GateHead& head = change_head();
  const auto found = holders_.find(holder_key);
  HOLDFAST_CHECK(found != holders_.end(), "a hold was ended that there is not");
  auto& [fence, held] = found->second;
  const std::uint64_t number = head.grants_ended();
  grant.set_format(kGateFormat);
  grant.set_number(number);
  grant.set_allocated_holder(held.release_holder());
  grant.set_fence(fence);
  grant.set_weight(held.weight());
  grant.set_shared(held.shared());
  grant.mutable_slots()->Swap(held.mutable_slots());
  grant.set_asked_at_ns(held.asked_at_ns());
  grant.set_granted_at_ns(held.granted_at_ns());
  grant.set_ended_at_ns(now.time_since_epoch().count());
  grant.set_tie(tie_of(held.lease_key()));
  if (grant.tie() == record::GateGrant::NOTHING) {
    grant.set_allocated_actor(held.release_actor());
  }
  if (grant.reason().empty()) {
    grant.set_allocated_reason(held.release_reason());
  }
  batch_.put(keys_.grant(number), grant.SerializeAsString());
  if (number == head.first_grant_kept()) {
    head.set_first_grant_ended_ns(grant.ended_at_ns());
  }
  head.set_grants_ended(number + 1);
  if (number + 1 > kGateGrantsKept) {
    head.set_first_grant_kept(
        std::max(head.first_grant_kept(), number + 1 - std::uint64_t{kGateGrantsKept}));
  }
  batch_.erase(found->first);
  holders_.erase(found);
}

void GateRows::note(const ByOperator& by, std::string what, StoreTime now) {
  record::GateHead& head = change_head();
  record::GateOperatorChange change;
  change.set_format(kGateFormat);
  change.set_number(head.operator_changes());
  change.set_at_ns(now.time_since_epoch().count());
  change.set_by(by.name);
  change.set_reason(by.reason);
  change.set_what(std::move(what));
  batch_.put(keys_.operator_change(head.operator_changes()), change.SerializeAsString());
  head.set_operator_changes(head.operator_changes() + 1);
}

Batch GateRows::take_batch() {
  if (head_changed_) {
    if (head_version_ == 0) {
      batch_.require_absent(keys_.head());
    } else {
      batch_.require_version(keys_.head(), head_version_);
    }
    head_.set_format(kGateFormat);
    batch_.put(keys_.head(), head_.SerializeAsString());
  }
  beyond_.clear();
  return std::exchange(batch_, {});
}

void GateRows::committed(Version version) noexcept {
  if (!std::exchange(head_changed_, false)) {
    return;
  }
  head_version_ = version;
  for (const std::string& key : std::exchange(granted_, {})) {
    if (const auto holder = holders_.find(key); holder != holders_.end()) {
      holder->second.fence = version;
    }
  }
}

}  // namespace holdfast::detail
