// SPDX-License-Identifier: Apache-2.0
#include <holdfast/leased_gate.hpp>

#include <utility>

#include <holdfast/error.hpp>

#include "gate_keys.hpp"
#include "gate_ledger.hpp"
#include "gate_rows.hpp"
#include "gate_rules.hpp"

namespace holdfast {

namespace {

using detail::GateRows;
using detail::KnownLeases;
using detail::Served;

/// Owner of no session: its requests are called by their holders.
constexpr std::string_view kNoOwner;
constexpr std::size_t kWaitersCounted = 1'000;

std::string checked_holder(std::string_view holder, std::string_view gate) {
  if (holder.empty() || holder.size() > kGateNameMax) {
    throw InvalidArgument("the holder of '" + std::string(gate) + "' has a name of " +
                          std::to_string(holder.size()) + " bytes; give 1 to " +
                          std::to_string(kGateNameMax));
  }
  return std::string(holder);
}

void check_lease(Duration lease, std::string_view gate) {
  if (lease <= Duration::zero()) {
    throw InvalidArgument("the lease asked of '" + std::string(gate) + "' is " +
                          std::to_string(lease.count()) + " ns; give more than zero");
  }
}

/// One holder at one gate, from the reading of its lease to the commit.
class LeasedChange {
 public:
  LeasedChange(Store& store, detail::GateKeys keys, std::string holder)
      : store_(store), ledger_(store, keys, nullptr), holder_(std::move(holder)) {
    lease_key_ = keys.lease(holder_);
    holder_key_ = keys.holder(kNoOwner, holder_);
  }

  [[nodiscard]] Task<LeasedGrant> acquire(const GateDefinition& definition,
                                          detail::GateRequest request, Duration lease,
                                          StoreTime now) {
    request.request_id = holder_;
    request.lease_key = lease_key_;
    detail::Asked asked;
    const detail::GateLedger::Plan plan = [&](GateRows& rows, KnownLeases& leases, StoreTime) {
      define(rows, definition);
      check_request(rows, request);
      asked = ask_again_or_anew(rows, leases, request, now);
      if (asked.outcome == detail::Asked::Outcome::kRefused) {
        forget_lease(rows);
      } else {
        const bool waits = asked.outcome == detail::Asked::Outcome::kWaits;
        write_lease(rows, now + lease, waits ? asked.key : std::string());
      }
      return asked.served;
    };
    co_await commit(plan, now);
    LeasedGrant grant;
    grant.why = asked.why;
    switch (asked.outcome) {
      case detail::Asked::Outcome::kHeld: {
        const GateRows::Holder& held = ledger_.rows()->holders().at(holder_key_);
        grant.acquired = true;
        grant.fence = held.fence;
        grant.slots.assign(held.record.slots().begin(), held.record.slots().end());
        grant.why.reset();
        break;
      }
      case detail::Asked::Outcome::kWaits:
        grant.position = co_await count_before(asked.key);
        break;
      case detail::Asked::Outcome::kRefused:
        break;
    }
    co_return grant;
  }

  /// Ends the grant with this fence; 0: whatever it has, a place in the queue included.
  [[nodiscard]] Task<bool> give_back(Version fence, StoreTime now) {
    bool was_there = false;
    const detail::GateLedger::Plan plan = [&](GateRows& rows, KnownLeases& leases, StoreTime) {
      was_there = false;
      const auto held = rows.holders().find(holder_key_);
      if (held != rows.holders().end()) {
        if (fence != 0 && held->second.fence != fence) {
          return Served{};
        }
        was_there = is_live(now);
        rows.end(holder_key_, was_there ? record::GateGrant::RELEASED : record::GateGrant::EXPIRED,
                 now);
      } else if (fence == 0 && rows.waiters().contains(waiter_key_)) {
        was_there = is_live(now);
        rows.leave(waiter_key_);
      } else {
        return Served{};
      }
      forget_lease(rows);
      leases.learn(lease_key_, {});
      return serve(rows, leases, now);
    };
    co_await commit(plan, now);
    co_return was_there;
  }

  [[nodiscard]] Task<bool> renew(Version fence, Duration lease, StoreTime now) {
    for (;;) {
      co_await read_lease();
      const std::optional<Entry> held = co_await store_.get(holder_key_, Read::kApplied);
      if (!is_live(now) || !held || held->version != fence) {
        co_return false;
      }
      Batch batch;
      batch.require_version(holder_key_, fence).require_version(lease_key_, lease_version_);
      batch.put(lease_key_, lease_row(now + lease, {}));
      const CommitOutcome outcome = co_await store_.commit(std::move(batch));
      if (outcome.committed() != nullptr) {
        co_return true;
      }
    }
  }

 private:
  /// The lease is read before the rows, and has to be the same when they are committed.
  Task<void> commit(const detail::GateLedger::Plan& plan, StoreTime now) {
    detail::GateLedger::Terms terms;
    terms.now = now;
    terms.prepare = [this](std::string& waiter_key) { return find_waiter(waiter_key); };
    const detail::GateLedger::Plan with_lease = [&](GateRows& rows, KnownLeases& leases,
                                                    StoreTime at) {
      const auto liveness = is_live(now) ? detail::Liveness::kLive : detail::Liveness::kGone;
      leases.learn(lease_key_, {.liveness = liveness, .own = true});
      if (lease_version_ == 0) {
        rows.batch().require_absent(lease_key_);
      } else {
        rows.batch().require_version(lease_key_, lease_version_);
      }
      return plan(rows, leases, at);
    };
    const detail::GateLedger::Changed changed =
        co_await ledger_.change(with_lease, std::move(terms));
    if (changed.version != 0) {
      co_await store_.until_durable(changed.version);
    }
  }

  Task<void> find_waiter(std::string& waiter_key) {
    co_await read_lease();
    waiter_key = waiter_key_;
  }

  detail::Asked ask_again_or_anew(GateRows& rows, KnownLeases& leases,
                                  const detail::GateRequest& request, StoreTime now) {
    const bool waits = rows.waiters().contains(waiter_key_);
    if (is_live(now) && waits && !rows.holders().contains(holder_key_)) {
      detail::Asked asked;
      asked.served = serve(rows, leases, now);
      if (rows.holders().contains(holder_key_)) {
        asked.outcome = detail::Asked::Outcome::kHeld;
        return asked;
      }
      asked.outcome = detail::Asked::Outcome::kWaits;
      asked.key = waiter_key_;
      asked.why = why_not(rows, request.weight, request.shared, now)
                      .value_or(WhyNot{.kind = WhyNot::Kind::kBehind, .wanted = request.weight});
      return asked;
    }
    if (!is_live(now)) {
      // It is somebody else by now, who only has the same name.
      if (rows.holders().contains(holder_key_)) {
        rows.end(holder_key_, record::GateGrant::EXPIRED, now);
      }
      if (waits) {
        rows.leave(waiter_key_);
      }
      leases.learn(lease_key_, {.liveness = detail::Liveness::kLive, .own = true});
    }
    return ask(rows, leases, request, now);
  }

  [[nodiscard]] bool is_live(StoreTime now) const noexcept {
    return lease_version_ != 0 && expires_at_ > now;
  }

  Task<void> read_lease() {
    const std::optional<Entry> row = co_await store_.get(lease_key_, Read::kApplied);
    lease_version_ = row ? row->version : 0;
    waiter_key_.clear();
    if (row) {
      const auto record =
          detail::parse_gate_record<record::GateLease>(*row, "the lease of a holder");
      expires_at_ = detail::store_time(record.expires_at_ns());
      waiter_key_ = record.waiter_key();
    }
  }

  [[nodiscard]] std::string lease_row(StoreTime expires_at, std::string waiter_key) const {
    record::GateLease record;
    record.set_format(detail::kGateFormat);
    record.set_holder(holder_);
    record.set_expires_at_ns(expires_at.time_since_epoch().count());
    record.set_waiter_key(std::move(waiter_key));
    return record.SerializeAsString();
  }

  void write_lease(GateRows& rows, StoreTime expires_at, std::string waiter_key) {
    rows.change_head();
    rows.batch().put(lease_key_, lease_row(expires_at, std::move(waiter_key)));
  }

  void forget_lease(GateRows& rows) {
    if (lease_version_ != 0) {
      rows.batch().erase(lease_key_);
    }
  }

  [[nodiscard]] Task<std::int64_t> count_before(std::string waiter_key) {
    const std::string prefix = ledger_.keys().waiters();
    std::int64_t count = 0;
    std::string after;
    for (;;) {
      const ScanOptions next{.after = after, .limit = kWaitersCounted, .read = Read::kApplied};
      const Page page = co_await store_.scan(prefix, next);
      for (const Entry& entry : page.entries) {
        if (entry.key >= waiter_key) {
          co_return count;
        }
        ++count;
      }
      if (!page.more) {
        co_return count;
      }
      after = page.entries.back().key;
    }
  }

  Store& store_;
  detail::GateLedger ledger_;
  std::string holder_;
  std::string lease_key_;
  std::string holder_key_;
  Version lease_version_ = 0;  // 0: there is none.
  StoreTime expires_at_{};
  std::string waiter_key_;
};

Task<LeasedGrant> acquire(Store& store, detail::GateKeys keys, GateDefinition definition,
                          detail::GateRequest request, Duration lease, StoreTime now) {
  LeasedChange change(store, std::move(keys), request.holder);
  co_return co_await change.acquire(definition, std::move(request), lease, now);
}

Task<bool> give_back(Store& store, detail::GateKeys keys, std::string holder, Version fence,
                     StoreTime now) {
  LeasedChange change(store, std::move(keys), std::move(holder));
  co_return co_await change.give_back(fence, now);
}

Task<bool> renew_lease(Store& store, detail::GateKeys keys, std::string holder, Version fence,
                       Duration lease, StoreTime now) {
  LeasedChange change(store, std::move(keys), std::move(holder));
  co_return co_await change.renew(fence, lease, now);
}

}  // namespace

LeasedGate::LeasedGate(Store& store, std::string_view name, GateDefinition definition)
    : store_(store), name_(detail::GateKeys(name).name()), definition_(std::move(definition)) {
  require_capabilities(store, {.atomic = true}, "LeasedGate");
  detail::check_definition(name_, definition_);
}

Task<LeasedGrant> LeasedGate::try_acquire(const LeasedRequest& asked) const {
  check_lease(asked.lease, name_);
  detail::GateRequest request;
  request.holder = checked_holder(asked.holder, name_);
  request.weight = asked.weight;
  request.shared = asked.shared;
  request.priority = asked.priority;
  request.reason = asked.reason;
  request.queue_max = asked.queue_max;
  return acquire(store_, detail::GateKeys(name_), definition_, std::move(request), asked.lease,
                 asked.now);
}

Task<bool> LeasedGate::release(const LeasedHold& hold) const {
  if (hold.fence == 0) {
    throw InvalidArgument("a release of '" + name_ + "' has no fence; give that of the grant");
  }
  return give_back(store_, detail::GateKeys(name_), checked_holder(hold.holder, name_), hold.fence,
                   hold.now);
}

Task<bool> LeasedGate::renew(const LeasedHold& hold, Duration lease) const {
  check_lease(lease, name_);
  return renew_lease(store_, detail::GateKeys(name_), checked_holder(hold.holder, name_),
                     hold.fence, lease, hold.now);
}

Task<bool> LeasedGate::withdraw(std::string_view holder, StoreTime now) const {
  return give_back(store_, detail::GateKeys(name_), checked_holder(holder, name_), 0, now);
}

Task<std::optional<GateInfo>> LeasedGate::inspect() const { return inspect_gate(store_, name_); }

}  // namespace holdfast
