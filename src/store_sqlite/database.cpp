// SPDX-License-Identifier: Apache-2.0
#include "database.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <string_view>
#include <system_error>
#include <utility>

#include <holdfast/store_error.hpp>

#include "page_checksums.hpp"
#include "private_file.hpp"
#include "store/backend.hpp"

namespace holdfast::detail {

namespace {

constexpr int kExisting = SQLITE_OPEN_READWRITE;
constexpr int kCreating = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;

// A key's row is where the key is (WITHOUT ROWID): keys that are made one after another and sort so
// share pages, and a commit writes few. The state is one row on a page of its own.
constexpr const char* kSchema =
    "CREATE TABLE entries("
    "  key BLOB NOT NULL PRIMARY KEY,"
    "  version INTEGER NOT NULL,"
    "  value BLOB NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE TABLE state("
    "  id INTEGER PRIMARY KEY CHECK (id = 1),"
    "  sequence INTEGER NOT NULL,"
    "  ceiling INTEGER NOT NULL,"
    "  boot_id TEXT NOT NULL,"
    "  time_offset_ns INTEGER NOT NULL,"
    "  time_high_water_ns INTEGER NOT NULL) STRICT;"
    "INSERT INTO state VALUES(1, 0, 0, '', 0, 0);";

std::unique_ptr<Connection> open(const DatabaseFile& file, int flags) {
  auto connection = std::make_unique<Connection>(file.path, file.vfs, flags);
  set_safety(connection->handle());
  connection->run("PRAGMA wal_autocheckpoint = 0");
  return connection;
}

void set_up(Connection& connection) {
  connection.run("PRAGMA cell_size_check = ON");
  connection.run("PRAGMA mmap_size = 0");
  connection.run("PRAGMA temp_store = MEMORY");
  connection.run("PRAGMA cache_size = -16384");
}

bool is_empty(Connection& connection) {
  return connection.query("PRAGMA page_count").value_or(0) == 0;
}

void refuse_foreign(const std::string& path, std::int64_t application_id, std::int64_t format) {
  if (application_id != std::int64_t{kApplicationId}) {
    throw NotAStore(path +
                    " is an SQLite database, but no Holdfast store. Nothing was changed; give the "
                    "path of a store, or of a file that does not exist yet");
  }
  if (format > kSqliteFormat) {
    throw NewerFormat(path + " has format " + std::to_string(format) +
                      ", and this version of Holdfast knows formats up to " +
                      std::to_string(kSqliteFormat) + ". Nothing was changed; use a newer one");
  }
}

void create(Connection& connection) {
  int reserved = kChecksumBytes;
  connection.check(
      sqlite3_file_control(connection.handle(), "main", SQLITE_FCNTL_RESERVE_BYTES, &reserved),
      "reserving bytes for checksums");
  connection.run("PRAGMA page_size = 4096");
  connection.run("PRAGMA synchronous = EXTRA");
  // All of it in the first transaction, before WAL: a crash leaves a store or an empty file.
  connection.run("BEGIN IMMEDIATE");
  connection.run(("PRAGMA application_id = " + std::to_string(kApplicationId)).c_str());
  connection.run(("PRAGMA user_version = " + std::to_string(kSqliteFormat)).c_str());
  connection.run(kSchema);
  connection.run("COMMIT");
}

using namespace std::string_view_literals;

/// The first bytes of an SQLite database.
struct Header {
  static constexpr std::string_view kMagic = "SQLite format 3\0"sv;
  std::array<char, 100> bytes{};

  [[nodiscard]] bool is_sqlite() const noexcept {
    return std::string_view(bytes.data(), kMagic.size()) == kMagic;
  }
  [[nodiscard]] std::uint32_t number_at(std::size_t offset) const {
    std::uint32_t number = 0;
    for (std::size_t i = 0; i < sizeof number; ++i) {
      number = number << 8U | static_cast<unsigned char>(bytes.at(offset + i));
    }
    return number;
  }
};

Header read_header(const std::string& path) {
  Header header;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool read = fd >= 0 && ::read(fd, header.bytes.data(), header.bytes.size()) >= 0;
  const std::error_code error(errno, std::generic_category());
  if (fd >= 0) {
    ::close(fd);
  }
  if (!read) {
    refuse_path(path, error);
  }
  return header;
}

}  // namespace

bool is_own_table(const char* name) noexcept {
  return name != nullptr &&
         (sqlite3_stricmp(name, "entries") == 0 || sqlite3_stricmp(name, "state") == 0);
}

void set_safety(sqlite3* connection) noexcept {
  // Whoever waits in here waits for a moment's work of another connection, not for its turn.
  sqlite3_busy_timeout(connection, 5'000);
  sqlite3_db_config(connection, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(connection, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  // A checkpoint outside of our turn is what loses commits on this SQLite, see docs/stores.md.
  sqlite3_db_config(connection, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
}

std::unique_ptr<Connection> connect(const DatabaseFile& file) {
  auto connection = open(file, kExisting);
  set_up(*connection);
  return connection;
}

std::unique_ptr<Connection> connect_or_create(const DatabaseFile& file) {
  auto connection = open(file, kCreating);
  if (is_empty(*connection)) {
    // What a creation that was cut off left behind is rolled back now; the new connection sees an
    // empty file, and so a store of ours from the first page on.
    connection.reset();
    connection = open(file, kCreating);
    create(*connection);
  }
  refuse_foreign(file.path, connection->query("PRAGMA application_id").value_or(0),
                 connection->query("PRAGMA user_version").value_or(0));
  set_up(*connection);
  // The switch to WAL deletes a journal. If that were not durable, a power cut could bring the
  // journal back, and it would undo what went to the database file since.
  connection->run("PRAGMA synchronous = EXTRA");
  if (connection->query_text("PRAGMA journal_mode = WAL") != "wal") {
    throw StoreFailed(file.path + ": SQLite does not switch to its write-ahead log here");
  }
  return connection;
}

void refuse_foreign_database(const std::string& path) {
  // Not through SQLite, which would take a store that was cut off for no database at all.
  constexpr std::size_t kFormatAt = 60;
  constexpr std::size_t kApplicationIdAt = 68;
  const Header header = read_header(path);
  if (!header.is_sqlite()) {
    throw NotAStore(path +
                    " is no Holdfast store: it is not even an SQLite database. Nothing was "
                    "changed; give the path of a store, or of a file that does not exist yet");
  }
  refuse_foreign(path, header.number_at(kApplicationIdAt), header.number_at(kFormatAt));
}

std::uint64_t copy_database(Connection& from, const DatabaseFile& target) {
  Connection copy(target.path, target.vfs, kCreating);
  int reserved = kChecksumBytes;
  copy.check(sqlite3_file_control(copy.handle(), "main", SQLITE_FCNTL_RESERVE_BYTES, &reserved),
             "reserving bytes for checksums");
  copy.run("PRAGMA page_size = 4096");
  copy.run("PRAGMA synchronous = EXTRA");
  sqlite3_backup* const backup = sqlite3_backup_init(copy.handle(), "main", from.handle(), "main");
  if (backup == nullptr) {
    copy.raise(sqlite3_errcode(copy.handle()), "beginning a backup");
  }
  const int stepped = sqlite3_backup_step(backup, -1);
  const int finished = sqlite3_backup_finish(backup);
  if (stepped != SQLITE_DONE) {
    (finished == SQLITE_IOERR_DATA ? from : copy).raise(finished, "copying to a backup");
  }
  copy.run(("UPDATE state SET sequence = sequence + " + std::to_string(kBackupLeap) +
            ", ceiling = ceiling + " + std::to_string(kBackupLeap))
               .c_str());
  copy.check(sqlite3_wal_checkpoint_v2(copy.handle(), nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr,
                                       nullptr),
             "completing a backup");
  return static_cast<std::uint64_t>(copy.query("SELECT count(*) FROM entries").value_or(0));
}

}  // namespace holdfast::detail
