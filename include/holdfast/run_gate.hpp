// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <holdfast/clock.hpp>
#include <holdfast/durable.hpp>
#include <holdfast/gate.hpp>
#include <holdfast/gate_inspection.hpp>
#include <holdfast/leased_gate.hpp>

namespace holdfast {

/// A gate by its plain operations, as `LeasedGate`, in a run: `Context::gate` makes it.
///
/// ```
/// RunGate gate = ctx.gate("account/42");
/// const LeasedGrant grant = co_await gate.try_acquire({.holder = "transfer-7"});
/// if (grant.acquired) { ... }
/// ```
///
/// Each operation is done in the commit that records it, so once, whatever dies when, and a replay
/// sees what it saw. A `now` that is not given is `Context::now()`. What is acquired hangs on its
/// lease, and not on the run: it outlives it. For a lock that ends with the run, `Context::lock`.
///
/// One operation at a gate at a time: a second one before the first is awaited is a
/// `WrongContext`. Where they are awaited they throw what `LeasedGate` does. The run outlives it.
class RunGate {
 public:
  /// `Context` makes it.
  RunGate(detail::RunMachine& machine, std::string_view name, GateDefinition definition);

  [[nodiscard]] Durable<LeasedGrant> try_acquire(const LeasedRequest& request) const;
  [[nodiscard]] Durable<bool> release(const LeasedHold& hold) const;
  [[nodiscard]] Durable<bool> renew(const LeasedHold& hold,
                                    Duration lease = std::chrono::seconds(30)) const;
  [[nodiscard]] Durable<bool> withdraw(std::string_view holder) const;
  [[nodiscard]] Durable<std::optional<GateInfo>> inspect() const;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  detail::RunMachine* machine_;
  std::string name_;
  GateDefinition definition_;
};

namespace detail {

/// One of these operations, kept.
struct GateUse {
  enum class Kind : std::uint8_t { kAcquire, kRelease, kRenew, kWithdraw, kInspect };
  Kind kind = Kind::kInspect;
  std::string gate;
  GateDefinition definition;
  std::string holder{};
  StoreTime now{};
  Duration lease{};
  std::uint64_t fence = 0;
  std::uint64_t weight = 1;
  bool shared = false;
  int priority = 0;
  std::string reason{};
  std::uint64_t queue_max = 0;
};

[[nodiscard]] LeasedGrant read_leased_grant(const boost::json::value& value);
[[nodiscard]] std::optional<GateInfo> read_gate_info(const boost::json::value& value);

template <>
struct DurableResult<LeasedGrant> {
  static LeasedGrant take(RunOperation& operation, const std::string& what) {
    return read_leased_grant(operation.take(what));
  }
};
template <>
struct DurableResult<std::optional<GateInfo>> {
  static std::optional<GateInfo> take(RunOperation& operation, const std::string& what) {
    return read_gate_info(operation.take(what));
  }
};

}  // namespace detail

}  // namespace holdfast
