// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <holdfast/gate_control.hpp>
#include <holdfast/gate_inspection.hpp>

#include "json.hpp"
#include "lock_facts.hpp"

namespace holdfast::cli {

// Locks for programs, as docs/locks_command.md promises it.

[[nodiscard]] std::string json_ms(Duration duration);
[[nodiscard]] std::string json_bool(bool value);
[[nodiscard]] std::string json_lock(const Locks& locks, const GateInfo& gate);
[[nodiscard]] std::string json_holder(const Locks& locks, const GateHolderInfo& holder);
[[nodiscard]] std::string json_waiter(const Locks& locks, const GateWaiterInfo& waiter);
[[nodiscard]] std::string json_grant(const GateGrantInfo& grant, StoreTime now);
[[nodiscard]] std::string json_change(const OperatorChangeInfo& change, StoreTime now);

}  // namespace holdfast::cli
