// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <libpq-fe.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/servers/postgres_server.hpp"

namespace holdfast::fencing {

/// As `SqliteCounters`, in PostgreSQL.
class PostgresCounters {
 public:
  explicit PostgresCounters(const std::string& connection_text);

  std::int64_t read(const std::string& counter, std::uint64_t fence);
  void write(const std::string& counter, std::uint64_t fence, std::int64_t value);
  std::int64_t read_unguarded(const std::string& counter);
  void present_text(const std::string& counter, const std::string& fence);
  std::optional<std::string> fence_of(const std::string& counter);

  /// Presents a fence in the transaction that is open.
  void present(const std::string& resource, std::uint64_t fence);
  /// Writes in the transaction that is open.
  void put(const std::string& counter, std::int64_t value);
  /// The rows, of one column; of a command without rows what it answers. Throws `DatabaseError`.
  std::vector<std::string> run(const std::string& statement,
                               const std::vector<std::string>& values = {});
  [[nodiscard]] PGconn* connection() const noexcept { return connection_.get(); }

 private:
  struct Close {
    void operator()(PGconn* connection) const { PQfinish(connection); }
  };
  std::unique_ptr<PGconn, Close> connection_;
};

/// A server of its own.
class PostgresDatabase {
 public:
  using Counters = PostgresCounters;
  PostgresDatabase();
  [[nodiscard]] std::string address() const { return server_.connection_text(); }

 private:
  servers::PostgresServer server_;
};

}  // namespace holdfast::fencing
