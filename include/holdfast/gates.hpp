// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <holdfast/batch.hpp>
#include <holdfast/clock.hpp>
#include <holdfast/deadlock.hpp>
#include <holdfast/executor.hpp>
#include <holdfast/gate.hpp>
#include <holdfast/leased_gate.hpp>
#include <holdfast/session.hpp>
#include <holdfast/task.hpp>

namespace holdfast {

namespace detail {
class GateRoom;
class GateRooms;
}  // namespace detail

/// How to ask for a durable lock. Trivially destructible on purpose, as `WaitOptions`; texts are
/// copied at the call.
struct AcquireOptions {
  std::optional<Duration> timeout{};  ///< Zero: only if it need not wait. Negative is refused.
  std::uint64_t weight = 1;
  int priority = 0;           ///< See `kGateOvertakesPerStep`.
  std::string_view holder{};  ///< For people. Empty: the name of the session.
  std::string_view reason{};  ///< For people.
  /// Who cannot go on while this waits, by a name that is known in all processes. Empty: the task.
  /// See `DeadlockError`.
  std::string_view actor{};
  /// Others that cannot go on before `actor` does, by such names: the process that started this
  /// one, and waits for its end. Counts only beside an `actor`.
  std::span<const std::string_view> needed_by{};
  /// How many may wait, this one included; one too many gets `QueueFull`.
  std::uint64_t queue_max = static_cast<std::uint64_t>(-1);
};

/// What you have while you hold a durable lock: a row in the store that hangs on your session.
///
/// Others get the lock when it is released, or when the session is over. Until then `valid()` says
/// yes, but that is worth what clocks are worth: where it counts, let the resource check `fence()`.
class [[nodiscard]] DurableHold {
 public:
  /// Holds nothing.
  DurableHold() noexcept = default;
  DurableHold(DurableHold&&) noexcept = default;
  DurableHold& operator=(DurableHold&& other) noexcept;
  /// Releases it in the background: nobody is told if that fails, and then it ends with the
  /// session.
  ~DurableHold();

  /// Returns when others can have it, durably. False: it was over before, by force.
  [[nodiscard]] Task<bool> release();

  [[nodiscard]] explicit operator bool() const noexcept { return room_ != nullptr; }
  [[nodiscard]] const std::string& name() const noexcept;
  /// Greater than that of every grant of this lock before, whatever was lost, deleted or restored
  /// between. Those who were let in together, by one commit, have the same one.
  [[nodiscard]] std::uint64_t fence() const noexcept { return fence_; }
  /// Of a semaphore: which of the permits it has, from 0.
  [[nodiscard]] const std::vector<std::uint64_t>& slots() const noexcept { return slots_; }
  [[nodiscard]] bool valid() const;
  /// Stopped when the session is lost.
  [[nodiscard]] std::stop_token lost_token() const;

  /// Lets `batch` succeed only while this is held: otherwise its outcome is `Fenced`. Also a read
  /// counts only if it was made while the lock was held: put the guard on a batch that depends on
  /// it, be it one without writes.
  Batch& guard(Batch& batch) const;
  /// The same for a transaction: `Store::transact`.
  Transaction& guard(Transaction& transaction) const;

 private:
  friend class detail::GateRoom;
  struct Granted {
    std::string key;
    std::uint64_t fence = 0;
    std::vector<std::uint64_t> slots;
    std::uint64_t actor = 0;
  };
  DurableHold(std::shared_ptr<detail::GateRoom> room, Granted granted)
      : room_(std::move(room)),
        key_(std::move(granted.key)),
        fence_(granted.fence),
        slots_(std::move(granted.slots)),
        actor_(granted.actor) {}
  void let_go() noexcept;

  std::shared_ptr<detail::GateRoom> room_;
  std::string key_;
  std::uint64_t fence_ = 0;
  std::vector<std::uint64_t> slots_;
  std::uint64_t actor_ = 0;
};

/// One of several durable locks to be taken at once: made by the `request` of each of them.
class DurableRequest {
 public:
  DurableRequest(std::shared_ptr<detail::GateRoom> room, std::uint64_t weight, bool shared) noexcept
      : room_(std::move(room)), weight_(weight), shared_(shared) {}

  [[nodiscard]] const std::string& name() const noexcept;
  [[nodiscard]] const std::shared_ptr<detail::GateRoom>& room() const noexcept { return room_; }
  [[nodiscard]] std::uint64_t weight() const noexcept { return weight_; }
  [[nodiscard]] bool shared() const noexcept { return shared_; }

 private:
  std::shared_ptr<detail::GateRoom> room_;
  std::uint64_t weight_;
  bool shared_;
};

/// A mutex that survives its holder: known to all processes of a store by its name.
///
/// ```
/// DurableMutex nightly = gates.mutex("nightly");
/// const DurableHold hold = co_await nightly.acquire({.timeout = 1min});
/// ```
///
/// Who comes first is served first, in whatever process; a dead one is passed over. Waiting polls
/// nothing: the release that makes room lets the next one in, and wakes it. Thread-safe.
class DurableMutex {
 public:
  explicit DurableMutex(std::shared_ptr<detail::GateRoom> room) noexcept : room_(std::move(room)) {}

  /// Throws `TimedOut`, `QueueFull`, `Unsatisfiable`, `DefinitionMismatch`, `SessionLost`, and what
  /// stores throw; `DeadlockError`, if whoever holds it waits for something that this task holds,
  /// in whatever process; `Dropped`, if an operator took it away before it was seen here. A task
  /// that is stopped meanwhile (`Cancelled`) has left the queue, and a grant that was on its way
  /// goes to the next.
  [[nodiscard]] Task<DurableHold> acquire(const AcquireOptions& options = {});
  /// Nothing: it would have to wait.
  [[nodiscard]] Task<std::optional<DurableHold>> try_acquire(const AcquireOptions& options = {});

  /// For `acquire_all`.
  [[nodiscard]] DurableRequest request() const { return {room_, 1, false}; }
  /// The same lock for holders that are no sessions.
  [[nodiscard]] LeasedGate leased() const;

 private:
  std::shared_ptr<detail::GateRoom> room_;
};

/// So many permits, shared by all processes of a store. Otherwise as `DurableMutex`.
class DurableSemaphore {
 public:
  explicit DurableSemaphore(std::shared_ptr<detail::GateRoom> room) noexcept
      : room_(std::move(room)) {}

  [[nodiscard]] Task<DurableHold> acquire(const AcquireOptions& options = {});
  [[nodiscard]] Task<std::optional<DurableHold>> try_acquire(const AcquireOptions& options = {});

  [[nodiscard]] DurableRequest request(std::uint64_t weight = 1) const {
    return {room_, weight, false};
  }
  [[nodiscard]] LeasedGate leased() const;

 private:
  std::shared_ptr<detail::GateRoom> room_;
};

/// One writer, or many readers. Whoever came first is served first, so writers do not starve.
class DurableSharedMutex {
 public:
  explicit DurableSharedMutex(std::shared_ptr<detail::GateRoom> room) noexcept
      : room_(std::move(room)) {}

  [[nodiscard]] Task<DurableHold> acquire(const AcquireOptions& options = {});
  [[nodiscard]] Task<DurableHold> acquire_shared(const AcquireOptions& options = {});
  [[nodiscard]] Task<std::optional<DurableHold>> try_acquire(const AcquireOptions& options = {});
  [[nodiscard]] Task<std::optional<DurableHold>> try_acquire_shared(
      const AcquireOptions& options = {});

  [[nodiscard]] DurableRequest request() const { return {room_, 1, false}; }
  [[nodiscard]] DurableRequest shared_request() const { return {room_, 1, true}; }
  [[nodiscard]] LeasedGate leased() const;

 private:
  std::shared_ptr<detail::GateRoom> room_;
};

/// Takes several durable locks, all or nothing: a time-out, which is for all of them together, a
/// stop or a failure gives back what was taken so far. Everyone takes them in the order of their
/// names, so that no two calls can wait for each other. The holds come in the order of the
/// requests; the same lock twice is an `InvalidArgument`. The `weight` of the options does not
/// count.
///
/// ```
/// std::vector<DurableRequest> both{from.request(), to.request()};
/// std::vector<DurableHold> holds = co_await acquire_all(std::move(both), {.timeout = 1min});
/// ```
[[nodiscard]] Task<std::vector<DurableHold>> acquire_all(std::vector<DurableRequest> requests,
                                                         const AcquireOptions& options = {});
/// Nothing: it would have to wait for one of them.
[[nodiscard]] Task<std::optional<std::vector<DurableHold>>> try_acquire_all(
    std::vector<DurableRequest> requests, const AcquireOptions& options = {});

/// The durable locks of a store, as one session uses them.
///
/// ```
/// auto store = open_store("sqlite:/var/lib/app/state.db");
/// auto session = co_await Session::open(*store);
/// Gates gates(*session);
/// DurableSemaphore gpus = gates.semaphore("gpus", 4);
/// ```
///
/// A lock that is asked for again by its name is the same one. The session outlives this, and this
/// all holds and tasks that wait. Thread-safe.
class Gates {
 public:
  /// What has to be done meanwhile, such as to see who has died, is done on a thread of its own, or
  /// on `executor`, which outlives this.
  explicit Gates(Session& session, Executor* executor = nullptr);
  Gates(const Gates&) = delete;
  Gates& operator=(const Gates&) = delete;
  ~Gates();

  [[nodiscard]] DurableMutex mutex(std::string_view name);
  [[nodiscard]] DurableSemaphore semaphore(std::string_view name, std::uint64_t capacity);
  [[nodiscard]] DurableSharedMutex shared_mutex(std::string_view name,
                                                std::uint64_t readers_max = kGateReadersMax);
  /// Whatever can be said of one.
  [[nodiscard]] DurableSemaphore gate(std::string_view name, const GateDefinition& definition);

 private:
  std::shared_ptr<detail::GateRooms> rooms_;
};

}  // namespace holdfast
