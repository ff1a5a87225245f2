// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

#include <holdfast/fencing.hpp>

namespace holdfast::fencing {

/// An error of a database, in its own words.
class DatabaseError : public std::runtime_error {
 public:
  explicit DatabaseError(const std::string& text, std::string code = {})
      : std::runtime_error(text), code_(std::move(code)) {}
  [[nodiscard]] bool is_stale() const noexcept { return is_stale_fence(what()); }
  /// SQLSTATE, or what the database has instead.
  [[nodiscard]] const std::string& code() const noexcept { return code_; }

 private:
  std::string code_;
};

}  // namespace holdfast::fencing
