// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <holdfast/gate_inspection.hpp>

#include "gate_rows.hpp"

namespace holdfast::detail {

/// All that the row says; not until when it lives.
[[nodiscard]] GateHolderInfo info_of(std::string key, const GateHolder& holder);

}  // namespace holdfast::detail
