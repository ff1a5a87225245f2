// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <holdfast/clock.hpp>

namespace holdfast::detail {

/// `scheme:path?name=value&name=value`, taken apart and unescaped.
struct StoreUrl {
  std::string text;  ///< For messages: without its secrets.
  std::string scheme;
  std::string path;
  std::vector<std::pair<std::string, std::string>> options;
};

/// Throws `InvalidArgument` that says what is wrong with it.
[[nodiscard]] StoreUrl parse_store_url(std::string_view text);

/// A time with its unit: ns, us, ms, s, m or h.
[[nodiscard]] Duration parse_duration(std::string_view text, std::string_view name);

}  // namespace holdfast::detail
