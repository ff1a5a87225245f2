// SPDX-License-Identifier: Apache-2.0
#include "file_backend.hpp"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include <holdfast/store_error.hpp>

#include "copying.hpp"
#include "inspection.hpp"
#include "store/committer.hpp"
#include "store/store_time.hpp"
#include "transaction.hpp"

namespace holdfast::detail {

namespace {

// A block is more than `apply` hands out before the next transaction is written: the committer
// gathers less than six groups of batches at most.
static_assert(kVersionBlock > 6 * CommitterLimits{}.group_batches_max);

// Looks for what a process that was killed could not tell.
constexpr Duration kLookInterval = std::chrono::seconds(1);

/// What `part` returns, and its `FileError` as an `Error` that says that nothing happened.
template <class Part>
auto unchanged_on_error(Part part) {
  try {
    return part();
  } catch (const FileError& error) {
    throw_unchanged(error);
  }
}

class AloneInside {
 public:
  explicit AloneInside(LockFile& lock) noexcept : lock_(lock) {}
  AloneInside(const AloneInside&) = delete;
  AloneInside& operator=(const AloneInside&) = delete;
  ~AloneInside() { lock_.unlock(); }

 private:
  LockFile& lock_;
};

}  // namespace

/// The turn for something else than a commit.
class FileBackend::OtherTurn {
 public:
  OtherTurn(FileBackend& backend, TimePoint until) : line_(backend.line_) {
    if (!line_.take(until)) {
      backend.throw_busy("the turn to write");
    }
  }
  OtherTurn(const OtherTurn&) = delete;
  OtherTurn& operator=(const OtherTurn&) = delete;
  ~OtherTurn() { line_.end(); }

 private:
  TurnLine& line_;
};

/// As long as it is there, nothing changes.
class FileBackend::View {
 public:
  explicit View(const Layout& layout) : lock_(layout.readers_lock()) {}
  [[nodiscard]] bool begin(TimePoint until) { return lock_.lock_shared(until); }

 private:
  LockFile lock_;
};

// --- Opening -------------------------------------------------------------------------------------

FileBackend::FileBackend(Files files, Layout layout, const FileOptions& options,
                         std::unique_ptr<Neighbours> neighbours)
    : files_(std::move(files)),
      layout_(std::move(layout)),
      entries_(files_, layout_),
      url_("file:" + layout_.folder().string()),
      capabilities_{.durable = true, .atomic = true, .shared = true, .notifies = true},
      busy_timeout_(options.busy_timeout),
      own_clock_(options.clock == nullptr ? std::make_unique<SystemClock>() : nullptr),
      clock_(options.clock == nullptr ? *own_clock_ : *options.clock),
      neighbours_(std::move(neighbours)),
      line_(*neighbours_),
      writer_lock_(unchanged_on_error([&] { return LockFile(layout_.readers_lock()); })) {
  unchanged_on_error([&] { open(); });
}

FileBackend::~FileBackend() {
  interrupt();
  if (listener_.joinable()) {
    listener_.join();
  }
}

void FileBackend::open() {
  std::optional<StoreRecord> record;
  {
    const auto unchanging = view();
    record = load();
  }
  if (!is_up_to_date(record)) {
    const OtherTurn turn(*this, give_up_at());
    recover();
    record = load();
    if (!record) {
      make_store();
    } else if (!is_up_to_date(record)) {
      record->time = continued(record->time, clock_.now(), read_boot_id());
      replace_record(files_, layout_, *record);
    }
    record = load_existing();
  }
  keep_time(record->time);
  note_seen(record->sequence);
}

bool FileBackend::is_up_to_date(const std::optional<StoreRecord>& record) {
  return record && record->time == continued(record->time, clock_.now(), read_boot_id());
}

void FileBackend::make_store() {
  files_.make_directory(layout_.entries());
  if (files_.exists(layout_.folder() / "ENTRIES")) {
    files_.remove_directory(layout_.entries());
    throw Unsupported("the file system of " + quoted(layout_.folder()) +
                      " takes capital and small letters for the same, and a file store needs " +
                      "one that does not");
  }
  StoreRecord record;
  record.time = continued({}, clock_.now(), read_boot_id());
  replace_record(files_, layout_, record);
}

std::optional<StoreRecord> FileBackend::load() const {
  const auto text = files_.read(layout_.store());
  return text ? std::optional(to_store_record(*text, layout_.store())) : std::nullopt;
}

StoreRecord FileBackend::load_existing() const {
  auto record = load();
  if (!record || !files_.exists(layout_.entries())) {
    throw StoreCorrupt(quoted(record ? layout_.entries() : layout_.store()) +
                       " is gone. Restore a backup");
  }
  return *std::move(record);
}

// --- Writing -------------------------------------------------------------------------------------

std::optional<Backend::Turn> FileBackend::begin_turn(TimePoint until) {
  if (!line_.take(until)) {
    return std::nullopt;
  }
  const Version last_known = record_.sequence;
  try {
    settle();
  } catch (const FileError& error) {
    line_.end();
    throw_unchanged(error);
  } catch (...) {
    line_.end();
    throw;
  }
  return Turn{record_.sequence, record_.sequence != last_known};
}

void FileBackend::settle() {
  recover();
  const Version last_known = record_.sequence;
  record_ = load_existing();
  keep_time(record_.time);
  if (record_.sequence != last_known && !first_turn_) {
    missed_ = true;
  }
  if (first_turn_ || !writer_lock_.is_settled()) {
    leave_versions_behind();
  }
  first_turn_ = false;
  writer_lock_.set_settled(false);
  settled_ = true;
}

/// Versions that `apply` handed out may be lost: with a process that was killed, or a machine, or
/// on a full disk. None of them may be given again, or a caller that still knows one would take the
/// entry of somebody else for its own. They are all up to the ceiling, so the next turn begins
/// there; and as this turn hands out some above it at once, the new ceiling has to be durable
/// first.
void FileBackend::leave_versions_behind() {
  remove_leftovers();
  StoreRecord above = record_;
  above.sequence = std::max(record_.ceiling, neighbours_->durable_mark());
  above.ceiling = above.sequence + kVersionBlock;
  above.time = marked(record_.time, clock_.now());
  replace_record(files_, layout_, above);
  record_ = above;
  note_seen(record_.sequence);
}

void FileBackend::remove_leftovers() {
  files_.make_directory(layout_.new_entries());
  for (const Files::Item& item : files_.list(layout_.new_entries())) {
    files_.unlink(layout_.new_entries() / item.name);
  }
  files_.unlink(layout_.new_journal());
}

void FileBackend::end_turn() noexcept {
  try {
    writer_lock_.set_settled(settled_);
  } catch (const FileError&) {
    // Then the next one leaves out some versions for nothing.
  }
  line_.end();
}

Backend::Found FileBackend::read(std::string_view key) {
  auto stored = unchanged_on_error([&] { return entries_.find(key); });
  Found found;
  if (stored) {
    found.entry = std::move(stored->entry);
  }
  return found;
}

void FileBackend::write(std::span<const Change> changes) {
  for (const Change& change : changes) {
    changes_.insert_or_assign(change.key, change);
  }
}

Backend::Cost FileBackend::commit(Version last) {
  settled_ = false;
  const auto changes = std::exchange(changes_, {});
  const Journal journal = unchanged_on_error([&] { return journal_of(changes, last); });
  const Cost cost = put(journal);
  settled_ = true;
  record_ = journal.store;
  note_seen(record_.sequence);
  return cost;
}

void FileBackend::announce(Version last, std::span<const std::string_view> keys) noexcept {
  neighbours_->set_durable_mark(last);
  neighbours_->publish(keys);
}

Journal FileBackend::journal_of(const Changes& changes, Version last) {
  Journal journal{record_, {}};
  StoreRecord& store = journal.store;
  store.sequence = last;
  store.ceiling = std::max(record_.ceiling, last + kVersionBlock);
  store.time = marked(record_.time, clock_.now());
  for (const auto& [key, change] : changes) {
    const auto before = entries_.find(key);
    if (before) {
      --store.entries;
      store.digest -= before->check;
    }
    if (change.value) {
      ++store.entries;
      store.digest += check_of(key, *change.value, change.version);
      journal.changes.push_back({std::string(key), std::string(*change.value), change.version});
    } else if (before) {
      journal.changes.push_back({std::string(key), std::nullopt, change.version});
    }
  }
  return journal;
}

Backend::Cost FileBackend::put(const Journal& journal) {
  const TimePoint begun = MonotonicTime::now();
  TimePoint prepared;
  Transaction transaction(files_, layout_, journal);
  try {
    transaction.prepare();
    prepared = MonotonicTime::now();
    if (!writer_lock_.lock_alone(give_up_at())) {
      transaction.discard();
      throw_busy("readers");
    }
  } catch (const FileError& error) {
    transaction.discard();
    throw_unchanged(error);
  }
  const AloneInside alone(writer_lock_);
  try {
    transaction.commit();
  } catch (const FileError& error) {
    transaction.discard();
    throw_unchanged(error);
  }
  try {
    transaction.seal();
    transaction.install();
  } catch (const FileError& error) {
    throw_failed(error);
  }
  // A file each, besides the journal and the record.
  const auto keys = static_cast<Duration::rep>(journal.changes.size());
  const Duration of_key = (prepared - begun) / (keys + 2);
  return {.of_sync = MonotonicTime::now() - begun - keys * of_key, .of_key = of_key};
}

void FileBackend::recover() {
  const auto text = files_.read(layout_.journal());
  if (!text) {
    return;
  }
  Journal journal = to_journal(*text, layout_.journal());
  const StoreRecord record = load_existing();
  // Of a record that was written after the journal, before a power cut brought the journal back.
  journal.store.sequence = std::max(journal.store.sequence, record.sequence);
  journal.store.ceiling = std::max(journal.store.ceiling, record.ceiling);
  if (record.time.high_water_ns > journal.store.time.high_water_ns) {
    journal.store.time = record.time;
  }
  if (!writer_lock_.lock_alone(give_up_at())) {
    throw_busy("readers");
  }
  const AloneInside alone(writer_lock_);
  files_.make_directory(layout_.new_entries());
  Transaction transaction(files_, layout_, journal);
  transaction.seal();
  transaction.prepare_again();
  transaction.install();
  missed_ = true;
  std::vector<std::string_view> keys;
  keys.reserve(journal.changes.size());
  for (const Journal::Change& change : journal.changes) {
    keys.emplace_back(change.key);
  }
  neighbours_->publish(keys);
}

void FileBackend::interrupt() noexcept {
  stopping_ = true;
  line_.interrupt();
}

// --- Reading -------------------------------------------------------------------------------------

TimePoint FileBackend::give_up_at() const noexcept { return MonotonicTime::now() + busy_timeout_; }

void FileBackend::throw_busy(std::string_view whom) const {
  const auto seconds = std::chrono::duration<double>(busy_timeout_).count();
  throw StoreBusy(url_ + " is busy: it had to wait for " + std::string(whom) + " for more than " +
                  std::to_string(seconds) + " s. Nothing happened: try again");
}

std::unique_ptr<FileBackend::View> FileBackend::view() {
  const TimePoint until = give_up_at();
  for (;;) {
    auto view = std::make_unique<View>(layout_);
    if (!view->begin(until)) {
      throw_busy("a transaction of another");
    }
    if (!files_.exists(layout_.journal())) {
      return view;
    }
    view.reset();
    const OtherTurn turn(*this, until);
    recover();
  }
}

std::optional<Entry> FileBackend::get(std::string_view key) {
  return unchanged_on_error([&]() -> std::optional<Entry> {
    const auto unchanging = view();
    auto stored = entries_.find(key);
    return stored ? std::optional(std::move(stored->entry)) : std::nullopt;
  });
}

std::unique_ptr<Backend::Snapshot> FileBackend::snapshot() {
  class FileSnapshot final : public Snapshot {
   public:
    FileSnapshot(const EntryTree& entries, std::unique_ptr<View> view)
        : entries_(entries), view_(std::move(view)) {}
    [[nodiscard]] Page scan(std::string_view prefix, std::string_view after,
                            std::size_t limit) override {
      return unchanged_on_error([&] { return entries_.scan(prefix, after, limit); });
    }

   private:
    const EntryTree& entries_;
    std::unique_ptr<View> view_;
  };
  return std::make_unique<FileSnapshot>(entries_, unchanged_on_error([&] { return view(); }));
}

void FileBackend::keep_time(const TimeRecord& time) {
  const std::lock_guard lock(time_mutex_);
  time_ = time;
}

StoreTime FileBackend::time() {
  const std::lock_guard lock(time_mutex_);
  return time_of(time_, clock_.now());
}

CheckReport FileBackend::check() {
  try {
    const auto unchanging = view();
    return check_files(files_, layout_);
  } catch (const FileError& error) {
    throw_unchanged(error);
  } catch (const StoreCorrupt& damage) {
    return {.entries = 0, .faults = {damage.what()}};
  }
}

StoreStats FileBackend::stats() {
  return unchanged_on_error([&] {
    const auto unchanging = view();
    return stats_of_files(files_, layout_);
  });
}

BackupReport FileBackend::backup(const std::filesystem::path& target) {
  return unchanged_on_error([&] {
    const OtherTurn turn(*this, give_up_at());
    recover();
    StoreRecord record = load_existing();
    record.sequence += kBackupLeap;
    record.ceiling += kBackupLeap;
    record.time = marked(record.time, clock_.now());
    copy_store(files_, layout_, record, target);
    const StoreStats copied = stats_of_files(files_, Layout(target));
    return BackupReport{copied.entries, copied.bytes};
  });
}

// --- News ----------------------------------------------------------------------------------------

void FileBackend::listen(OnNews on_news) {
  listener_ = std::thread([this, on_news = std::move(on_news)] { run_listener(on_news); });
}

void FileBackend::run_listener(const OnNews& on_news) {
  TimePoint look_at = MonotonicTime::now() + kLookInterval;
  while (!stopping_) {
    const auto news = neighbours_->wait_for_news(look_at);
    if (news && (news->anything || !news->keys.empty())) {
      on_news(news->anything ? std::span<const std::string>() : std::span(news->keys));
    }
    if (!stopping_ && MonotonicTime::now() >= look_at) {
      look_for_news(on_news);
      look_at = MonotonicTime::now() + kLookInterval;
    }
  }
}

void FileBackend::look_for_news(const OnNews& on_news) {
  Version sequence = 0;
  try {
    const auto unchanging = view();
    sequence = load_existing().sequence;
  } catch (const std::exception&) {
    return;  // Whoever reads is told. The next look may be luckier.
  }
  const bool missed = missed_.exchange(false);
  if (missed || sequence > seen_) {
    note_seen(sequence);
    on_news({});
  }
}

void FileBackend::note_seen(Version sequence) noexcept {
  Version seen = seen_;
  while (seen < sequence && !seen_.compare_exchange_weak(seen, sequence)) {
  }
}

}  // namespace holdfast::detail
