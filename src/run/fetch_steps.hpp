// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace holdfast::detail {

/// What a run has is found by going from one thing in memory to the next. To fetch all of it ahead
/// takes so many steps: its object; the beginnings of what hangs on that; its oldest operation; and
/// the frame of who waits for that. See `LiveRun::fetch_ahead`.
inline constexpr std::size_t kFetchSteps = 4;

}  // namespace holdfast::detail
