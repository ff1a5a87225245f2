// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <holdfast/gate_control.hpp>
#include <holdfast/gate_inspection.hpp>

#include "json.hpp"

namespace holdfast::cli {

// Locks for programs, as docs/locks_command.md promises it.

[[nodiscard]] std::string json_ms(Duration duration);
[[nodiscard]] std::string json_bool(bool value);
[[nodiscard]] std::string json_lock(const GateInfo& gate, StoreTime now);
[[nodiscard]] std::string json_holder(const GateHolderInfo& holder, StoreTime now);
[[nodiscard]] std::string json_waiter(const GateWaiterInfo& waiter, StoreTime now);
[[nodiscard]] std::string json_grant(const GateGrantInfo& grant, StoreTime now);
[[nodiscard]] std::string json_change(const OperatorChangeInfo& change, StoreTime now);

}  // namespace holdfast::cli
