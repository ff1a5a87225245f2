// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <holdfast/batch.hpp>
#include <holdfast/clock.hpp>
#include <holdfast/durable.hpp>
#include <holdfast/gate.hpp>
#include <holdfast/task.hpp>
#include <holdfast/transaction.hpp>

namespace holdfast {

class Context;

/// Among whom a name of a lock is the same lock.
enum class LockScope : std::uint8_t {
  kGlobal,     ///< All who use the store: runs, `Gates`, and `holdfast lock`.
  kWorkflow,   ///< The runs of one type.
  kExecution,  ///< A run, its children, and those whose child it is.
};

/// Who gets the `DeadlockError` when a wait would close a circle.
enum class DeadlockVictim : std::uint8_t {
  kRequester,  ///< Whoever would close it.
  /// The run in it that was started last, whoever closes it: the work that is lost is the least,
  /// and it is the same one each time. If that is another one, its wait ends, by the same commit.
  /// Sessions are spared.
  kYoungest,
};

/// How a run asks for a durable lock. Trivially destructible on purpose, as `WaitOptions`; texts
/// are copied at the call.
struct LockOptions {
  /// How long it may wait; then it is `TimedOut`. Zero: not at all. Nothing: for as long as it
  /// takes.
  std::optional<Duration> timeout{};
  std::uint64_t weight = 1;
  int priority = 0;           ///< See `kGateOvertakesPerStep`.
  std::string_view reason{};  ///< For people.
  LockScope scope = LockScope::kGlobal;
  /// How many may wait, this one included; one too many gets `QueueFull`.
  std::uint64_t queue_max = std::numeric_limits<std::uint64_t>::max();
  DeadlockVictim victim = DeadlockVictim::kRequester;
};

/// A durable limit, as a run asks for it: its name, and what is said of it.
///
/// ```
/// const Limit kVendor("vendor api", 3);
/// ...
/// const RunLock permit = co_await ctx.acquire(kVendor);
/// ```
class Limit {
 public:
  Limit(std::string name, std::uint64_t capacity) : name_(std::move(name)) {
    definition_.capacity = capacity;
  }
  Limit(std::string name, GateDefinition definition)
      : name_(std::move(name)), definition_(std::move(definition)) {}

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const GateDefinition& definition() const noexcept { return definition_; }

 private:
  std::string name_;
  GateDefinition definition_;
};

/// What a run has while it holds a durable lock: a row in the store that ends with the run, however
/// that ends, and with nothing else. No lease has to be renewed.
///
/// ```
/// const RunLock lock = co_await ctx.lock("account:42");
/// ```
///
/// At the end of its scope it is released, by the next commit of the run: the one that also has
/// what was done under it. The run outlives it.
class [[nodiscard]] RunLock {
 public:
  /// Holds nothing.
  RunLock() noexcept = default;
  /// `Context` makes it.
  RunLock(detail::RunMachine& machine, std::uint64_t operation, boost::json::value granted);
  RunLock(RunLock&& other) noexcept;
  RunLock& operator=(RunLock&& other) noexcept;
  ~RunLock() { release(); }

  /// By the next commit. Nothing, if it holds nothing.
  void release() noexcept;

  [[nodiscard]] explicit operator bool() const noexcept { return machine_ != nullptr; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Greater than that of every grant of this lock before. For resources outside, given to steps.
  [[nodiscard]] std::uint64_t fence() const noexcept { return fence_; }
  /// Of a limit: which of the permits it has, from 0.
  [[nodiscard]] const std::vector<std::uint64_t>& slots() const noexcept { return slots_; }

  /// Lets a transaction succeed only while this is held. What the run itself commits needs no such
  /// thing: it counts only while the run holds what it believes to hold.
  Transaction& guard(Transaction& transaction) const;
  /// The same for a batch of the same store, in a step.
  Batch& guard(Batch& batch) const;

 private:
  [[nodiscard]] std::string key() const;

  detail::RunMachine* machine_ = nullptr;
  std::uint64_t operation_ = 0;
  const detail::RunMachine* run_ = nullptr;  // Known also when it is released.
  std::string name_;
  std::uint64_t fence_ = 0;
  std::vector<std::uint64_t> slots_;
};

/// Takes several limits, all or nothing: a time-out, which is for all of them together, a failure
/// or the end of the run gives back what was taken so far. Everyone takes them in the order of
/// their names, so that no two calls can wait for each other. The locks come in the order of
/// `limits`; the same one twice is an `InvalidArgument`.
///
/// ```
/// std::vector<Limit> accounts{Limit("account:" + from, 1), Limit("account:" + to, 1)};
/// const std::vector<RunLock> both = co_await lock_all(ctx, accounts);
/// ```
[[nodiscard]] Task<std::vector<RunLock>> lock_all(Context& ctx, const std::vector<Limit>& limits,
                                                  const LockOptions& options = {});

namespace detail {

/// What a lock is asked for with, kept.
struct LockTerms {
  std::string gate;
  GateDefinition definition;
  std::uint64_t weight = 1;
  bool shared = false;
  int priority = 0;
  std::string reason;
  std::uint64_t queue_max = 0;
  std::optional<Duration> timeout{};
  DeadlockVictim victim = DeadlockVictim::kRequester;
  bool only_tries = false;  ///< If it would have to wait, it is settled with nothing.
  std::optional<std::uint64_t> slot_seed{};  ///< It gets any free slot, by this random number.
  bool as_stored = false;  ///< If others have defined it otherwise before, that is what counts.

  [[nodiscard]] bool may_wait() const noexcept {
    return !only_tries && timeout != Duration::zero() && queue_max > 0;
  }
};

template <>
struct DurableResult<RunLock> {
  static RunLock take(RunOperation& operation, const std::string& what) {
    return {operation.machine(), operation.number(), operation.take(what)};
  }
};
template <>
struct DurableResult<std::optional<RunLock>> {
  static std::optional<RunLock> take(RunOperation& operation, const std::string& what) {
    boost::json::value granted = operation.take(what);
    std::optional<RunLock> lock;
    if (!granted.is_null()) {
      lock.emplace(operation.machine(), operation.number(), std::move(granted));
    }
    return lock;
  }
};

}  // namespace detail

}  // namespace holdfast
