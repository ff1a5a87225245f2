// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <boost/json/value.hpp>

namespace holdfast::detail {

/// How deep lists and objects may lie in each other.
inline constexpr std::size_t kPayloadDepthMax = 64;

/// The text that is stored; nothing for null, which is what a step without a result gives.
[[nodiscard]] std::string payload_text(const boost::json::value& value);
/// Throws `StoreCorrupt` if it is no JSON.
[[nodiscard]] boost::json::value parse_payload(std::string_view text);

}  // namespace holdfast::detail
