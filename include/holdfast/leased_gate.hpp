// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <holdfast/clock.hpp>
#include <holdfast/gate.hpp>
#include <holdfast/gate_inspection.hpp>
#include <holdfast/store.hpp>
#include <holdfast/task.hpp>

namespace holdfast {

/// Trivially destructible on purpose, as `WaitOptions`. Texts are copied at the call.
struct LeasedRequest {
  std::string_view holder{};  ///< Who: 1 to `kGateNameMax` bytes. Holds a gate once at most.
  StoreTime now{};            ///< By the store's clock.
  Duration lease = std::chrono::seconds(30);  ///< Above zero.
  std::uint64_t weight = 1;
  bool shared = false;
  int priority = 0;
  std::string_view reason{};
  /// How many may wait, this one included: 0 asks without waiting.
  std::uint64_t queue_max = static_cast<std::uint64_t>(-1);
};

/// What came of it.
struct LeasedGrant {
  bool acquired = false;
  std::int64_t position = -1;  ///< In the queue: 0 is next. -1: it holds, or may not wait.
  std::uint64_t fence = 0;     ///< While it holds.
  std::vector<std::uint64_t> slots;
  std::optional<WhyNot> why;  ///< It does not hold.
};

/// One grant of a gate to one holder.
struct LeasedHold {
  std::string_view holder{};
  std::uint64_t fence = 0;
  StoreTime now{};
};

/// A gate by its plain operations: without a session, a thread or a clock. Each is one commit, and
/// knows no other time than the `now` that it is given. For holders that outlive processes, and for
/// those who have their own way of waiting.
///
/// ```
/// LeasedGate gate(*store, "account/42");
/// const LeasedGrant grant = co_await gate.try_acquire({.holder = "transfer-7", .now = now});
/// if (grant.acquired) { ... }
/// ```
///
/// A holder, and one who waits, is taken for dead when its lease runs out: at its expiry, not
/// after. The same gate may be held by sessions (`DurableMutex`), which are judged by the store's
/// own clock, whatever `now` is. The store outlives this. Thread-safe.
class LeasedGate {
 public:
  /// Throws `InvalidArgument` for a definition that cannot be.
  LeasedGate(Store& store, std::string_view name, GateDefinition definition = {});

  /// Acquires it, or takes a place in the queue. Asked again, the holder keeps its place, and its
  /// lease begins anew; if it holds the gate it gets the same fence again. Whoever makes room lets
  /// it in, so it may hold the gate before it asks again.
  [[nodiscard]] Task<LeasedGrant> try_acquire(const LeasedRequest& request) const;
  /// False: this grant was over before, and nothing is changed. A later grant to the same holder is
  /// not touched.
  [[nodiscard]] Task<bool> release(const LeasedHold& hold) const;
  /// False: this grant is over, be it that nobody else has the gate yet.
  [[nodiscard]] Task<bool> renew(const LeasedHold& hold,
                                 Duration lease = std::chrono::seconds(30)) const;
  /// Leaves the queue; if it was let in meanwhile, gives that back. False: it did neither.
  [[nodiscard]] Task<bool> withdraw(std::string_view holder, StoreTime now) const;
  /// As `inspect_gate`; nothing if it was never used.
  [[nodiscard]] Task<std::optional<GateInfo>> inspect() const;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  Store& store_;
  std::string name_;
  GateDefinition definition_;
};

}  // namespace holdfast
