// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store_sqlite/connection.hpp"
#include "tests/soak/report.hpp"

namespace holdfast::testing {

/// Who did it: a process, counted over all that were started, and a task of it.
struct Doer {
  std::int64_t process = 0;
  std::int64_t task = 0;
};

struct Increment {
  std::uint64_t fence = 0;
  std::uint64_t value = 0;  ///< After it.
  Doer doer;
};

/// Counters in an SQLite file of their own, shared by processes, that believe in fences: of each
/// the greatest fence that came is kept, and who comes with a lesser one is refused, also to read.
/// Readers do not refuse each other.
///
/// To write means to set what was read, plus one, as a program does that trusts its lock. For one
/// thread at a time.
class GuardedCounters {
 public:
  explicit GuardedCounters(const std::string& path);

  /// Nothing: refused.
  [[nodiscard]] std::optional<std::uint64_t> read(Resource resource, std::uint64_t fence,
                                                  bool shared);
  /// False: refused.
  [[nodiscard]] bool write(Resource resource, std::uint64_t fence, std::uint64_t value, Doer doer);

  [[nodiscard]] std::uint64_t value(Resource resource);
  /// In the order of their fences.
  [[nodiscard]] std::vector<Increment> increments(Resource resource);

 private:
  [[nodiscard]] bool admits(Resource resource, std::uint64_t fence, bool shared);

  detail::Connection connection_;
  std::optional<detail::Statement> select_;
  std::optional<detail::Statement> raise_;
  std::optional<detail::Statement> set_;
  std::optional<detail::Statement> insert_;
};

}  // namespace holdfast::testing
