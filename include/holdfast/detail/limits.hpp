// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include <holdfast/contention.hpp>
#include <holdfast/detail/turnstile.hpp>

namespace holdfast::detail {

/// An `InvalidArgument` unless 1 <= `capacity` <= 2^30.
[[nodiscard]] std::uint32_t checked_capacity(std::int64_t capacity,
                                             const TurnstileProfile& profile);
[[noreturn]] void refuse_weight(std::int64_t weight, const TurnstileProfile& profile);

/// An `InvalidArgument` if below one; too large ones become ones that are unsatisfiable.
[[nodiscard]] inline std::uint32_t checked_weight(std::int64_t weight,
                                                  const TurnstileProfile& profile) {
  if (weight < 1) {
    refuse_weight(weight, profile);
  }
  return static_cast<std::uint32_t>(
      std::min<std::int64_t>(weight, std::numeric_limits<std::int32_t>::max()));
}

/// An `InvalidArgument` if contention is not measured.
[[nodiscard]] Contention contention_of(const TurnstileProfile& profile);

}  // namespace holdfast::detail
