// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <holdfast/run_gate.hpp>

#include "gate/gate_keys.hpp"
#include "gate/gate_rules.hpp"
#include "gate/leased_use.hpp"
#include "run_machine.hpp"

namespace holdfast {

RunGate::RunGate(detail::RunMachine& machine, std::string_view name, GateDefinition definition)
    : machine_(&machine), name_(detail::GateKeys(name).name()), definition_(std::move(definition)) {
  detail::check_definition(name_, definition_);
}

Durable<LeasedGrant> RunGate::try_acquire(const LeasedRequest& request) const {
  detail::check_lease(request.lease, name_);
  detail::GateUse use{.kind = detail::GateUse::Kind::kAcquire,
                      .gate = name_,
                      .definition = definition_,
                      .holder = detail::checked_leased_holder(request.holder, name_),
                      .now = request.now,
                      .lease = request.lease,
                      .weight = request.weight,
                      .shared = request.shared,
                      .priority = request.priority,
                      .reason = std::string(request.reason),
                      .queue_max = request.queue_max};
  return {machine_->begin_gate(std::move(use)), name_};
}

Durable<bool> RunGate::release(const LeasedHold& hold) const {
  detail::check_release(hold.fence, name_);
  detail::GateUse use{.kind = detail::GateUse::Kind::kRelease,
                      .gate = name_,
                      .definition = definition_,
                      .holder = detail::checked_leased_holder(hold.holder, name_),
                      .now = hold.now,
                      .fence = hold.fence};
  return {machine_->begin_gate(std::move(use)), name_};
}

Durable<bool> RunGate::renew(const LeasedHold& hold, Duration lease) const {
  detail::check_lease(lease, name_);
  detail::GateUse use{.kind = detail::GateUse::Kind::kRenew,
                      .gate = name_,
                      .definition = definition_,
                      .holder = detail::checked_leased_holder(hold.holder, name_),
                      .now = hold.now,
                      .lease = lease,
                      .fence = hold.fence};
  return {machine_->begin_gate(std::move(use)), name_};
}

Durable<bool> RunGate::withdraw(std::string_view holder) const {
  detail::GateUse use{.kind = detail::GateUse::Kind::kWithdraw,
                      .gate = name_,
                      .definition = definition_,
                      .holder = detail::checked_leased_holder(holder, name_)};
  return {machine_->begin_gate(std::move(use)), name_};
}

Durable<std::optional<GateInfo>> RunGate::inspect() const {
  detail::GateUse use{
      .kind = detail::GateUse::Kind::kInspect, .gate = name_, .definition = definition_};
  return {machine_->begin_gate(std::move(use)), name_};
}

}  // namespace holdfast
