// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <holdfast/clock.hpp>
#include <holdfast/store.hpp>

#include "backend.hpp"
#include "base/spinning_mutex.hpp"
#include "completion.hpp"
#include "known_rows.hpp"
#include "watch_list.hpp"

namespace holdfast::detail {

struct CommitterLimits {
  /// A group takes no more batches once it has this many bytes, keys or batches. Two groups are in
  /// memory at a time, the one on its way to the disk and the one that gathers; whoever comes then
  /// waits.
  std::size_t group_bytes_max = std::size_t{8} << 20;
  std::size_t group_keys_max = 16'384;
  std::size_t group_batches_max = 65'536;
  /// As long as nobody waits for the disk, a group grows for so long before it is written: several
  /// times as long as a sync takes, and no longer than one that is slow.
  Duration unwaited_for_max = std::chrono::milliseconds(10);
  /// How long another process may keep this one from writing before that is a `StoreBusy`.
  Duration busy_timeout = std::chrono::seconds(5);
};

/// Group commit: gathers the batches of all callers and writes them in one transaction with one
/// sync, while the next ones gather. It begins to write with the first one that comes back of the
/// callers it has answered, and syncs when no more come. While nobody waits for the disk, it lets
/// them gather: what is overwritten, or goes again, then need not be written.
///
/// A batch is decided in memory, in the order in which batches came, while this process has the
/// turn to write, so that nobody else can change what it was checked against; a decided batch fails
/// only if the disk does. If the process has the turn and knows the keys, that happens in the
/// caller's own thread and takes no longer than a lookup. Otherwise the committer's thread takes
/// the turn and reads the keys first. The turn ends when nothing is left to write, or when another
/// process wants it.
class Committer {
 public:
  Committer(Backend& backend, WatchList& watches, const CommitterLimits& limits = {});
  Committer(const Committer&) = delete;
  Committer& operator=(const Committer&) = delete;
  /// Writes what was applied.
  ~Committer();

  /// A batch on its way.
  class Request final : public Completion {
   public:
    enum class Until : std::uint8_t { kDecided, kDurable };
    Request(Committer& committer, Batch&& batch, Until until) noexcept
        : committer_(committer), batch_(std::move(batch)), until_(until) {}
    /// A batch that is made in its own transaction.
    Request(Committer& committer, TransactionWork work) noexcept
        : committer_(committer), work_(std::move(work)) {}
    /// After it was awaited.
    [[nodiscard]] CommitOutcome result();

   private:
    friend class Committer;
    void begin() override;
    void stop() noexcept override;

    Committer& committer_;
    Batch batch_;
    TransactionWork work_;  // Null: the batch is there.
    Until until_ = Until::kDurable;
    bool queued_ = false;
    TimePoint give_up_at_{};
    std::optional<CommitOutcome> outcome_;
    std::exception_ptr error_;
    Request* previous_ = nullptr;
    Request* next_ = nullptr;
  };

  /// Decides the batch if that can be done at once, and somebody is there to write it; nothing: it
  /// has to be requested.
  [[nodiscard]] std::optional<CommitOutcome> try_apply(const Batch& batch);

  /// A wait until a commit is durable.
  class Durable final : public Completion {
   public:
    Durable(Committer& committer, Version version) noexcept
        : committer_(committer), version_(version) {}
    void rethrow() const;

   private:
    friend class Committer;
    void begin() override;
    void stop() noexcept override;

    Committer& committer_;
    Version version_;
    std::exception_ptr error_;
  };

  /// What was applied and may not be on the disk yet: the entry, or nothing with `known` if it was
  /// erased. Not `known`: the disk has it.
  struct Applied {
    bool known = false;
    std::optional<Entry> entry;
  };
  [[nodiscard]] Applied applied(std::string_view key);

  /// All that was applied behind `after` with `prefix`, over a snapshot of the disk of that moment.
  struct AppliedOver {
    std::unique_ptr<Backend::Snapshot> disk;
    std::map<std::string, std::optional<Entry>, std::less<>> changes;
  };
  [[nodiscard]] AppliedOver applied_over(std::string_view prefix, std::string_view after);

  /// False also if it is lost.
  [[nodiscard]] bool is_durable(Version version);

  /// Throws if the disk has failed.
  void check_usable();

 private:
  /// Requests that are not decided yet, in order.
  class Queue {
   public:
    [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
    [[nodiscard]] Request* first() const noexcept { return first_; }
    void push(Request& request) noexcept;
    void remove(Request& request) noexcept;

   private:
    Request* first_ = nullptr;
    Request* last_ = nullptr;
  };
  /// Callers that wait until a group is durable.
  struct Waiters {
    std::vector<Request*> requests;
    std::vector<Durable*> durables;
    [[nodiscard]] bool empty() const noexcept { return requests.empty() && durables.empty(); }
    void append(Waiters& others);
  };
  /// Versions of batches that were decided, and that the disk then did not take.
  struct Lost {
    Version first;
    Version last;
    std::exception_ptr why;
  };
  /// What callers are told when the backend throws.
  struct Failure {
    std::exception_ptr not_written{};  ///< Nothing happened, and it may go on.
    std::exception_ptr of_writing{};   ///< Of what was on its way.
    std::exception_ptr of_rest{};      ///< Of all else, for ever.
  };
  using Lock = std::unique_lock<SpinningMutex>;

  // The committer's thread.
  void run();
  void wait_for_work(Lock& lock);
  void wait_for_arrivals(std::uint64_t until, Duration patience) const noexcept;
  [[nodiscard]] bool take_turn(Lock& lock);
  void write_all_there_is(Lock& lock);
  [[nodiscard]] bool has_work(Lock& lock);
  void let_grow(Lock& lock);
  [[nodiscard]] bool write_group(Lock& lock);
  [[nodiscard]] bool more_is_coming(Lock& lock);
  void end_turn(Lock& lock);
  void refuse_queued(Lock& lock, const std::exception_ptr& error, TimePoint given_up_by);
  void decide_queued(Lock& lock);
  [[nodiscard]] std::vector<Request*> take_queued();
  void fetch(Lock& lock, const std::vector<Request*>& requests);
  void learn(std::string_view key, Backend::Found found);
  [[nodiscard]] bool write_gathered(Lock& lock, const RowList& rows);
  void commit_written(Lock& lock);
  [[nodiscard]] bool succeeds(Lock& lock, const std::function<void()>& with_disk);
  void learn_cost(const Backend::Cost& cost) noexcept;
  void tell(Lock& lock);
  [[nodiscard]] static Failure failure_of_backend();
  void lose(Lock& lock, const std::exception_ptr& why);
  void fail(Lock& lock, const Failure& failure);

  // committer_transact.cpp
  void transact(Lock& lock);
  [[nodiscard]] Failure call_work(Request& request);
  /// With the lock held: the first in the queue is no batch for a group.
  [[nodiscard]] bool next_is_alone() const noexcept;

  // With the lock held.
  [[nodiscard]] bool can_decide_at_once(const Batch& batch);
  /// Or enough for one of so many `parts` of a group.
  [[nodiscard]] bool is_enough(const RowList& rows, std::size_t batches,
                               std::size_t parts = 1) const noexcept;
  [[nodiscard]] bool may_grow() const noexcept;
  void wake() noexcept;
  /// Finds what the batch is on condition of, for `decide`. False: some of it has to be read.
  [[nodiscard]] bool look_up(const Batch& batch);
  /// The same after `fetch`.
  void look_up_fetched(const Batch& batch);
  /// After `look_up`. False: it is decided, and waits for the disk.
  [[nodiscard]] bool complete_when_decided(Request& request);
  [[nodiscard]] CommitOutcome decide(const Batch& batch);
  void gather(const Batch& batch);
  [[nodiscard]] bool has_to_be_read(const Batch::Condition& condition);
  /// When it is written.
  [[nodiscard]] bool is_checked_later(const Batch::Condition& condition) const noexcept;
  void forget_undurable(const std::exception_ptr& why);
  [[nodiscard]] const Lost* find_lost(Version version) const noexcept;

  // Without it.
  /// False also if it takes the lock to know.
  [[nodiscard]] bool is_surely_durable(Version version) const noexcept {
    return version <= durable_.load(std::memory_order_acquire) &&
           !has_lost_.load(std::memory_order_relaxed);
  }
  static void complete(const std::vector<Request*>& requests) noexcept;
  static void complete(const Waiters& waiters, const std::exception_ptr& error) noexcept;

  Backend& backend_;
  WatchList& watches_;
  const CommitterLimits limits_;

  SpinningMutex mutex_;
  std::condition_variable_any work_;
  bool closing_ = false;
  bool asleep_ = false;  // The committer's thread, and nobody has woken it yet.
  std::exception_ptr failed_;
  std::atomic<bool> has_failed_ = false;    // And that is set.
  std::atomic<std::uint64_t> arrived_ = 0;  // Batches so far, for those who spin.

  Queue queue_;
  bool deciding_ = false;  // Some were taken from the queue, and come before all others.

  bool taking_turn_ = false;
  bool has_turn_ = false;
  bool yielding_ = false;             // Others want the turn: nothing more is decided in this one.
  Version last_ = 0;                  // Of the last batch that was decided.
  std::atomic<Version> durable_ = 0;  // Changed with the lock, and read also without it.
  Version writing_last_ = 0;

  KnownRows rows_;
  std::vector<const Row*> looked_up_;  // Of each condition; null: to be checked when it is written.
  std::size_t gathered_batches_ = 0;
  std::size_t written_batches_ = 0;  // In the transaction that is open.
  // The same; of rows that were taken, and for the committer's thread alone.
  std::vector<std::string_view> written_keys_;
  Waiters for_gathering_;
  Waiters for_writing_;
  bool was_waited_for_ = true;  // The last group.
  std::vector<Lost> lost_;
  std::atomic<bool> has_lost_ = false;  // Ever. Set before `durable_` is beyond what was lost.
  Backend::Cost cost_;
  std::size_t answered_ = 0;  // Callers who may come back after the last group; `arrived_` then.
  std::uint64_t arrived_when_answered_ = 0;

  std::thread thread_;
};

}  // namespace holdfast::detail
