// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "scenario.hpp"

namespace examples {

void takeover(Stage& stage);

/// The word by which a process knows that it is one of those that `takeover` has started; the URL
/// of the store and a name are behind it.
inline constexpr std::string_view kTakeoverPart = "part-of-takeover";
int play_takeover_part(const std::string& store_url, const std::string& name);

}  // namespace examples
