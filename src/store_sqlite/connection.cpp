// SPDX-License-Identifier: Apache-2.0
#include "connection.hpp"

#include <cerrno>

#include <holdfast/detail/check.hpp>
#include <holdfast/store_error.hpp>

#include "page_checksums.hpp"

namespace holdfast::detail {

namespace {

std::string damaged_page_text(sqlite3* handle) {
  const auto page = damaged_page(handle);
  return page ? "page " + std::to_string(*page) + " is damaged: " : std::string{};
}

/// Whether a file could not be made, or not be given its size, for want of space. Of a failed sync
/// that does not count: nobody knows what it left.
bool is_want_of_space(int code, sqlite3* handle) {
  const bool nothing_written = (code & 0xff) == SQLITE_CANTOPEN || code == SQLITE_IOERR_SHMSIZE ||
                               code == SQLITE_IOERR_SHMOPEN || code == SQLITE_IOERR_SHMMAP;
  const int error = nothing_written && handle != nullptr ? sqlite3_system_errno(handle) : 0;
  return error == ENOSPC || error == EDQUOT;
}

}  // namespace

void Connection::Close::operator()(sqlite3* handle) const noexcept {
  if (sqlite3_close(handle) == SQLITE_OK) {
    return;
  }
  // Statements that a caller of `transact` has left. With all finalized this cannot fail; a zombie
  // would keep its locks.
  while (sqlite3_stmt* const left = sqlite3_next_stmt(handle, nullptr)) {
    sqlite3_finalize(left);
  }
  HOLDFAST_CHECK(sqlite3_close(handle) == SQLITE_OK, "an SQLite connection was closed in use");
}

Connection::Connection(const std::string& path, const std::string& vfs, int flags) : path_(path) {
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &handle, flags | SQLITE_OPEN_NOMUTEX,
                                   vfs.empty() ? nullptr : vfs.c_str());
  handle_.reset(handle);
  check(code, "opening it");
  sqlite3_extended_result_codes(handle, 1);
}

void Connection::raise(int code, std::string_view doing) const {
  std::string text = path_;
  text.append(": ").append(doing).append(": ");
  const int extended = handle_ ? sqlite3_extended_errcode(handle_.get()) : code;
  if (handle_ && (extended & 0xff) == (code & 0xff)) {
    code = extended;
  }
  const std::string said =
      handle_ ? std::string(sqlite3_errmsg(handle_.get())) : std::string(sqlite3_errstr(code));
  const std::string number = " (SQLite error " + std::to_string(code) + ")";
  switch (is_want_of_space(code, handle_.get()) ? SQLITE_FULL : code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      throw StoreBusy(text + "another process is in the way: " + said + number + "; try again");
    case SQLITE_FULL:
      throw StoreFull(text +
                      "no space left on the disk; nothing was changed. Free some, and try again" +
                      number);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      throw StoreCorrupt(text + said + number + ". Restore a backup");
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_AUTH:
      throw NoAccess(text + said + number +
                     "; check that the file and its folder can be read and written");
    default:
      break;
  }
  if (code == SQLITE_IOERR_DATA || code == SQLITE_IOERR_CORRUPTFS) {
    throw StoreCorrupt(text + damaged_page_text(handle_.get()) + said + number +
                       ". Restore a backup");
  }
  throw StoreFailed(text + said + number);
}

void Connection::check(int code, std::string_view doing) const {
  if (code != SQLITE_OK && code != SQLITE_DONE && code != SQLITE_ROW) {
    raise(code, doing);
  }
}

void Connection::run(const char* sql) {
  check(sqlite3_exec(handle_.get(), sql, nullptr, nullptr, nullptr), sql);
}

std::optional<std::int64_t> Connection::query(const char* sql) {
  Statement statement(*this, sql);
  if (!statement.step()) {
    return std::nullopt;
  }
  const std::int64_t number = statement.number(0);
  statement.finish();
  return number;
}

std::string Connection::query_text(const char* sql) {
  Statement statement(*this, sql);
  if (!statement.step()) {
    return {};
  }
  std::string text(statement.bytes(0));
  statement.finish();
  return text;
}

Statement::Statement(Connection& connection, const char* sql) : connection_(connection) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(connection.handle(), sql, -1, SQLITE_PREPARE_PERSISTENT,
                                      &statement, nullptr);
  statement_.reset(statement);
  connection.check(code, sql);
}

Statement& Statement::bind(int index, std::string_view bytes) {
  // A null pointer would make it NULL.
  const char* data = bytes.empty() ? "" : bytes.data();
  connection_.check(sqlite3_bind_blob64(statement_.get(), index, data, bytes.size(), SQLITE_STATIC),
                    "binding");
  return *this;
}

Statement& Statement::bind(int index, std::int64_t number) {
  connection_.check(sqlite3_bind_int64(statement_.get(), index, number), "binding");
  return *this;
}

Statement& Statement::bind_text(int index, std::string_view text) {
  connection_.check(sqlite3_bind_text64(statement_.get(), index, text.data(), text.size(),
                                        SQLITE_STATIC, SQLITE_UTF8),
                    "binding");
  return *this;
}

bool Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) {
    return true;
  }
  if (code != SQLITE_DONE) {
    // The reset that follows an error says it again, and must come before the next use.
    const ResetAfterUse reset(*this);
    connection_.raise(code, sqlite3_sql(statement_.get()));
  }
  reset();
  return false;
}

void Statement::run() { HOLDFAST_CHECK(!step(), "a statement that should give no rows gave one"); }

void Statement::finish() {
  while (step()) {
  }
}

void Statement::reset() noexcept { sqlite3_reset(statement_.get()); }

std::int64_t Statement::number(int column) const noexcept {
  return sqlite3_column_int64(statement_.get(), column);
}

std::string_view Statement::bytes(int column) const noexcept {
  const auto* data = static_cast<const char*>(sqlite3_column_blob(statement_.get(), column));
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return {data == nullptr ? "" : data, static_cast<std::size_t>(size)};
}

}  // namespace holdfast::detail
