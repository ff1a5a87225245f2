// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "scenario.hpp"

namespace examples {

void orders(Stage& stage);

/// The word by which a process knows that it is a worker that `orders` has started; the URLs of the
/// store of the runs and of the bank's are behind it.
inline constexpr std::string_view kOrdersPart = "part-of-orders";
int play_orders_part(const std::string& runs_url, const std::string& bank_url);

}  // namespace examples
