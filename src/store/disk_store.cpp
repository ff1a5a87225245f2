// SPDX-License-Identifier: Apache-2.0
#include "disk_store.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "watch_list.hpp"

namespace holdfast::detail {

namespace {

using Changes = std::map<std::string, std::optional<Entry>, std::less<>>;

/// `page` of the disk with what was applied since on top. Takes from `changes` what lies within it.
Page merged(Page page, Changes& changes, std::size_t limit) {
  // What lies behind the page comes with the next one.
  const auto end = page.more ? changes.upper_bound(page.entries.back().key) : changes.end();
  Page all{{}, page.more};
  all.entries.reserve(page.entries.size());
  auto entry = page.entries.begin();
  for (auto change = changes.begin(); change != end; change = changes.erase(change)) {
    for (; entry != page.entries.end() && entry->key < change->first; ++entry) {
      all.entries.push_back(std::move(*entry));
    }
    if (entry != page.entries.end() && entry->key == change->first) {
      ++entry;
    }
    if (change->second) {
      all.entries.push_back(*std::move(change->second));
    }
  }
  std::move(entry, page.entries.end(), std::back_inserter(all.entries));
  if (all.entries.size() > limit) {
    all.entries.resize(limit);
    all.more = true;
  }
  return all;
}

class DiskStore final : public Store {
 public:
  DiskStore(std::unique_ptr<Backend> backend, const CommitterLimits& limits)
      : backend_(std::move(backend)), committer_(*backend_, *watches_, limits) {
    backend_->listen([watches = watches_](std::span<const std::string> keys) {
      if (keys.empty()) {
        watches->notify_all();
      }
      watches->notify(std::vector<std::string_view>(keys.begin(), keys.end()));
    });
  }
  DiskStore(const DiskStore&) = delete;
  DiskStore& operator=(const DiskStore&) = delete;
  ~DiskStore() override {
    watches_->end(std::make_exception_ptr(Closed("the store " + url() + " was closed")));
  }

  [[nodiscard]] const std::string& url() const noexcept override { return backend_->url(); }
  [[nodiscard]] const Capabilities& capabilities() const noexcept override {
    return backend_->capabilities();
  }
  [[nodiscard]] Clock& clock() noexcept override { return backend_->clock(); }

  [[nodiscard]] Task<StoreTime> time() override {
    committer_.check_usable();
    co_return backend_->time();
  }
  [[nodiscard]] std::optional<StoreTime> try_time() override {
    committer_.check_usable();
    return backend_->time();
  }
  [[nodiscard]] Task<CheckReport> check() override { co_return backend_->check(); }
  [[nodiscard]] Task<StoreStats> stats() override { co_return backend_->stats(); }
  [[nodiscard]] Task<BackupReport> backup(std::filesystem::path target) override {
    committer_.check_usable();
    co_return backend_->backup(target);
  }

 private:
  Task<std::optional<Entry>> do_get(std::string key, Read read) override {
    committer_.check_usable();
    if (read == Read::kApplied) {
      auto applied = committer_.applied(key);
      if (applied.known) {
        co_return std::move(applied.entry);
      }
    }
    co_return backend_->get(key);
  }

  Task<Page> do_scan(Range range, Read read) override {
    committer_.check_usable();
    if (read == Read::kDurable) {
      co_return backend_->snapshot()->scan(range.prefix, range.after, range.limit);
    }
    auto over = committer_.applied_over(range.prefix, range.after);
    // As many more as may turn out to be erased.
    const std::size_t no_limit = std::numeric_limits<std::size_t>::max();
    const std::size_t limit = range.limit + std::min(over.changes.size(), no_limit - range.limit);
    Page all;
    do {
      Page page = over.disk->scan(range.prefix, range.after, limit);
      if (page.more) {
        range.after = page.entries.back().key;
      }
      all = merged(std::move(page), over.changes, range.limit);
      // A page that is full by its bytes may have been erased as a whole.
    } while (all.entries.empty() && all.more);
    co_return all;
  }

  Task<CommitOutcome> do_commit(Batch batch, Wait wait) override {
    using Until = Committer::Request::Until;
    Committer::Request request(committer_, std::move(batch),
                               wait == Wait::kForDisk ? Until::kDurable : Until::kDecided);
    co_await request;
    co_return request.result();
  }

  std::optional<CommitOutcome> do_try_apply(const Batch& batch) override {
    return committer_.try_apply(batch);
  }

  Task<CommitOutcome> do_transact(TransactionWork work) override {
    Committer::Request request(committer_, std::move(work));
    co_await request;
    co_return request.result();
  }

  Task<void> do_until_durable(Version version) override {
    Committer::Durable durable(committer_, version);
    co_await durable;
    durable.rethrow();
  }

  bool do_is_durable(Version version) override { return committer_.is_durable(version); }

  std::shared_ptr<WatchedPrefix> do_watch(std::string prefix) override {
    return watches_->add(std::move(prefix));
  }

  std::shared_ptr<WatchList> watches_ = std::make_shared<WatchList>();
  std::unique_ptr<Backend> backend_;
  Committer committer_;
};

}  // namespace

std::unique_ptr<Store> make_disk_store(std::unique_ptr<Backend> backend,
                                       const CommitterLimits& limits) {
  return std::make_unique<DiskStore>(std::move(backend), limits);
}

}  // namespace holdfast::detail
