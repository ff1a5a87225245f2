// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <holdfast/detail/check.hpp>
#include <holdfast/store.hpp>

namespace holdfast::detail {

/// What a transaction makes of a key. Points into the committer's memory.
struct Change {
  std::string_view key;
  std::optional<std::string_view> value;  ///< Nothing: erase it.
  Version version = 0;
  bool must_be_new = false;  ///< If the disk has it, nothing is written: `StoreBusy`.
};

/// A disk as the committer knows it. What it throws says what happened: `StoreBusy`, `StoreFull`
/// and `StoreCorrupt` nothing; all else that it may have.
class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  [[nodiscard]] virtual const std::string& url() const noexcept = 0;
  [[nodiscard]] virtual const Capabilities& capabilities() const noexcept = 0;
  [[nodiscard]] virtual Clock& clock() noexcept = 0;

  // Writing, by the committer's thread alone.

  struct Turn {
    Version last;  ///< Of the last commit of anyone, and so of this process the next is above.
    bool others_wrote = false;  ///< Since the last turn of this process.
  };
  /// Keeps all others from writing until `end_turn`. Nothing if that cannot be before `until` (of
  /// MonotonicTime), or after `interrupt`.
  [[nodiscard]] virtual std::optional<Turn> begin_turn(TimePoint until) = 0;
  virtual void end_turn() noexcept = 0;
  /// During a turn: someone waits for its end.
  [[nodiscard]] virtual bool turn_wanted() noexcept = 0;
  /// During a turn: nobody else has the store open. False also if that is not known.
  [[nodiscard]] virtual bool is_alone() noexcept { return false; }
  struct Found {
    std::optional<Entry> entry;
    /// If there is none: the next key that there is, or nothing if there is none behind it. Not
    /// `next_known`: that was not looked for.
    std::optional<std::string> next;
    bool next_known = false;
  };
  /// During a turn: what the disk has.
  [[nodiscard]] virtual Found read(std::string_view key) = 0;
  /// During a turn: adds to the transaction, which begins with the first one. Of two changes of a
  /// key the later one counts. They stay where they are until `commit` has returned.
  virtual void write(std::span<const Change> changes) = 0;
  /// Whether `write` heeds `Change::must_be_new`.
  [[nodiscard]] virtual bool checks_what_must_be_new() const noexcept { return false; }
  /// During a turn, before anything is written: begins the transaction, and calls `work` in it for
  /// statements of the caller. `write` and `commit` go on with it, or `roll_back` ends it. If
  /// `work` throws, that is thrown on, and the transaction is over; `TransactionRefused` likewise.
  /// Only if the store is `sql`.
  virtual void transact(const std::function<void(Transaction&)>& work) {
    static_cast<void>(work);
    HOLDFAST_CHECK(false, "a backend without SQL was asked for a transaction");
  }
  virtual void roll_back() noexcept {}
  /// What a transaction costs however small it is, and what each key adds.
  struct Cost {
    Duration of_sync{};
    Duration of_key{};
  };
  /// Ends the transaction: all of it or nothing, durable on return. `last` is the version of its
  /// last batch. If this or `write` throws, the transaction is over.
  virtual Cost commit(Version last) = 0;
  /// During a turn: tells other processes of what was committed.
  virtual void announce(Version last, std::span<const std::string_view> keys) noexcept = 0;
  /// From any thread: the store is being closed, so end what waits for others.
  virtual void interrupt() noexcept = 0;

  // Reading what is durable, by any thread.

  [[nodiscard]] virtual std::optional<Entry> get(std::string_view key) = 0;

  class Snapshot {
   public:
    Snapshot() = default;
    Snapshot(const Snapshot&) = delete;
    Snapshot& operator=(const Snapshot&) = delete;
    virtual ~Snapshot() = default;
    /// Keys with `prefix` behind `after`.
    [[nodiscard]] virtual Page scan(std::string_view prefix, std::string_view after,
                                    std::size_t limit) = 0;
  };
  /// The state as of now.
  [[nodiscard]] virtual std::unique_ptr<Snapshot> snapshot() = 0;

  [[nodiscard]] virtual StoreTime time() = 0;
  [[nodiscard]] virtual CheckReport check() = 0;
  [[nodiscard]] virtual StoreStats stats() = 0;
  virtual BackupReport backup(const std::filesystem::path& target) = 0;

  /// Calls back, on a thread of its own and until it is destroyed, with keys that other processes
  /// changed, or with nothing when anything may have changed.
  using OnNews = std::function<void(std::span<const std::string> keys)>;
  virtual void listen(OnNews on_news) = 0;
};

/// How many versions a process sets aside at a time, durably, before it gives the first of them.
inline constexpr Version kVersionBlock = Version{1} << 20U;
/// How far a backup's versions go on above those of the original.
inline constexpr Version kBackupLeap = Version{1} << 32U;

/// How many bytes of entries a page has at most, but for the last entry.
inline constexpr std::size_t kPageBytesMax = std::size_t{16} << 20;

}  // namespace holdfast::detail
