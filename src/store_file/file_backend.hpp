// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include <holdfast/file_store.hpp>

#include "documents.hpp"
#include "entry_tree.hpp"
#include "files.hpp"
#include "layout.hpp"
#include "lock_file.hpp"
#include "store/backend.hpp"
#include "store/neighbours.hpp"
#include "turn_line.hpp"

namespace holdfast::detail {

/// A folder of JSON files as the committer's disk.
///
/// Who writes has the turn of `Neighbours`, and the lock file alone while it changes entries; who
/// reads shares the lock file. A journal that a reader finds is of a writer that died: the reader
/// takes the turn and finishes the work.
class FileBackend final : public Backend {
 public:
  /// The folder must have passed `open_folder`. Makes the store if there is none.
  FileBackend(Files files, Layout layout, const FileOptions& options,
              std::unique_ptr<Neighbours> neighbours);
  FileBackend(const FileBackend&) = delete;
  FileBackend& operator=(const FileBackend&) = delete;
  ~FileBackend() override;

  [[nodiscard]] const std::string& url() const noexcept override { return url_; }
  [[nodiscard]] const Capabilities& capabilities() const noexcept override { return capabilities_; }
  [[nodiscard]] Clock& clock() noexcept override { return clock_; }

  [[nodiscard]] std::optional<Turn> begin_turn(TimePoint until) override;
  void end_turn() noexcept override;
  [[nodiscard]] bool turn_wanted() noexcept override { return line_.wanted(); }
  [[nodiscard]] Found read(std::string_view key) override;
  void write(std::span<const Change> changes) override;
  Cost commit(Version last) override;
  void announce(Version last, std::span<const std::string_view> keys) noexcept override;
  void interrupt() noexcept override;

  [[nodiscard]] std::optional<Entry> get(std::string_view key) override;
  [[nodiscard]] std::unique_ptr<Snapshot> snapshot() override;

  [[nodiscard]] StoreTime time() override;
  [[nodiscard]] CheckReport check() override;
  [[nodiscard]] StoreStats stats() override;
  BackupReport backup(const std::filesystem::path& target) override;

  void listen(OnNews on_news) override;

 private:
  class OtherTurn;
  class View;

  // Opening.
  void open();
  void make_store();
  [[nodiscard]] bool is_up_to_date(const std::optional<StoreRecord>& record);

  // During a turn.
  void settle();
  void recover();
  void leave_versions_behind();
  void remove_leftovers();
  using Changes = std::map<std::string_view, Change>;
  [[nodiscard]] Journal journal_of(const Changes& changes, Version last);
  [[nodiscard]] Cost put(const Journal& journal);

  [[nodiscard]] std::optional<StoreRecord> load() const;
  [[nodiscard]] StoreRecord load_existing() const;
  void keep_time(const TimeRecord& time);
  void note_seen(Version sequence) noexcept;
  [[nodiscard]] std::unique_ptr<View> view();
  [[nodiscard]] TimePoint give_up_at() const noexcept;
  [[noreturn]] void throw_busy(std::string_view who) const;

  void run_listener(const OnNews& on_news);
  void look_for_news(const OnNews& on_news);

  const Files files_;
  const Layout layout_;
  const EntryTree entries_;
  const std::string url_;
  const Capabilities capabilities_;
  const Duration busy_timeout_;
  std::unique_ptr<SystemClock> own_clock_;
  Clock& clock_;
  const std::unique_ptr<Neighbours> neighbours_;
  TurnLine line_;

  // For who has the turn.
  LockFile writer_lock_;
  StoreRecord record_;
  Changes changes_;  // Of the transaction that is open.
  bool first_turn_ = true;
  bool settled_ = false;  // No version was handed out and not written.

  std::mutex time_mutex_;
  TimeRecord time_;

  std::atomic<Version> seen_ = 0;     // Up to here all is told, but for what `missed_` is about.
  std::atomic<bool> missed_ = false;  // Others wrote, and may have died before they told of it.
  std::atomic<bool> stopping_ = false;
  std::thread listener_;
};

}  // namespace holdfast::detail
