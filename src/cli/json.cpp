// SPDX-License-Identifier: Apache-2.0
#include "json.hpp"

#include <algorithm>

#include "escape.hpp"

namespace holdfast::cli {

std::string json_object(const Fields& fields) {
  std::string list;
  for (const auto& [name, value] : fields) {
    list += (list.empty() ? "" : ", ") + json_string(name) + ": " + value;
  }
  return "{" + list + "}";
}

std::string json_array(const std::vector<std::string>& values) {
  std::string list;
  for (const std::string& value : values) {
    list += (list.empty() ? "" : ", ") + value;
  }
  return "[" + list + "]";
}

std::string json_strings(const std::vector<std::string>& texts) {
  std::vector<std::string> values(texts.size());
  std::ranges::transform(texts, values.begin(), json_string);
  return json_array(values);
}

}  // namespace holdfast::cli
