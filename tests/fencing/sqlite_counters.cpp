// SPDX-License-Identifier: Apache-2.0
#include "sqlite_counters.hpp"

#include <holdfast/fencing.hpp>

#include "database_error.hpp"

namespace holdfast::fencing {

namespace {

class Statement {
 public:
  Statement(sqlite3* connection, std::string_view text) : connection_(connection) {
    check(sqlite3_prepare_v2(connection, text.data(), static_cast<int>(text.size()), &statement_,
                             nullptr));
  }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement() { sqlite3_finalize(statement_); }

  Statement& bind(int place, const std::string& value) {
    check(sqlite3_bind_text(statement_, place, value.c_str(), -1, SQLITE_TRANSIENT));
    return *this;
  }
  Statement& bind(int place, std::int64_t value) {
    check(sqlite3_bind_int64(statement_, place, value));
    return *this;
  }
  bool step() {
    const int code = sqlite3_step(statement_);
    if (code != SQLITE_ROW && code != SQLITE_DONE) {
      check(code);
    }
    return code == SQLITE_ROW;
  }
  std::int64_t number() { return sqlite3_column_int64(statement_, 0); }
  std::string text() {
    const int size = sqlite3_column_bytes(statement_, 0);
    return {static_cast<const char*>(sqlite3_column_blob(statement_, 0)),
            static_cast<std::size_t>(size)};
  }

 private:
  void check(int code) const {
    if (code != SQLITE_OK) {
      throw DatabaseError(sqlite3_errmsg(connection_),
                          std::to_string(sqlite3_extended_errcode(connection_)));
    }
  }
  sqlite3* connection_;
  sqlite3_stmt* statement_ = nullptr;
};

// [sqlite]
/// A transaction of the holder of a lock; rolled back if it is not committed.
class FencedTransaction {
 public:
  FencedTransaction(sqlite3* connection, const std::string& resource, std::uint64_t fence)
      : connection_(connection) {
    Statement(connection_, "BEGIN IMMEDIATE").step();
    try {
      Statement present(connection_, kSqlitePresentFence);
      present.bind(1, resource).bind(2, static_cast<std::int64_t>(fence)).step();
    } catch (...) {
      roll_back();
      throw;
    }
  }
  FencedTransaction(const FencedTransaction&) = delete;
  FencedTransaction& operator=(const FencedTransaction&) = delete;
  ~FencedTransaction() { roll_back(); }
  void commit() { Statement(connection_, "COMMIT").step(); }

 private:
  void roll_back() noexcept {
    if (sqlite3_get_autocommit(connection_) == 0) {
      sqlite3_exec(connection_, "ROLLBACK", nullptr, nullptr, nullptr);
    }
  }
  sqlite3* connection_;
};
// [sqlite]

}  // namespace

SqliteCounters::SqliteCounters(const std::string& path) {
  sqlite3* opened = nullptr;
  const int code = sqlite3_open(path.c_str(), &opened);
  connection_.reset(opened);
  if (code != SQLITE_OK) {
    throw DatabaseError("cannot open " + path);
  }
  sqlite3_busy_timeout(connection_.get(), 50'000);
  run("PRAGMA synchronous = OFF");
}

std::int64_t SqliteCounters::read(const std::string& counter, std::uint64_t fence) {
  FencedTransaction transaction(connection_.get(), counter, fence);
  const std::int64_t value = read_unguarded(counter);
  transaction.commit();
  return value;
}

void SqliteCounters::write(const std::string& counter, std::uint64_t fence, std::int64_t value) {
  FencedTransaction transaction(connection_.get(), counter, fence);
  Statement put(connection_.get(), "INSERT OR REPLACE INTO counters VALUES (?1, ?2)");
  put.bind(1, counter).bind(2, value).step();
  transaction.commit();
}

std::int64_t SqliteCounters::read_unguarded(const std::string& counter) {
  Statement get(connection_.get(), "SELECT value FROM counters WHERE name = ?1");
  return get.bind(1, counter).step() ? get.number() : 0;
}

void SqliteCounters::present_text(const std::string& counter, const std::string& fence) {
  Statement present(connection_.get(), kSqlitePresentFence);
  present.bind(1, counter).bind(2, fence).step();
}

std::optional<std::string> SqliteCounters::fence_of(const std::string& counter) {
  const auto rows = run("SELECT fence FROM holdfast_fences WHERE resource = ?1", {counter});
  return rows.empty() ? std::nullopt : std::optional(rows.front());
}

std::vector<std::string> SqliteCounters::run(const std::string& statement,
                                             const std::vector<std::string>& values) {
  Statement running(connection_.get(), statement);
  for (std::size_t i = 0; i < values.size(); ++i) {
    running.bind(static_cast<int>(i) + 1, values[i]);
  }
  std::vector<std::string> rows;
  while (running.step()) {
    rows.push_back(running.text());
  }
  return rows;
}

SqliteDatabase::SqliteDatabase() {
  SqliteCounters first(address());
  first.run("PRAGMA journal_mode = WAL");
  first.run("CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER)");
  first.run(std::string(kSqliteFenceTable));
}

}  // namespace holdfast::fencing
