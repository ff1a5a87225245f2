// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <run.pb.h>

#include <holdfast/executor.hpp>
#include <holdfast/workflow.hpp>

#include "fetch_steps.hpp"
#include "pending_operations.hpp"
#include "recent_requests.hpp"
#include "run_handlers.hpp"
#include "run_permit.hpp"
#include "run_signals.hpp"

namespace holdfast::detail {

inline constexpr std::uint32_t kRunFormat = 1;
/// Of steps, signals and types of workflows.
inline constexpr std::size_t kOperationNameBytesMax = 255;

/// The limits that the attempts of a step are under.
struct StepLimits {
  std::vector<LockTerms> wanted;  ///< In the order in which they are taken.
  std::size_t own = 0;            ///< Which of them is the step's own, or the first of the run.
  /// Those that the journal has, if it is replayed: the code may say something else by now.
  std::vector<std::string> in_journal;

  [[nodiscard]] bool any() const noexcept { return !wanted.empty() || !in_journal.empty(); }
};
/// What came of asking for the first permit of a step.
struct FirstPermit {
  std::uint64_t fence = 0;  ///< It has it.
  std::string waiter_key;   ///< It waits.
  std::exception_ptr refusal;
};
/// What the code of a run began in an activation and others have to do.
struct BegunStep {
  std::uint64_t operation = 0;
  std::string name;
  std::unique_ptr<StepCode> code;
  StepTerms terms;
  StepLimits limits{};
  FirstPermit permit{};
};
struct BegunTimer {
  std::uint64_t operation = 0;
  StoreTime due{};
};
struct BegunChild {
  std::uint64_t operation = 0;
  std::string type;
  boost::json::value input;
  ChildTerms terms;
};
/// A read or a change of a cell, which is done in the commit of the activation.
struct BegunStateAccess {
  std::uint64_t operation = 0;
  std::string key;
  std::unique_ptr<StateCode> code;
};
/// A lock that is asked for in the commit of the activation.
struct BegunLock {
  std::uint64_t operation = 0;
  LockTerms terms;
  std::string holder_key{};  ///< Empty: it was not asked for yet.
};
/// Word to a child, by the operation that began it, or else to the parent.
struct BegunTell {
  std::optional<std::uint64_t> child;
  record::RunEvent event;
};
/// A plain operation at a gate, which is done in the commit of the activation.
struct BegunUse {
  std::uint64_t operation = 0;
  GateUse use;
};
/// The answer to an update.
struct UpdateReply {
  std::string request;
  boost::json::value value;
  std::exception_ptr error;
};

/// How a run ended: with a value, with what it threw, or by going on as a new one.
struct RunEnd {
  boost::json::value value;
  std::string text;  ///< The same, as that of a payload.
  std::exception_ptr error;
  std::optional<boost::json::value> continue_with;
  /// Signals that nobody took, for the one that goes on.
  std::vector<record::RunEvent> signals_left;
  /// Of signals that were taken: for the one that goes on they count no more.
  std::vector<std::string> requests_done;
  /// To the last updates, the oldest first, for the one that goes on.
  std::vector<record::RunAnswer> answers;
};

/// What came of an activation. The record is what the journal gets.
struct Activated {
  record::Activation record;
  std::vector<BegunStep> steps;
  std::vector<BegunTimer> timers;
  std::vector<BegunChild> children;
  std::vector<BegunStateAccess> state;
  std::vector<BegunLock> locks;
  std::vector<BegunUse> uses;
  /// Locks that are released, or not waited for any longer.
  std::vector<std::uint64_t> let_go;
  std::vector<BegunTell> tells;
  std::vector<UpdateReply> replies;
  /// Operations that nobody waits for any more: a timer need not fire, a step and a child may stop,
  /// a lock is not wanted.
  /// Not those that were begun in the same activation: these are in none of the lists above.
  std::vector<std::uint64_t> given_up;
  /// Steps that are to stop. Their ends are waited for.
  std::vector<std::uint64_t> unwanted;
  std::optional<RunEnd> end;
};

/// How many operations the code may begin in one activation: more is a loop without an end.
inline constexpr std::uint64_t kOperationsAtOnceMax = 100'000;

/// The code of one run, as far as it has come: it is activated by what happened, goes on until all
/// of it waits, and says what it wants. Pure: time and all else come with the events, so the same
/// events lead to the same place, and that is how a run is rebuilt from its journal.
///
/// Used by one thread at a time.
class RunMachine {
 public:
  struct Facts {
    std::string id;
    std::string type;
    boost::json::value input;
    std::string uid{};        ///< Empty: as `id`.
    std::string root_id{};    ///< Of the top of the tree of runs. Empty: as `id`.
    std::string parent_id{};  ///< Empty: it is no child.
    StoreTime started_at{};
    /// Of signals that the runs before it in its chain have taken.
    std::vector<std::string> requests_done{};
    /// Under which the cells of the tree are. Empty: as `root_id`, as it was once.
    std::string root_uid{};
    /// To updates that the runs before it in its chain have made.
    std::vector<record::RunAnswer> answers{};
    /// That each of its steps is under, besides its own. Transactions are not.
    std::vector<Limit> step_limits{};
    int step_priority = 0;  ///< Among those who wait there.
    /// From which follows what is random: that of the run that began the journal. Empty: as `uid`.
    std::string random_uid{};
  };
  /// `code` outlives this.
  RunMachine(const WorkflowCode& code, Facts facts);
  RunMachine(const RunMachine&) = delete;
  RunMachine& operator=(const RunMachine&) = delete;
  /// The code does not go on: what its frames hold is destroyed where it stands.
  ~RunMachine();

  /// The first time with `STARTED`. Not after the end. What is held comes before `events`, but
  /// behind locks that are lost, if these are the first. The record has those that the run took:
  /// not what is behind its end, which stays in `events`.
  [[nodiscard]] Activated activate_from(StoreTime now, std::span<record::RunEvent> events);
  [[nodiscard]] Activated activate(StoreTime now, std::vector<record::RunEvent> events) {
    return activate_from(now, events);
  }
  /// Goes over a row of the journal again, and holds what it holds. Throws `NondeterminismError`,
  /// after which this is of no use. The steps and timers are those that had not ended when the row
  /// was written. The record is left empty: it is `row`.
  [[nodiscard]] Activated replay(const record::Activation& row);

  /// The next activation gets these first, and does not record them: whoever calls this has added
  /// them to the record of the last one.
  void hold(std::vector<record::RunEvent> events);
  [[nodiscard]] bool has_held() const noexcept { return !held_.empty(); }
  /// What an activation will look at, if the machine itself is in the processor's caches: as for
  /// `LiveRun::fetch_ahead`.
  void fetch_ahead(FetchStep step) const noexcept;
  [[nodiscard]] bool has_ended() const noexcept { return ended_; }

  /// Throws `NoSuchHandler`, `BadPayload`, and what the handler throws. Between activations.
  [[nodiscard]] boost::json::value query(std::string_view name, boost::json::value payload);
  /// Whether the run would take the update. Throws `NoSuchHandler`, `BadPayload`, or
  /// `UpdateRefused` with what the validator says. Between activations.
  void check_update(std::string_view name, boost::json::value payload);

  /// Nothing but one operation of those with a number can make it go on, unless it is cancelled.
  /// Between activations.
  [[nodiscard]] bool waits_for_one_alone() const {
    return pending_.size() == 1 && signals_.awaited().empty() && conditions_.empty();
  }
  [[nodiscard]] bool is_pending(std::uint64_t operation) const {
    return pending_.contains(operation);
  }
  /// Whether it has dealt with that update, or one before it in its chain: it counts no more.
  [[nodiscard]] bool knows_update(const std::string& request) const {
    return updates_.find(request) != nullptr;
  }

  /// Signals that came and that nobody took.
  [[nodiscard]] std::size_t signals_kept() const noexcept { return signals_.kept_count(); }

  /// What it waits for that only somebody outside can bring about, in words. Between activations.
  [[nodiscard]] std::vector<std::string> waits_for() const;

  // For `Context`.

  [[nodiscard]] const Facts& facts() const noexcept { return facts_; }
  /// They were not known when it was made. Before it is started.
  void limit_steps(std::vector<Limit> limits);
  [[nodiscard]] const std::string& root_id() const noexcept {
    return facts_.root_id.empty() ? facts_.id : facts_.root_id;
  }
  [[nodiscard]] StoreTime now() const noexcept { return now_; }
  [[nodiscard]] bool is_replaying() const noexcept { return expected_ != nullptr; }
  [[nodiscard]] std::uint64_t random() noexcept;
  [[nodiscard]] std::int64_t version(std::string_view change, std::int64_t oldest,
                                     std::int64_t newest);
  using Operation = std::shared_ptr<RunOperation>;
  [[nodiscard]] Operation begin_step(std::string_view name, std::unique_ptr<StepCode> code,
                                     const StepOptions& options);
  [[nodiscard]] Operation begin_timer(StoreTime due);
  [[nodiscard]] Operation begin_signal(std::string_view name);
  [[nodiscard]] Operation begin_child(std::string_view type, boost::json::value input,
                                      const ChildOptions& options);
  [[nodiscard]] Operation begin_state(std::string_view key, std::unique_ptr<StateCode> code);
  [[nodiscard]] Operation begin_lock(LockTerms terms);
  [[nodiscard]] Operation begin_gate(GateUse use);
  /// By the end of the activation. Nothing, if it is over.
  void release_lock(std::uint64_t operation) noexcept;
  /// The name of a lock that is asked for or held.
  [[nodiscard]] const std::string& gate_of(std::uint64_t operation) const {
    return locks_.at(operation).gate;
  }

  // For `Permit`: run_machine_permits.cpp.

  /// A child to which the lock passes when it begins. What becomes of it is seen in the permit.
  [[nodiscard]] std::shared_ptr<RunPermit> begin_permit(std::uint64_t lock, std::string_view id,
                                                        std::string_view queue,
                                                        boost::json::value input);
  /// Asks the child to end. Nothing, if it has.
  void release_permit(RunPermit& permit) noexcept;
  /// Asks the child to hold on for so long from now.
  void renew_permit(RunPermit& permit, Duration lease);
  void tell_parent(const boost::json::value& word);

  /// Settled with true when `predicate` is, and with false when the time is up.
  [[nodiscard]] Operation begin_condition(std::function<bool()> predicate,
                                          std::optional<Duration> timeout);
  void on_signal(std::string_view name, RunHandler handler);
  void on_update(std::string_view name, RunHandler handler, RunHandler validator);
  void on_query(std::string_view name, RunHandler handler);
  [[noreturn]] void continue_as_new(boost::json::value input);

  // For `RunOperation`.

  /// Nobody wants it any more. False: its end has to be waited for all the same.
  [[nodiscard]] bool give_up(const RunOperation& operation) noexcept;

 private:
  class Root;
  class NoOperations;
  /// Runs nothing but what the run itself posts, when it is drained.
  class Activator final : public Executor {
   public:
    Activator() noexcept : Executor(SpawnsNothing{}) {}
    void post(Work& work) noexcept override { ready_.push(work); }
    [[nodiscard]] Clock& clock() noexcept override;
    void drain() noexcept;

   private:
    WorkList ready_;
  };
  using Event = record::RunEvent;
  using Kind = record::RunOperation::Kind;

  static Root run_root(RunMachine& machine);
  [[nodiscard]] RunEnd end_of(Result<boost::json::value>& result);
  void begin_activation(StoreTime now);
  [[nodiscard]] Activated end_activation();
  /// What comes of the activation that is under way.
  [[nodiscard]] Activated& current();
  void check_is_known(const Event& event) const;
  void deliver(const Event& event);
  template <class Events>
  [[nodiscard]] std::size_t deliver_losses(const Events& events);
  void deliver_held();
  void start();
  void settle(const Event& event);
  void settle_lock(const Event& event, RunOperation& operation);
  void refuse_wait(const Event& event);
  void lose_lock(std::uint64_t operation);
  void permit_began(std::uint64_t operation);
  void permit_told(const Event& event);
  /// False: it is none of a permit.
  [[nodiscard]] bool end_permit(const Event& event);
  void lose_permit(RunPermit& permit);
  void take_signal(const Event& event);
  void take_update(const Event& event);
  [[nodiscard]] std::vector<record::RunAnswer> last_answers() const;
  void go_on();
  [[nodiscard]] bool settle_conditions();
  void stop_waiting_for(std::uint64_t operation) noexcept;
  void withdraw_given_up();

  [[nodiscard]] Operation begin(Kind kind, std::string_view name);
  [[nodiscard]] record::RunOperation& last_record();
  void check_has_not_ended(const char* so) const;
  void check_may_begin();
  void check_against_journal(Kind kind, std::string_view name);
  [[nodiscard]] StepLimits limits_of(std::string_view step, const StepOptions& options) const;
  void stray(std::string expected, std::string found);
  [[nodiscard]] const record::RunOperation* expected() const noexcept;

  const WorkflowCode& code_;
  Facts facts_;
  Context context_{*this};
  Activator activator_;
  TaskContext task_;

  StoreTime now_{};
  std::uint64_t activations_ = 0;
  std::uint64_t row_ = 0;  // Of the journal, that is being written or read.
  std::uint64_t next_operation_ = 0;
  std::uint64_t first_of_activation_ = 0;
  std::uint64_t random_state_;
  bool ended_ = false;
  std::unique_ptr<Activated> current_;            // Not part of it: most of the time a run waits.
  const record::Activation* expected_ = nullptr;  // While it is replayed.
  std::optional<std::string> strayed_;
  const char* no_operations_in_ = nullptr;  // Code that must not begin any.

  PendingOperations pending_;
  std::vector<std::uint64_t> withdrawn_;  // Begun and given up in this activation.
  RunSignals signals_;
  RunHandlers handlers_;
  RecentRequests<UpdateReply> updates_;
  struct Condition {
    Operation operation;
    std::function<bool()> predicate;
  };
  std::list<Condition> conditions_;
  struct Lock {
    std::string gate;
    bool is_lost = false;
    bool is_told = false;  // The code knows that it is.
  };
  std::map<std::uint64_t, Lock> locks_;                          // Asked for or held.
  std::map<std::uint64_t, std::shared_ptr<RunPermit>> permits_;  // Of children that have not ended.
  std::vector<Event> held_;
  std::optional<boost::json::value> continue_with_;
  std::exception_ptr handler_error_;

  std::coroutine_handle<> root_;  // Goes first, with all frames.
};

}  // namespace holdfast::detail
