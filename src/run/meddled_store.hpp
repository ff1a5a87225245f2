// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <holdfast/memory_store.hpp>
#include <holdfast/store.hpp>

#include "store/memory_disk.hpp"
#include "store/watch_list.hpp"

namespace holdfast::testing_runs {

/// A store of a process, in which something can be made to happen right before a read or a commit,
/// and right after a commit before whoever made it knows.
class MeddledStore final : public Store {
 public:
  explicit MeddledStore(const std::shared_ptr<MemoryDisk>& disk)
      : disk_(disk), near_(open_memory_store(disk)) {
    disk_->state().add_watches(watches_);
  }
  MeddledStore(const MeddledStore&) = delete;
  MeddledStore& operator=(const MeddledStore&) = delete;
  ~MeddledStore() override {
    disk_->state().remove_watches(watches_);
    watches_->end(std::make_exception_ptr(Closed("the store was closed")));
  }

  /// What it throws is what the read of one key throws.
  std::function<void(const std::string& key)> before_get;
  /// What it throws is what the commit throws.
  std::function<void(const Batch& batch)> before_commit;
  /// For one commit; then it is taken away.
  std::function<Task<void>()> after_next_commit;

  [[nodiscard]] const std::string& url() const noexcept override { return near_->url(); }
  [[nodiscard]] const Capabilities& capabilities() const noexcept override {
    return near_->capabilities();
  }
  [[nodiscard]] Clock& clock() noexcept override { return near_->clock(); }
  [[nodiscard]] Task<StoreTime> time() override { return near_->time(); }
  [[nodiscard]] Task<CheckReport> check() override { return near_->check(); }
  [[nodiscard]] Task<StoreStats> stats() override { return near_->stats(); }
  [[nodiscard]] Task<BackupReport> backup(std::filesystem::path target) override {
    return near_->backup(std::move(target));
  }

 private:
  Task<std::optional<Entry>> do_get(std::string key, Read read) override {
    if (before_get) {
      const auto meddle = before_get;  // It may take itself away.
      meddle(key);
    }
    return near_->get(key, read);
  }
  Task<Page> do_scan(Range range, Read read) override {
    const ScanOptions options{range.after, range.limit, read};
    return near_->scan(range.prefix, options);
  }
  Task<CommitOutcome> do_commit(Batch batch, Wait wait) override {
    if (before_commit) {
      const auto meddle = before_commit;  // It may take itself away.
      meddle(batch);
    }
    Task<CommitOutcome> commit =
        wait == Wait::kForDisk ? near_->commit(std::move(batch)) : near_->apply(std::move(batch));
    return after_next_commit ? then(std::move(commit), std::exchange(after_next_commit, nullptr))
                             : std::move(commit);
  }
  static Task<CommitOutcome> then(Task<CommitOutcome> commit, std::function<Task<void>()> meddle) {
    CommitOutcome outcome = co_await commit;
    co_await meddle();
    co_return outcome;
  }
  Task<void> do_until_durable(Version version) override { return near_->until_durable(version); }
  std::shared_ptr<detail::WatchedPrefix> do_watch(std::string prefix) override {
    return watches_->add(std::move(prefix));
  }

  std::shared_ptr<MemoryDisk> disk_;
  std::unique_ptr<Store> near_;
  std::shared_ptr<detail::WatchList> watches_ = std::make_shared<detail::WatchList>();
};

}  // namespace holdfast::testing_runs
