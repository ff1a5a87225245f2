// SPDX-License-Identifier: Apache-2.0
#include "json.hpp"

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

}  // namespace holdfast::cli
