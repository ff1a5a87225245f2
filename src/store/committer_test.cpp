// SPDX-License-Identifier: Apache-2.0
// The committer on a disk that does what the test says, when the test says so.
#include "committer.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <concepts>
#include <condition_variable>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/executor.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/this_task.hpp>

#include "watch_list.hpp"

namespace holdfast::detail {
namespace {

using namespace std::chrono_literals;

constexpr auto kDeadline = 30s;

/// Joining with + makes g++ 12 warn of what cannot happen.
std::string key_of(std::integral auto number) {
  std::string key("k");
  key.append(std::to_string(number));
  return key;
}

/// Keeps its rows in memory. Writes wait while it is held; a turn can be refused.
class ScriptedDisk final : public Backend {
 public:
  [[nodiscard]] const std::string& url() const noexcept override { return url_; }
  [[nodiscard]] const Capabilities& capabilities() const noexcept override { return capabilities_; }
  [[nodiscard]] Clock& clock() noexcept override { return clock_; }

  [[nodiscard]] std::optional<Turn> begin_turn(TimePoint until) override {
    std::unique_lock lock(mutex_);
    ++turns_asked_;
    changed_.notify_all();
    const auto free = [&] { return !busy_ || interrupted_; };
    while (!free()) {
      const auto left = until - MonotonicTime::now();
      if (left <= 0s || changed_.wait_for(lock, left) == std::cv_status::timeout) {
        return std::nullopt;
      }
    }
    return Turn{last_, std::exchange(others_wrote_, false)};
  }
  void end_turn() noexcept override {
    const std::lock_guard lock(mutex_);
    ++turns_ended_;
    wanted_ = false;
    changed_.notify_all();
  }
  [[nodiscard]] bool turn_wanted() noexcept override {
    const std::lock_guard lock(mutex_);
    return wanted_;
  }
  [[nodiscard]] bool is_alone() noexcept override {
    const std::lock_guard lock(mutex_);
    return alone_;
  }
  [[nodiscard]] Found read(std::string_view key) override {
    const std::lock_guard lock(mutex_);
    ++reads_;
    return {.entry = find(key), .next = {}};
  }
  void write(std::span<const Change> changes) override {
    std::unique_lock lock(mutex_);
    ++writes_begun_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !held_; });
    rethrow_failure();
    for (const Change& change : changes) {
      changes_.insert_or_assign(std::string(change.key), change);
    }
  }
  Cost commit(Version last) override {
    const std::lock_guard lock(mutex_);
    const auto changes = std::exchange(changes_, {});
    rethrow_failure();
    groups_.push_back(changes.size());
    for (const auto& [key, change] : changes) {
      if (!change.value) {
        rows_.erase(key);
      } else {
        rows_[key] = {std::string(*change.value), change.version};
      }
    }
    last_ = last;
    changed_.notify_all();
    return {};
  }
  void announce(Version /*last*/, std::span<const std::string_view> /*keys*/) noexcept override {}
  void interrupt() noexcept override {
    const std::lock_guard lock(mutex_);
    interrupted_ = true;
    changed_.notify_all();
  }

  [[nodiscard]] std::optional<Entry> get(std::string_view key) override {
    const std::lock_guard lock(mutex_);
    return find(key);
  }
  [[nodiscard]] std::unique_ptr<Snapshot> snapshot() override { return nullptr; }
  [[nodiscard]] StoreTime time() override { return {}; }
  [[nodiscard]] CheckReport check() override { return {}; }
  [[nodiscard]] StoreStats stats() override { return {}; }
  BackupReport backup(const std::filesystem::path& /*target*/) override { return {}; }
  void listen(OnNews /*on_news*/) override {}

  // What the test does.

  void hold() { set(held_, true); }
  void let_go() { set(held_, false); }
  void be_busy(bool busy) { set(busy_, busy); }
  void be_shared() { set(alone_, false); }
  void want_the_turn() { set(wanted_, true); }
  void fail_next(std::exception_ptr failure) { set(failure_, std::move(failure)); }
  /// Another process writes between our turns.
  void write_as_another(const std::string& key, const std::string& value) {
    const std::lock_guard lock(mutex_);
    rows_[key] = {value, ++last_};
    others_wrote_ = true;
  }
  bool wait_until_writing(int count = 1) {
    return wait([&] { return writes_begun_ >= count; });
  }
  bool wait_until_asked(int turns) {
    return wait([&] { return turns_asked_ >= turns; });
  }
  bool wait_until_committed(std::size_t groups) {
    return wait([&] { return groups_.size() >= groups; });
  }
  bool wait_until_turn_ended(int turns = 1) {
    return wait([&] { return turns_ended_ >= turns; });
  }
  [[nodiscard]] std::vector<std::size_t> groups() {
    const std::lock_guard lock(mutex_);
    return groups_;
  }
  [[nodiscard]] int turns_ended() {
    const std::lock_guard lock(mutex_);
    return turns_ended_;
  }
  [[nodiscard]] int reads() {
    const std::lock_guard lock(mutex_);
    return reads_;
  }

 private:
  struct Row {
    std::string value;
    Version version;
  };

  void rethrow_failure() {
    if (failure_) {
      changes_.clear();
      std::rethrow_exception(std::exchange(failure_, nullptr));
    }
  }
  template <typename T, typename U>
  void set(T& what, U to) {
    const std::lock_guard lock(mutex_);
    what = std::move(to);
    changed_.notify_all();
  }
  template <typename Condition>
  bool wait(const Condition& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kDeadline, condition);
  }
  [[nodiscard]] std::optional<Entry> find(std::string_view key) const {
    const auto row = rows_.find(std::string(key));
    if (row == rows_.end()) {
      return std::nullopt;
    }
    return Entry{row->first, row->second.value, row->second.version};
  }

  std::string url_ = "scripted:";
  Capabilities capabilities_{};
  VirtualClock clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Row> rows_;
  std::map<std::string, Change> changes_;
  Version last_ = 100;
  bool held_ = false;
  bool busy_ = false;
  bool wanted_ = false;
  bool alone_ = true;
  bool interrupted_ = false;
  bool others_wrote_ = true;
  int writes_begun_ = 0;
  int turns_asked_ = 0;
  int turns_ended_ = 0;
  int reads_ = 0;
  std::exception_ptr failure_;
  std::vector<std::size_t> groups_;
};

class Committer : public ::testing::Test {
 protected:
  using Request = detail::Committer::Request;
  using Until = Request::Until;

  void make(const CommitterLimits& limits = {}) {
    committer_ = std::make_unique<detail::Committer>(disk_, *watches_, limits);
  }
  ~Committer() override { disk_.let_go(); }

  static Task<CommitOutcome> request(detail::Committer& committer, Batch batch, Until until) {
    Request asked(committer, std::move(batch), until);
    co_await asked;
    co_return asked.result();
  }
  static Task<void> durable(detail::Committer& committer, Version version) {
    detail::Committer::Durable wait(committer, version);
    co_await wait;
    wait.rethrow();
  }
  Spawned<CommitOutcome> start(Batch batch, Until until = Until::kDurable) {
    return spawn(pool_, request(*committer_, std::move(batch), until));
  }
  CommitOutcome run(Batch batch, Until until = Until::kDurable) {
    return start(std::move(batch), until).get();
  }
  void until_durable(Version version) { sync_wait(pool_, durable(*committer_, version)); }
  Version apply(Batch batch) { return run(std::move(batch), Until::kDecided).committed()->version; }
  /// Nobody waits for what is gathered then, nor has anybody waited for the group before it.
  void write_one_and_gather(int more) {
    disk_.hold();
    apply(put("first"));
    ASSERT_TRUE(disk_.wait_until_writing());
    for (int i = 0; i < more; ++i) {
      apply(put(key_of(i)));
    }
    disk_.let_go();
    ASSERT_TRUE(disk_.wait_until_committed(1));
  }

  static Batch put(const std::string& key, const std::string& value = "v") {
    Batch batch;
    batch.put(key, value);
    return batch;
  }
  static Batch replace(const std::string& key, Version version) {
    Batch batch;
    batch.require_version(key, version).put(key, "v");
    return batch;
  }

  ScriptedDisk disk_;
  std::shared_ptr<WatchList> watches_ = std::make_shared<WatchList>();
  std::unique_ptr<detail::Committer> committer_;
  ThreadPool pool_{1};
};

TEST_F(Committer, WhatWasThereForTheNextBatchOnlyIsNotWritten) {
  make();
  disk_.hold();
  Batch sends = put("sender");
  sends.put_new("message", "for the receiver");
  auto first = start(std::move(sends));
  ASSERT_TRUE(disk_.wait_until_writing());
  Batch takes = put("receiver");
  takes.erase("message");
  auto second = start(std::move(takes));
  // One more that is decided: so is the one before it.
  ASSERT_TRUE(run(put("other"), Until::kDecided).committed());
  disk_.let_go();
  EXPECT_TRUE(first.get().committed());
  EXPECT_TRUE(second.get().committed());
  // The one that took it is part of the same transaction: without it, the message would be lost.
  EXPECT_EQ(disk_.groups(), std::vector<std::size_t>{3});
  EXPECT_FALSE(disk_.get("message"));
}

TEST_F(Committer, BatchesThatComeDuringASyncShareTheNextOne) {
  make();
  disk_.hold();
  auto first = start(put("a"));
  ASSERT_TRUE(disk_.wait_until_writing());
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(run(put(key_of(i)), Until::kDecided).committed());
  }
  disk_.let_go();
  EXPECT_TRUE(first.get().committed());
  until_durable(run(put("z"), Until::kDecided).committed()->version);
  const auto groups = disk_.groups();
  ASSERT_GE(groups.size(), 2U);
  EXPECT_EQ(groups[0], 1U);
  EXPECT_GE(groups[1], 50U) << "each waited for a sync of its own";
}

TEST_F(Committer, OneThatConflictsFailsAlone) {
  make();
  disk_.hold();
  auto first = start(put("a"));
  ASSERT_TRUE(disk_.wait_until_writing());
  auto good = start(put("b"));
  auto bad = start(replace("a", 7));
  auto late = start(put("c"));
  disk_.let_go();
  EXPECT_TRUE(good.get().committed());
  EXPECT_TRUE(late.get().committed());
  const CommitOutcome refused = bad.get();
  ASSERT_TRUE(refused.conflict());
  EXPECT_EQ(refused.conflict()->current->version, first.get().committed()->version);
}

TEST_F(Committer, ABatchBuildsOnOneThatIsNotDurableAndIsDecidedAtOnce) {
  make();
  disk_.hold();
  auto first = start(put("a"));
  ASSERT_TRUE(disk_.wait_until_writing());
  Version version = run(put("a"), Until::kDecided).committed()->version;
  for (int i = 0; i < 1'000; ++i) {
    const CommitOutcome next = run(replace("a", version), Until::kDecided);
    ASSERT_TRUE(next.committed());
    version = next.committed()->version;
  }
  EXPECT_FALSE(disk_.get("a")) << "and all that while nothing is on the disk";
  disk_.let_go();
  until_durable(version);
  EXPECT_EQ(disk_.get("a")->version, version);
  EXPECT_LE(disk_.groups().size(), 3U) << "what is overwritten in a group is not written";
  EXPECT_TRUE(first.get().committed());
}

TEST_F(Committer, WhoIsFasterThanTheDiskWaits) {
  make({.group_bytes_max = 10'000});
  disk_.hold();
  auto first = start(put("a"));
  ASSERT_TRUE(disk_.wait_until_writing());
  std::atomic<int> decided = 0;
  const auto apply_many = [](detail::Committer& committer, std::atomic<int>& count) -> Task<void> {
    for (int i = 0; i < 100; ++i) {
      Batch batch;
      batch.put(key_of(i), std::string(1'000, 'v'));
      const CommitOutcome outcome = co_await request(committer, std::move(batch), Until::kDecided);
      EXPECT_TRUE(outcome.committed());
      ++count;
    }
  };
  auto applying = spawn(pool_, apply_many(*committer_, decided));
  // The pool has one thread: once this ran, the other waits.
  sync_wait(pool_, [](detail::Committer& committer) -> Task<void> {
    for (int i = 0; i < 200; ++i) {
      co_await this_task::yield();
    }
    static_cast<void>(committer);
  }(*committer_));
  EXPECT_LE(decided, 11) << "more than a group and one batch is in memory";
  EXPECT_GE(decided, 9);
  disk_.let_go();
  applying.get();
  EXPECT_EQ(decided, 100);
  EXPECT_TRUE(first.get().committed());
}

constexpr CommitterLimits kForAsLongAsNobodyWaits{.unwaited_for_max = 24h};
using Groups = std::vector<std::size_t>;

TEST_F(Committer, WhatNobodyWaitsForGathersUntilSomebodyDoes) {
  make(kForAsLongAsNobodyWaits);
  write_one_and_gather(10);
  apply(put("more"));
  const Version last = apply(put("more"));
  EXPECT_EQ(disk_.groups(), (Groups{1}));
  until_durable(last);
  EXPECT_EQ(disk_.groups(), (Groups{1, 11}));
}

TEST_F(Committer, WhoWantsABatchOnTheDiskTakesAlongWhatNobodyWaitsFor) {
  make(kForAsLongAsNobodyWaits);
  write_one_and_gather(10);
  EXPECT_TRUE(run(put("waited for")).committed());
  EXPECT_EQ(disk_.groups(), (Groups{1, 11}));
}

TEST_F(Committer, ABatchThatHasToBeReadForIsDecidedWhileOthersGather) {
  make(kForAsLongAsNobodyWaits);
  write_one_and_gather(10);
  Batch batch;
  batch.require_absent("never seen").put("never seen", "v");
  EXPECT_TRUE(run(std::move(batch), Until::kDecided).committed());
}

TEST_F(Committer, WhatNobodyWaitsForIsWrittenInTheEnd) {
  make({.unwaited_for_max = 1ms});
  write_one_and_gather(10);
  EXPECT_TRUE(disk_.wait_until_committed(2));
}

TEST_F(Committer, WhatNobodyWaitsForIsWrittenWhenItIsMuch) {
  make({.group_keys_max = 20, .unwaited_for_max = 24h});
  write_one_and_gather(10);
  EXPECT_TRUE(disk_.wait_until_committed(2));
}

TEST_F(Committer, WhatNobodyWaitsForIsWrittenWhenTheStoreIsClosed) {
  make(kForAsLongAsNobodyWaits);
  write_one_and_gather(10);
  const Version last = apply(put("last"));
  committer_.reset();
  ASSERT_TRUE(disk_.get("last"));
  EXPECT_EQ(disk_.get("last")->version, last);
}

TEST_F(Committer, WhatNobodyWaitsForIsWrittenWhenAnotherWantsTheTurn) {
  make(kForAsLongAsNobodyWaits);
  write_one_and_gather(10);
  disk_.want_the_turn();
  ASSERT_TRUE(disk_.wait_until_turn_ended());
  EXPECT_EQ(disk_.groups(), (Groups{1, 10}));
}

TEST_F(Committer, WhatOthersMayWaitToSeeIsWrittenAtOnce) {
  disk_.be_shared();
  make(kForAsLongAsNobodyWaits);
  write_one_and_gather(10);
  EXPECT_TRUE(disk_.wait_until_committed(2));
}

TEST_F(Committer, ARefusedGroupTakesAlongWhatWasBuiltOnIt) {
  make();
  const Version before = run(put("a")).committed()->version;
  disk_.hold();
  auto first = start(replace("a", before));
  ASSERT_TRUE(disk_.wait_until_writing(2));
  const Version built = run(put("b"), Until::kDecided).committed()->version;
  disk_.fail_next(std::make_exception_ptr(StoreFull("no space")));
  disk_.let_go();
  EXPECT_THROW(static_cast<void>(first.get()), StoreFull);
  EXPECT_THROW(until_durable(built), StoreFull);
  EXPECT_EQ(disk_.get("a")->version, before);
  EXPECT_FALSE(disk_.get("b"));

  const CommitOutcome again = run(replace("a", before));
  ASSERT_TRUE(again.committed()) << "it works on, on what is there";
  EXPECT_GT(again.committed()->version, built) << "a version that was told is not given again";
  EXPECT_THROW(until_durable(built), StoreFull) << "and stays lost";
}

TEST_F(Committer, AfterAFailureOfTheDiskNothingIsTakenOrTold) {
  make();
  disk_.hold();
  auto first = start(put("a"));
  ASSERT_TRUE(disk_.wait_until_writing());
  auto second = start(put("b"));
  disk_.fail_next(std::make_exception_ptr(StoreFailed("the sync failed")));
  disk_.let_go();
  EXPECT_THROW(static_cast<void>(first.get()), OutcomeUnknown);
  EXPECT_THROW(static_cast<void>(second.get()), StoreFailed);
  EXPECT_THROW(static_cast<void>(run(put("c"))), StoreFailed);
  EXPECT_THROW(committer_->check_usable(), StoreFailed);
  EXPECT_TRUE(disk_.groups().empty());
}

TEST_F(Committer, BusyIsNoConflict) {
  make({.busy_timeout = 50ms});
  disk_.be_busy(true);
  Batch batch;
  batch.require_absent("a").put("a", "v");
  EXPECT_THROW(static_cast<void>(run(batch)), StoreBusy);
  EXPECT_FALSE(disk_.get("a"));
  disk_.be_busy(false);
  EXPECT_TRUE(run(batch).committed()) << "nothing happened before, so it can be tried again";
}

TEST_F(Committer, ABatchThatWaitsForTheTurnCanBeTakenBack) {
  make({.busy_timeout = kDeadline});
  disk_.be_busy(true);
  auto waiting = start(put("a"));
  ASSERT_TRUE(disk_.wait_until_asked(1));
  waiting.request_stop();
  EXPECT_THROW(static_cast<void>(waiting.get()), Cancelled);
  disk_.be_busy(false);
  EXPECT_TRUE(run(put("b")).committed());
  EXPECT_FALSE(disk_.get("a"));
}

TEST_F(Committer, TheTurnIsGivenUpWhenAnotherWantsItAndWhatIsKnownIsReadAgain) {
  make();
  const Version version = run(put("a")).committed()->version;
  disk_.hold();
  auto first = start(replace("a", version));
  ASSERT_TRUE(disk_.wait_until_writing(2));
  const int ended = disk_.turns_ended();
  disk_.want_the_turn();
  disk_.let_go();
  const Version second = first.get().committed()->version;
  ASSERT_TRUE(run(put("b")).committed());
  EXPECT_GT(disk_.turns_ended(), ended);

  disk_.write_as_another("a", "theirs");
  const CommitOutcome stale = run(replace("a", second));
  ASSERT_TRUE(stale.conflict());
  EXPECT_EQ(stale.conflict()->current->value, "theirs");
}

TEST_F(Committer, WhatCanBeDecidedAtOnceNeedsNoWait) {
  make();
  const Batch early = put("a");
  EXPECT_FALSE(committer_->try_apply(early)) << "nobody is there to write it";
  disk_.hold();
  auto first = start(early);
  ASSERT_TRUE(disk_.wait_until_writing());

  const std::optional<CommitOutcome> applied = committer_->try_apply(put("b"));
  ASSERT_TRUE(applied && applied->committed());
  const Version version = applied->committed()->version;
  const auto built_on_it = committer_->try_apply(replace("b", version));
  ASSERT_TRUE(built_on_it && built_on_it->committed());
  EXPECT_GT(built_on_it->committed()->version, version);
  const auto too_late = committer_->try_apply(replace("b", version));
  ASSERT_TRUE(too_late);
  EXPECT_TRUE(too_late->conflict());
  EXPECT_FALSE(committer_->try_apply(replace("c", 7))) << "it has to be read whether it is there";
  EXPECT_FALSE(committer_->is_durable(version));

  disk_.let_go();
  until_durable(version + 1);
  EXPECT_EQ(disk_.get("b")->version, version + 1);
  EXPECT_TRUE(first.get().committed());
}

TEST_F(Committer, AfterAFailureOfTheDiskNothingIsDecidedAtOnceEither) {
  make();
  disk_.hold();
  auto first = start(put("a"));
  ASSERT_TRUE(disk_.wait_until_writing());
  disk_.fail_next(std::make_exception_ptr(StoreFailed("the sync failed")));
  disk_.let_go();
  EXPECT_THROW(static_cast<void>(first.get()), OutcomeUnknown);
  EXPECT_FALSE(committer_->try_apply(put("b")));
}

TEST_F(Committer, AKnownKeyIsNotReadAgain) {
  make();
  Version version = run(put("a")).committed()->version;
  const int reads = disk_.reads();
  for (int i = 0; i < 100; ++i) {
    version = run(replace("a", version)).committed()->version;
  }
  EXPECT_EQ(disk_.reads(), reads);
}

}  // namespace
}  // namespace holdfast::detail
