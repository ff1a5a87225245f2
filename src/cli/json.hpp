// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace holdfast::cli {

/// The fields of a JSON object, in order; values are JSON already.
using Fields = std::vector<std::pair<std::string, std::string>>;

[[nodiscard]] std::string json_object(const Fields& fields);
/// Of values that are JSON already.
[[nodiscard]] std::string json_array(const std::vector<std::string>& values);

/// Of texts.
[[nodiscard]] std::string json_strings(const std::vector<std::string>& texts);

}  // namespace holdfast::cli
