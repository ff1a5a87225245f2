// SPDX-License-Identifier: Apache-2.0
#include "sqlite_backend.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include <holdfast/store_error.hpp>

#include "private_file.hpp"

namespace holdfast::detail {

namespace {

/// When the log is this long, its pages go to the database file. Long enough that a page which is
/// written again and again goes there once.
constexpr int kCheckpointPages = 4'000;

/// How many versions are set aside at a time.
constexpr std::int64_t kVersionBlock = std::int64_t{1} << 20;

/// The net under the news: how long a change may go unnoticed whose writer died before it told.
constexpr Duration kSweepInterval = std::chrono::seconds(1);

constexpr Duration kCloseTimeout = std::chrono::seconds(1);

Entry entry_at(std::string_view key, const Statement& statement) {
  return {std::string(key), std::string(statement.bytes(1)),
          static_cast<Version>(statement.number(0))};
}

class EndTurnAfterUse {
 public:
  explicit EndTurnAfterUse(Neighbours& neighbours) noexcept : neighbours_(neighbours) {}
  EndTurnAfterUse(const EndTurnAfterUse&) = delete;
  EndTurnAfterUse& operator=(const EndTurnAfterUse&) = delete;
  ~EndTurnAfterUse() { neighbours_.end_turn(); }

 private:
  Neighbours& neighbours_;
};

int note_wal_pages(void* pages, sqlite3* /*connection*/, const char* /*database*/, int count) {
  *static_cast<int*>(pages) = count;
  return SQLITE_OK;
}

}  // namespace

SqliteBackend::Writer::Writer(std::unique_ptr<Connection> made)
    : connection(std::move(made)),
      data_version(*connection, "PRAGMA data_version"),
      get(*connection, "SELECT version, value FROM entries WHERE key = ?1"),
      begin(*connection, "BEGIN IMMEDIATE"),
      commit(*connection, "COMMIT"),
      put(*connection,
          "INSERT INTO entries(key, version, value) VALUES(?1, ?2, ?3) "
          "ON CONFLICT(key) DO UPDATE SET version = excluded.version, value = excluded.value"),
      erase(*connection, "DELETE FROM entries WHERE key = ?1"),
      state(*connection, "SELECT sequence, ceiling FROM state"),
      set_state(*connection, "UPDATE state SET sequence = ?1, ceiling = ?2") {}

SqliteBackend::SqliteBackend(DatabaseFile file, const SqliteOptions& options,
                             std::unique_ptr<Neighbours> neighbours)
    : file_(std::move(file)),
      url_("sqlite:" + file_.path),
      options_(options),
      own_clock_(options.clock == nullptr ? std::make_unique<SystemClock>() : nullptr),
      clock_(options.clock == nullptr ? own_clock_.get() : options.clock),
      neighbours_(std::move(neighbours)),
      writer_(connect_in_a_turn()),
      readers_(file_) {
  sqlite3_wal_hook(writer_.connection->handle(), note_wal_pages, &wal_pages_);
  set_sync(options_.sync);
  // The mark first: others may go on meanwhile.
  const auto mark = static_cast<std::int64_t>(neighbours_->durable_mark());
  read_state();
  if (state_.sequence < mark) {
    throw StoreCorrupt(
        file_.path + " ends with commit " + std::to_string(state_.sequence) + ", but commit " +
        std::to_string(mark) +
        " was made: the end of its log is damaged or gone. Restore a backup; if this is an older "
        "copy that was put here on purpose, remove " +
        file_.path + "-hold");
  }
}

std::unique_ptr<Connection> SqliteBackend::connect_in_a_turn() {
  if (!neighbours_->take_turn(MonotonicTime::now() + options_.busy_timeout)) {
    throw StoreBusy(file_.path + " cannot be opened: another process keeps this one from it. " +
                    "Nothing happened: try again");
  }
  const EndTurnAfterUse end_turn(*neighbours_);
  return connect_or_create(file_);
}

SqliteBackend::~SqliteBackend() {
  checkpoint_at_end();
  closing_ = true;
  neighbours_->interrupt();
  if (listener_.joinable()) {
    listener_.join();
  }
}

void SqliteBackend::set_sync(Sync level) {
  writer_.connection->run(level == Sync::kStrict ? "PRAGMA synchronous = FULL"
                                                 : "PRAGMA synchronous = NORMAL");
}

void SqliteBackend::read_state() {
  const ResetAfterUse reset(writer_.state);
  if (!writer_.state.step()) {
    throw StoreCorrupt(file_.path + ": the row of its state is missing. Restore a backup");
  }
  state_ = {writer_.state.number(0), writer_.state.number(1)};
}

// --- Writing -------------------------------------------------------------------------------------

std::optional<Backend::Turn> SqliteBackend::begin_turn(TimePoint until) {
  if (!neighbours_->take_turn(until)) {
    return std::nullopt;
  }
  try {
    std::int64_t data_version = 0;
    {
      const ResetAfterUse reset(writer_.data_version);
      static_cast<void>(writer_.data_version.step());
      data_version = writer_.data_version.number(0);
    }
    const bool others_wrote = data_version != std::exchange(seen_data_version_, data_version);
    if (others_wrote) {
      others_wrote_ = true;
      read_state();
    }
    // Versions that a process gave to batches and took with it when it died were below the ceiling
    // that it had set; nobody gives them again if everyone starts above it.
    const std::int64_t last = first_write_ ? state_.ceiling : state_.sequence;
    return Turn{static_cast<Version>(last), others_wrote};
  } catch (...) {
    neighbours_->end_turn();
    throw;
  }
}

std::optional<Entry> SqliteBackend::read(std::string_view key) {
  const ResetAfterUse reset(writer_.get);
  if (!writer_.get.bind(1, key).step()) {
    return std::nullopt;
  }
  return entry_at(key, writer_.get);
}

void SqliteBackend::write(const Group& group) {
  failed_ = true;  // Until it turns out well: nothing is done at the end to a store that failed.
  checkpoint_if_long();
  State state{.sequence = static_cast<std::int64_t>(group.last), .ceiling = state_.ceiling};
  const bool raise_ceiling = first_write_ || state.sequence > state_.ceiling;
  if (raise_ceiling) {
    state.ceiling = state.sequence + kVersionBlock;
    set_sync(Sync::kStrict);
  }
  try {
    write_in_transaction(group, state);
  } catch (const StoreFailed&) {
    throw;
  } catch (...) {
    failed_ = false;
    throw;
  }
  if (raise_ceiling) {
    set_sync(options_.sync);
  }
  failed_ = false;
  first_write_ = false;
  state_ = state;
  own_sequence_ = state.sequence;
  if (options_.sync == Sync::kStrict) {
    neighbours_->set_durable_mark(group.last);
  }
  std::vector<std::string_view> keys;
  keys.reserve(group.changes.size());
  for (const Change& change : group.changes) {
    keys.push_back(change.key);
  }
  neighbours_->publish(keys);
}

void SqliteBackend::write_in_transaction(const Group& group, const State& state) {
  writer_.begin.run();
  try {
    for (const Change& change : group.changes) {
      if (change.value == nullptr) {
        writer_.erase.bind(1, change.key).run();
      } else {
        writer_.put.bind(1, change.key)
            .bind(2, static_cast<std::int64_t>(change.version))
            .bind(3, *change.value)
            .run();
      }
    }
    writer_.set_state.bind(1, state.sequence).bind(2, state.ceiling).run();
    writer_.commit.run();
  } catch (...) {
    // Some errors have rolled it back already, and then there is nothing to roll back.
    sqlite3_exec(writer_.connection->handle(), "ROLLBACK", nullptr, nullptr, nullptr);
    throw;
  }
}

void SqliteBackend::checkpoint_if_long() {
  if (wal_pages_ < wal_pages_at_checkpoint_) {
    wal_pages_at_checkpoint_ = 0;  // The log has begun anew.
  }
  if (wal_pages_ - wal_pages_at_checkpoint_ < kCheckpointPages) {
    return;
  }
  wal_pages_at_checkpoint_ = wal_pages_;
  const int code = sqlite3_wal_checkpoint_v2(writer_.connection->handle(), nullptr,
                                             SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
  // On a full disk, or while others read, the log grows on, and it is tried again later.
  if (code != SQLITE_BUSY && (code & 0xff) != SQLITE_FULL) {
    writer_.connection->check(code, "moving its log to the database file");
  }
}

void SqliteBackend::checkpoint_at_end() noexcept {
  readers_.clear();
  if (failed_ || !neighbours_->take_turn(MonotonicTime::now() + kCloseTimeout)) {
    return;  // Whoever opens it next reads the log.
  }
  const EndTurnAfterUse end_turn(*neighbours_);
  sqlite3_wal_checkpoint_v2(writer_.connection->handle(), nullptr, SQLITE_CHECKPOINT_TRUNCATE,
                            nullptr, nullptr);
}

// --- Reading -------------------------------------------------------------------------------------

std::optional<Entry> SqliteBackend::get(std::string_view key) { return readers_.lend()->get(key); }

namespace {

class PinnedReader final : public Backend::Snapshot {
 public:
  explicit PinnedReader(ReaderPool::Lent reader) : reader_(std::move(reader)) { reader_->pin(); }
  [[nodiscard]] Page scan(std::string_view prefix, std::string_view after,
                          std::size_t limit) override {
    return reader_->scan(prefix, after, limit);
  }

 private:
  ReaderPool::Lent reader_;
};

std::uint64_t file_bytes(const std::string& path) {
  std::error_code ignored;
  const auto bytes = std::filesystem::file_size(path, ignored);
  return ignored ? 0 : bytes;
}

}  // namespace

std::unique_ptr<Backend::Snapshot> SqliteBackend::snapshot() {
  return std::make_unique<PinnedReader>(readers_.lend());
}

StoreTime SqliteBackend::time() { return StoreTime(clock_->now().time_since_epoch()); }

CheckReport SqliteBackend::check() {
  CheckReport report;
  try {
    // A connection of its own has nothing in its cache: it reads the disk.
    const auto connection = connect(file_);
    Statement integrity(*connection, "PRAGMA integrity_check(100)");
    while (integrity.step()) {
      if (integrity.bytes(0) != "ok") {
        report.faults.push_back(file_.path + ": " + std::string(integrity.bytes(0)));
      }
    }
    Statement entries(*connection,
                      "SELECT count(*), max(version), total(length(value)) FROM entries");
    Statement state(*connection, "SELECT sequence, ceiling FROM state");
    if (entries.step() && state.step()) {
      report.entries = static_cast<std::uint64_t>(entries.number(0));
      if (entries.number(1) > state.number(0) || state.number(0) > state.number(1)) {
        report.faults.push_back(file_.path + ": an entry has version " +
                                std::to_string(entries.number(1)) + ", above the last commit " +
                                std::to_string(state.number(0)) + " or the ceiling " +
                                std::to_string(state.number(1)));
      }
    } else {
      report.faults.push_back(file_.path + ": the row of its state is missing");
    }
  } catch (const StoreCorrupt& error) {
    report.faults.emplace_back(error.what());
  }
  return report;
}

StoreStats SqliteBackend::stats() {
  const auto connection = connect(file_);
  StoreStats stats;
  stats.entries =
      static_cast<std::uint64_t>(connection->query("SELECT count(*) FROM entries").value_or(0));
  stats.last_version =
      static_cast<Version>(connection->query("SELECT sequence FROM state").value_or(0));
  stats.format = static_cast<std::uint32_t>(connection->query("PRAGMA user_version").value_or(0));
  for (const char* suffix : {"", "-wal", "-shm", "-hold"}) {
    stats.bytes += file_bytes(file_.path + suffix);
  }
  const auto line = [&](std::string_view name, std::int64_t value) {
    stats.details.append(name).append(": ").append(std::to_string(value)).append("\n");
  };
  line("database pages", connection->query("PRAGMA page_count").value_or(0));
  line("free pages", connection->query("PRAGMA freelist_count").value_or(0));
  line("page bytes", connection->query("PRAGMA page_size").value_or(0));
  line("log bytes", static_cast<std::int64_t>(file_bytes(file_.path + "-wal")));
  stats.details.append("SQLite: ").append(sqlite3_libversion()).append("\n");
  return stats;
}

void SqliteBackend::backup(const std::filesystem::path& target) {
  namespace fs = std::filesystem;
  if (fs::exists(fs::symlink_status(target))) {
    throw InvalidArgument("backup: " + target.string() +
                          " exists; give a path where nothing is yet");
  }
  const fs::path unfinished = target.string() + ".unfinished";
  fs::remove(unfinished);
  create_private_file(unfinished);
  copy_database(*connect(file_), {unfinished.string(), file_.vfs});
  fs::rename(unfinished, target);
  sync_folder_of(target);
}

// --- News ----------------------------------------------------------------------------------------

void SqliteBackend::listen(OnNews on_news) {
  listener_ = std::thread([this, told = std::move(on_news), seen = state_.sequence]() mutable {
    while (!closing_) {
      const auto news = neighbours_->wait_for_news(MonotonicTime::now() + kSweepInterval);
      if (news) {
        told(news->anything ? std::span<const std::string>{} : std::span(news->keys));
      } else if (!closing_ && others_wrote_unnoticed(seen)) {
        told({});
      }
    }
  });
}

bool SqliteBackend::others_wrote_unnoticed(std::int64_t& seen) noexcept {
  try {
    const std::int64_t before =
        std::max(std::exchange(seen, readers_.lend()->sequence()), own_sequence_.load());
    return others_wrote_.exchange(false) || seen > before;
  } catch (const Error&) {
    return false;  // Whoever reads for a reason learns of it.
  }
}

}  // namespace holdfast::detail
