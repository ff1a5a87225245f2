// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <cstddef>
#include <string>
#include <string_view>

#include <holdfast/commit_outcome.hpp>

namespace holdfast::detail {

/// How deep the value of a cell may be nested.
inline constexpr std::size_t kCellDepthMax = 64;

/// What is stored under the key of a cell: docs/formats/cells.md. Members that this version does
/// not know are kept.
class Envelope {
 public:
  /// Of a cell that has not been written.
  Envelope();
  /// Throws `NewerFormat` or `StoreCorrupt`, naming the key.
  explicit Envelope(const Entry& entry);

  [[nodiscard]] const boost::json::value& value() const { return members_.at("value"); }
  /// Which write it was, so that whoever lost its answer recognises it.
  [[nodiscard]] std::string_view operation() const;

  /// The text to store for another value.
  [[nodiscard]] std::string with(const boost::json::value& value, std::string_view operation) &&;

 private:
  boost::json::object members_;
};

/// Throws `InvalidArgument`, naming the key, for what JSON cannot say, or what could not be read
/// again: numbers that are not finite, text that is not UTF-8, nesting without measure.
void check_storable(const boost::json::value& value, std::string_view key);

}  // namespace holdfast::detail
