// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <holdfast/sqlite_store.hpp>

#include "connection.hpp"
#include "database.hpp"
#include "reader.hpp"
#include "store/backend.hpp"
#include "store/neighbours.hpp"
#include "store/store_time.hpp"

namespace holdfast::detail {

/// A store in an SQLite file. One connection writes, in turns with other processes; others read,
/// and see what was committed and synced.
class SqliteBackend final : public Backend {
 public:
  SqliteBackend(DatabaseFile file, const SqliteOptions& options,
                std::unique_ptr<Neighbours> neighbours, int checkpoint_pages);
  ~SqliteBackend() override;

  [[nodiscard]] const std::string& url() const noexcept override { return url_; }
  [[nodiscard]] const Capabilities& capabilities() const noexcept override { return capabilities_; }
  [[nodiscard]] Clock& clock() noexcept override { return *clock_; }

  [[nodiscard]] std::optional<Turn> begin_turn(TimePoint until) override;
  void end_turn() noexcept override;
  [[nodiscard]] bool turn_wanted() noexcept override { return neighbours_->turn_wanted(); }
  [[nodiscard]] bool is_alone() noexcept override { return neighbours_->alone(); }
  [[nodiscard]] Found read(std::string_view key) override;
  void write(std::span<const Change> changes) override;
  [[nodiscard]] bool checks_what_must_be_new() const noexcept override { return true; }
  void transact(const std::function<void(Transaction&)>& work) override;
  void roll_back() noexcept override;
  Cost commit(Version last) override;
  void announce(Version last, std::span<const std::string_view> keys) noexcept override;
  void interrupt() noexcept override { neighbours_->interrupt(); }

  [[nodiscard]] std::optional<Entry> get(std::string_view key) override;
  [[nodiscard]] std::unique_ptr<Snapshot> snapshot() override;
  [[nodiscard]] StoreTime time() override;
  [[nodiscard]] CheckReport check() override;
  [[nodiscard]] StoreStats stats() override;
  BackupReport backup(const std::filesystem::path& target) override;
  void listen(OnNews on_news) override;

 private:
  /// The one connection that writes, with what it needs for that.
  struct Writer {
    explicit Writer(std::unique_ptr<Connection> made);

    std::unique_ptr<Connection> connection;
    Statement get_or_next;
    Statement begin;
    Statement commit;
    Statement put;
    Statement put_new;
    Statement erase;
    Statement state;
    Statement set_state;
  };
  /// The row of that name.
  struct State {
    std::int64_t sequence = 0;
    std::int64_t ceiling = 0;
    TimeRecord time;
  };

  [[nodiscard]] std::unique_ptr<Connection> connect_in_a_turn();
  [[nodiscard]] Neighbours& take_turn_to_open();
  [[nodiscard]] TimeRecord continue_time();
  [[nodiscard]] State read_state();
  [[nodiscard]] std::uint32_t data_version() const;
  void set_versions_aside();
  void give_turn_back() noexcept;
  void begin_transaction();
  template <std::invocable Part>
  void in_transaction(const Part& part);
  void commit(const State& state);
  void set_sync(Sync level);
  [[nodiscard]] bool raises_ceiling() const noexcept;
  void rethrow_failure() const;
  void count_wal_pages() noexcept;
  void checkpoint_if_long();
  void checkpoint_at_end() noexcept;
  /// Since `seen`, which it sets.
  [[nodiscard]] bool others_wrote_unnoticed(std::int64_t& seen) noexcept;

  DatabaseFile file_;
  std::string url_;
  Capabilities capabilities_{
      .durable = true, .atomic = true, .shared = true, .notifies = true, .sql = true};
  SqliteOptions options_;
  const int checkpoint_pages_;
  std::unique_ptr<Clock> own_clock_;
  Clock* clock_;
  std::unique_ptr<Neighbours> neighbours_;

  Writer writer_;
  std::optional<Sync> sync_;  // As the connection is set; to continue the time needs it.
  const TimeRecord time_;     // Of this boot.
  State state_;
  std::optional<std::uint32_t> seen_data_version_;
  bool begins_above_ceiling_ = true;  // The next turn, or this one, still.
  bool settled_ = true;               // No version was handed out in this turn and not written.
  std::int64_t keys_written_ = 0;     // In the transaction that is open.
  Duration writing_took_{};
  Cost cost_;
  std::exception_ptr failure_;  // After it nothing more is done to the file.
  int wal_pages_ = 0;
  int wal_pages_at_checkpoint_ = 0;

  ReaderPool readers_;

  std::atomic<std::int64_t> own_sequence_ = 0;
  std::atomic<bool> others_wrote_ = false;
  std::atomic<bool> closing_ = false;
  std::thread listener_;
};

}  // namespace holdfast::detail
