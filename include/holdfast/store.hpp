// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <holdfast/batch.hpp>
#include <holdfast/capabilities.hpp>
#include <holdfast/clock.hpp>
#include <holdfast/commit_outcome.hpp>
#include <holdfast/store_error.hpp>
#include <holdfast/task.hpp>
#include <holdfast/transaction.hpp>
#include <holdfast/watch.hpp>

namespace holdfast {

/// Which state a read sees.
enum class Read : std::uint8_t {
  kDurable,  ///< What a crash cannot take back.
  kApplied,  ///< What the next batch is checked against: `apply` may be ahead of the disk.
};

/// Trivially destructible on purpose, as `WaitOptions`. `after` is copied at the call.
struct ScanOptions {
  std::string_view after{};   ///< Only keys behind this one.
  std::size_t limit = 1'000;  ///< At least 1.
  Read read = Read::kDurable;
};

/// Entries in the order of their keys' bytes.
struct Page {
  std::vector<Entry> entries;
  bool more = false;  ///< There are more behind the last one: go on with it as `after`.
};

/// Time by the store's own clock: the same for all its processes, never going back, whatever is
/// done to the clocks of the machine.
struct StoreClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<StoreClock>;
  static constexpr bool is_steady = true;
};
using StoreTime = StoreClock::time_point;

/// What `check` found.
struct CheckReport {
  std::uint64_t entries = 0;
  std::vector<std::string> faults;  ///< Each says where; none: the store is sound.
};

/// What `backup` copied.
struct BackupReport {
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;  ///< On disk.
};

struct StoreStats {
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;   ///< On disk, with everything that belongs to the store.
  Version last_version = 0;  ///< Of the last commit.
  std::uint32_t format = 0;
  std::string details;  ///< What this kind of store has to say, one `name: value` a line.
};

/// An ordered space of keys with one way to write: an atomic, conditional, durable commit.
///
/// ```
/// auto store = open_store("sqlite:/var/lib/app/state.db");
/// const auto entry = co_await store->get("counter");
/// Batch batch;
/// batch.require_version("counter", entry->version).put("counter", "43");
/// const CommitOutcome outcome = co_await store->commit(std::move(batch));
/// ```
///
/// Thread-safe. Keys and prefixes are bytes, compared as such; no byte is special. A key that is
/// empty or too long, and whatever else is over a limit, is an `InvalidArgument` at the call.
/// Any call may throw `StoreBusy`, `StoreCorrupt`, `StoreFull` or `StoreFailed`. Tasks that use a
/// store end before it.
class Store {
 public:
  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  virtual ~Store() = default;

  /// What it was opened as.
  [[nodiscard]] virtual const std::string& url() const noexcept = 0;
  [[nodiscard]] virtual const Capabilities& capabilities() const noexcept = 0;

  /// The entry, or nothing if there is none.
  [[nodiscard]] Task<std::optional<Entry>> get(std::string_view key, Read read = Read::kDurable);
  /// Entries whose keys begin with `prefix`, as of one moment.
  [[nodiscard]] Task<Page> scan(std::string_view prefix, const ScanOptions& options = {});

  /// Applies the batch, and returns when the outcome is durable. Batches in flight share one sync
  /// of the disk, and one that conflicts fails alone. A task that is stopped takes its batch back
  /// if nothing was decided yet (`Cancelled`: nothing happened); otherwise it gets the outcome.
  /// Throws `OutcomeUnknown` if the disk failed in the middle.
  [[nodiscard]] Task<CommitOutcome> commit(Batch batch);

  /// The same, but returns as soon as the outcome is decided, and a batch may build on it at once,
  /// at the speed of memory. Let nothing of it out of the process before `until_durable`: if the
  /// disk fails, or the process, it is lost with all that was built on it. Waits while too much is
  /// on its way to the disk.
  [[nodiscard]] Task<CommitOutcome> apply(Batch batch);
  /// The same, if it can be decided at once. Nothing: it was not applied, and `apply` is to be
  /// asked.
  [[nodiscard]] std::optional<CommitOutcome> try_apply(const Batch& batch);
  /// Returns when commit `version` is durable. Throws if it is lost: `StoreFull`, `StoreBusy` or
  /// `OutcomeUnknown`, as its `commit` would have. What was applied before it is durable as well,
  /// or was lost with an error of its own, as on a full disk: ask for each that matters.
  [[nodiscard]] Task<void> until_durable(Version version);
  /// Whether it is known to be, without waiting: false also if it is lost.
  [[nodiscard]] bool is_durable(Version version) { return do_is_durable(version); }

  /// Calls `work` in a transaction of the store's own database, so that its SQL and the batch that
  /// it returns happen together, or neither does; returns when the outcome is durable. If a
  /// condition of the batch does not hold, or `work` throws, all of it is taken back, and what was
  /// thrown is thrown here. `TransactionRefused`: the SQL did what it must not.
  ///
  /// ```
  /// const TransactionWork move = [](Transaction& transaction) {
  ///   sqlite3* db = sqlite_connection(transaction);
  ///   ...
  ///   return Batch().put("moved", "1");
  /// };
  /// const CommitOutcome outcome = co_await store->transact(move);
  /// ```
  ///
  /// `work` is called in the thread that makes all commits of this store, and other processes wait
  /// for it as well: let it be short, far below the ttl of sessions, and wait in it for nothing
  /// that commits to this store, as that would be for ever. What it reads is what was decided
  /// before it. Throws `Unsupported` if the store is not `sql`.
  [[nodiscard]] Task<CommitOutcome> transact(TransactionWork work);

  /// See `Watch`. It may outlive the store.
  [[nodiscard]] Watch watch(std::string_view prefix);

  /// Now, by the store's clock.
  [[nodiscard]] virtual Task<StoreTime> time() = 0;
  /// The same, if nobody has to be asked; nothing: `time` has to be awaited.
  [[nodiscard]] virtual std::optional<StoreTime> try_time() { return std::nullopt; }
  /// The clock of this process, on which leases are counted.
  [[nodiscard]] virtual Clock& clock() noexcept = 0;

  /// Reads everything, and says what is damaged. Changes nothing.
  [[nodiscard]] virtual Task<CheckReport> check() = 0;
  [[nodiscard]] virtual Task<StoreStats> stats() = 0;
  /// A copy as of one moment, while others read and write. Its versions go on far above those of
  /// the original, so that what was numbered after the backup is never numbered again. `target`
  /// must not exist.
  [[nodiscard]] virtual Task<BackupReport> backup(std::filesystem::path target) = 0;

 protected:
  struct Range {
    std::string prefix;
    std::string after;
    std::size_t limit;
  };
  enum class Wait : std::uint8_t { kForDecision, kForDisk };

 private:
  virtual Task<std::optional<Entry>> do_get(std::string key, Read read) = 0;
  virtual Task<Page> do_scan(Range range, Read read) = 0;
  virtual Task<CommitOutcome> do_commit(Batch batch, Wait wait) = 0;
  virtual std::optional<CommitOutcome> do_try_apply(const Batch& /*batch*/) { return std::nullopt; }
  /// Of a store that is `sql`.
  virtual Task<CommitOutcome> do_transact(TransactionWork work);
  virtual Task<void> do_until_durable(Version version) = 0;
  virtual bool do_is_durable(Version /*version*/) { return false; }
  virtual std::shared_ptr<detail::WatchedPrefix> do_watch(std::string prefix) = 0;
};

}  // namespace holdfast
