// SPDX-License-Identifier: Apache-2.0
#include <holdfast/detail/limits.hpp>

#include <string>

#include <holdfast/error.hpp>

#include "contention_recorder.hpp"

namespace holdfast::detail {

std::uint32_t checked_capacity(std::int64_t capacity, const TurnstileProfile& profile) {
  if (capacity < 1 || capacity > Turnstile::kUnitsMax) {
    throw InvalidArgument(*profile.what + ": a capacity of " + std::to_string(capacity) +
                          " is out of range; give 1 to " + std::to_string(Turnstile::kUnitsMax));
  }
  return static_cast<std::uint32_t>(capacity);
}

void refuse_weight(std::int64_t weight, const TurnstileProfile& profile) {
  throw InvalidArgument(*profile.what + ": a weight of " + std::to_string(weight) +
                        " means nothing; give at least 1");
}

Contention contention_of(const TurnstileProfile& profile) {
  if (profile.recorder == nullptr) {
    throw InvalidArgument(*profile.what +
                          ": contention is not measured; give SyncOptions::measure a clock");
  }
  return profile.recorder->snapshot();
}

}  // namespace holdfast::detail
