// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <holdfast/detail/workflow_code.hpp>
#include <holdfast/store.hpp>
#include <holdfast/wall_clock.hpp>

namespace holdfast::detail {

/// The code of runs of `kScheduleType`. `store` outlives them.
[[nodiscard]] std::shared_ptr<const WorkflowCode> schedule_code(
    std::shared_ptr<const WallClock> clock, Store& store);

}  // namespace holdfast::detail
