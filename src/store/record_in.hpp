// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <holdfast/commit_outcome.hpp>
#include <holdfast/store_error.hpp>

#include "printable.hpp"

namespace holdfast::detail {

/// The record in a row, of `format` at the latest; `what` says what it should have been. One that
/// is damaged is a `StoreCorrupt`, one of a later version a `NewerFormat`.
template <class Record>
[[nodiscard]] Record record_in(const Entry& row, std::string_view what, std::uint32_t format) {
  Record record;
  if (!record.ParseFromString(row.value) || record.format() == 0) {
    throw StoreCorrupt(std::string(what) + " " + printable(row.key) +
                       " cannot be read: its record is damaged, or something else is stored there");
  }
  if (record.format() > format) {
    throw NewerFormat(std::string(what) + " " + printable(row.key) + " has format " +
                      std::to_string(record.format()) + ", and this version of Holdfast knows " +
                      std::to_string(format) + "; use a newer one");
  }
  return record;
}

}  // namespace holdfast::detail
