// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <holdfast/clock.hpp>
#include <holdfast/gate.hpp>
#include <holdfast/store.hpp>
#include <holdfast/task.hpp>

namespace holdfast {

/// What a hold, or a place in the queue, hangs on: it ends with that, if not before.
enum class GateTie : std::uint8_t {
  kUnknown,  ///< Written by another version.
  kSession,  ///< That of the process that asked.
  kLease,    ///< A lease of its own: see `LeasedGate`.
  kNothing,  ///< Only its end ends it, as that of a run: see `RunLock`.
};

/// Who holds a gate.
struct GateHolderInfo {
  std::string holder;
  std::string key;  ///< Of its row, whose version is the fence.
  std::uint64_t fence = 0;
  std::uint64_t weight = 1;
  bool shared = false;
  std::vector<std::uint64_t> slots;
  StoreTime asked_at{};
  StoreTime granted_at{};
  std::string reason;
  GateTie tie = GateTie::kSession;
  std::optional<StoreTime> expires_at;  ///< Nothing: what it hangs on is over, or is nothing.
  std::string actor;  ///< As of `AcquireOptions`; empty if it is known to its process alone.
};

/// Who waits at one.
struct GateWaiterInfo {
  std::string holder;
  std::uint64_t weight = 1;
  bool shared = false;
  int priority = 0;
  StoreTime asked_at{};
  std::optional<StoreTime> deadline;  ///< Then it gives up.
  std::string reason;
  WhyNot why;
  GateTie tie = GateTie::kSession;
  std::string actor;                   ///< As of `AcquireOptions`; empty if it is known to its
  std::vector<std::string> needed_by;  ///< process alone.
};

struct GateInfo {
  std::string name;
  GateDefinition definition;
  std::uint64_t capacity = 0;  ///< At present.
  bool paused = false;
  bool draining = false;
  std::vector<std::uint64_t> disabled_slots;
  Duration grants_kept_for{};
  std::vector<GateHolderInfo> holders;
  std::vector<GateWaiterInfo> waiters;  ///< The first ones, in the order in which they are served.
  std::uint64_t waiter_count = 0;
};

/// A gate as it is; nothing if it was never used. Changes nothing.
[[nodiscard]] Task<std::optional<GateInfo>> inspect_gate(Store& store, std::string_view name,
                                                         std::size_t waiters_max = 100);

/// The names of all gates that were ever used, sorted. One short read for each, however many hold
/// it or wait there. Throws `StoreCorrupt` if a key cannot be read.
[[nodiscard]] Task<std::vector<std::string>> list_gates(Store& store);

/// A hold that has ended.
struct GateGrantInfo {
  enum class End : std::uint8_t {
    kUnknown,  ///< Written by a later version.
    kReleased,
    kExpired,    ///< Its session or lease had run out.
    kAbandoned,  ///< Its session was closed, or whoever asked did not wait for it any more.
    kForced,     ///< By an operator.
  };
  std::uint64_t number = 0;  ///< Counted from 0, by gate.
  std::string holder;
  std::uint64_t fence = 0;
  std::uint64_t weight = 1;
  bool shared = false;
  std::vector<std::uint64_t> slots;
  StoreTime asked_at{};
  StoreTime granted_at{};
  StoreTime ended_at{};
  End end = End::kUnknown;
  GateTie tie = GateTie::kUnknown;
  std::string reason;
  std::string ended_by;  ///< If it was by force.
  std::string actor;     ///< Of one that hung on nothing.
};

[[nodiscard]] std::string_view to_string(GateGrantInfo::End end) noexcept;

/// The holds of a gate that have ended, the last ones first: as many as are kept, at most
/// `kGateGrantsKept`.
[[nodiscard]] Task<std::vector<GateGrantInfo>> gate_history(Store& store, std::string_view name);

}  // namespace holdfast
