// SPDX-License-Identifier: Apache-2.0
// The plain operations of a run at gates (`RunGate`), which are done in the commit that records
// them.
#include <algorithm>
#include <cstdint>
#include <utility>

#include <holdfast/error.hpp>
#include <holdfast/gate_inspection.hpp>

#include "gate/gate_keys.hpp"
#include "gate/leased_use.hpp"
#include "gate_payloads.hpp"
#include "live_run.hpp"
#include "run_failure.hpp"
#include "run_gates.hpp"
#include "run_payload.hpp"
#include "tenure.hpp"

namespace holdfast::detail {

namespace {

record::RunEvent settled_use(std::uint64_t operation, const boost::json::value& value) {
  record::RunEvent event;
  event.set_kind(record::RunEvent::GATE_SETTLED);
  event.set_operation(operation);
  event.set_payload(payload_text(value));
  return event;
}

bool changes_rows(const GateUse& use) {
  return use.kind != GateUse::Kind::kRenew && use.kind != GateUse::Kind::kInspect;
}

}  // namespace

/// What changes no more than a lease, or nothing.
Task<void> LiveRun::settle_light_uses(const Activated& activated, StateChanges& changes) {
  Store& store = tenure_->world().store;
  for (const BegunUse& begun : activated.uses) {
    const GateUse& use = begun.use;
    if (use.kind == GateUse::Kind::kInspect) {
      const std::optional<GateInfo> info = co_await inspect_gate(store, use.gate);
      changes.events.push_back(settled_use(begun.operation, gate_info_value(info)));
    } else if (use.kind == GateUse::Kind::kRenew) {
      LeasedUse leased(GateKeys(use.gate), use.holder, use.now);
      co_await leased.read(store);
      const std::optional<Entry> held = co_await store.get(leased.holder_key(), Read::kApplied);
      std::optional<Batch> renewal = leased.renewal(held, use.fence, use.lease);
      changes.events.push_back(settled_use(begun.operation, renewal.has_value()));
      if (renewal) {
        changes.batch.append(*std::move(renewal));
      }
    }
  }
}

void LiveRun::add_uses(const Activated& activated, RunGates::DeedsByGate& deeds) {
  for (const BegunUse& begun : activated.uses) {
    if (changes_rows(begun.use)) {
      RunGates::Use use;
      use.operation = begun.operation;
      use.terms = begun.use;
      deeds[begun.use.gate].uses.push_back(std::move(use));
    }
  }
}

/// A new grant is told after the commit, whose version is its fence.
Task<void> LiveRun::settle_uses(LockChanges& changes) {
  for (const auto& [gate, at_gate] : changes.deeds) {
    for (const RunGates::Use& use : at_gate.uses) {
      if (use.error) {
        record::RunEvent& event = changes.events.emplace_back(settled_use(use.operation, nullptr));
        *event.mutable_failure() = failure_of(use.error);
        continue;
      }
      if (use.terms.kind != GateUse::Kind::kAcquire) {
        changes.events.push_back(settled_use(use.operation, use.was_there));
        continue;
      }
      LeasedGrant grant;
      grant.why = use.asked.why;
      if (use.asked.outcome == Asked::Outcome::kHeld) {
        if (use.fence == 0) {
          changes.any_granted = true;
          continue;
        }
        grant.acquired = true;
        grant.fence = use.fence;
        grant.slots = use.slots;
      } else if (use.asked.outcome == Asked::Outcome::kWaits) {
        const std::int64_t before =
            co_await count_waiters_before(tenure_->world().store, GateKeys(gate), use.asked.key);
        const auto admitted = static_cast<std::int64_t>(use.asked.served.admitted.size());
        grant.position = std::max<std::int64_t>(0, before - admitted);
      }
      changes.events.push_back(settled_use(use.operation, leased_grant_value(grant)));
    }
  }
}

void LiveRun::tell_uses(const LockChanges& changes, Version version) {
  for (const auto& [gate, at_gate] : changes.deeds) {
    for (const RunGates::Use& use : at_gate.uses) {
      const bool is_new = !use.error && use.terms.kind == GateUse::Kind::kAcquire &&
                          use.asked.outcome == Asked::Outcome::kHeld && use.fence == 0;
      if (is_new) {
        LeasedGrant grant;
        grant.acquired = true;
        grant.fence = version;
        grant.slots = use.slots;
        granted_.push_back(settled_use(use.operation, leased_grant_value(grant)));
      }
    }
  }
}

void LiveRun::remember_uses(const Activated& activated, const record::Activation& row) {
  for (const BegunUse& begun : activated.uses) {
    uses_.emplace(begun.operation, begun.use);
  }
  for (const auto* events : {&row.events(), &row.held()}) {
    for (const record::RunEvent& event : *events) {
      if (event.kind() == record::RunEvent::GATE_SETTLED) {
        uses_.erase(event.operation());
      }
    }
  }
  for (const std::uint64_t operation : activated.given_up) {
    uses_.erase(operation);
  }
}

/// Granted by the run's own commit, and nobody has told the run before it left the memory.
Task<void> LiveRun::look_for_uses() {
  Store& store = tenure_->world().store;
  for (const auto& [operation, use] : uses_) {
    const LeasedUse leased(GateKeys(use.gate), use.holder, use.now);
    const std::optional<Entry> holder = co_await store.get(leased.holder_key(), Read::kApplied);
    LeasedGrant grant;  // If it is not there, it is over already.
    if (holder) {
      const LockGrant granted = grant_in(*holder);
      grant.acquired = true;
      grant.fence = granted.fence;
      grant.slots = granted.slots;
    }
    found_.push_back(settled_use(operation, leased_grant_value(grant)));
  }
}

}  // namespace holdfast::detail
