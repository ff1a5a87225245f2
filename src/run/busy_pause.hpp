// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include <holdfast/task.hpp>
#include <holdfast/this_task.hpp>

namespace holdfast::detail {

/// Between two attempts to use a store that is busy or full.
inline Task<void> busy_pause() { co_await this_task::sleep_for(std::chrono::milliseconds(100)); }

}  // namespace holdfast::detail
