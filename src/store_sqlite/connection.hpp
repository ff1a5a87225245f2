// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::detail {

/// A connection to an SQLite database. What goes wrong is thrown as an error of ours that names the
/// file, what was being done, and what SQLite says. For one thread at a time.
class Connection {
 public:
  /// `flags` as of sqlite3_open_v2(); an empty `vfs` is SQLite's default.
  Connection(const std::string& path, const std::string& vfs, int flags);

  void run(const char* sql);
  /// The first column of the first row; nothing if there is no row.
  [[nodiscard]] std::optional<std::int64_t> query(const char* sql);
  [[nodiscard]] std::string query_text(const char* sql);

  [[nodiscard]] sqlite3* handle() const noexcept { return handle_.get(); }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

  /// Throws unless `code` is a success.
  void check(int code, std::string_view doing) const;
  /// The error that `code` stands for.
  [[noreturn]] void raise(int code, std::string_view doing) const;

 private:
  struct Close {
    void operator()(sqlite3* handle) const noexcept;
  };

  std::string path_;
  std::unique_ptr<sqlite3, Close> handle_;
};

/// A prepared statement, made once and used often.
class Statement {
 public:
  Statement(Connection& connection, const char* sql);

  /// The bytes are not copied: they must live until the statement is reset.
  Statement& bind(int index, std::string_view bytes);
  Statement& bind(int index, std::int64_t number);
  Statement& bind_text(int index, std::string_view text);

  /// True: there is a row. False: it is done, and reset.
  [[nodiscard]] bool step();
  /// Passes over the rest. What a statement that gives rows changes, such as the journal mode, is
  /// committed at its end, and only there it can fail.
  void finish();
  /// Runs a statement that gives no rows.
  void run();
  void reset() noexcept;

  [[nodiscard]] std::int64_t number(int column) const noexcept;
  /// Until the next step.
  [[nodiscard]] std::string_view bytes(int column) const noexcept;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const noexcept { sqlite3_finalize(statement); }
  };

  Connection& connection_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

/// Resets a statement at the end of a block, whatever happens in it.
class ResetAfterUse {
 public:
  explicit ResetAfterUse(Statement& statement) noexcept : statement_(statement) {}
  ResetAfterUse(const ResetAfterUse&) = delete;
  ResetAfterUse& operator=(const ResetAfterUse&) = delete;
  ~ResetAfterUse() { statement_.reset(); }

 private:
  Statement& statement_;
};

}  // namespace holdfast::detail
