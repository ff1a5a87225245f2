// SPDX-License-Identifier: Apache-2.0
#include "gate_ledger.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

#include <holdfast/error.hpp>
#include <holdfast/this_task.hpp>

#include "session_rules.hpp"

namespace holdfast::detail {

namespace {

/// How many waiters are read at a time: as many as one release may let in, and some dead ones.
constexpr std::size_t kWaitersRead = 64;
/// When so few are left of those that are known, the next ones are read, so many at a time: it
/// costs more to begin than to go on.
constexpr std::size_t kWaitersLeftMin = 8;
constexpr std::size_t kWaitersReadNext = 1'024;
/// Of those who came by way of this ledger so many are kept, so that they need not be read.
constexpr std::size_t kWaitersAheadMax = 131'072;
constexpr std::size_t kHoldersRead = 1'000;
/// Of old records of grants, so many go with one commit.
constexpr std::uint64_t kGrantsDropped = 8;
constexpr int kConflictsAtOnce = 3;
constexpr Duration kBackOffMax = std::chrono::milliseconds(50);

/// After a few conflicts others are let by, for longer each time; a little longer or shorter than
/// they do themselves, by `random`.
Duration back_off(int conflicts, std::minstd_rand& random) {
  if (conflicts <= kConflictsAtOnce) {
    return Duration::zero();
  }
  const Duration most =
      std::min(kBackOffMax, Duration(std::chrono::microseconds(100)) *
                                (1 << std::min(conflicts - kConflictsAtOnce, 12)));
  return most / 2 + Duration(static_cast<Duration::rep>(random()) % (most.count() / 2 + 1));
}

/// Records of grants that ended then, or before, are dropped.
std::int64_t too_old_ns(const record::GateHead& head, StoreTime now) {
  return (now - grants_kept_for(head)).time_since_epoch().count();
}

bool has_old_grants(const record::GateHead& head, StoreTime now) {
  return head.first_grant_kept() < head.grants_ended() &&
         head.first_grant_ended_ns() <= too_old_ns(head, now);
}

std::minstd_rand::result_type seed_of(const Session* session, const GateKeys& keys) {
  const std::string& text = session != nullptr ? session->id() : keys.name();
  return static_cast<std::minstd_rand::result_type>(std::hash<std::string>{}(text));
}

}  // namespace

GateLedger::GateLedger(Store& store, GateKeys keys, const Session* session)
    : store_(store), keys_(std::move(keys)), session_(session), random_(seed_of(session, keys_)) {}

void GateLedger::forget() {
  rows_.reset();
  ahead_.clear();
  leases_.forget();
}

Task<void> GateLedger::forget_what_is_old() {
  leases_.forget();
  if (rows_) {
    const bool current = co_await is_current(*rows_);
    if (!current) {
      rows_.reset();
    }
  }
}

/// Every commit that changes a row of the gate writes its head.
Task<bool> GateLedger::is_current(const GateRows& rows) {
  const std::optional<Entry> head = co_await store_.get(keys_.head(), Read::kApplied);
  co_return head && head->version == rows.head_version();
}

Task<GateLedger::Changed> GateLedger::change(const Plan& plan) {
  Terms terms;
  return change(plan, std::move(terms));
}

Task<GateLedger::Changed> GateLedger::change(const Plan& plan, Terms terms) {
  for (int conflicts = 0;;) {
    Prepared prepared = co_await prepare(plan, terms);
    if (prepared.batch.size() == 0) {
      settle(prepared, 0);
      co_return std::move(prepared.changed);
    }
    const CommitOutcome outcome = co_await store_.apply(std::move(prepared.batch));
    if (outcome.committed() != nullptr) {
      settle(prepared, outcome.committed()->version);
      co_return std::move(prepared.changed);
    }
    leases_.forget();
    const Duration pause = back_off(++conflicts, random_);
    if (pause > Duration::zero()) {
      co_await this_task::sleep_for(pause);
    }
  }
}

void GateLedger::settle(Prepared& prepared, Version version) {
  prepared.changed.version = version;
  if (version != 0) {
    prepared.rows->committed(version);
  }
  rows_ = std::move(prepared.rows);
}

Task<GateLedger::Prepared> GateLedger::prepare(const Plan& plan, const Terms& terms) {
  std::size_t waiters_max = kWaitersRead;
  std::string waiter_key = terms.waiter_key;
  for (;;) {
    if (session_ != nullptr) {
      session_->check_alive();
    }
    if (terms.prepare) {
      co_await terms.prepare(waiter_key);
    }
    // Gone if this ends in the middle: then they are read again.
    std::unique_ptr<GateRows> rows = std::move(rows_);
    const bool known_before = rows && waiters_max == kWaitersRead;
    if (!known_before) {
      GateRows read = co_await load_gate(store_, keys_, waiters_max, Read::kApplied);
      rows = std::make_unique<GateRows>(std::move(read));
    }
    if (!known_before) {
      ahead_.clear();
      more_behind_ahead_ = rows->has_more_waiters();
      rows->keep_at_most(kWaitersRead);
    } else if (rows->has_more_waiters() && rows->waiters().size() < kWaitersLeftMin) {
      if (ahead_.empty() && more_behind_ahead_) {
        co_await read_ahead(*rows);
      }
      add_next_waiters(*rows);
    }
    if (!waiter_key.empty() && !rows->waiters().contains(waiter_key)) {
      co_await add_waiter(*rows, waiter_key);
    }
    for (const std::string& key : terms.more_waiters) {
      if (!rows->waiters().contains(key)) {
        co_await add_waiter(*rows, key);
      }
    }
    const StoreTime store_now = co_await store_.time();
    const StoreTime now = terms.now.value_or(store_now);
    if (!terms.now) {
      leases_.forget_expired(now);
    }
    if (session_ != nullptr) {
      leases_.learn(session_->key(), {.liveness = Liveness::kLive, .own = true});
    }
    Prepared prepared;
    prepared.changed.after = rows->head_version();
    std::vector<std::string> missing;
    bool needs_more_waiters = false;
    bool is_wrong = false;
    try {
      prepared.changed.served = plan(*rows, leases_, now);
      missing = leases_.take_missing();
      needs_more_waiters = prepared.changed.served.needs_more_waiters;
      const bool is_complete = missing.empty() && !needs_more_waiters;
      if (terms.check && is_complete && rows->changed()) {
        co_await terms.check(*rows);
      }
    } catch (const Error&) {
      // It may be what was known that is wrong, and no commit will tell.
      if (!known_before) {
        throw;
      }
      is_wrong = true;
    }
    if (is_wrong) {
      leases_.forget();
      continue;
    }
    if (!missing.empty() || needs_more_waiters) {
      co_await read_leases(std::move(missing), terms.now, store_now);
      waiters_max *= needs_more_waiters ? 4 : 1;
      continue;
    }
    if (!rows->changed()) {
      // No commit confirms what was known, and others may have changed it.
      bool current = !known_before;
      if (known_before) {
        current = co_await is_current(*rows);
      }
      if (!current) {
        continue;
      }
      prepared.rows = std::move(rows);
      co_return prepared;
    }
    if (has_old_grants(rows->head(), now)) {
      co_await drop_old_grants(*rows, now);
    }
    take_batch(*rows, prepared);
    prepared.rows = std::move(rows);
    co_return prepared;
  }
}

void GateLedger::take_batch(GateRows& rows, Prepared& prepared) {
  note_changes_ahead(rows);
  prepared.batch = rows.take_batch();
  if (session_ != nullptr) {
    prepared.batch.require_version(session_->key(), session_->version());
  }
}

/// Whether there are all the rows that the terms want, and enough waiters.
bool GateLedger::are_known(const Terms& terms, StoreTime now) {
  const bool has_to_await = session_ != nullptr || terms.prepare || terms.check || terms.now;
  if (has_to_await || rows_ == nullptr || has_old_grants(rows_->head(), now)) {
    return false;
  }
  if (rows_->has_more_waiters() && rows_->waiters().size() < kWaitersLeftMin) {
    if (ahead_.empty() && more_behind_ahead_) {
      return false;
    }
    add_next_waiters(*rows_);
  }
  const auto is_here = [&](const std::string& key) { return rows_->waiters().contains(key); };
  return terms.waiter_key.empty() && std::ranges::all_of(terms.more_waiters, is_here);
}

bool GateLedger::prepare_known(const Plan& plan, const Terms& terms, StoreTime now,
                               Prepared& prepared) {
  if (!are_known(terms, now)) {
    return false;
  }
  leases_.forget_expired(now);
  // Gone if nothing comes of this: it may be what was known that is wrong.
  std::unique_ptr<GateRows> rows = std::move(rows_);
  prepared.changed.after = rows->head_version();
  try {
    prepared.changed.served = plan(*rows, leases_, now);
  } catch (const Error&) {
    leases_.forget();
    return false;
  }
  if (!leases_.take_missing().empty() || prepared.changed.served.needs_more_waiters) {
    return false;
  }
  if (!rows->changed()) {
    rows_ = std::move(rows);  // No commit will confirm them.
    return false;
  }
  take_batch(*rows, prepared);
  prepared.rows = std::move(rows);
  return true;
}

/// If others have changed the gate since, the commit will tell.
Task<void> GateLedger::read_ahead(const GateRows& rows) {
  const std::string& known_to = rows.waiters_known_to();
  const std::string prefix = keys_.waiters();
  const ScanOptions next{.after = known_to, .limit = kWaitersReadNext, .read = Read::kApplied};
  Page page = co_await store_.scan(prefix, next);
  for (const Entry& entry : page.entries) {
    ahead_.push({entry.key, read_waiter(entry)});
  }
  more_behind_ahead_ = page.more;
}

void GateLedger::add_next_waiters(GateRows& rows) {
  while (!ahead_.empty() && rows.waiters().size() < kWaitersLeftMin) {
    rows.add_next_waiter(ahead_.pop());
  }
  rows.has_more_waiters(!ahead_.empty() || more_behind_ahead_);
}

/// Whoever comes behind all is one of those ahead. Whoever comes or leaves among them makes them
/// wrong.
void GateLedger::note_changes_ahead(GateRows& rows) {
  bool are_right = !rows.has_lost_one_behind();
  for (KeyedWaiter& came : rows.came_behind()) {
    are_right = are_right && (ahead_.empty() || came.key > ahead_.last_key());
    if (are_right && !more_behind_ahead_ && ahead_.size() < kWaitersAheadMax) {
      ahead_.push(std::move(came));
    } else {
      more_behind_ahead_ = true;
    }
  }
  if (!are_right) {
    ahead_.clear();
    more_behind_ahead_ = true;
  }
}

Task<void> GateLedger::add_waiter(GateRows& rows, std::string key) {
  const std::optional<Entry> waiter = co_await store_.get(key, Read::kApplied);
  if (waiter) {
    rows.read_waiter(*waiter);
  }
}

Task<void> GateLedger::read_leases(std::vector<std::string> keys, std::optional<StoreTime> now,
                                   StoreTime store_now) {
  for (const std::string& key : keys) {
    const std::optional<Entry> row = co_await store_.get(key, Read::kApplied);
    leases_.learn(key, read_lease(key, row, now.value_or(store_now), store_now));
  }
}

/// A few at a time, whenever there is a commit to go with.
Task<void> GateLedger::drop_old_grants(GateRows& rows, StoreTime now) {
  const record::GateHead& head = rows.head();
  std::uint64_t first = head.first_grant_kept();
  std::int64_t first_ended_ns = head.first_grant_ended_ns();
  const std::uint64_t last = std::min(head.grants_ended(), first + kGrantsDropped);
  for (; first < last; ++first) {
    const std::string key = keys_.grant(first);
    const std::optional<Entry> entry = co_await store_.get(key, Read::kApplied);
    record::GateGrant grant;
    if (entry) {
      grant = parse_gate_record<record::GateGrant>(*entry, "the grant of a gate");
    }
    const bool is_of_this_change = !entry || grant.number() != first;
    first_ended_ns =
        is_of_this_change ? now.time_since_epoch().count() : std::int64_t{grant.ended_at_ns()};
    if (first_ended_ns > too_old_ns(head, now)) {
      break;
    }
    rows.batch().erase(key);
  }
  rows.change_head().set_first_grant_kept(first);
  rows.change_head().set_first_grant_ended_ns(first_ended_ns);
}

Task<GateRows> load_gate(Store& store, GateKeys keys, std::size_t waiters_max, Read read) {
  GateRows rows(keys);
  // First of all: whoever changes one of the others changes this one, too.
  const std::optional<Entry> head = co_await store.get(keys.head(), read);
  if (head) {
    rows.read_head(*head);
  }
  const std::string holders = keys.holders();
  std::string after;
  for (bool more = head.has_value(); more;) {
    const ScanOptions behind{.after = after, .limit = kHoldersRead, .read = read};
    const Page page = co_await store.scan(holders, behind);
    for (const Entry& entry : page.entries) {
      rows.read_holder(entry);
    }
    more = page.more;
    after = page.entries.empty() ? after : page.entries.back().key;
  }
  if (head && rows.waiter_count() > 0 && waiters_max > 0) {
    const ScanOptions first{.limit = waiters_max, .read = read};
    const std::string waiters = keys.waiters();
    const Page page = co_await store.scan(waiters, first);
    for (const Entry& entry : page.entries) {
      rows.read_next_waiter(entry);
    }
    rows.has_more_waiters(page.more);
  }
  co_return rows;
}

KnownLeases::Lease read_lease(std::string_view lease_key, const std::optional<Entry>& row,
                              StoreTime now, StoreTime store_now) {
  KnownLeases::Lease lease;
  if (!row) {
    return lease;
  }
  lease.version = row->version;
  if (lease_key.starts_with(kSessionPrefix)) {
    lease.liveness = liveness(row, store_now);
    lease.expires_at = read_session(*row, store_now).expires;
    return lease;
  }
  const auto record = parse_gate_record<record::GateLease>(*row, "the lease of a holder");
  lease.expires_at = store_time(record.expires_at_ns());
  lease.liveness = lease.expires_at <= now ? Liveness::kExpired : Liveness::kLive;
  return lease;
}

}  // namespace holdfast::detail
