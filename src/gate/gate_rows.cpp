// SPDX-License-Identifier: Apache-2.0
#include "gate_rows.hpp"

#include <utility>

#include <holdfast/detail/check.hpp>
#include <holdfast/store_error.hpp>

#include "store/printable.hpp"

namespace holdfast::detail {

namespace {

constexpr std::uint32_t kFormat = 1;
/// Ranks stay above zero, whatever the priority.
constexpr std::uint64_t kRankOfTicketZero = std::uint64_t{1} << 40U;

template <class Record>
Record parse(const Entry& entry, const char* what) {
  Record record;
  if (!record.ParseFromString(entry.value) || record.format() == 0) {
    throw StoreCorrupt(std::string(what) + " " + printable(entry.key) +
                       " cannot be read: its record is damaged, or something else is stored there");
  }
  if (record.format() > kFormat) {
    throw NewerFormat(std::string(what) + " " + printable(entry.key) + " has format " +
                      std::to_string(record.format()) + ", and this version of Holdfast knows " +
                      std::to_string(kFormat) + "; use a newer one");
  }
  return record;
}

/// Who has a higher priority comes before some that were there earlier, but not before all: their
/// tickets are so much older than they are that none is overtaken for ever.
std::uint64_t rank_of(std::uint64_t ticket, int priority) {
  const auto steps =
      static_cast<std::int64_t>(priority) * static_cast<std::int64_t>(kGateOvertakesPerStep);
  return kRankOfTicketZero + ticket - static_cast<std::uint64_t>(steps);
}

}  // namespace

void GateRows::read_head(const Entry& entry) {
  head_ = parse<record::GateHead>(entry, "the gate");
  head_version_ = entry.version;
}

void GateRows::read_holder(const Entry& entry) {
  holders_.insert_or_assign(
      entry.key,
      Holder{entry.key, entry.version, parse<record::GateHolder>(entry, "the holder of a gate")});
}

void GateRows::read_waiter(const Entry& entry) {
  waiters_.insert_or_assign(
      entry.key, Waiter{entry.key, parse<record::GateWaiter>(entry, "the waiter at a gate")});
}

std::string GateRows::last_waiter_key() const {
  return waiters_.empty() ? keys_.waiters() : waiters_.rbegin()->first;
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
  waiter.set_format(kFormat);
  waiter.set_ticket(ticket);
  std::string key = keys_.waiter(rank_of(ticket, waiter.priority()), ticket);
  batch_.put(key, waiter.SerializeAsString());
  // Behind one that is not here it would seem to be next.
  if (!more_waiters_ || key < last_waiter_key()) {
    waiters_.emplace(key, Waiter{key, std::move(waiter)});
  } else {
    beyond_.insert(key);
  }
  return key;
}

void GateRows::leave(const std::string& waiter_key) {
  // Counted out twice, it would hide another one.
  const bool waited = waiters_.erase(waiter_key) == 1 || beyond_.erase(waiter_key) == 1;
  HOLDFAST_CHECK(waited, "a waiter left a gate at which it did not wait");
  record::GateHead& head = change_head();
  head.set_waiter_count(head.waiter_count() - 1);
  batch_.erase(waiter_key);
}

void GateRows::grant(std::string holder_key, record::GateHolder holder) {
  change_head();
  holder.set_format(kFormat);
  batch_.put(holder_key, holder.SerializeAsString());
  granted_.push_back(holder_key);
  std::string key = holder_key;
  holders_.insert_or_assign(std::move(key), Holder{std::move(holder_key), 0, std::move(holder)});
}

void GateRows::end(const std::string& holder_key, record::GateGrant::End how, StoreTime now) {
  record::GateHead& head = change_head();
  const auto found = holders_.find(holder_key);
  HOLDFAST_CHECK(found != holders_.end(), "a hold was ended that there is not");
  const auto& [key, fence, held] = found->second;
  record::GateGrant grant;
  grant.set_format(kFormat);
  grant.set_holder(held.holder());
  grant.set_fence(fence);
  grant.set_weight(held.weight());
  grant.set_shared(held.shared());
  *grant.mutable_slots() = held.slots();
  grant.set_asked_at_ns(held.asked_at_ns());
  grant.set_granted_at_ns(held.granted_at_ns());
  grant.set_ended_at_ns(now.time_since_epoch().count());
  grant.set_end(how);
  grant.set_reason(held.reason());
  batch_.put(keys_.grant(head.grants_ended()), grant.SerializeAsString());
  head.set_grants_ended(head.grants_ended() + 1);
  batch_.erase(key);
  holders_.erase(found);
}

Batch GateRows::take_batch() {
  if (head_changed_) {
    if (head_version_ == 0) {
      batch_.require_absent(keys_.head());
    } else {
      batch_.require_version(keys_.head(), head_version_);
    }
    head_.set_format(kFormat);
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
