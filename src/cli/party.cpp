// SPDX-License-Identifier: Apache-2.0
#include "party.hpp"

#include <utility>

#include <fmt/core.h>
#include <holdfast/run_inspection.hpp>

#include "escape.hpp"

namespace holdfast::cli {

namespace {

Party party_with(const Locks& locks, GateTie tie, const std::string& name, std::string uid) {
  Party party{.tie = tie, .name = name, .uid = std::move(uid), .type = {}};
  if (const auto run = locks.runs.find(party.uid); run != locks.runs.end()) {
    party.type = run->second.type;
  }
  return party;
}

}  // namespace

Party party_of(const Locks& locks, const GateHolderInfo& holder) {
  return party_with(locks, holder.tie, holder.holder, run_uid_of(holder));
}

Party party_of(const Locks& locks, const GateWaiterInfo& waiter) {
  return party_with(locks, waiter.tie, waiter.holder, run_uid_of(waiter));
}

Party party_of(const GateGrantInfo& grant) {
  return {.tie = grant.tie, .name = grant.holder, .uid = run_uid_of(grant), .type = {}};
}

std::string_view word_of(const Party& party) noexcept {
  if (party.is_run()) {
    return "run";
  }
  switch (party.tie) {
    case GateTie::kSession:
      return "session";
    case GateTie::kLease:
      return "leased";
    default:
      return "unknown";
  }
}

std::string short_name(const Party& party) {
  return party.is_run() ? "run " + one_line(party.name) : one_line(party.name);
}

std::string full_name(const Party& party) {
  return party.type.empty() ? short_name(party)
                            : fmt::format("{} ({})", short_name(party), one_line(party.type));
}

std::string kind_text(const Party& party) {
  return party.type.empty() ? std::string(word_of(party))
                            : fmt::format("run ({})", one_line(party.type));
}

}  // namespace holdfast::cli
