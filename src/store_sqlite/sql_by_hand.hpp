// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

/// SQL of a caller, for tests.
namespace holdfast::testing {

inline void run_sql(sqlite3* db, const std::string& sql) {
  if (sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    throw std::runtime_error(sqlite3_errmsg(db));
  }
}

/// The first column of the first row.
inline std::int64_t ask_sql(sqlite3* db, const std::string& sql) {
  sqlite3_stmt* prepared = nullptr;
  const int code = sqlite3_prepare_v2(db, sql.c_str(), -1, &prepared, nullptr);
  const std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)> statement(prepared,
                                                                             &sqlite3_finalize);
  if (code != SQLITE_OK || sqlite3_step(prepared) != SQLITE_ROW) {
    throw std::runtime_error(sqlite3_errmsg(db));
  }
  return sqlite3_column_int64(prepared, 0);
}

}  // namespace holdfast::testing
