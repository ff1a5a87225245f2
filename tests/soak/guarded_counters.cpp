// SPDX-License-Identifier: Apache-2.0
#include "tests/soak/guarded_counters.hpp"

#include <algorithm>

namespace holdfast::testing {

namespace {

// A process may be stopped in the middle of a transaction, and all others wait.
constexpr int kPatienceMs = 60'000;

// A rollback journal, as several processes checkpoint a log at their peril: see docs/stores.md. It
// need not outlive a power cut, only kills, so nothing is synced.
constexpr const char* kSetUp =
    "PRAGMA journal_mode = TRUNCATE; PRAGMA synchronous = OFF;"
    "CREATE TABLE IF NOT EXISTS counters (resource INTEGER PRIMARY KEY, value INTEGER NOT NULL,"
    "  writer_fence INTEGER NOT NULL, reader_fence INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS increments (resource INTEGER, fence INTEGER, value INTEGER,"
    "  process INTEGER, task INTEGER, PRIMARY KEY (resource, fence))";

class Transaction {
 public:
  explicit Transaction(detail::Connection& connection) : connection_(connection) {
    connection_.run("BEGIN IMMEDIATE");
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction() {
    if (sqlite3_get_autocommit(connection_.handle()) == 0) {
      sqlite3_exec(connection_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
    }
  }
  void commit() { connection_.run("COMMIT"); }

 private:
  detail::Connection& connection_;
};

std::int64_t id_of(Resource resource) { return static_cast<std::int64_t>(resource); }
std::int64_t to_signed(std::uint64_t number) { return static_cast<std::int64_t>(number); }
std::uint64_t to_unsigned(std::int64_t number) { return static_cast<std::uint64_t>(number); }

}  // namespace

GuardedCounters::GuardedCounters(const std::string& path)
    : connection_(path, {}, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) {
  sqlite3_busy_timeout(connection_.handle(), kPatienceMs);
  connection_.run(kSetUp);
  select_.emplace(connection_,
                  "SELECT writer_fence, reader_fence, value FROM counters WHERE resource = ?1");
  raise_.emplace(connection_,
                 "INSERT INTO counters VALUES (?1, 0, ?2, ?3) ON CONFLICT DO UPDATE SET"
                 " writer_fence = max(writer_fence, ?2), reader_fence = max(reader_fence, ?3)");
  set_.emplace(connection_, "UPDATE counters SET value = ?2 WHERE resource = ?1");
  insert_.emplace(connection_, "INSERT INTO increments VALUES (?1, ?2, ?3, ?4, ?5)");
}

bool GuardedCounters::admits(Resource resource, std::uint64_t fence, bool shared) {
  std::int64_t greatest = 0;
  {
    const detail::ResetAfterUse after(*select_);
    select_->bind(1, id_of(resource));
    if (select_->step()) {
      greatest = shared ? select_->number(0) : std::max(select_->number(0), select_->number(1));
    }
  }
  if (to_signed(fence) < greatest) {
    return false;
  }
  raise_->bind(1, id_of(resource));
  raise_->bind(2, shared ? 0 : to_signed(fence)).bind(3, shared ? to_signed(fence) : 0).run();
  return true;
}

std::optional<std::uint64_t> GuardedCounters::read(Resource resource, std::uint64_t fence,
                                                   bool shared) {
  Transaction transaction(connection_);
  if (!admits(resource, fence, shared)) {
    return std::nullopt;
  }
  const std::uint64_t found = value(resource);
  transaction.commit();
  return found;
}

bool GuardedCounters::write(Resource resource, std::uint64_t fence, std::uint64_t value,
                            Doer doer) {
  Transaction transaction(connection_);
  if (!admits(resource, fence, false)) {
    return false;
  }
  set_->bind(1, id_of(resource)).bind(2, to_signed(value)).run();
  insert_->bind(1, id_of(resource)).bind(2, to_signed(fence)).bind(3, to_signed(value));
  insert_->bind(4, doer.process).bind(5, doer.task).run();
  transaction.commit();
  return true;
}

std::uint64_t GuardedCounters::value(Resource resource) {
  const detail::ResetAfterUse after(*select_);
  select_->bind(1, id_of(resource));
  return select_->step() ? to_unsigned(select_->number(2)) : 0;
}

std::vector<Increment> GuardedCounters::increments(Resource resource) {
  detail::Statement all(connection_,
                        "SELECT fence, value, process, task FROM increments WHERE resource = ?1"
                        " ORDER BY fence");
  all.bind(1, id_of(resource));
  std::vector<Increment> found;
  while (all.step()) {
    found.push_back({.fence = to_unsigned(all.number(0)),
                     .value = to_unsigned(all.number(1)),
                     .doer = {.process = all.number(2), .task = all.number(3)}});
  }
  return found;
}

}  // namespace holdfast::testing
