// SPDX-License-Identifier: Apache-2.0
#include "sqlite_backend.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include <holdfast/store_error.hpp>

#include "log_file.hpp"
#include "private_file.hpp"
#include "sqlite_transaction.hpp"
#include "store/committer.hpp"
#include "store/printable.hpp"

namespace holdfast::detail {

namespace {

/// How few of the versions set aside may be left when a transaction begins that sets no more aside:
/// more than this one, the next one and what gathers meanwhile can use up, two groups each.
constexpr std::int64_t kVersionsLeftMin = std::int64_t{1} << 19;
constexpr auto kBlock = static_cast<std::int64_t>(kVersionBlock);
static_assert(kVersionsLeftMin > 6 * std::int64_t{CommitterLimits{}.group_batches_max});
static_assert(kBlock > kVersionsLeftMin);

/// The net under the news: how long a change may go unnoticed whose writer died before it told.
constexpr Duration kSweepInterval = std::chrono::seconds(1);

constexpr Duration kCloseTimeout = std::chrono::seconds(1);

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
      get_or_next(*connection,
                  "SELECT key, version, value FROM entries WHERE key >= ?1 ORDER BY key LIMIT 1"),
      begin(*connection, "BEGIN IMMEDIATE"),
      commit(*connection, "COMMIT"),
      put(*connection,
          "INSERT INTO entries(key, version, value) VALUES(?1, ?2, ?3) "
          "ON CONFLICT(key) DO UPDATE SET version = excluded.version, value = excluded.value"),
      put_new(*connection,
              "INSERT INTO entries(key, version, value) VALUES(?1, ?2, ?3) "
              "ON CONFLICT(key) DO NOTHING"),
      erase(*connection, "DELETE FROM entries WHERE key = ?1"),
      state(*connection,
            "SELECT sequence, ceiling, boot_id, time_offset_ns, time_high_water_ns FROM state"),
      set_state(*connection,
                "UPDATE state SET sequence = ?1, ceiling = ?2, time_high_water_ns = ?3") {}

SqliteBackend::SqliteBackend(DatabaseFile file, const SqliteOptions& options,
                             std::unique_ptr<Neighbours> neighbours, int checkpoint_pages)
    : file_(std::move(file)),
      url_("sqlite:" + file_.path),
      options_(options),
      checkpoint_pages_(checkpoint_pages),
      own_clock_(options.clock == nullptr ? std::make_unique<SystemClock>() : nullptr),
      clock_(options.clock == nullptr ? own_clock_.get() : options.clock),
      neighbours_(std::move(neighbours)),
      writer_(connect_in_a_turn()),
      time_(continue_time()),
      readers_(file_) {
  count_wal_pages();
  // The mark first: others may go on meanwhile.
  const auto mark = static_cast<std::int64_t>(neighbours_->durable_mark());
  state_ = read_state();
  if (state_.sequence < mark) {
    throw StoreCorrupt(
        file_.path + " ends with commit " + std::to_string(state_.sequence) + ", but commit " +
        std::to_string(mark) +
        " was made: the end of its log is damaged or gone. Restore a backup; if this is an older "
        "copy that was put here on purpose, remove " +
        file_.path + "-hold");
  }
}

void SqliteBackend::count_wal_pages() noexcept {
  sqlite3_wal_hook(writer_.connection->handle(), note_wal_pages, &wal_pages_);
}

std::unique_ptr<Connection> SqliteBackend::connect_in_a_turn() {
  const EndTurnAfterUse end_turn(take_turn_to_open());
  if (neighbours_->alone()) {
    sync_log(file_);
  }
  return connect_or_create(file_);
}

Neighbours& SqliteBackend::take_turn_to_open() {
  if (!neighbours_->take_turn(MonotonicTime::now() + options_.busy_timeout)) {
    throw StoreBusy(file_.path + " cannot be opened: another process keeps this one from it. " +
                    "Nothing happened: try again");
  }
  return *neighbours_;
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
  if (std::exchange(sync_, level) == level) {
    return;
  }
  writer_.connection->run(level == Sync::kStrict ? "PRAGMA synchronous = FULL"
                                                 : "PRAGMA synchronous = NORMAL");
}

SqliteBackend::State SqliteBackend::read_state() {
  Statement& row = writer_.state;
  const ResetAfterUse reset(row);
  if (!row.step()) {
    throw StoreCorrupt(file_.path + ": the row of its state is missing. Restore a backup");
  }
  return {row.number(0), row.number(1), {std::string(row.bytes(2)), row.number(3), row.number(4)}};
}

TimeRecord SqliteBackend::continue_time() {
  const EndTurnAfterUse end_turn(take_turn_to_open());
  const TimeRecord kept = read_state().time;
  const TimeRecord time = continued(kept, clock_->now(), read_boot_id());
  if (time != kept) {
    set_sync(Sync::kStrict);
    Statement set(*writer_.connection,
                  "UPDATE state SET boot_id = ?1, time_offset_ns = ?2, time_high_water_ns = ?3");
    set.bind_text(1, time.boot_id).bind(2, time.offset_ns).bind(3, time.high_water_ns).run();
  }
  return time;
}

// --- Writing -------------------------------------------------------------------------------------

std::optional<Backend::Turn> SqliteBackend::begin_turn(TimePoint until) {
  rethrow_failure();
  if (!neighbours_->take_turn(until)) {
    return std::nullopt;
  }
  begins_above_ceiling_ = begins_above_ceiling_ || !neighbours_->is_settled();
  try {
    begin_transaction();
    const bool others_wrote = data_version() != seen_data_version_;
    if (others_wrote) {
      seen_data_version_ = data_version();
      others_wrote_ = true;
      state_ = read_state();
    }
    // Versions that a process gave to batches and took with it when it died were below the ceiling
    // that it had set; nobody gives them again if everyone starts above it, and if the others go on
    // there, too.
    const std::int64_t last = begins_above_ceiling_ ? state_.ceiling : state_.sequence;
    if (begins_above_ceiling_) {
      set_versions_aside();
    }
    neighbours_->set_settled(false);
    settled_ = true;
    return Turn{static_cast<Version>(last), others_wrote};
  } catch (const StoreFailed&) {
    failure_ = std::current_exception();
    give_turn_back();
    throw;
  } catch (...) {
    give_turn_back();
    throw;
  }
}

std::uint32_t SqliteBackend::data_version() const {
  std::uint32_t version = 0;
  writer_.connection->check(sqlite3_file_control(writer_.connection->handle(), "main",
                                                 SQLITE_FCNTL_DATA_VERSION, &version),
                            "asking whether others wrote");
  return version;
}

/// Durably, and before the first one is given: a batch is told its version before it is on the
/// disk.
void SqliteBackend::set_versions_aside() {
  State state = state_;
  state.ceiling += kBlock;
  commit(state);
  begins_above_ceiling_ = false;
}

Backend::Found SqliteBackend::read(std::string_view key) {
  begin_transaction();
  Statement& row = writer_.get_or_next;
  const ResetAfterUse reset(row);
  if (!row.bind(1, key).step()) {
    return {.entry = {}, .next = {}, .next_known = true};
  }
  if (row.bytes(0) != key) {
    return {.entry = {}, .next = std::string(row.bytes(0)), .next_known = true};
  }
  return {.entry = Entry{std::string(key), std::string(row.bytes(2)),
                         static_cast<Version>(row.number(1))},
          .next = {}};
}

void SqliteBackend::write(std::span<const Change> changes) {
  settled_ = false;
  in_transaction([&] {
    const TimePoint begun = MonotonicTime::now();
    for (const Change& change : changes) {
      if (!change.value) {
        writer_.erase.bind(1, change.key).run();
        continue;
      }
      Statement& put = change.must_be_new ? writer_.put_new : writer_.put;
      put.bind(1, change.key)
          .bind(2, static_cast<std::int64_t>(change.version))
          .bind(3, *change.value)
          .run();
      if (change.must_be_new && sqlite3_changes(writer_.connection->handle()) == 0) {
        throw StoreBusy(file_.path + ": a batch was made on condition that the key " +
                        printable(change.key) +
                        " is new, and it is there. Nothing happened: read, and try again");
      }
    }
    writing_took_ += MonotonicTime::now() - begun;
    keys_written_ += std::ssize(changes);
  });
}

void SqliteBackend::transact(const std::function<void(Transaction&)>& work) {
  in_transaction([] {});
  try {
    run_in_transaction(*writer_.connection, work);
  } catch (...) {
    // Not as in_transaction: an error of the caller says nothing about the disk.
    count_wal_pages();
    roll_back();
    throw;
  }
  count_wal_pages();
}

Backend::Cost SqliteBackend::commit(Version last) {
  const auto sequence = static_cast<std::int64_t>(last);
  settled_ = false;
  in_transaction([&] {
    commit({.sequence = sequence,
            .ceiling = raises_ceiling() ? sequence + kBlock : state_.ceiling,
            .time = marked(time_, clock_->now())});
  });
  own_sequence_ = sequence;
  settled_ = true;
  return cost_;
}

/// Begins one if there is none, and if `part` throws, ends it.
template <std::invocable Part>
void SqliteBackend::in_transaction(const Part& part) {
  rethrow_failure();
  try {
    begin_transaction();
    part();
  } catch (const StoreFailed&) {
    failure_ = std::current_exception();
    roll_back();
    throw;
  } catch (...) {
    roll_back();
    throw;
  }
}

void SqliteBackend::commit(const State& state) {
  const TimePoint begun = MonotonicTime::now();
  writer_.set_state.bind(1, state.sequence)
      .bind(2, state.ceiling)
      .bind(3, state.time.high_water_ns)
      .run();
  writer_.commit.run();
  state_ = state;
  seen_data_version_ = data_version();  // Our own commits count, too.
  const auto keys = std::max<std::int64_t>(1, std::exchange(keys_written_, 0));
  cost_ = {.of_sync = MonotonicTime::now() - begun,
           .of_key = std::exchange(writing_took_, {}) / keys};
}

void SqliteBackend::announce(Version last, std::span<const std::string_view> keys) noexcept {
  if (options_.sync == Sync::kStrict) {
    neighbours_->set_durable_mark(last);
  }
  neighbours_->publish(keys);
  checkpoint_if_long();
}

void SqliteBackend::rethrow_failure() const {
  if (failure_) {
    std::rethrow_exception(failure_);
  }
}

void SqliteBackend::begin_transaction() {
  if (sqlite3_get_autocommit(writer_.connection->handle()) == 0) {
    return;
  }
  // A ceiling that a power cut could lower again would be none.
  set_sync(raises_ceiling() ? Sync::kStrict : options_.sync);
  writer_.begin.run();
}

bool SqliteBackend::raises_ceiling() const noexcept {
  return begins_above_ceiling_ || state_.ceiling - state_.sequence < kVersionsLeftMin;
}

void SqliteBackend::end_turn() noexcept {
  neighbours_->set_settled(settled_);
  give_turn_back();
}

void SqliteBackend::give_turn_back() noexcept {
  roll_back();
  neighbours_->end_turn();
}

void SqliteBackend::roll_back() noexcept {
  // Some errors have rolled it back already, and then there is nothing to roll back.
  if (sqlite3_get_autocommit(writer_.connection->handle()) == 0) {
    sqlite3_exec(writer_.connection->handle(), "ROLLBACK", nullptr, nullptr, nullptr);
  }
  keys_written_ = 0;
  writing_took_ = {};
}

void SqliteBackend::checkpoint_if_long() {
  if (wal_pages_ < wal_pages_at_checkpoint_) {
    wal_pages_at_checkpoint_ = 0;  // The log has begun anew.
  }
  if (wal_pages_ - wal_pages_at_checkpoint_ < checkpoint_pages_) {
    return;
  }
  wal_pages_at_checkpoint_ = wal_pages_;
  const int code = sqlite3_wal_checkpoint_v2(writer_.connection->handle(), nullptr,
                                             SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
  // On a full disk, or while others read, the log grows on, and it is tried again later.
  if (code == SQLITE_OK || code == SQLITE_BUSY || (code & 0xff) == SQLITE_FULL) {
    return;
  }
  try {
    // What was written is in the log and safe. But a sync that failed may seem to work when it is
    // tried again, and then the log would go too early: nothing more must happen here.
    writer_.connection->raise(code, "moving its log to the database file");
  } catch (const Error&) {
    failure_ = std::current_exception();
  }
}

void SqliteBackend::checkpoint_at_end() noexcept {
  readers_.clear();
  if (failure_ || !neighbours_->take_turn(MonotonicTime::now() + kCloseTimeout)) {
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

/// What SQLite found, a line each, to `faults`.
void add_faults(const std::string& path, std::string_view found, std::vector<std::string>& faults) {
  while (!found.empty()) {
    const std::string_view line = found.substr(0, found.find('\n'));
    found.remove_prefix(std::min(line.size() + 1, found.size()));
    if (line != "ok" && !line.starts_with("***")) {
      faults.push_back(path + ": " + std::string(line));
    }
  }
}

std::uint64_t file_bytes(const std::string& path) {
  std::error_code ignored;
  const auto bytes = std::filesystem::file_size(path, ignored);
  return ignored ? 0 : bytes;
}

}  // namespace

std::unique_ptr<Backend::Snapshot> SqliteBackend::snapshot() {
  return std::make_unique<PinnedReader>(readers_.lend());
}

StoreTime SqliteBackend::time() { return time_of(time_, clock_->now()); }

CheckReport SqliteBackend::check() {
  CheckReport report;
  try {
    // A connection of its own has nothing in its cache: it reads the disk.
    const auto connection = connect(file_);
    Statement integrity(*connection, "PRAGMA integrity_check(100)");
    while (integrity.step()) {
      add_faults(file_.path, integrity.bytes(0), report.faults);
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
  line("sidecar bytes", static_cast<std::int64_t>(file_bytes(file_.path + "-hold")));
  stats.details.append("SQLite: ").append(sqlite3_libversion()).append("\n");
  return stats;
}

BackupReport SqliteBackend::backup(const std::filesystem::path& target) {
  namespace fs = std::filesystem;
  std::error_code error;
  const auto found = fs::symlink_status(target, error);
  if (fs::exists(found)) {
    throw InvalidArgument("backup: " + target.string() +
                          " exists; give a path where nothing is yet");
  }
  if (found.type() == fs::file_type::none) {
    refuse_path(target, error);
  }
  const fs::path unfinished = target.string() + ".unfinished";
  fs::remove(unfinished, error);
  if (!create_private_file(unfinished)) {
    throw InvalidArgument("backup: " + unfinished.string() +
                          " is in the way, and cannot be removed: " + error.message());
  }
  try {
    BackupReport report;
    report.entries = copy_database(*connect(file_), {unfinished.string(), file_.vfs});
    report.bytes = file_bytes(unfinished.string());
    fs::rename(unfinished, target);
    sync_folder_of(target);
    return report;
  } catch (const fs::filesystem_error& failure) {
    fs::remove(unfinished, error);
    throw StoreFailed("backup: " + std::string(failure.what()));
  } catch (...) {
    fs::remove(unfinished, error);
    throw;
  }
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
