// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <holdfast/engine.hpp>
#include <holdfast/semaphore.hpp>

#include "entrance.hpp"
#include "ownership.hpp"
#include "run_directory.hpp"
#include "run_world.hpp"

namespace holdfast::detail {

/// `StartOptions`, checked and kept.
struct StartTerms {
  /// Throws `InvalidArgument`.
  StartTerms(const StartOptions& options, const std::string& own_queue);

  std::string id;
  OnConflict on_conflict;
  std::string start_key;
  bool keeps_start_key = true;  ///< False: it is for another run, and this one begins without it.
  std::string queue;
  Duration delay;
  Duration timeout;
  Duration chain_timeout;
  int priority;
  std::map<std::string, std::string> attributes;
  /// Of its definition, if whoever starts it has that at hand.
  std::shared_ptr<const Admission> admission;
};

/// What an `Engine` is made of: the partitions that it drives, and the loops that bring them their
/// timers and messages.
class EngineCore : public std::enable_shared_from_this<EngineCore> {
 public:
  EngineCore(Session& session, const EngineOptions& options);
  EngineCore(const EngineCore&) = delete;
  EngineCore& operator=(const EngineCore&) = delete;

  /// `admission` may be null.
  void add(const std::string& name, std::shared_ptr<const WorkflowCode> code,
           std::shared_ptr<const Admission> admission);
  [[nodiscard]] Task<void> begin();
  [[nodiscard]] Task<void> stop(Duration grace);
  /// Without waiting for anything.
  void close();

  [[nodiscard]] Task<void> recover_all();
  [[nodiscard]] Task<std::optional<StoreTime>> sweep();
  [[nodiscard]] Task<RunInfo> resume(std::string id);

  [[nodiscard]] Task<std::string> start(std::string type, boost::json::value input,
                                        StartTerms terms, std::optional<record::RunEvent> signal);
  // collector.cpp
  [[nodiscard]] Task<CollectedRun> collect(CollectorTerms terms, std::string key,
                                           boost::json::value input, CollectTerms how);
  [[nodiscard]] Task<std::string> hand_to_collector(std::string collector, record::RunEvent update,
                                                    const StartTerms& terms);
  /// Until the run is there, or will never be.
  [[nodiscard]] Task<void> until_collected(CollectedRun run);

  [[nodiscard]] Task<boost::json::value> result(std::string id);
  /// Into the inbox of a run that goes on. Throws `NoSuchRun`.
  [[nodiscard]] Task<void> send(std::string id, record::RunMessage message);
  [[nodiscard]] Task<boost::json::value> ask(std::string id, record::RunEvent question,
                                             bool changes);
  [[nodiscard]] Task<void> reset(std::string id, std::uint64_t rows, std::string reason);

  [[nodiscard]] const std::string& queue() const noexcept { return ownership_->queue(); }
  [[nodiscard]] Store& store() const noexcept { return world_->store; }
  [[nodiscard]] std::string next_uid(StoreTime now) { return world_->next_uid(now); }
  [[nodiscard]] RunWorld& world() const noexcept { return *world_; }
  [[nodiscard]] const WallClock& wall_clock() const noexcept { return *wall_clock_; }
  /// Of all timers, as far as they have been read.
  [[nodiscard]] std::optional<StoreTime> next_due() const;
  [[nodiscard]] const Ownership& ownership() const noexcept { return *ownership_; }
  [[nodiscard]] std::size_t live_runs() const;
  [[nodiscard]] std::size_t partitions() const { return ownership_->tenures().size(); }

 private:
  [[nodiscard]] std::shared_ptr<Tenure> tenure_of(const RunPlace& place) const;

  // engine_start.cpp
  struct Existing {
    std::optional<RunRow> same;  ///< Was started with the same key.
    std::optional<RunRow> open;  ///< Has the id, and goes on.
  };
  struct Started {
    std::string id;       ///< Empty: nothing is to be started.
    Version version = 0;  ///< To be durable; zero: it is.
  };
  /// Nothing: something has changed under it, or, with `tried`, nobody knows whether the run is
  /// there.
  [[nodiscard]] Task<std::optional<Started>> try_start(
      const std::string& type, const boost::json::value& input, const StartTerms& terms,
      const std::optional<record::RunEvent>& signal, Hold& turn, std::optional<RunPlace>& tried);
  [[nodiscard]] Task<std::optional<Started>> find_tried(RunPlace place);
  [[nodiscard]] std::size_t starts_in_a_row() const noexcept;
  [[nodiscard]] Task<Existing> find_existing(const StartTerms& terms, Batch& batch);
  [[nodiscard]] Task<bool> signal_run_of_key(RunRow run, record::RunEvent signal);
  [[nodiscard]] Task<bool> settle_conflict(RunRow existing, const StartTerms& terms,
                                           record::RunHead head);
  [[nodiscard]] Task<std::optional<CommitOutcome>> start_elsewhere(RunPlace place,
                                                                   record::RunHead&& head,
                                                                   Batch&& extra,
                                                                   Entrance entrance);

  // engine_messages.cpp
  [[nodiscard]] Task<RunRow> find_open(std::string id);
  [[nodiscard]] Task<bool> try_send(RunRow run, record::RunMessage message);
  [[nodiscard]] static Task<void> bring(std::shared_ptr<Tenure> tenure, std::string key,
                                        record::RunMessage message);
  [[nodiscard]] Task<std::optional<boost::json::value>> ask_here(std::shared_ptr<Tenure> tenure,
                                                                 std::string uid,
                                                                 record::RunEvent question,
                                                                 bool changes);
  [[nodiscard]] Task<std::optional<boost::json::value>> ask_this(RunRow run,
                                                                 record::RunEvent question,
                                                                 bool changes);
  [[nodiscard]] Task<std::optional<boost::json::value>> ask_elsewhere(RunRow run,
                                                                      record::RunEvent question,
                                                                      bool changes);

  // engine_results.cpp
  [[nodiscard]] Task<std::optional<boost::json::value>> stored_result(const std::string& id);

  // The loops.
  [[nodiscard]] Task<void> take_share();
  [[nodiscard]] Task<void> read_inbox(std::string prefix, Read read);
  [[nodiscard]] static Task<void> keep_share(std::shared_ptr<EngineCore> core);
  [[nodiscard]] static Task<void> keep_agenda(std::shared_ptr<EngineCore> core);
  [[nodiscard]] static Task<void> keep_inbox(std::shared_ptr<EngineCore> core);
  [[nodiscard]] static Task<void> keep_gates(std::shared_ptr<EngineCore> core);
  [[nodiscard]] static Task<void> keep_memory_small(std::shared_ptr<EngineCore> core);
  /// Until it is stopped; a store that is busy is tried again.
  [[nodiscard]] static Task<void> insist(std::shared_ptr<EngineCore> core,
                                         Task<void> (*loop)(std::shared_ptr<EngineCore>));
  [[nodiscard]] Task<void> until_quiet();

  const std::shared_ptr<RunWorld> world_;
  const std::shared_ptr<const WallClock> wall_clock_;
  const Duration idle_time_;
  const Duration watchdog_time_;
  struct Known {
    std::shared_ptr<const WorkflowCode> code;
    std::shared_ptr<const Admission> admission;
  };
  const std::shared_ptr<std::map<std::string, Known>> known_ =
      std::make_shared<std::map<std::string, Known>>();
  const std::shared_ptr<Ownership> ownership_;
  /// Runs that are being written for the first time. More at once fill no commit better, and what
  /// each has in memory is in no cache of the processor any more when its turn comes.
  static constexpr std::int64_t kStartsAtOnceMax = 128;
  Semaphore starts_{kStartsAtOnceMax};
  BackgroundTasks loops_;
  std::atomic<bool> stopping_ = false;
  std::optional<StoreTime> look_again_;
};

}  // namespace holdfast::detail
