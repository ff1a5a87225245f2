// SPDX-License-Identifier: Apache-2.0
#include "gate_rows.hpp"

#include <algorithm>
#include <utility>

#include <holdfast/detail/check.hpp>

#include "session_rules.hpp"
#include "store/record_out.hpp"

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

std::string key_of(const GateKeys& keys, const GateWaiter& waiter) {
  return keys.waiter(rank_of(waiter.ticket, waiter.request->priority), waiter.ticket);
}

}  // namespace

void GateRows::read_head(const Entry& entry) {
  head_ = parse_gate_record<record::GateHead>(entry, "the gate");
  head_version_ = entry.version;
}

void GateRows::read_holder(const Entry& entry) {
  holders_.insert_or_assign(entry.key, detail::read_holder(entry));
}

void GateRows::read_waiter(const Entry& entry) {
  waiters_.insert_or_assign(entry.key, detail::read_waiter(entry));
}

void GateRows::read_next_waiter(const Entry& entry) {
  read_waiter(entry);
  waiters_known_to_ = entry.key;
}

void GateRows::add_next_waiter(KeyedWaiter next) {
  waiters_known_to_ = next.key;
  waiters_.insert_or_assign(waiters_.end(), std::move(next.key), std::move(next.waiter));
}

std::vector<std::uint64_t> GateRows::slots_of(const std::string& holder_key) const {
  const auto holder = holders_.find(holder_key);
  if (holder == holders_.end()) {
    return {};
  }
  return holder->second.slots;
}

record::GateHead& GateRows::change_head() noexcept {
  head_changed_ = true;
  return head_;
}

std::string GateRows::enqueue(SharedRequest request, StoreTime now) {
  record::GateHead& head = change_head();
  const std::uint64_t ticket = head.next_ticket();
  head.set_next_ticket(ticket + 1);
  head.set_waiter_count(head.waiter_count() + 1);
  GateWaiter waiter{.request = std::move(request), .asked_at = now, .ticket = ticket};
  std::string key = key_of(keys_, waiter);
  if (waiter.request->may_hold_others) {
    write_waits(key, *waiter.request);
  }
  if (waiter.request->notice && !head.unattended()) {
    head.set_unattended(true);
    batch_.put(unattended_key(keys_.name()), "");
  }
  if (!more_waiters_ && waiters_.size() >= waiters_max_ && key > waiters_.rbegin()->first) {
    more_waiters_ = true;
    waiters_known_to_ = waiters_.rbegin()->first;
  }
  batch_.put_new_with(key, [&](std::string& row) { write_row(waiter, row); });
  // Behind one that is not here it would seem to be next.
  const bool is_here = !more_waiters_ || key < waiters_known_to_;
  if (is_here) {
    waiters_.emplace(key, std::move(waiter));
  } else {
    came_behind_.push_back({key, std::move(waiter)});
  }
  return key;
}

GateWaiter GateRows::take_waiter(const std::string& key) {
  if (auto here = waiters_.extract(key)) {
    has_lost_one_behind_ = has_lost_one_behind_ || (more_waiters_ && key > waiters_known_to_);
    return std::move(here.mapped());
  }
  const auto behind = std::ranges::find(came_behind_, key, &KeyedWaiter::key);
  // Counted out twice, it would hide another one.
  HOLDFAST_CHECK(behind != came_behind_.end(), "a waiter left a gate at which it did not wait");
  GateWaiter waiter = std::move(behind->waiter);
  came_behind_.erase(behind);
  return waiter;
}

GateWaiter GateRows::leave(const std::string& waiter_key) {
  batch_.erase(waiter_key);  // Of which nothing may be left when the waiter is gone.
  GateWaiter left = take_waiter(waiter_key);
  record::GateHead& head = change_head();
  head.set_waiter_count(head.waiter_count() - 1);
  if (head.waiter_count() == 0 && head.unattended()) {
    head.clear_unattended();
    batch_.erase(unattended_key(keys_.name()));
  }
  const GateRequest& request = *left.request;
  if (request.may_hold_others) {
    for (const std::string& actor : request.asker->actors) {
      batch_.erase(wait_key(request.asker->lease_key, actor));
    }
  }
  return left;
}

void GateRows::write_waits(const std::string& waiter_key, const GateRequest& request) {
  record::GateWait wait;
  wait.set_format(kGateFormat);
  wait.set_gate(keys_.name());
  wait.set_waiter_key(waiter_key);
  for (const std::string& actor : request.asker->actors) {
    batch_.put(wait_key(request.asker->lease_key, actor), wait.SerializeAsString());
  }
}

record::GateGrant::Tie tie_of(std::string_view lease_key) noexcept {
  return lease_key.empty()                       ? record::GateGrant::NOTHING
         : lease_key.starts_with(kSessionPrefix) ? record::GateGrant::SESSION
                                                 : record::GateGrant::LEASE;
}

void GateRows::grant(std::string holder_key, GateHolder holder) {
  const record::GateHead& head = change_head();
  if (head.unattended() && !holder.request->asker->lease_key.empty()) {
    batch_.put(unattended_key(keys_.name()), "");  // Those who look after it have one more to mind.
  }
  holder.fence = 0;
  batch_.put_new_with(holder_key, [&](std::string& row) { write_row(holder, row); });
  const auto [place, is_new] = holders_.insert_or_assign(std::move(holder_key), std::move(holder));
  granted_.push_back(&place->second);
}

void GateRows::end(const std::string& holder_key, record::GateGrant::End how, StoreTime now) {
  end(holder_key, Ending{how}, now);
}

void GateRows::end_by_force(const std::string& holder_key, const ByOperator& by, StoreTime now) {
  if (const auto holder = holders_.find(holder_key); holder != holders_.end()) {
    const std::optional<GateRequest::Notice>& notice = holder->second.request->notice;
    if (notice && !notice->lost_suffix.empty()) {
      batch_.put(std::string(notice->key).append(kLostMark),
                 std::string(notice->value).append(notice->lost_suffix));
    }
  }
  end(holder_key, {record::GateGrant::FORCED, &by}, now);
}

void GateRows::end(const std::string& holder_key, const Ending& ending, StoreTime now) {
  auto ended = holders_.extract(holder_key);
  HOLDFAST_CHECK(!ended.empty(), "a hold was ended that there is not");
  std::erase(granted_, &ended.mapped());
  keep_grant(ended.mapped(), ending, now);
  batch_.erase(std::move(ended.key()));
}

void GateRows::keep_grant(const GateHolder& held, const Ending& ending, StoreTime now) {
  record::GateHead& head = change_head();
  const std::uint64_t number = head.grants_ended();
  const GateRequest& request = *held.request;
  const record::GateGrant::Tie tie = tie_of(request.asker->lease_key);
  batch_.put_with(keys_.grant(number), [&](std::string& row) {
    using Grant = record::GateGrant;
    RecordOut out(row);
    out.number(Grant::kFormatFieldNumber, kGateFormat);
    out.text(Grant::kHolderFieldNumber, request.asker->holder);
    out.number(Grant::kFenceFieldNumber, held.fence);
    out.number(Grant::kWeightFieldNumber, request.weight);
    out.number(Grant::kSharedFieldNumber, request.shared);
    out.numbers(Grant::kSlotsFieldNumber, held.slots);
    out.signed_number(Grant::kAskedAtNsFieldNumber, ns_of_time(held.asked_at));
    out.signed_number(Grant::kGrantedAtNsFieldNumber, ns_of_time(held.granted_at));
    out.signed_number(Grant::kEndedAtNsFieldNumber, ns_of_time(now));
    out.number(Grant::kEndFieldNumber, static_cast<std::uint64_t>(ending.how));
    const bool has_own_reason = ending.by != nullptr && !ending.by->reason.empty();
    out.text(Grant::kReasonFieldNumber, has_own_reason ? ending.by->reason : request.reason);
    out.number(Grant::kNumberFieldNumber, number);
    if (ending.by != nullptr) {
      out.text(Grant::kEndedByFieldNumber, ending.by->name);
    }
    out.number(Grant::kTieFieldNumber, static_cast<std::uint64_t>(tie));
    if (tie == Grant::NOTHING && !request.asker->actors.empty()) {
      out.text(Grant::kActorFieldNumber, request.asker->actors.front());
    }
  });
  if (number == head.first_grant_kept()) {
    head.set_first_grant_ended_ns(ns_of_time(now));
  }
  head.set_grants_ended(number + 1);
  if (number + 1 > kGateGrantsKept) {
    head.set_first_grant_kept(
        std::max(head.first_grant_kept(), number + 1 - std::uint64_t{kGateGrantsKept}));
  }
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
    put_record(batch_, keys_.head(), head_);
  }
  came_behind_.clear();
  has_lost_one_behind_ = false;
  return std::exchange(batch_, {});
}

void GateRows::committed(Version version) noexcept {
  if (!std::exchange(head_changed_, false)) {
    return;
  }
  head_version_ = version;
  for (GateHolder* const holder : granted_) {
    holder->fence = version;
  }
  granted_.clear();
}

}  // namespace holdfast::detail
