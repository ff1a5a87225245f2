// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>
#include <holdfast/executor.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/store.hpp>
#include <holdfast/task.hpp>

namespace holdfast {

namespace detail {
class Heartbeat;
}

/// The session is over, and all that hung on it: others may have it by now.
class SessionLost final : public detail::ErrorOf<ErrorCode::kSessionLost> {
  using ErrorOf::ErrorOf;
};

/// Trivially destructible on purpose, as `WaitOptions`. `name` is copied at the call.
struct SessionOptions {
  /// How long the session outlives its last renewal: above zero, at most a day. It is renewed three
  /// times as often.
  Duration ttl = std::chrono::seconds(30);
  /// For people, up to 256 bytes. Empty: the name of the program and its process id.
  std::string_view name{};
  /// Where the heartbeat runs. Null: on two threads of its own, so that a busy executor cannot
  /// starve it, nor a store that hangs hold up the deadlines. Otherwise it is as punctual as this
  /// executor, which outlives the session.
  Executor* executor = nullptr;
  /// For a simulation: the same seed makes the same id and the same jitter. Zero: random.
  std::uint64_t seed = 0;
};

enum class SessionState : std::uint8_t {
  kLive,    ///< Renewed in time.
  kAtRisk,  ///< No renewal for two thirds of the ttl: the store is slow, or cannot be reached. It
            ///< may come to be live again. Finish, or do nothing that takes long.
  kLost,    ///< Over, for ever.
};

/// Why a session is over.
enum class SessionLoss : std::uint8_t {
  kDeposed,      ///< The store says so: the row is gone, or has expired.
  kUnreachable,  ///< Nobody could be asked in time. Becomes `kDeposed` if the store says so later.
  kClosed,       ///< It was closed here.
};

/// A live process, known to the store by one row that it keeps fresh. What the process holds and
/// waits for hangs on it.
///
/// ```
/// auto session = co_await Session::open(*store, {.ttl = 10s});
/// auto work = spawn(pool, serve(), {}, session->lost_token());  // Stopped by a loss.
/// ...
/// co_await session->close();  // Nobody has to wait for its expiry.
/// ```
///
/// Counted as a lease is: from before a renewal was sent, less one part in `kLeaseDriftParts`. So
/// while `valid()` says yes, nobody else can have declared the session dead, if no clock runs
/// faster than another by more than that. For what must not happen even then, or after the answer
/// was given, let the store decide: `commit`.
///
/// Thread-safe, but for `close` and the destructor. The store outlives the session, and, if the
/// session has an executor that is driven by hand, what is left of its tasks there.
///
/// Tokens are stopped on the heartbeat's executor, or by whoever closes the session, and never
/// under a lock: callbacks may ask the session anything, but must not destroy it.
class Session {
 public:
  /// Makes the row. Throws `InvalidArgument` before anything is written, `Unsupported` if the store
  /// is not atomic, and what `Store::commit` throws.
  [[nodiscard]] static Task<std::unique_ptr<Session>> open(Store& store,
                                                           const SessionOptions& options = {});

  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  /// Ends the heartbeat, and waits for a renewal that is under way, unless the executor was given.
  /// The row is left to expire: to erase it, a destructor would have to wait for the store, perhaps
  /// in the middle of an exception, and could not say that it failed.
  ~Session();

  [[nodiscard]] Store& store() const noexcept;
  /// 32 hexadecimal digits, sorted by the store's time of opening. No other session ever has it.
  [[nodiscard]] const std::string& id() const noexcept;
  [[nodiscard]] const std::string& name() const noexcept;
  /// Of its row.
  [[nodiscard]] const std::string& key() const noexcept;
  /// Of its row, as far as is known here. Each renewal makes a new one, so a guard on it may fail
  /// though the session lives: `commit` knows the difference.
  [[nodiscard]] Version version() const;

  [[nodiscard]] SessionState state() const;
  /// Nothing while it is not lost.
  [[nodiscard]] std::optional<SessionLoss> loss() const;
  /// Until when it counts if nothing comes in between, by the store's `clock()`.
  [[nodiscard]] TimePoint valid_until() const;
  [[nodiscard]] bool valid(TimePoint now) const;
  [[nodiscard]] bool valid() const;
  /// Throws `SessionLost`, which says why, if it is.
  void check_alive() const;

  /// Stopped when the session is lost or closed.
  [[nodiscard]] std::stop_token lost_token() const;
  /// Stopped when the session comes to be at risk, is lost or closed. Once it is live again, there
  /// is a new one.
  [[nodiscard]] std::stop_token at_risk_token() const;

  /// Commits on condition that this session is not over for the store: `Fenced`, with `key()`, if
  /// it is. Throws `SessionLost` if that is known already.
  [[nodiscard]] Task<CommitOutcome> commit(Batch batch);

  /// Ends the heartbeat and erases the row. From the call on the session is lost. If it throws, as
  /// `Store::commit` does, the row is left to expire, and the call may be repeated; when it was
  /// closed it does nothing. For one task at a time.
  [[nodiscard]] Task<void> close();

 private:
  Session(std::shared_ptr<detail::Heartbeat> heartbeat, Executor* executor);
  [[nodiscard]] static Task<std::unique_ptr<Session>> start(
      Task<std::shared_ptr<detail::Heartbeat>> begun, Executor* executor);
  void end_heartbeat();
  [[nodiscard]] Task<void> erase_row();

  std::shared_ptr<detail::Heartbeat> heartbeat_;
  std::unique_ptr<ThreadPool> own_threads_;
  std::optional<Spawned<void>> beating_;
  std::optional<Spawned<void>> watching_;
  bool erased_ = false;
};

/// A session as all can see it.
struct SessionInfo {
  std::string id;
  std::string name;
  std::string host;
  std::uint32_t pid = 0;
  StoreTime began{};
  StoreTime expires{};
  bool live = false;  ///< False: it has expired, and nobody has buried it yet.
};

/// All that have a row, the oldest first. Throws `StoreCorrupt` or `NewerFormat` if one of the rows
/// cannot be read.
[[nodiscard]] Task<std::vector<SessionInfo>> list_sessions(Store& store);

/// Erases the rows of sessions that have expired; how many. Any number of processes may do so at
/// once: each row is buried, and counted, by one of them. A row that cannot be read is none that
/// has expired: it is left, the others are seen to, and then `StoreCorrupt` or `NewerFormat` is
/// thrown.
[[nodiscard]] Task<std::size_t> bury_expired(Store& store);

}  // namespace holdfast
