// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/temp_folder.hpp"

namespace holdfast::fencing {

/// Counters in a SQLite database that check fences, as seen by one connection. A counter that was
/// never written is 0.
class SqliteCounters {
 public:
  explicit SqliteCounters(const std::string& path);

  std::int64_t read(const std::string& counter, std::uint64_t fence);
  void write(const std::string& counter, std::uint64_t fence, std::int64_t value);
  /// The trap: a read that presents nothing.
  std::int64_t read_unguarded(const std::string& counter);
  /// A fence as words, such as they come from an environment.
  void present_text(const std::string& counter, const std::string& fence);
  std::optional<std::string> fence_of(const std::string& counter);

  /// The rows, of one column. Throws `DatabaseError`.
  std::vector<std::string> run(const std::string& statement,
                               const std::vector<std::string>& values = {});
  [[nodiscard]] sqlite3* connection() const noexcept { return connection_.get(); }

 private:
  struct Close {
    void operator()(sqlite3* connection) const { sqlite3_close(connection); }
  };
  std::unique_ptr<sqlite3, Close> connection_;
};

/// A database in a file of its own.
class SqliteDatabase {
 public:
  using Counters = SqliteCounters;
  SqliteDatabase();
  [[nodiscard]] std::string address() const { return (folder_ / "counters.db").string(); }

 private:
  testing::TempFolder folder_;
};

}  // namespace holdfast::fencing
