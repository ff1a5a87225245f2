// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace holdfast::detail {

/// What a run has is found by going from one thing in memory to the next. So all of it is fetched
/// ahead in steps, a turn apart; by the number of those who are driven before it, the last one
/// first.
enum class FetchStep : std::uint8_t {
  kWaitingFrame,  ///< Of who waits for that operation.
  kOperation,     ///< The oldest one, and the texts of its lock.
  kParts,         ///< What the object points to.
  kObject,
};
inline constexpr std::size_t kFetchSteps = 4;

}  // namespace holdfast::detail
