// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/json/value.hpp>

#include <optional>

#include <holdfast/gate_inspection.hpp>
#include <holdfast/leased_gate.hpp>
#include <holdfast/run_gate.hpp>

namespace holdfast::detail {

/// What the journal keeps of what came of the plain operations. `run_gate.hpp` has the way back.
[[nodiscard]] boost::json::value leased_grant_value(const LeasedGrant& grant);
[[nodiscard]] boost::json::value gate_info_value(const std::optional<GateInfo>& info);

}  // namespace holdfast::detail
