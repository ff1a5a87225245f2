// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace holdfast::detail {

/// A store's pages, and what is reserved at the end of each for its checksum.
inline constexpr int kPageBytes = 4096;
inline constexpr int kChecksumBytes = 8;

/// `PRAGMA application_id` of a store: "Hold".
inline constexpr std::uint32_t kApplicationId = 0x486f6c64;

/// Makes SQLite notice bytes of a database file that are not what it wrote.
///
/// Registers, once per base, a VFS over `base_vfs` (empty: SQLite's default) and returns its name,
/// "holdfast" or "holdfast-<base>". Each page of a store ends in a hash of its number and its
/// bytes; a page that does not match fails the read with SQLITE_IOERR_DATA. Thread-safe. The base
/// stays registered for as long as the name is used. Throws `InvalidArgument` if there is none.
///
/// The WAL is not covered. After a crash SQLite takes the first frame that does not match for the
/// end of the WAL and says nothing; and while it is in use, a checkpoint copies a frame that was
/// damaged, and seals it. Checkpoint often, and know which commit has to be there.
///
/// Only a database of ours is covered: an empty file, or one with our application id. Create it
/// with a page size of `kPageBytes`, SQLITE_FCNTL_RESERVE_BYTES of `kChecksumBytes`, and the
/// application id set in its very first transaction, before it goes to WAL: what lies between would
/// be taken for a foreign database. Any other is read and written as it is. Writing a store through
/// another VFS, as the sqlite3 shell does, leaves pages that no longer match.
[[nodiscard]] std::string page_checksum_vfs(const std::string& base_vfs);

/// Whether the main database of `db` is taken for a store of ours. It is decided on the first use
/// of a page.
[[nodiscard]] bool has_page_checksums(sqlite3* db);

/// The number, counted from 1 as SQLite does, of the page on which `db` last got SQLITE_IOERR_DATA.
[[nodiscard]] std::optional<std::uint64_t> damaged_page(sqlite3* db);

/// Reads all pages of the database file, those too that hold nothing at present, and returns those
/// that do not match. Checkpoint everything before: after a crash a page may be torn, soundly, that
/// is whole in the WAL. Nobody may write or checkpoint meanwhile. Empty for a foreign database.
[[nodiscard]] std::vector<std::uint64_t> find_damaged_pages(sqlite3* db);

}  // namespace holdfast::detail
