// SPDX-License-Identifier: Apache-2.0
#include "postgres_counters.hpp"

#include <holdfast/fencing.hpp>

#include "database_error.hpp"

namespace holdfast::fencing {

namespace {

/// Rolled back if it is not committed.
class Transaction {
 public:
  explicit Transaction(PostgresCounters& counters) : counters_(counters) { counters_.run("BEGIN"); }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction() {
    if (PQtransactionStatus(counters_.connection()) != PQTRANS_IDLE) {
      PQclear(PQexec(counters_.connection(), "ROLLBACK"));
    }
  }
  void commit() { counters_.run("COMMIT"); }

 private:
  PostgresCounters& counters_;
};

}  // namespace

PostgresCounters::PostgresCounters(const std::string& connection_text)
    : connection_(PQconnectdb(connection_text.c_str())) {
  if (PQstatus(connection_.get()) != CONNECTION_OK) {
    throw DatabaseError(PQerrorMessage(connection_.get()));
  }
  PQsetNoticeProcessor(connection_.get(), [](void*, const char*) {}, nullptr);
}

// [postgres]
void PostgresCounters::present(const std::string& resource, std::uint64_t fence) {
  run(std::string(kPostgresPresentFence), {resource, std::to_string(fence)});
}

std::int64_t PostgresCounters::read(const std::string& counter, std::uint64_t fence) {
  Transaction transaction(*this);
  present(counter, fence);  // First, or the read counts for nothing.
  const std::int64_t value = read_unguarded(counter);
  transaction.commit();
  return value;
}

void PostgresCounters::write(const std::string& counter, std::uint64_t fence, std::int64_t value) {
  Transaction transaction(*this);
  present(counter, fence);
  put(counter, value);
  transaction.commit();
}
// [postgres]

void PostgresCounters::put(const std::string& counter, std::int64_t value) {
  run("INSERT INTO counters VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = $2",
      {counter, std::to_string(value)});
}

std::int64_t PostgresCounters::read_unguarded(const std::string& counter) {
  const auto rows = run("SELECT value FROM counters WHERE name = $1", {counter});
  return rows.empty() ? 0 : std::stoll(rows.front());
}

void PostgresCounters::present_text(const std::string& counter, const std::string& fence) {
  run(std::string(kPostgresPresentFence), {counter, fence});
}

std::optional<std::string> PostgresCounters::fence_of(const std::string& counter) {
  const auto rows = run("SELECT fence FROM holdfast_fences WHERE resource = $1", {counter});
  return rows.empty() ? std::nullopt : std::optional(rows.front());
}

std::vector<std::string> PostgresCounters::run(const std::string& statement,
                                               const std::vector<std::string>& values) {
  std::vector<const char*> parameters;
  parameters.reserve(values.size());
  for (const std::string& value : values) {
    parameters.push_back(value.c_str());
  }
  const std::unique_ptr<PGresult, void (*)(PGresult*)> result(
      PQexecParams(connection_.get(), statement.c_str(), static_cast<int>(parameters.size()),
                   nullptr, parameters.data(), nullptr, nullptr, 0),
      PQclear);
  std::vector<std::string> rows;
  if (PQresultStatus(result.get()) == PGRES_COMMAND_OK) {
    rows.emplace_back(PQcmdStatus(result.get()));
    return rows;
  }
  if (PQresultStatus(result.get()) != PGRES_TUPLES_OK) {
    const char* const state = PQresultErrorField(result.get(), PG_DIAG_SQLSTATE);
    throw DatabaseError(PQresultErrorMessage(result.get()), state == nullptr ? "" : state);
  }
  for (int row = 0; row < PQntuples(result.get()); ++row) {
    rows.emplace_back(PQgetvalue(result.get(), row, 0));
  }
  return rows;
}

PostgresDatabase::PostgresDatabase() {
  PostgresCounters first(address());
  first.run("CREATE TABLE counters (name text PRIMARY KEY, value bigint)");
  first.run(std::string(kPostgresFenceTable));
}

}  // namespace holdfast::fencing
