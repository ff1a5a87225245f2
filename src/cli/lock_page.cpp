// SPDX-License-Identifier: Apache-2.0
#include "lock_page.hpp"

#include <string>

#include <fmt/core.h>

#include "duration.hpp"
#include "escape.hpp"
#include "party.hpp"

namespace holdfast::cli {

std::vector<Row> list_rows(const Locks& locks) {
  std::vector<Row> rows{{"NAME", "KIND", "STATE", "CAPACITY", "HELD", "WAITING", "HOLDERS"}};
  for (const GateInfo& gate : locks.gates) {
    std::string holders;
    for (const GateHolderInfo& holder : gate.holders) {
      holders +=
          fmt::format("{}{}", holders.empty() ? "" : ", ", short_name(party_of(locks, holder)));
    }
    rows.push_back({one_line(gate.name), std::string(kind_of(gate)), std::string(state_of(gate)),
                    capacity_text(gate), std::to_string(held_of(gate)),
                    std::to_string(gate.waiter_count), holders});
  }
  return rows;
}

std::string expiry_text(const GateHolderInfo& holder, StoreTime now) {
  if (holder.tie == GateTie::kNothing) {
    return "never";
  }
  const bool live = holder.expires_at && *holder.expires_at > now;
  return live ? fmt::format("in {}", duration_text(*holder.expires_at - now)) : "over";
}

std::vector<Row> holder_rows(const Locks& locks, const GateInfo& gate) {
  const StoreTime now = locks.now;
  std::vector<Row> rows{{"HOLDER", "KIND", "SLOTS", "FENCE", "SINCE", "EXPIRES", "REASON"}};
  for (const GateHolderInfo& holder : gate.holders) {
    rows.push_back({one_line(holder.holder), kind_text(party_of(locks, holder)),
                    slots_text(gate, holder), std::to_string(holder.fence),
                    duration_text(now - holder.granted_at), expiry_text(holder, now),
                    one_line(holder.reason)});
  }
  return rows;
}

std::vector<Row> waiter_rows(const Locks& locks, const GateInfo& gate) {
  const StoreTime now = locks.now;
  std::vector<Row> rows{{"WAITER", "KIND", "WEIGHT", "PRIORITY", "SINCE", "WHY", "REASON"}};
  for (const GateWaiterInfo& waiter : gate.waiters) {
    rows.push_back({one_line(waiter.holder), kind_text(party_of(locks, waiter)),
                    waiter.shared ? "shared" : std::to_string(waiter.weight),
                    std::to_string(waiter.priority), duration_text(now - waiter.asked_at),
                    why_text(waiter.why, now), one_line(waiter.reason)});
  }
  return rows;
}

}  // namespace holdfast::cli
