// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <holdfast/clock.hpp>
#include <holdfast/histogram.hpp>

namespace holdfast {

/// How a lock or limit has fared: what `contention()` returns if `SyncOptions::measure` was given,
/// and an `InvalidArgument` if not. A keyed lock counts all of its keys together.
struct Contention {
  std::uint64_t acquisitions = 0;
  std::uint64_t waits = 0;  ///< Acquisitions and attempts that had to queue.
  std::uint64_t timeouts = 0;
  std::uint64_t cancellations = 0;
  std::uint64_t overflows = 0;  ///< Attempts that ended with `QueueFull` or `Dropped`.
  Histogram wait{};             ///< From queueing to the grant, of those granted after a wait.
  Histogram hold{};             ///< From the grant to the release.

  struct Hold {
    std::string holder;
    Duration held{};
  };
  Hold longest{};          ///< The longest hold that has ended; no name if there is none.
  Hold longest_current{};  ///< The longest of those who hold now.
};

}  // namespace holdfast
