// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/temp_folder.hpp"
#include "process.hpp"

namespace holdfast::servers {

/// An empty PostgreSQL behind a Unix socket. It does not sync: for tests without power cuts. As
/// root it runs as the user postgres, as it refuses to run as root.
class PostgresServer {
 public:
  /// Each of `settings` as in postgresql.conf: "lock_timeout=5s".
  explicit PostgresServer(const std::vector<std::string>& settings = {});

  /// For PQconnectdb and psql.
  [[nodiscard]] std::string connection_text() const;

 private:
  testing::TempFolder folder_;
  std::optional<Process> process_;
};

}  // namespace holdfast::servers
