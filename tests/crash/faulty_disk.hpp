// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace holdfast::testing {

/// What can go wrong with an operation while the machine lives.
enum class Fault : std::uint8_t {
  kWriteError,      ///< EIO of a write, truncate, create or delete; a write may be done in part.
  kFull,            ///< ENOSPC, once, of a write that makes a file longer, or of a create.
  kFullUntilFreed,  ///< The same for each of them until `free_space`.
  kSyncError,       ///< What was to be synced may be lost for good, whatever later syncs say.
  kReadError,       ///< EIO of a read.
};

/// A disk in memory for SQLite, which can lose what was not synced.
///
/// It is a VFS of its own name, and outlives the connections to it. The model: a sync makes the
/// file's content durable, and that it exists; a deletion is durable if SQLite asks for a sync of
/// the folder. All else is up to the seed when the machine dies. Each create, write, truncate, sync
/// and delete is an I/O point, numbered from 0; temporary files have none. SQLite's own randomness
/// does not come from here: see `seed_sqlite`.
///
/// Thread-safe. Connections may share files from several threads. SQLite's sleeps
/// take a millisecond at most.
class FaultyDisk {
 public:
  /// Files and their bytes, by name.
  using Image = std::map<std::string, std::string>;

  explicit FaultyDisk(std::uint64_t seed);
  FaultyDisk(const FaultyDisk&) = delete;
  FaultyDisk& operator=(const FaultyDisk&) = delete;
  /// All connections must be closed.
  ~FaultyDisk();

  [[nodiscard]] const std::string& vfs_name() const;

  /// A new disk with these files, all durable, under the same name. Old handles are dead.
  void reset(std::uint64_t seed, const Image& files = {});

  // Plans, by the number of an I/O point; `io_points()` is the next one.

  [[nodiscard]] std::uint64_t io_points() const;
  /// Makes each read an I/O point too.
  void count_reads(bool count);
  /// The machine dies in the middle of that operation: it may or may not have happened, a write
  /// also in part. It and all after it fail, until `crash`.
  void crash_at(std::uint64_t io_point);
  /// Fails the first operation, from that point on, to which the fault can happen.
  void fail_at(std::uint64_t io_point, Fault fault);
  /// How many faults there were, by plan or for want of space.
  [[nodiscard]] std::uint64_t faults() const;
  /// Whether `crash_at` has come to pass.
  [[nodiscard]] bool is_dead() const;

  /// No file can grow beyond it, all together. None by default.
  void set_capacity(std::optional<std::size_t> bytes);
  void free_space();

  /// A disk that lies: syncs succeed and make nothing durable. Until `reset`.
  void ignore_syncs(bool ignore);

  // Deaths.

  /// The machine dies, unless it has already, and comes up again with what the seed lets survive.
  /// Plans are gone; handles that are open go on failing. Close them before files are used again.
  void crash();
  /// The process dies: handles go on failing and locks are gone, but all that was written is seen.
  /// Plans are gone. After `crash_at` has come to pass it was the process that died there.
  void kill();

  // The files as a process sees them.

  [[nodiscard]] Image files() const;
  [[nodiscard]] std::optional<std::string> bytes_of(const std::string& name) const;
  /// What a crash cannot take back.
  [[nodiscard]] std::optional<std::string> durable_bytes_of(const std::string& name) const;
  /// Sets the file's bytes, durably. Not while a connection is in the middle of something.
  void set_bytes(const std::string& name, const std::string& bytes);

  struct State;  ///< For the functions that SQLite calls.

 private:
  std::unique_ptr<State> state_;
};

/// Makes what SQLite itself draws, such as the salts in a WAL, repeatable. Of the whole process.
void seed_sqlite(std::uint64_t seed);

}  // namespace holdfast::testing
