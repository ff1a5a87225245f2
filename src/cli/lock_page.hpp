// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lock_facts.hpp"
#include "table.hpp"

namespace holdfast::cli {

// What is told of locks in tables; the first row is the heading.

[[nodiscard]] std::vector<Row> list_rows(const Locks& locks);
[[nodiscard]] std::vector<Row> holder_rows(const Locks& locks, const GateInfo& gate);
[[nodiscard]] std::vector<Row> waiter_rows(const Locks& locks, const GateInfo& gate);

}  // namespace holdfast::cli
