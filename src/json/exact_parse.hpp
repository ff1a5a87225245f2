// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/json/error.hpp>
#include <boost/json/value.hpp>

#include <cstddef>
#include <string_view>

namespace holdfast::detail {

/// `boost::json::parse`, but each number is the nearest one that there is: that of Boost 1.81 is
/// off by the last bit for a tenth of all fractions, so that what is written is not what is read.
/// With an error, `used` says how much of `text` was read until then.
[[nodiscard]] boost::json::value exact_parse(std::string_view text, std::size_t depth_max,
                                             boost::json::error_code& error, std::size_t& used);
[[nodiscard]] boost::json::value exact_parse(std::string_view text, std::size_t depth_max,
                                             boost::json::error_code& error);

}  // namespace holdfast::detail
