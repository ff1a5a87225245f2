// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>

#include <holdfast/clock.hpp>
#include <holdfast/store.hpp>

namespace holdfast {

struct FileOptions {
  /// How long others may be in the way before that is a `StoreBusy`.
  Duration busy_timeout = std::chrono::seconds(5);
  /// Null: a `SystemClock` of its own. Otherwise it outlives the store.
  Clock* clock = nullptr;
  bool create = true;  ///< False: a store that is not there is a `NoSuchStore`.
};

/// Opens the store in `folder`, one readable JSON file an entry, or makes one: in a folder that is
/// empty, or that does not exist but could, in one that does.
///
/// ```
/// auto store = open_file_store("/var/lib/app/state");
/// Batch batch;
/// batch.put("greeting", "hello");
/// const CommitOutcome outcome = co_await store->commit(std::move(batch));
/// // /var/lib/app/state/entries/greeting.json has it now.
/// ```
///
/// Durable, atomic, shared by the processes of one host, and notifying; it needs a local file
/// system. For small state: a scan lists all keys there are, whatever it asks for, and each key of
/// a commit is a file to sync, so it is meant for some thousands of keys. The files are for
/// reading: one that is changed by hand is `StoreCorrupt`.
///
/// Throws `InvalidArgument` if there cannot be a store in the folder, also if others may write to
/// it, `NoAccess` if this user may not, or it belongs to somebody else; `NoSuchStore`, `NotAStore`
/// if there are other things in it, `NewerFormat`, `StoreCorrupt`, `StoreFull`, `StoreBusy` or
/// `StoreFailed`.
[[nodiscard]] std::unique_ptr<Store> open_file_store(const std::filesystem::path& folder,
                                                     const FileOptions& options = {});

}  // namespace holdfast
