// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sqlite3.h>

namespace holdfast::detail {

/// Of a file object, without that of the base, which lies behind it.
[[nodiscard]] int gathered_log_bytes() noexcept;

/// Opens a write-ahead log of the VFS `under`, and gathers what a transaction adds to it: SQLite
/// writes each page in two pieces, and a call for each of them takes longer than all else that it
/// does for the page.
///
/// A piece is kept back only if SQLite has to write more before anybody may read the transaction,
/// or make it durable: the piece that ends one goes to the base with all that was kept, and so does
/// any other that is not known to be a part of one.
///
/// The file grows ahead of what is written, by zeros, which SQLite takes for the end of the log: a
/// sync of a file that has grown takes twice as long as one that was written over.
int open_gathered_log(sqlite3_vfs& under, const char* name, sqlite3_file* opened, int flags,
                      int* out_flags);

}  // namespace holdfast::detail
