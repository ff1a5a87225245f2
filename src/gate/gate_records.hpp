// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include <gate.pb.h>

#include <holdfast/commit_outcome.hpp>

#include "store/record_in.hpp"

namespace holdfast::detail {

inline constexpr std::uint32_t kGateFormat = 1;

/// The record of a gate in `entry`; see `record_in`.
template <class Record>
[[nodiscard]] Record parse_gate_record(const Entry& entry, std::string_view what) {
  return record_in<Record>(entry, what, kGateFormat);
}

}  // namespace holdfast::detail
