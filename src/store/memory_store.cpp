// SPDX-License-Identifier: Apache-2.0
#include <holdfast/memory_store.hpp>

#include <string>
#include <utility>

#include "memory_disk.hpp"

namespace holdfast {

namespace {

class MemoryStore final : public Store {
 public:
  explicit MemoryStore(std::shared_ptr<MemoryDisk> disk)
      : disk_(std::move(disk)), state_(disk_->state()), generation_(state_.generation()) {
    state_.add_watches(watches_);
  }
  MemoryStore(const MemoryStore&) = delete;
  MemoryStore& operator=(const MemoryStore&) = delete;
  ~MemoryStore() override {
    state_.sync_all(generation_);
    state_.remove_watches(watches_);
    watches_->end(std::make_exception_ptr(Closed("the store " + url_ + " was closed")));
  }

  [[nodiscard]] const std::string& url() const noexcept override { return url_; }
  [[nodiscard]] const Capabilities& capabilities() const noexcept override { return capabilities_; }
  [[nodiscard]] Task<StoreTime> time() override {
    co_return StoreTime(state_.clock().now().time_since_epoch());
  }
  [[nodiscard]] Clock& clock() noexcept override { return state_.clock(); }

  [[nodiscard]] Task<CheckReport> check() override {
    co_return CheckReport{state_.entry_count(), {}};
  }
  [[nodiscard]] Task<StoreStats> stats() override {
    co_return StoreStats{.entries = state_.entry_count(),
                         .bytes = state_.bytes(),
                         .last_version = state_.last_version(),
                         .format = 0,
                         .details = {}};
  }
  [[nodiscard]] Task<BackupReport> backup(std::filesystem::path /*target*/) override {
    throw Unsupported("backup needs a store on a disk, and " + url_ + " is in memory");
    co_return BackupReport{};
  }

 private:
  using Durable = MemoryDisk::State::Durable;

  Task<std::optional<Entry>> do_get(std::string key, Read read) override {
    co_return state_.get(generation_, key, read);
  }
  Task<Page> do_scan(Range range, Read read) override {
    co_return state_.scan(generation_, range.prefix, range.after, range.limit, read);
  }
  Task<CommitOutcome> do_commit(Batch batch, Wait wait) override {
    Durable durable(state_, generation_, std::move(batch), wait == Wait::kForDecision);
    co_await durable;
    co_return durable.outcome();
  }
  Task<void> do_until_durable(Version version) override {
    Durable durable(state_, generation_, version);
    co_await durable;
    durable.rethrow();
  }
  bool do_is_durable(Version version) override { return state_.is_durable(generation_, version); }
  std::shared_ptr<detail::WatchedPrefix> do_watch(std::string prefix) override {
    state_.check_alive(generation_);
    return watches_->add(std::move(prefix));
  }

  std::string url_ = "memory:";
  Capabilities capabilities_{.durable = false, .atomic = true, .shared = false, .notifies = true};
  std::shared_ptr<MemoryDisk> disk_;
  MemoryDisk::State& state_;
  std::uint64_t generation_;
  std::shared_ptr<detail::WatchList> watches_ = std::make_shared<detail::WatchList>();
};

struct DiskWithClock {
  SystemClock clock;
  MemoryDisk disk{clock};
};

}  // namespace

std::unique_ptr<Store> open_memory_store(std::shared_ptr<MemoryDisk> disk) {
  return std::make_unique<MemoryStore>(std::move(disk));
}

std::unique_ptr<Store> open_memory_store() {
  const auto own = std::make_shared<DiskWithClock>();
  return open_memory_store(std::shared_ptr<MemoryDisk>(own, &own->disk));
}

}  // namespace holdfast
