// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <holdfast/batch.hpp>
#include <holdfast/clock.hpp>
#include <holdfast/gate.hpp>
#include <holdfast/task.hpp>
#include <holdfast/transaction.hpp>

namespace holdfast {

class Context;
class RunLock;

namespace detail {
class RunMachine;
struct RunPermit;
}  // namespace detail

/// In which order a pool gives its permits away.
enum class PermitOrder : std::uint8_t {
  kFair,    ///< First come, first served, by priority; the lowest free slot. Waits without polling.
  kRandom,  ///< Whoever looks when one is free; any free slot. Looks again after 5 s, then after
            ///< twice as long each time, up to 1 min; no deadlock is found.
};

/// Trivially destructible on purpose, as `WaitOptions`; texts are copied at the call.
struct PermitPoolOptions {
  PermitOrder order = PermitOrder::kFair;
  /// Which processes drive the runs of permits. Empty: those that drive the run that asks.
  std::string_view queue{};
};

/// As `PermitPoolOptions`.
struct PermitOptions {
  /// How long it is held at most, from when it is given, unless it is renewed. Above zero.
  Duration lease = std::chrono::minutes(10);
  /// How long it may wait; then it is `TimedOut`. Zero: not at all. Nothing: for as long as it
  /// takes.
  std::optional<Duration> timeout{};
  int priority = 0;           ///< See `kGateOvertakesPerStep`.
  std::string_view reason{};  ///< For people.
};

/// What a run has while it holds a permit of a `PermitPool`. At the end of its scope it is
/// released, by the next commit of the run. The run outlives it.
///
/// The permit itself is a child run, whose end frees the slot. It ends when it is released, when
/// its lease is over, and with its parent, however that ends. So a late release ends nothing that
/// belongs to others, and a permit that has ended cannot be revived.
class [[nodiscard]] Permit {
 public:
  /// Is none.
  Permit() noexcept = default;
  Permit(Permit&& other) noexcept;
  Permit& operator=(Permit&& other) noexcept;
  ~Permit() { release(); }

  /// By the next commit. Nothing, if it is over.
  void release() noexcept;

  /// It was not released. It may have expired.
  [[nodiscard]] explicit operator bool() const noexcept { return machine_ != nullptr; }
  /// Its lease is over, or somebody else has ended it: the slot may be another's by now.
  [[nodiscard]] bool expired() const noexcept;
  /// Until it is not held any more, for `ctx.any` beside the work.
  [[nodiscard]] Task<void> until_expired(Context& ctx);
  /// From now on it is held for so long. False: it was over already, and stays so. Waits for the
  /// answer of the permit's run. Throws `InvalidArgument` at once if `lease` is not above zero.
  [[nodiscard]] Task<bool> renew(Context& ctx, Duration lease);

  [[nodiscard]] const std::string& slot() const noexcept { return slot_; }
  /// Greater than that of every permit of the pool before. For resources outside, given to steps.
  [[nodiscard]] std::uint64_t fence() const noexcept { return fence_; }
  /// The id of the run that is this permit: "permit:POOL:SLOT".
  [[nodiscard]] const std::string& run_id() const noexcept { return run_id_; }

  /// Lets a transaction succeed only while this is held.
  Transaction& guard(Transaction& transaction) const;
  /// The same for a batch of the same store, in a step.
  Batch& guard(Batch& batch) const;

 private:
  friend class PermitPool;

  detail::RunMachine* machine_ = nullptr;
  std::shared_ptr<detail::RunPermit> permit_;
  std::string slot_;
  std::string run_id_;
  std::string key_;
  std::uint64_t fence_ = 0;
};

/// A durable semaphore for runs whose permits have names and leases.
///
/// ```
/// const PermitPool kGpus("gpu-pool", 4);
/// ...
/// const Permit gpu = co_await kGpus.acquire(ctx, {.lease = 45min});
/// auto training = ctx.run("train", [&](StepContext&) { return train(gpu.slot(), gpu.fence()); });
/// co_await training;
/// ```
///
/// Each permit that is held is a run "permit:POOL:SLOT", a child of the one that holds it, and is
/// in every list of runs. Its result is "released" or "lease_expired"; if its parent ended first,
/// its state is terminated. At the same time the pool is a gate with the pool's name: its capacity
/// can be changed, and slots disabled, while it is used (`GateControl`, `holdfast locks`). Slots
/// are called "0", "1" and so on, if they are not given names.
class PermitPool {
 public:
  /// Throws `InvalidArgument` if something is wrong with the name, the capacity or the names of
  /// slots: ids of runs are made of them.
  PermitPool(std::string_view name, std::uint64_t capacity, const PermitPoolOptions& options = {});
  PermitPool(std::string_view name, std::vector<std::string> slots,
             const PermitPoolOptions& options = {});

  /// Waits for a permit. In the order `kFair` the wait costs a row, keeps its place through
  /// crashes, and is over when the run is cancelled or ends. Where it is awaited, it throws what
  /// `Context::acquire` throws, and `RunExists` if a run that is no permit has the id of the
  /// permit's: then the slot is given back.
  [[nodiscard]] Task<Permit> acquire(Context& ctx, const PermitOptions& options = {}) const;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const GateDefinition& definition() const noexcept { return definition_; }

 private:
  struct Terms;

  static Task<Permit> acquire_on(Context& ctx, Terms terms);
  static Task<Permit> begin_run(Context& ctx, const Terms& terms, const RunLock& lock,
                                std::uint64_t operation);

  std::string name_;
  GateDefinition definition_;
  PermitOrder order_ = PermitOrder::kFair;
  std::string queue_;
};

}  // namespace holdfast
