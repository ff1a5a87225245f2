// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include <holdfast/sqlite_store.hpp>

#include "connection.hpp"

namespace holdfast::detail {

/// Which file, through which VFS.
struct DatabaseFile {
  std::string path;
  std::string vfs;
};

inline constexpr int kSqliteFormat = 1;

/// A table of the store itself.
[[nodiscard]] bool is_own_table(const char* name) noexcept;

/// Settings of a connection that a caller could have changed.
void set_safety(sqlite3* connection) noexcept;

/// A connection for reading and writing with all settings made, to a store that exists.
[[nodiscard]] std::unique_ptr<Connection> connect(const DatabaseFile& file);

/// The same, for the first connection of a process: makes the store if the file is empty or does
/// not exist, and throws `NotAStore` or `NewerFormat` if it is something else. Only in a turn.
[[nodiscard]] std::unique_ptr<Connection> connect_or_create(const DatabaseFile& file);

/// Throws `NotAStore` or `NewerFormat` for a file that is no store we know, and leaves no trace of
/// having looked.
void refuse_foreign_database(const std::string& path);

/// A copy of the whole database as of one moment, synced, at `target`, which is an empty file.
/// Returns how many entries it has.
std::uint64_t copy_database(Connection& from, const DatabaseFile& target);

}  // namespace holdfast::detail
