// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <holdfast/workflow.hpp>

#include "program.hpp"

namespace holdfast::testing {

/// The value of a step of a program: its label, or, if it fails for good, less than zero.
[[nodiscard]] Task<std::int64_t> perform_step(Context& ctx, const Node& node);
/// Comes last when something was thrown.
[[nodiscard]] Task<void> clean_up(Context& ctx, int label);

}  // namespace holdfast::testing
