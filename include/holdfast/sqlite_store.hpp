// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include <holdfast/clock.hpp>
#include <holdfast/store.hpp>

namespace holdfast {

/// What survives what.
enum class Sync : std::uint8_t {
  kStrict,   ///< A commit that returned survives a kill, a crash of the system and a power cut.
  kRelaxed,  ///< It survives a kill. A power cut may take the last commits back, the newest first;
             ///< it never damages the store, and no version is given twice.
};

struct SqliteOptions {
  Sync sync = Sync::kStrict;
  /// How long another process may keep this one from writing before that is a `StoreBusy`.
  Duration busy_timeout = std::chrono::seconds(5);
  Clock* clock = nullptr;  ///< Null: real time.
  bool create = true;      ///< False: a store that is not there is a `NoSuchStore`.
};

/// Opens the store in the SQLite file `path`, or makes it, with mode 0600; its folder must exist.
///
/// ```
/// auto store = open_sqlite_store("/var/lib/app/state.db");
/// ```
///
/// Safe for any number of processes of one host, on a local file system. Beside the file there are
/// PATH-wal, PATH-shm and PATH-hold; they belong together. Reads may take a look at the disk in the
/// calling thread; commits are made by a thread of the store's own.
///
/// Throws `InvalidArgument` if there cannot be a store at `path`, `NoAccess` if this user may not
/// use it, `NoSuchStore`, `NotAStore`, `NewerFormat`, `StoreCorrupt`, `StoreBusy`, `StoreFull`.
[[nodiscard]] std::unique_ptr<Store> open_sqlite_store(const std::filesystem::path& path,
                                                       const SqliteOptions& options = {});

}  // namespace holdfast
