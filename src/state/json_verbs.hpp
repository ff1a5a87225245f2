// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/json/value.hpp>

#include <string_view>

#include <holdfast/detail/cell_mutator.hpp>

namespace holdfast::detail {

/// Does what the verb says to `root`, and returns what the verb promises. Throws `InvalidArgument`;
/// `root` is of no use then.
[[nodiscard]] boost::json::value apply_verb(boost::json::value& root, const JsonVerb& verb);

}  // namespace holdfast::detail
