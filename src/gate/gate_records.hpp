// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <gate.pb.h>

#include <holdfast/commit_outcome.hpp>
#include <holdfast/store_error.hpp>

#include "store/printable.hpp"

namespace holdfast::detail {

inline constexpr std::uint32_t kGateFormat = 1;

/// The record of a gate in `entry`; `what` is for messages. Damaged, it is a `StoreCorrupt`, and of
/// a later version a `NewerFormat`.
template <class Record>
void parse_gate_record(const Entry& entry, std::string_view what, Record& record) {
  if (!record.ParseFromString(entry.value) || record.format() == 0) {
    throw StoreCorrupt(std::string(what) + " " + printable(entry.key) +
                       " cannot be read: its record is damaged, or something else is stored there");
  }
  if (record.format() > kGateFormat) {
    throw NewerFormat(std::string(what) + " " + printable(entry.key) + " has format " +
                      std::to_string(record.format()) + ", and this version of Holdfast knows " +
                      std::to_string(kGateFormat) + "; use a newer one");
  }
}

template <class Record>
[[nodiscard]] Record parse_gate_record(const Entry& entry, std::string_view what) {
  Record record;
  parse_gate_record(entry, what, record);
  return record;
}

}  // namespace holdfast::detail
