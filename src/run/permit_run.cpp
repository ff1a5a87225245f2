// SPDX-License-Identifier: Apache-2.0
#include "permit_run.hpp"

#include <utility>
#include <vector>

#include <holdfast/workflow.hpp>

#include "run_machine.hpp"

namespace holdfast::detail {

namespace {

Task<std::string> hold_permit(Context& ctx, PermitInput input) {
  StoreTime ends_at = ctx.started_at() + Duration(input.lease_ns);
  std::vector<Renewal> asked;
  ctx.on_signal<boost::json::value>(kRenewSignal, [&asked](const boost::json::value& value) {
    if (const auto renewal = read_renewal(value)) {
      asked.push_back(*renewal);
    }
  });
  for (;;) {
    auto wait = ctx.wait_until([&asked] { return !asked.empty(); }, ends_at - ctx.now());
    auto outcome = co_await ctx.attempt(wait);
    if (!outcome) {
      co_return std::string(kPermitReleased);  // It was asked to stop.
    }
    if (ctx.now() >= ends_at) {
      co_return std::string(kPermitExpired);  // Also if a renewal has come: it came too late.
    }
    for (const Renewal& renewal : std::exchange(asked, {})) {
      ends_at = ctx.now() + renewal.lease;
      if (renewal.number != 0) {
        machine_of(ctx).tell_parent(renewal.number);
      }
    }
  }
}

}  // namespace

boost::json::value renewal_value(const Renewal& renewal) {
  return {{"number", renewal.number}, {"lease_ns", renewal.lease.count()}};
}

std::optional<Renewal> read_renewal(const boost::json::value& value) {
  const boost::json::object* const object = value.if_object();
  const boost::json::value* const number = object ? object->if_contains("number") : nullptr;
  const boost::json::value* const lease = object ? object->if_contains("lease_ns") : nullptr;
  boost::json::error_code error;
  Renewal renewal;
  if (lease != nullptr) {
    renewal.lease = Duration(lease->to_number<std::int64_t>(error));
  }
  if (number != nullptr && !error) {
    renewal.number = number->to_number<std::uint64_t>(error);
  }
  if (error || renewal.lease <= Duration::zero()) {
    return std::nullopt;
  }
  return renewal;
}

std::string permit_run_id(std::string_view pool, std::string_view slot) {
  return std::string("permit:").append(pool).append(":").append(slot);
}

const Workflow<PermitInput, std::string>& permit_workflow() {
  static const Workflow<PermitInput, std::string> kPermit = workflow(kPermitType, hold_permit);
  return kPermit;
}

}  // namespace holdfast::detail
