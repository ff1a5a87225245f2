// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <holdfast/gates.hpp>
#include <holdfast/session.hpp>

namespace holdfast::cli {

/// "0,2".
[[nodiscard]] std::string slots_text(const std::vector<std::uint64_t>& slots);

/// The sessions of the `holdfast lock` that has started this process, and of those above it.
[[nodiscard]] std::vector<std::string> ancestors_of_environment();

/// That of this program, and what a command that holds locks may want to know.
[[nodiscard]] std::vector<std::string> environment_for(const std::vector<DurableHold>& holds,
                                                       const Session& session,
                                                       const std::vector<std::string>& ancestors);

}  // namespace holdfast::cli
