// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <holdfast/memory_store.hpp>

#include "completion.hpp"
#include "watch_list.hpp"

namespace holdfast {

/// What is on a memory disk, and what is on its way there.
class MemoryDisk::State {
 public:
  State(Clock& clock, const MemoryFaults& faults);
  State(Clock& clock, std::vector<Entry> entries);
  ~State();

  [[nodiscard]] Clock& clock() const noexcept { return clock_; }
  [[nodiscard]] std::uint64_t generation() const;
  [[nodiscard]] std::uint64_t commit_count() const;
  [[nodiscard]] Version last_version() const;
  [[nodiscard]] std::uint64_t entry_count() const;
  [[nodiscard]] std::size_t bytes() const;
  void set_faults(const MemoryFaults& faults);
  void crash();

  // For stores opened in `generation`; these throw once the machine has crashed.

  [[nodiscard]] std::optional<Entry> get(std::uint64_t generation, std::string_view key,
                                         Read read) const;
  [[nodiscard]] Page scan(std::uint64_t generation, std::string_view prefix, std::string_view after,
                          std::size_t limit, Read read) const;
  struct Decision {
    CommitOutcome outcome;
    /// The last commit that led to it, if that is not durable yet.
    std::optional<Version> on_its_way;
  };
  [[nodiscard]] Decision commit(std::uint64_t generation, const Batch& batch);
  [[nodiscard]] bool is_durable(std::uint64_t generation, Version version) const;
  void check_alive(std::uint64_t generation) const;
  /// Makes durable what was applied, as closing a store does.
  void sync_all(std::uint64_t generation) noexcept;

  /// Lists to be told of what becomes durable.
  void add_watches(std::shared_ptr<detail::WatchList> watches);
  void remove_watches(const std::shared_ptr<detail::WatchList>& watches);

  /// A wait until a commit is durable.
  class Durable final : public detail::Completion {
   public:
    Durable(State& state, std::uint64_t generation, Version version) noexcept
        : state_(state), generation_(generation), version_(version) {}
    /// Commits the batch as it begins, unless the task was stopped before. Does not wait for the
    /// disk if `decision_is_enough`.
    Durable(State& state, std::uint64_t generation, Batch batch, bool decision_is_enough) noexcept
        : state_(state),
          generation_(generation),
          batch_(std::move(batch)),
          decision_is_enough_(decision_is_enough) {}
    // After it was awaited.
    void rethrow() const;
    [[nodiscard]] CommitOutcome outcome();

   private:
    friend class State;
    void begin() override;
    void stop() noexcept override;
    /// False: there is nothing to wait for.
    [[nodiscard]] bool commit();

    State& state_;
    std::uint64_t generation_;
    Version version_ = 0;
    std::optional<Batch> batch_;
    bool decision_is_enough_ = false;
    std::optional<CommitOutcome> outcome_;
    std::exception_ptr error_;
  };

 private:
  struct Row {
    std::string value;
    Version version;
  };
  using WatchLists = std::vector<std::shared_ptr<detail::WatchList>>;
  using Rows = std::map<std::string, Row, std::less<>>;
  /// A commit that a crash may take back, with what it overwrote.
  struct Unsynced {
    Version version;
    TimePoint durable_at;
    std::vector<std::pair<std::string, std::optional<Row>>> before;
  };
  /// Keys that became durable; whoever watches them is told when the lock is free again.
  class News {
   public:
    explicit News(const State& state) noexcept : state_(state) {}
    News(const News&) = delete;
    News& operator=(const News&) = delete;
    ~News();
    /// With the lock held, as who watches by then must be told.
    void add(std::string_view key);

   private:
    const State& state_;
    std::shared_ptr<const WatchLists> watches_;
    bool watched_ = false;
    std::vector<std::string> keys_;
  };
  struct SyncTimer : Timer {
    explicit SyncTimer(State& owner) noexcept;
    State& state;
  };

  [[nodiscard]] bool chance(double probability);
  [[nodiscard]] bool fails_before_it_is_applied(bool crashes);
  void refuse_the_dead(std::uint64_t generation) const;
  [[nodiscard]] std::optional<Version> version_of(std::string_view key) const;
  [[nodiscard]] std::optional<Entry> entry_of(std::string_view key) const;
  [[nodiscard]] Rows durable_before_unsynced() const;
  [[nodiscard]] CommitOutcome apply(const Batch& batch, News& news);
  void disturb(const Batch& batch, News& news);
  void check_space(const Batch& batch) const;
  Version write(const Batch& batch, News& news);
  std::optional<Row> replace(std::string_view key, std::optional<std::string> value,
                             Version version);
  void put_back(const std::string& key, std::optional<Row> row);
  void schedule_sync(Unsynced unsynced);
  void sync_due() noexcept;
  [[nodiscard]] std::vector<Durable*> sync_until(TimePoint due, News& news);
  static void complete(const std::vector<Durable*>& waiters) noexcept;
  void arm_timer();
  void disarm_timer() noexcept;
  void lose_power();
  [[nodiscard]] Version durable_version() const;
  [[nodiscard]] std::vector<Durable*> take_durable_waiters();

  Clock& clock_;
  mutable std::mutex mutex_;
  MemoryFaults faults_;
  std::mt19937_64 random_;
  Rows rows_;
  std::size_t bytes_ = 0;
  Version last_ = 0;
  std::uint64_t commits_ = 0;
  std::uint64_t commits_until_crash_ = 0;
  std::uint64_t generation_ = 1;
  std::deque<Unsynced> unsynced_;
  std::vector<Durable*> waiting_;
  std::shared_ptr<const WatchLists> watches_ = std::make_shared<WatchLists>();
  SyncTimer timer_{*this};
  bool timer_armed_ = false;  // Or its callback is on its way.
};

}  // namespace holdfast
