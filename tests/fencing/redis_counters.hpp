// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hiredis/hiredis.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/servers/redis_server.hpp"

namespace holdfast::fencing {

/// As `SqliteCounters`, in Redis.
class RedisCounters {
 public:
  /// A port of 127.0.0.1.
  explicit RedisCounters(const std::string& port);

  std::int64_t read(const std::string& counter, std::uint64_t fence);
  void write(const std::string& counter, std::uint64_t fence, std::int64_t value);
  std::int64_t read_unguarded(const std::string& counter);
  void present_text(const std::string& counter, const std::string& fence);
  std::optional<std::string> fence_of(const std::string& counter);

  /// One command that touches `key` alone, as the holder with this fence.
  std::optional<std::string> run_fenced(const std::string& key, const std::string& fence,
                                        const std::vector<std::string>& command);
  /// The answer; nothing for nil. Throws `DatabaseError`.
  std::optional<std::string> run(const std::vector<std::string>& command);

 private:
  struct Close {
    void operator()(redisContext* connection) const { redisFree(connection); }
  };
  std::unique_ptr<redisContext, Close> connection_;
};

/// A server of its own.
class RedisDatabase {
 public:
  using Counters = RedisCounters;
  [[nodiscard]] std::string address() const { return std::to_string(server_.port()); }

 private:
  servers::RedisServer server_;
};

}  // namespace holdfast::fencing
