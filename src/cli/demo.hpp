// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "examples/scenario.hpp"
#include "terminal.hpp"

namespace holdfast::cli {

/// Those of the scenarios that are named in `only`, in its order; all of them if it is empty.
[[nodiscard]] std::vector<examples::Scenario> chosen_scenarios(
    const std::vector<std::string>& only);

void list_scenarios(Terminal& terminal);

/// Plays the scenarios one after another, and ends with a summary of what was checked. One that
/// throws counts as a failed check, and the next is played. False if anything failed.
[[nodiscard]] bool play_demo(Terminal& terminal, std::span<const examples::Scenario> scenarios,
                             const std::stop_token& stop);

}  // namespace holdfast::cli
