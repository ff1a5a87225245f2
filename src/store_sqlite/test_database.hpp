// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <optional>
#include <string>

#include "store_sqlite/page_checksums.hpp"

namespace holdfast::testing {

/// A raw connection. Results are SQLite's extended codes.
class TestDatabase {
 public:
  static constexpr int kCreate = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;

  TestDatabase(const std::string& path, const std::string& vfs, int flags = kCreate)
      : opened_(sqlite3_open_v2(path.c_str(), &db_, flags, vfs.empty() ? nullptr : vfs.c_str())) {
    sqlite3_extended_result_codes(db_, 1);
  }
  TestDatabase(const TestDatabase&) = delete;
  TestDatabase& operator=(const TestDatabase&) = delete;
  ~TestDatabase() { sqlite3_close_v2(db_); }

  [[nodiscard]] int opened() const { return opened_; }
  [[nodiscard]] sqlite3* get() const { return db_; }
  [[nodiscard]] bool in_transaction() const { return sqlite3_get_autocommit(db_) == 0; }

  int run(const std::string& sql) {
    return sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr);
  }

  /// All values of all rows, with a blank behind each, or nothing on an error: see `code`.
  std::optional<std::string> ask(const std::string& sql) {
    std::string answer;
    const auto append = [](void* out, int columns, char** values, char**) {
      for (int i = 0; i < columns; ++i) {
        static_cast<std::string*>(out)->append(values[i] == nullptr ? "null" : values[i]) += ' ';
      }
      return 0;
    };
    return sqlite3_exec(db_, sql.c_str(), append, &answer, nullptr) == SQLITE_OK
               ? std::optional(answer)
               : std::nullopt;
  }
  [[nodiscard]] int code() const { return sqlite3_extended_errcode(db_); }

  /// As a store has to be created: see `page_checksum_vfs`.
  int make_store(const std::string& synchronous = "EXTRA") {
    int reserved = detail::kChecksumBytes;
    const int result = sqlite3_file_control(db_, "main", SQLITE_FCNTL_RESERVE_BYTES, &reserved);
    return result != SQLITE_OK
               ? result
               : run("PRAGMA page_size = 4096; PRAGMA synchronous = " + synchronous +
                     "; BEGIN IMMEDIATE; PRAGMA application_id = " +
                     std::to_string(detail::kApplicationId) +
                     "; CREATE TABLE entries (key INTEGER PRIMARY KEY, value TEXT); COMMIT;"
                     "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
  }

 private:
  sqlite3* db_ = nullptr;
  int opened_;
};

}  // namespace holdfast::testing
