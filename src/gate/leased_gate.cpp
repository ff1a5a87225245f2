// SPDX-License-Identifier: Apache-2.0
#include <holdfast/leased_gate.hpp>

#include <utility>

#include "gate_keys.hpp"
#include "gate_ledger.hpp"
#include "gate_rows.hpp"
#include "gate_rules.hpp"
#include "leased_use.hpp"

namespace holdfast {

namespace {

using detail::GateRows;
using detail::KnownLeases;

/// One holder at one gate, from the reading of its lease to the commit.
class LeasedChange {
 public:
  LeasedChange(Store& store, const detail::GateKeys& keys, std::string holder, StoreTime now)
      : store_(store), ledger_(store, keys, nullptr), use_(keys, std::move(holder), now) {
    terms_.now = now;
    terms_.prepare = [this](std::string& waiter_key) { return read(waiter_key); };
  }

  [[nodiscard]] Task<LeasedGrant> acquire(const GateDefinition& definition,
                                          const detail::GateRequest& request, Duration lease) {
    detail::Asked asked;
    const detail::GateLedger::Plan plan = [&](GateRows& rows, KnownLeases& leases, StoreTime) {
      asked = use_.acquire(rows, leases, definition, request, lease);
      return asked.served;
    };
    co_await commit(plan);
    LeasedGrant grant;
    grant.why = asked.why;
    switch (asked.outcome) {
      case detail::Asked::Outcome::kHeld: {
        const detail::GateHolder& held = ledger_.rows()->holders().at(use_.holder_key());
        grant.acquired = true;
        grant.fence = held.fence;
        grant.slots = held.slots;
        grant.why.reset();
        break;
      }
      case detail::Asked::Outcome::kWaits:
        grant.position = co_await count_waiters_before(store_, ledger_.keys(), asked.key);
        break;
      case detail::Asked::Outcome::kRefused:
        break;
    }
    co_return grant;
  }

  [[nodiscard]] Task<bool> give_back(Version fence) {
    bool was_there = false;
    const detail::GateLedger::Plan plan = [&](GateRows& rows, KnownLeases& leases, StoreTime) {
      detail::LeasedUse::GivenBack given = use_.give_back(rows, leases, fence);
      was_there = given.was_there;
      return std::move(given.served);
    };
    co_await commit(plan);
    co_return was_there;
  }

  [[nodiscard]] Task<bool> renew(Version fence, Duration lease) {
    for (;;) {
      co_await use_.read(store_);
      const std::optional<Entry> held = co_await store_.get(use_.holder_key(), Read::kApplied);
      std::optional<Batch> renewal = use_.renewal(held, fence, lease);
      if (!renewal) {
        co_return false;
      }
      const CommitOutcome outcome = co_await store_.commit(*std::move(renewal));
      if (outcome.committed() != nullptr) {
        co_return true;
      }
    }
  }

 private:
  Task<void> commit(const detail::GateLedger::Plan& plan) {
    const detail::GateLedger::Changed changed = co_await ledger_.change(plan, terms_);
    if (changed.version != 0) {
      co_await store_.until_durable(changed.version);
    }
  }

  /// The lease is read before the rows, and has to be the same when they are committed.
  Task<void> read(std::string& waiter_key) {
    co_await use_.read(store_);
    waiter_key = use_.waiter_key();
  }

  Store& store_;
  detail::GateLedger ledger_;
  detail::LeasedUse use_;
  detail::GateLedger::Terms terms_;
};

Task<LeasedGrant> acquire(Store& store, detail::GateKeys keys, GateDefinition definition,
                          detail::GateRequest request, Duration lease, StoreTime now) {
  LeasedChange change(store, keys, request.asker->holder, now);
  co_return co_await change.acquire(definition, request, lease);
}

Task<bool> give_back(Store& store, detail::GateKeys keys, std::string holder, Version fence,
                     StoreTime now) {
  LeasedChange change(store, keys, std::move(holder), now);
  co_return co_await change.give_back(fence);
}

Task<bool> renew_lease(Store& store, detail::GateKeys keys, std::string holder, Version fence,
                       Duration lease, StoreTime now) {
  LeasedChange change(store, keys, std::move(holder), now);
  co_return co_await change.renew(fence, lease);
}

}  // namespace

LeasedGate::LeasedGate(Store& store, std::string_view name, GateDefinition definition)
    : store_(store), name_(detail::GateKeys(name).name()), definition_(std::move(definition)) {
  require_capabilities(store, {.atomic = true}, "LeasedGate");
  detail::check_definition(name_, definition_);
}

Task<LeasedGrant> LeasedGate::try_acquire(const LeasedRequest& asked) const {
  detail::check_lease(asked.lease, name_);
  detail::GateRequest request;
  request.asker =
      detail::shared_asker({.holder = detail::checked_leased_holder(asked.holder, name_)});
  request.weight = asked.weight;
  request.shared = asked.shared;
  request.priority = asked.priority;
  request.reason = asked.reason;
  request.queue_max = asked.queue_max;
  return acquire(store_, detail::GateKeys(name_), definition_, std::move(request), asked.lease,
                 asked.now);
}

Task<bool> LeasedGate::release(const LeasedHold& hold) const {
  detail::check_release(hold.fence, name_);
  return give_back(store_, detail::GateKeys(name_),
                   detail::checked_leased_holder(hold.holder, name_), hold.fence, hold.now);
}

Task<bool> LeasedGate::renew(const LeasedHold& hold, Duration lease) const {
  detail::check_lease(lease, name_);
  return renew_lease(store_, detail::GateKeys(name_),
                     detail::checked_leased_holder(hold.holder, name_), hold.fence, lease,
                     hold.now);
}

Task<bool> LeasedGate::withdraw(std::string_view holder, StoreTime now) const {
  return give_back(store_, detail::GateKeys(name_), detail::checked_leased_holder(holder, name_), 0,
                   now);
}

Task<std::optional<GateInfo>> LeasedGate::inspect() const { return inspect_gate(store_, name_); }

}  // namespace holdfast
