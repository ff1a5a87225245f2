// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include <holdfast/store.hpp>
#include <holdfast/this_task.hpp>

namespace holdfast::testing {

/// A store behind a line that is slow, breaks and comes back, and whose clock runs at a rate of its
/// own: for tests of those who count on a lease.
class FarStore final : public Store {
 public:
  explicit FarStore(Store& near, std::uint64_t seed = 1) : near_(near), random_(seed) {}

  // For tests to set.
  Duration delay_max{};           ///< On the way there, and on the way back.
  TimePoint broken_from{};        ///< What is on its way while the line is broken, waits,
  TimePoint broken_until{};       ///< or is refused at once:
  double busy_chance = 0;         ///< so often.
  std::int64_t rate_percent = 0;  ///< How much faster the store's clock runs than the client's.
  Capabilities can{.atomic = true};

  [[nodiscard]] const std::string& url() const noexcept override { return near_.url(); }
  [[nodiscard]] const Capabilities& capabilities() const noexcept override { return can; }
  [[nodiscard]] Clock& clock() noexcept override { return near_.clock(); }
  /// Without the line.
  [[nodiscard]] StoreTime time_there() {
    const Duration now = near_.clock().now().time_since_epoch();
    return StoreTime(now + now * rate_percent / 100);
  }
  [[nodiscard]] Task<StoreTime> time() override {
    co_await travel();
    const StoreTime now = time_there();
    co_await travel();
    co_return now;
  }
  [[nodiscard]] Task<CheckReport> check() override { return near_.check(); }
  [[nodiscard]] Task<StoreStats> stats() override { return near_.stats(); }
  [[nodiscard]] Task<BackupReport> backup(std::filesystem::path target) override {
    return near_.backup(std::move(target));
  }

 private:
  Task<void> travel() {
    if (delay_max > Duration::zero()) {
      const auto most = static_cast<std::uint64_t>(delay_max.count());
      co_await this_task::sleep_for(Duration(static_cast<Duration::rep>(random_() % (most + 1))));
    }
    const TimePoint now = near_.clock().now();
    if (now < broken_from || now >= broken_until) {
      co_return;
    }
    if (std::bernoulli_distribution(busy_chance)(random_)) {
      throw StoreBusy("the line is broken");
    }
    co_await this_task::sleep_for(broken_until - now);
  }

  Task<std::optional<Entry>> do_get(std::string key, Read read) override {
    co_await travel();
    std::optional<Entry> entry = co_await near_.get(key, read);
    co_await travel();
    co_return entry;
  }
  Task<Page> do_scan(Range range, Read read) override {
    co_await travel();
    const ScanOptions options{range.after, range.limit, read};
    Page page = co_await near_.scan(range.prefix, options);
    co_return page;
  }
  Task<CommitOutcome> do_commit(Batch batch, Wait wait) override {
    co_await travel();
    std::optional<CommitOutcome> outcome;
    if (wait == Wait::kForDisk) {
      outcome = co_await near_.commit(std::move(batch));
    } else {
      outcome = co_await near_.apply(std::move(batch));
    }
    co_await travel_back();
    co_return *std::move(outcome);
  }
  /// What has happened there cannot be said not to have happened.
  Task<void> travel_back() {
    bool refused = false;
    try {
      co_await travel();
    } catch (const StoreBusy&) {
      refused = true;
    }
    if (refused) {
      throw OutcomeUnknown("the line broke");
    }
  }
  Task<void> do_until_durable(Version version) override { return near_.until_durable(version); }
  std::shared_ptr<detail::WatchedPrefix> do_watch(std::string /*prefix*/) override {
    throw Unsupported("nobody watches over this line");
  }

  Store& near_;
  std::mt19937_64 random_;
};

}  // namespace holdfast::testing
