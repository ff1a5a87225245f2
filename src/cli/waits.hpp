// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "lock_facts.hpp"

namespace holdfast::cli {

/// One who waits at a lock.
struct Wait {
  const GateInfo* gate;
  const GateWaiterInfo* waiter;
  std::size_t position;  ///< 0 is the first.
};

[[nodiscard]] std::vector<Wait> all_waits(const Locks& locks);

/// The waits before whose end `holder` cannot go on: its own, and those of commands below it.
[[nodiscard]] std::vector<Wait> waits_of(const Locks& locks, const GateHolderInfo& holder);

/// What has to happen before one is let in.
struct Outlook {
  std::string when;  ///< "when sh:12@db1 lets go of it"
  /// When that is so at the latest, if nobody does anything: leases are not renewed any more.
  std::optional<StoreTime> at_latest;
};
[[nodiscard]] Outlook outlook_of(const Locks& locks, const Wait& wait);

[[nodiscard]] std::vector<std::string> names_of_holders(const GateInfo& gate);
/// "nobody", "a", "run a (pay) and b", "a, b, c and 3 more".
[[nodiscard]] std::string holders_text(const Locks& locks, const GateInfo& gate);

}  // namespace holdfast::cli
