// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <holdfast/memory_store.hpp>
#include <holdfast/store.hpp>

#include "store/watch_list.hpp"
#include "tests/crash/dice.hpp"

namespace holdfast::testing {

/// What happened over all seeds: a simulation in which nothing happens shows nothing.
struct Tally {
  std::uint64_t runs = 0;
  std::uint64_t commits = 0;
  std::uint64_t power_cuts = 0;
  std::uint64_t kills = 0;
  std::uint64_t stalls = 0;
  std::uint64_t stops = 0;
  std::uint64_t takeovers = 0;  ///< Of a partition, from a process that did not hand it over.
  std::uint64_t handovers = 0;
  std::uint64_t refusals = 0;   ///< Of writes by a process that was deposed.
  std::uint64_t grants = 0;     ///< Of locks.
  std::uint64_t queued = 0;     ///< Those of them that were waited for.
  std::uint64_t overtakes = 0;  ///< By a higher priority.
  std::uint64_t limited = 0;    ///< Attempts of steps under a limit that took a while.
  std::uint64_t scheduled = 0;
  std::uint64_t resets = 0;    ///< Of runs, or of which nobody knew whether they happened.
  std::uint64_t gathered = 0;  ///< Signals to runs that were started with them if need be.
  std::uint64_t unknowns = 0;  ///< Requests of clients of which nobody knew whether they happened.
  Duration time{};
};

/// The store of one process, which dies with it: at once, or at a commit, before it is applied or
/// before anyone is told.
class MortalStore final : public Store {
 public:
  MortalStore(const std::shared_ptr<MemoryDisk>& disk, Tally& tally,
              std::map<std::string, std::string>& owners, std::uint64_t seed);
  MortalStore(const MortalStore&) = delete;
  MortalStore& operator=(const MortalStore&) = delete;
  ~MortalStore() override;

  /// Nothing is read or written any more.
  void die();
  [[nodiscard]] bool is_dead() const noexcept { return dead_; }
  /// So often a read finds the store busy.
  double busy_chance = 0;
  /// Is called with each batch that the disk is given, right before.
  std::function<void(const Batch&)> before_commit;
  /// Is called after each commit that succeeds.
  std::function<void(const Batch&)> after_commit;
  /// Calls `doom`, which is to end the process or the machine, at the n-th commit from now.
  void doom_at(std::uint64_t commits, std::function<void()> doom);

  [[nodiscard]] const std::string& url() const noexcept override { return near_->url(); }
  [[nodiscard]] const Capabilities& capabilities() const noexcept override {
    return near_->capabilities();
  }
  [[nodiscard]] Clock& clock() noexcept override { return near_->clock(); }
  [[nodiscard]] Task<StoreTime> time() override;
  [[nodiscard]] Task<CheckReport> check() override { return near_->check(); }
  [[nodiscard]] Task<StoreStats> stats() override { return near_->stats(); }
  [[nodiscard]] Task<BackupReport> backup(std::filesystem::path target) override {
    return near_->backup(std::move(target));
  }

 private:
  Task<std::optional<Entry>> do_get(std::string key, Read read) override;
  Task<Page> do_scan(Range range, Read read) override;
  Task<CommitOutcome> do_commit(Batch batch, Wait wait) override;
  Task<void> do_until_durable(Version version) override;
  bool do_is_durable(Version version) override;
  std::shared_ptr<detail::WatchedPrefix> do_watch(std::string prefix) override;

  void check_alive() const;
  void check_reachable();
  void note_owners(const Batch& batch);

  std::shared_ptr<MemoryDisk> disk_;
  std::uint64_t generation_;
  std::unique_ptr<Store> near_;
  Tally& tally_;
  std::map<std::string, std::string>& owners_;
  Dice dice_;
  bool dead_ = false;
  std::uint64_t commits_left_ = 0;
  std::function<void()> doom_;
  std::shared_ptr<detail::WatchList> watches_ = std::make_shared<detail::WatchList>();
};

}  // namespace holdfast::testing
