// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <holdfast/mutex.hpp>
#include <holdfast/store.hpp>

#include "live_run.hpp"
#include "run_keys.hpp"
#include "run_world.hpp"
#include "timer_window.hpp"

namespace holdfast::detail {

/// A partition in the hands of this process, from the commit that took it until another process
/// takes it, it is handed over, or something fails: then all that is here is dropped, and whoever
/// comes next reads it again.
///
/// Every commit is on condition of the epoch, so a process that was deposed and does not know it
/// can write nothing.
class Tenure : public std::enable_shared_from_this<Tenure> {
 public:
  /// Takes the partition, unless a living process has it: then null. The runs of it stand still
  /// until `recover`.
  [[nodiscard]] static Task<std::shared_ptr<Tenure>> take(std::shared_ptr<RunWorld> world,
                                                          PartitionKeys keys);
  Tenure(std::shared_ptr<RunWorld> world, PartitionKeys keys, Version epoch);
  Tenure(const Tenure&) = delete;
  Tenure& operator=(const Tenure&) = delete;

  [[nodiscard]] RunWorld& world() const noexcept { return *world_; }
  [[nodiscard]] const PartitionKeys& keys() const noexcept { return keys_; }
  [[nodiscard]] bool is_over() const noexcept { return over_.load(std::memory_order_acquire); }

  /// Goes on with the runs that have something to do; the others wait in the store.
  [[nodiscard]] Task<void> recover();
  [[nodiscard]] bool is_recovered() const noexcept { return recovered_; }
  /// Applies the batch if the partition is still ours; nothing if it is not.
  [[nodiscard]] Task<std::optional<CommitOutcome>> apply(Batch batch);
  struct Applied {
    std::optional<CommitOutcome> outcome;  ///< As `apply`.
    bool busy = false;                     ///< Nothing happened: make the batch again, later.
  };
  /// The same for one that would be costly to copy.
  [[nodiscard]] Task<Applied> try_apply(Batch batch);
  /// The same in two steps: if nothing comes of the first, as something has to be waited for, the
  /// second is to be taken. Both want a batch that has the guard.
  void guard(Batch& batch) const { batch.guard(keys_.owner(), epoch_); }
  [[nodiscard]] std::optional<Applied> apply_at_once(const Batch& batch);
  [[nodiscard]] Task<Applied> apply_guarded(Batch batch);
  struct Transacted {
    std::optional<CommitOutcome> outcome;  ///< As `apply`; of another guard it may be `Fenced`.
    bool busy = false;                     ///< Nothing happened: again, later.
    std::exception_ptr error{};            ///< Nothing happened, and not for want of a store.
    bool is_of_work = false;               ///< `work` has thrown it.
  };
  /// The same for a batch that `work` makes in its own transaction. Durable on return.
  [[nodiscard]] Task<Transacted> try_transact(TransactionWork work);
  /// Whether that commit cannot be lost any more; if it was lost, the tenure is over.
  [[nodiscard]] Task<bool> until_durable(Version version);
  /// Nothing that is here counts any more.
  void end(const std::string& reason);
  void drop_runs();
  /// Runs a task that nobody waits for. What it throws ends the tenure.
  void run(Task<void> task);
  /// Gives it to whoever wants it. What is in hand must have ended.
  [[nodiscard]] Task<void> hand_over();

  /// A new run, whose first activation goes into the commit that makes it, unless it has to wait at
  /// a gate of its workflow, as its head says then. `extra` and `entrance` are added to that
  /// commit. The outcome is applied, not durable yet; nothing: the partition is not ours.
  [[nodiscard]] Task<std::optional<CommitOutcome>> start(std::string uid, record::RunHead&& head,
                                                         Batch&& extra, Entrance&& entrance,
                                                         StoreTime now);

  enum class Whereabouts : std::uint8_t { kLive, kGone, kParked };
  struct Found {
    Whereabouts where = Whereabouts::kGone;
    std::shared_ptr<LiveRun> run;
  };
  /// The run, rebuilt from its journal if it is not in memory.
  [[nodiscard]] Task<Found> find(std::string uid);
  /// Null: it is not in memory.
  [[nodiscard]] std::shared_ptr<LiveRun> find_live(const std::string& uid) const;
  /// Into its mailbox, if it goes on here.
  [[nodiscard]] Task<Whereabouts> deliver(std::string uid, Mail mail);
  /// A message from the inbox, which is taken once, however often it is seen.
  [[nodiscard]] Task<void> take_message(std::string key, record::RunMessage message);
  /// The same for a run of this partition that is in memory, at once; false: it is not any more,
  /// and the message is left. `to_drive` is set if nobody drives it yet, and whoever calls this has
  /// to.
  [[nodiscard]] bool take_here(const std::shared_ptr<LiveRun>& run, const std::string& key,
                               record::RunMessage& message, std::shared_ptr<LiveRun>& to_drive);
  /// The same for mail that was made of one.
  [[nodiscard]] bool take_here(const std::shared_ptr<LiveRun>& run, Mail& mail,
                               std::shared_ptr<LiveRun>& to_drive);
  /// What a run has not read that has ended, or has left: it is taken anew.
  void return_mail(std::vector<Mail> mails);
  /// What has come for a run that leaves the memory before it could read it: it stays in the store,
  /// and is for whoever brings the run back.
  void set_aside(const std::string& uid, const std::vector<Mail>& mails);
  /// A row that mail came from was erased; timers are not seen again anyway.
  void row_done(const std::string& key);

  /// It is not in memory any more; another one of the same uid may be there by now.
  void forget(const LiveRun& run);
  /// Something in the store does not let the run go on.
  [[nodiscard]] Task<void> stand_still(std::shared_ptr<LiveRun> run, std::string reason);
  void add_timer(const std::string& key);
  void remove_timer(const std::string& key);
  [[nodiscard]] std::optional<StoreTime> next_due();
  [[nodiscard]] Task<void> fire_due();
  /// Drops those from memory that have waited for longer.
  void evict(TimePoint idle_since);

  [[nodiscard]] std::vector<std::shared_ptr<LiveRun>> live() const;
  [[nodiscard]] std::size_t live_count() const;
  /// None of them has anything in hand.
  [[nodiscard]] bool is_quiet() const;

 private:
  /// Ends the tenure if it is over by the outcome, or by `failure` if there is none.
  void look_at_outcome(Applied& applied, std::string failure);
  [[nodiscard]] bool keep(const std::shared_ptr<LiveRun>& run);
  [[nodiscard]] Task<Found> load(std::string uid);
  [[nodiscard]] Task<void> park(std::string uid, std::string reason);
  [[nodiscard]] Task<void> unpark(std::string uid);
  [[nodiscard]] Task<void> fire(std::string key);
  [[nodiscard]] Task<std::vector<Mail>> mail_set_aside(std::string uid);
  [[nodiscard]] static Task<void> end_if_it_fails(std::shared_ptr<Tenure> tenure, Task<void> task);
  [[nodiscard]] Task<void> pass_on(std::string key, record::RunMessage message);
  [[nodiscard]] static Task<void> take_again(std::shared_ptr<Tenure> tenure, std::string key);
  [[nodiscard]] Task<void> answer_for_the_gone(std::string key, record::RunMessage message);
  [[nodiscard]] Task<void> start_instead(std::string key, record::RunMessage message);
  [[nodiscard]] Task<std::optional<CommitOutcome>> start_next(record::RunHead head, Batch batch,
                                                              StoreTime now);

  const std::shared_ptr<RunWorld> world_;
  const PartitionKeys keys_;
  const Version epoch_;
  std::atomic<bool> over_ = false;
  std::atomic<bool> is_handed_over_ = false;  // Or about to be.
  std::atomic<bool> recovered_ = false;

  Mutex loading_;  // One at a time, so that none is there twice.

  mutable std::mutex mutex_;
  using Runs = std::unordered_map<std::string_view, std::shared_ptr<LiveRun>>;
  Runs runs_;  // By their own uids.
  TimerWindow timers_;
  std::unordered_set<std::string> taken_;  // Messages that are on their way.
  std::unordered_map<std::string, std::vector<std::string>> aside_;  // Their rows, by uids.
  std::unordered_set<std::string> parked_;
};

}  // namespace holdfast::detail
