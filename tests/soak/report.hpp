// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace holdfast::testing {

/// What a worker takes a lock for: each is a counter that one holder at a time may change.
enum class Resource : std::uint8_t {
  kMutex,  ///< Behind a mutex.
  kSlot0,  ///< Of a semaphore of three: each slot has a counter of its own.
  kSlot1,
  kSlot2,
  kReadWrite,  ///< Behind a lock with readers.
  kInStore,    ///< Behind the mutex, too, but in the store of the locks, guarded by `guard()`.
};
inline constexpr std::size_t kResources = 6;
inline constexpr std::uint64_t kSlots = 3;

/// A worker runs so many tasks on one session: locks also pass from hand to hand inside of it.
inline constexpr int kTasksPerWorker = 2;

/// What a worker writes to its output, in one piece.
struct Report {
  enum class Kind : std::uint8_t {
    kGranted,
    kReleasing,    ///< Told before it is done, so that a worker that is killed has told.
    kAccepted,     ///< The increment is there, durably.
    kRefused,      ///< By the resource.
    kSteppedBack,  ///< Asked `valid()` before the deed, and it said no.
    kTimedOut,
    kSessionLost,
    kBusy,
    kUnknown,  ///< Whether an increment in the store happened.
  };
  std::uint64_t fence = 0;
  std::uint64_t value = 0;
  std::int64_t at_ns = 0;           ///< When it was over, by the clock of the machine.
  std::int64_t valid_until_ns = 0;  ///< Of the session, as it was known before.
  Kind kind{};
  Resource resource{};
  bool shared = false;
  std::uint8_t task = 0;
};
inline constexpr std::size_t kReportKinds = 9;

}  // namespace holdfast::testing
