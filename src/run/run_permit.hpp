// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace holdfast::detail {

/// A child of a run that holds a lock in its place, as the code of the run knows it.
struct RunPermit {
  enum class Phase : std::uint8_t {
    kBegins,   ///< It is not known yet whether the child begins.
    kRefused,  ///< It does not: its id is taken. The lock is the run's still.
    kHeld,
    kReleased,  ///< By the code.
    kOver,      ///< The child has ended by itself, or what it held was taken away.
  };
  std::uint64_t operation = 0;  ///< That began the child.
  std::uint64_t lock = 0;       ///< And the one that asked for the lock.
  Phase phase = Phase::kBegins;
  std::string refusal{};   ///< Why it did not begin,
  std::string taken_by{};  ///< and the type of the run that has its id.
  std::uint64_t renewals_asked = 0;
  std::uint64_t renewals_made = 0;
};

}  // namespace holdfast::detail
