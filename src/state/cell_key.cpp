// SPDX-License-Identifier: Apache-2.0
#include "cell_key.hpp"

#include <holdfast/error.hpp>
#include <holdfast/state.hpp>

#include "store/key_part.hpp"
#include "store/printable.hpp"

namespace holdfast::detail {

std::string checked_key_part(std::string_view what, std::string_view text) {
  if (text.empty() || text.size() > kCellNameBytesMax) {
    std::string message("the ");
    message.append(what).append(" ").append(printable(text)).append(" has ");
    message.append(std::to_string(text.size())).append(" bytes; give 1 to ");
    throw InvalidArgument(message.append(std::to_string(kCellNameBytesMax)));
  }
  return key_part(text);
}

std::string scope_prefix(std::string_view kind, std::string_view id) {
  std::string prefix(kCellPrefix);
  prefix.append(kind).append("/").append(checked_key_part("id of the scope", id));
  return prefix.append("/");
}

std::string global_prefix() { return std::string(kCellPrefix).append("global/"); }

std::string checked_cell_key(std::string_view key) {
  if (!key.starts_with(kCellPrefix) || key.size() == kCellPrefix.size()) {
    throw InvalidArgument("there is no cell under the key " + printable(key) +
                          ": those of cells begin with \"cell/\"");
  }
  return std::string(key);
}

}  // namespace holdfast::detail
