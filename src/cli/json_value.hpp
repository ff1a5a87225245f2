// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/json/value.hpp>

#include <string>

namespace holdfast::cli {

/// As JSON on one line, with control characters escaped.
[[nodiscard]] std::string json_text(const boost::json::value& value);
/// The same for people: a member or an item a line.
[[nodiscard]] std::string indented_json_text(const boost::json::value& value);

}  // namespace holdfast::cli
