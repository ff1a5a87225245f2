// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <holdfast/gate_inspection.hpp>

#include "lock_facts.hpp"

namespace holdfast::cli {

/// Who holds a lock, or waits for one.
struct Party {
  GateTie tie = GateTie::kSession;
  std::string name;  ///< Of a run, its id.
  std::string uid;   ///< Of a run; empty: it is none.
  std::string type;  ///< Of a run; empty: it is not known any more.

  [[nodiscard]] bool is_run() const noexcept { return !uid.empty(); }
};

[[nodiscard]] Party party_of(const Locks& locks, const GateHolderInfo& holder);
[[nodiscard]] Party party_of(const Locks& locks, const GateWaiterInfo& waiter);
/// Of what type a run was that had it is not known.
[[nodiscard]] Party party_of(const GateGrantInfo& grant);

/// "run", "session" or "leased"; "unknown", if another version has written it.
[[nodiscard]] std::string_view word_of(const Party& party) noexcept;

// For people; safe on a terminal.

/// "sh:811@ml1", "run order-7".
[[nodiscard]] std::string short_name(const Party& party);
/// "sh:811@ml1", "run order-7 (pay)".
[[nodiscard]] std::string full_name(const Party& party);
/// "session", "leased", "run (pay)".
[[nodiscard]] std::string kind_text(const Party& party);

}  // namespace holdfast::cli
