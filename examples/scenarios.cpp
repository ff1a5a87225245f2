// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "scenario.hpp"

namespace examples {

namespace {

constexpr std::array kScenarios{
    Scenario{.name = "checkout",
             .summary = "many requests for few orders: no double charge, no oversell",
             .play = checkout},
    Scenario{.name = "api_client",
             .summary = "so many calls at once, so many per second",
             .play = api_client},
    Scenario{.name = "log_lines",
             .summary = "many tasks write one file: no line torn or lost",
             .play = log_lines},
    Scenario{.name = "transfer",
             .summary = "money in both directions: no deadlock; done wrong, it is found and named",
             .play = transfer},
};

}  // namespace

std::span<const Scenario> scenarios() noexcept { return kScenarios; }

}  // namespace examples
