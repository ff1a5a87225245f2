// SPDX-License-Identifier: Apache-2.0
#include "gate_watch.hpp"

#include <algorithm>
#include <compare>
#include <string_view>
#include <utility>

#include "gate/gate_keys.hpp"
#include "gate/gate_rules.hpp"
#include "store/key_part.hpp"
#include "store/memory_disk.hpp"

namespace holdfast::testing {

namespace {

using detail::GateKeys;
using detail::GateRows;
using detail::GateWaiter;

constexpr std::size_t kRowsAtOnce = 1'000'000;

/// Nothing: the key is of no gate.
std::optional<std::string> gate_of(std::string_view key) {
  if (!key.starts_with(detail::kGatePrefix)) {
    return std::nullopt;
  }
  key.remove_prefix(detail::kGatePrefix.size());
  return detail::text_of_key_part(key.substr(0, key.find('/')));
}

std::uint64_t capacity_of(const GateRows& rows) { return rows.head().definition().capacity(); }

std::uint64_t held(const GateRows& rows) {
  std::uint64_t sum = 0;
  for (const auto& [key, holder] : rows.holders()) {
    sum += holder.request->weight;
  }
  return sum;
}

/// It does not keep others from going in.
bool is_too_heavy(const GateRows& rows, const GateWaiter& waiter) {
  return waiter.request->weight > capacity_of(rows);
}

std::string holder_key_of(const GateRows& rows, const GateWaiter& waiter) {
  return rows.keys().holder(waiter.request->asker->owner, waiter.request->request_id);
}

const GateWaiter* waiter_for(const GateRows& rows, const std::string& holder_key) {
  const auto found = std::ranges::find_if(rows.waiters(), [&](const auto& waiter) {
    return holder_key_of(rows, waiter.second) == holder_key;
  });
  return found == rows.waiters().end() ? nullptr : &found->second;
}

/// When it is its turn: in the order of the tickets, but each step of priority is worth some of
/// them. Not as the key of the row says.
struct Turn {
  std::int64_t rank = 0;
  std::uint64_t ticket = 0;

  auto operator<=>(const Turn&) const = default;
};

Turn turn_of(const GateWaiter& waiter) {
  const std::uint64_t ticket = waiter.ticket;
  const auto ahead = waiter.request->priority * static_cast<std::int64_t>(kGateOvertakesPerStep);
  return {static_cast<std::int64_t>(ticket) - ahead, ticket};
}

std::string ticket_text(const GateWaiter& waiter) {
  return "ticket " + std::to_string(waiter.ticket);
}

/// The rows of the gate that are put.
GateRows rows_in(const Batch& batch, const GateKeys& keys) {
  GateRows rows(keys);
  for (const Batch::Write& write : batch.writes()) {
    if (!write.value) {
      continue;
    }
    if (write.key.starts_with(keys.holders())) {
      rows.read_holder({std::string(write.key), std::string(*write.value), 0});
    } else if (write.key.starts_with(keys.waiters())) {
      rows.read_waiter({std::string(write.key), std::string(*write.value), 0});
    }
  }
  return rows;
}

}  // namespace

GateRows GateWatch::rows_of(const std::string& gate) const {
  const MemoryDisk::State& disk = disk_->state();
  const std::uint64_t generation = disk.generation();
  const GateKeys keys(gate);
  GateRows rows(keys);
  if (const auto head = disk.get(generation, keys.head(), Read::kApplied)) {
    rows.read_head(*head);
  }
  const auto scan = [&](const std::string& prefix) {
    return disk.scan(generation, prefix, "", kRowsAtOnce, Read::kApplied).entries;
  };
  for (const Entry& entry : scan(keys.holders())) {
    rows.read_holder(entry);
  }
  for (const Entry& entry : scan(keys.waiters())) {
    rows.read_waiter(entry);
  }
  return rows;
}

void GateWatch::before_commit(const Batch& batch) {
  look_at_last();
  const StoreTime now(disk_->state().clock().now().time_since_epoch());
  last_ = Last{.number = disk_->commit_count(), .at = now, .batch = batch};
  std::set<std::string> gates;
  for (const Batch::Write& write : batch.writes()) {
    if (std::optional<std::string> gate = gate_of(write.key)) {
      gates.insert(*std::move(gate));
    }
  }
  for (const std::string& gate : gates) {
    last_->before.push_back(rows_of(gate));
  }
}

void GateWatch::look_at_last() {
  const std::optional<Last> last = std::exchange(last_, std::nullopt);
  const std::uint64_t commits = last ? disk_->commit_count() - last->number : 0;
  if (commits > 1) {
    faults_.emplace_back("a commit went by unseen");
  }
  if (commits != 1) {
    return;
  }
  for (const GateRows& before : last->before) {
    const GateRows written = rows_in(last->batch, before.keys());
    const GateRows after = rows_of(before.keys().name());
    look_at({*last, before, written, after});
  }
}

/// What comes after the first one follows from it.
void GateWatch::fault(const GateRows& after, const std::string& text) {
  const std::string& gate = after.keys().name();
  if (broken_.insert(gate).second) {
    faults_.push_back("gate '" + gate + "', version " + std::to_string(after.head_version()) +
                      ": " + text);
  }
}

void GateWatch::look_at(const Change& change) {
  check_capacity(change.after);
  check_arrivals(change);
  for (const auto& [key, holder] : change.written.holders()) {
    if (!change.before.holders().contains(key)) {
      check_grant(change, key);
    }
  }
  check_departures(change);
  check_next(change.after);
}

void GateWatch::check_capacity(const GateRows& after) {
  if (held(after) > capacity_of(after)) {
    fault(after, std::to_string(held(after)) + " of it are held, and there are " +
                     std::to_string(capacity_of(after)));
  }
}

/// Each ticket is greater than those before it.
void GateWatch::check_arrivals(const Change& change) {
  for (const auto& [key, waiter] : change.written.waiters()) {
    if (waiter.ticket < change.before.head().next_ticket()) {
      fault(change.after, key + " has a ticket that was given before");
    }
  }
}

void GateWatch::check_grant(const Change& change, const std::string& holder_key) {
  ++tally_.grants;
  const GateWaiter* const waited = waiter_for(change.before, holder_key);
  check_order(change, holder_key,
              waited != nullptr ? waited : waiter_for(change.written, holder_key));
  if (waited != nullptr) {
    ++tally_.queued;
    check_notice(change, *waited);
  }
}

/// Who never stood in the queue goes in only if nobody is left there who could. Waiters that are
/// passed over because they are dead or too late are not left.
void GateWatch::check_order(const Change& change, const std::string& holder_key,
                            const GateWaiter* granted) {
  bool overtakes = false;
  for (const auto& [key, waiter] : change.before.waiters()) {
    if (!change.after.waiters().contains(key) || is_too_heavy(change.after, waiter)) {
      continue;
    }
    if (granted == nullptr || turn_of(waiter) < turn_of(*granted)) {
      fault(change.after,
            holder_key +
                (granted != nullptr ? ", who waited with " + ticket_text(*granted) + "," : "") +
                " was let in, and it was the turn of " + key);
      return;
    }
    overtakes = overtakes || waiter.ticket < granted->ticket;
  }
  tally_.overtakes += overtakes ? 1U : 0U;
}

/// By the same commit. Who asks itself sees what comes of it, and has not waited.
void GateWatch::check_notice(const Change& change, const GateWaiter& granted) {
  const auto& notice = granted.request->notice;
  const auto writes = change.commit.batch.writes();
  const bool is_told = std::ranges::any_of(writes, [&](const Batch::Write& write) {
    return notice && write.key == notice->key && write.value == notice->value;
  });
  if (!is_told) {
    fault(change.after, granted.request->asker->holder + " was let in with " +
                            ticket_text(granted) + ", and nobody told it");
  }
}

/// Who leaves the queue is let in, or too late, or goes by itself.
void GateWatch::check_departures(const Change& change) {
  for (const auto& [key, waiter] : change.before.waiters()) {
    const detail::GateRequest& request = *waiter.request;
    const bool is_let_in = change.written.holders().contains(holder_key_of(change.before, waiter));
    const bool is_too_late =
        request.deadline != StoreTime{} && request.deadline <= change.commit.at;
    if (change.after.waiters().contains(key) || is_let_in || is_too_late) {
      continue;
    }
    const auto writes = change.commit.batch.writes();
    const bool goes_itself = std::ranges::any_of(writes, [&](const Batch::Write& write) {
      return write.key.find(request.asker->owner) != std::string::npos;
    });
    if (!goes_itself) {
      fault(change.after, key + " of " + request.asker->holder + " was taken out of the queue");
    }
  }
}

/// A release is a grant, in one commit. The first who could ever be in holds up the others; if it
/// is dead or too late it is not there any more, or it was alive when this was thought out, and
/// does not fit.
void GateWatch::check_next(const GateRows& after) {
  const record::GateHead& head = after.head();
  if (head.paused() || head.draining() || head.definition().rate_count() != 0) {
    return;
  }
  const auto next = std::ranges::find_if(
      after.waiters(), [&](const auto& waiter) { return !is_too_heavy(after, waiter.second); });
  if (next != after.waiters().end() &&
      held(after) + next->second.request->weight <= capacity_of(after)) {
    fault(after, next->first + " of " + next->second.request->asker->holder +
                     " waits, and could be in: " + std::to_string(held(after)) + " of " +
                     std::to_string(capacity_of(after)) + " are held");
  }
}

}  // namespace holdfast::testing
