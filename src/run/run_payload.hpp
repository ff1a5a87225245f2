// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <boost/json/value.hpp>

namespace holdfast::detail {

/// How deep lists and objects may lie in each other.
inline constexpr std::size_t kPayloadDepthMax = 64;
/// How long the text of one may be.
inline constexpr std::size_t kPayloadBytesMax = std::size_t{1} << 20U;

/// The text that is stored; nothing for null, which is what a step without a result gives.
[[nodiscard]] std::string payload_text(const boost::json::value& value);
/// The same, or `BadPayload` if it is too long; `what` names it.
[[nodiscard]] std::string payload_text(const boost::json::value& value, std::string_view what);
/// Throws `StoreCorrupt` if it is no JSON.
[[nodiscard]] boost::json::value parse_payload(std::string_view text);

}  // namespace holdfast::detail
