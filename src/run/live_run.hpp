// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <run.pb.h>

#include <holdfast/detail/frame_allocator.hpp>
#include <holdfast/engine.hpp>
#include <holdfast/store.hpp>

#include "bell.hpp"
#include "entrance.hpp"
#include "gate/gate_deadlock.hpp"
#include "run_gates.hpp"
#include "run_machine.hpp"
#include "run_place.hpp"
#include "step_permits.hpp"
#include "step_run.hpp"

namespace holdfast::detail {

class Tenure;

/// An answer to somebody in this process.
struct LocalAnswer {
  Bell given;
  std::atomic<bool> is_given = false;
  bool moved = false;  ///< Nobody answered: the run is not here any more.
  boost::json::value value;
  std::exception_ptr error;

  void give() {
    is_given = true;
    given.ring();
  }
};

/// Whoever has it last and gives no answer tells the one who waits to ask elsewhere.
class AnswerDuty {
 public:
  explicit AnswerDuty(std::shared_ptr<LocalAnswer> answer) noexcept : answer_(std::move(answer)) {}
  AnswerDuty(const AnswerDuty&) = delete;
  AnswerDuty& operator=(const AnswerDuty&) = delete;
  ~AnswerDuty() {
    if (!answer_->is_given) {
      answer_->moved = true;
      answer_->give();
    }
  }
  /// `give` is to follow.
  void set(boost::json::value value, std::exception_ptr error) {
    answer_->value = std::move(value);
    answer_->error = std::move(error);
  }
  void give() { answer_->give(); }

 private:
  std::shared_ptr<LocalAnswer> answer_;
};

/// Something for a run.
struct Mail {
  enum class Kind : std::uint8_t {
    kEvent,
    kWake,       ///< Go on, or begin, and see that its timers are set.
    kTimeUp,     ///< The run has taken too long.
    kWaitOver,   ///< A time of its wait at a gate of its workflow has come.
    kTerminate,  ///< With the reason as the payload of the event.
    kRetryNow,
    kQuery,
    kStepRow,   ///< What is known of a step that has not ended has changed.
    kTransact,  ///< A step that is a transaction is to be done: operation and attempt of the event.
    kPermits,   ///< A step is to take the permits that it does not have yet.
    kEvict,
  };
  Kind kind = Kind::kEvent;
  record::RunEvent event{};
  std::string consumed{};   ///< The row that it comes from, to be erased when it is dealt with.
  std::string reply_key{};  ///< Where the answer goes; empty: nowhere.
  std::shared_ptr<AnswerDuty> answer{};
};

[[nodiscard]] inline bool starts_it(const Mail& mail) {
  return mail.event.kind() == record::RunEvent::STARTED;
}

/// A run in memory. What happens to it is put into its mailbox, and one task at a time empties
/// that: activates the code, commits what came of it, and begins what it wants.
class LiveRun final : public LocalParty, public std::enable_shared_from_this<LiveRun> {
 public:
  /// Of one that is not in the store yet, `head_version` is zero.
  LiveRun(std::shared_ptr<Tenure> tenure, std::string uid, record::RunHead&& head,
          Version head_version, const WorkflowCode& code);
  LiveRun(const LiveRun&) = delete;
  LiveRun& operator=(const LiveRun&) = delete;

  [[nodiscard]] const std::string& uid() const noexcept { return uid_; }
  [[nodiscard]] RunPlace place() const;

  // Before others know it.

  /// Goes over a row of its journal, which is in its head or has that version. Throws
  /// `NondeterminismError`.
  void replay(const record::Activation& row, Version version);
  void recall(std::uint64_t operation, const record::RunAttempts& attempts);
  /// What has become of its locks while nobody looked; `resume` tells it.
  [[nodiscard]] Task<void> look_for_locks();
  /// The same for the permits of its steps, and for what it did at gates with leases.
  [[nodiscard]] Task<void> look_for_permits();
  [[nodiscard]] Task<void> look_for_uses();
  [[nodiscard]] Task<void> look_for_wait();
  /// What has come for it while it was not here.
  void expect(std::vector<Mail> mails);
  /// What was under way goes on.
  void resume();
  void resume_steps();
  /// It is about to be driven, and may have waited for so long that nothing of it is in the
  /// processor's caches. Not for the first step, which is the object itself.
  void fetch_ahead(FetchStep step) const;
  /// The first activation, in the commit that makes the run, unless it has to wait. `extra` is
  /// added to that, and what it does at the gates of its workflow. If it comes to nothing, the
  /// tenure has forgotten the run.
  [[nodiscard]] static Task<std::optional<CommitOutcome>> begin(std::shared_ptr<LiveRun> run,
                                                                Batch extra, Entrance entrance,
                                                                StoreTime now);

  /// False: it is not in memory any more.
  [[nodiscard]] bool deliver(Mail mail);
  enum class Taken : std::uint8_t { kNot, kAsFirst, kBehindOthers };
  /// The same for who drives runs itself: `kAsFirst`, nobody drives this one yet.
  /// The mail is left if it is not taken.
  [[nodiscard]] Taken take(Mail& mail);
  /// The same; if nobody drives the run, this thread does, for as long as there is nothing to wait
  /// for.
  void deliver_here(Mail mail);
  /// Steps are asked to stop; nothing more is written.
  void abandon();

  [[nodiscard]] bool is_idle(TimePoint since) const;
  /// Nothing is in hand: no activation, and no step.
  [[nodiscard]] bool is_quiet() const;

  /// What it waits for, in words, and the children among that. While nobody drives it.
  [[nodiscard]] std::vector<std::string> waits_for() const;
  [[nodiscard]] std::vector<RunPlace> children() const;

  /// Rung at its end, or when it is not here any more.
  [[nodiscard]] Bell& ended() noexcept { return ended_; }
  /// With which commit it ended; nothing: it has not, or not here. Then `head` says how.
  [[nodiscard]] std::optional<Version> end_version() const;
  [[nodiscard]] const record::RunHead& head() const noexcept { return head_; }

 private:
  friend class StepRun;

  struct Child {
    RunPlace place;
    ParentClose close = ParentClose::kTerminate;
    std::optional<std::uint64_t> lock{};  ///< Of the run, by its operation, that passed to it.
    std::string id{};                     ///< Empty: it was given none.
    bool knows_who_waits = false;  ///< By its head: the run has waited for it from the start.
  };
  /// A lock that it holds or waits for.
  struct OpenLock {
    std::string gate;
    std::string holder_key;
    std::string waiter_key;  ///< Empty: it did not wait.
    Version fence = 0;       ///< 0: the code does not have it yet.
  };
  /// A commit in the making, and what follows from it.
  struct Writing {
    Batch batch;
    bool has_head = false;  ///< The head changes.
    std::vector<std::string> timers_set;
    std::vector<std::string> timers_gone;
    std::vector<std::string> messages_gone;  ///< That others put into the inbox.
    std::vector<Outgoing> messages;
    std::vector<std::string> children;  ///< That begin here; their uids.
  };
  /// What accesses to state, and the names of children, come to.
  struct StateChanges {
    Batch batch;
    std::vector<record::RunEvent> events;
  };

  /// What it does at gates, and what comes of that.
  struct LockChanges {
    RunGates::DeedsByGate deeds;
    RunGates::Change gates;
    std::vector<record::RunEvent> events;  ///< Of locks that it will not have.
    bool any_granted = false;
    /// It was let in at the gates of its workflow, and is not any more: others were faster.
    bool is_shut_out = false;
    /// What it held there, if it lets go of that, to be taken back should this come to nothing.
    std::optional<std::vector<record::RunHold>> slots_let_go{};
    /// Null: it was not asked for, as the run ends.
    [[nodiscard]] RunGates::Ask* find(const std::string& gate, std::uint64_t operation);
  };

  [[nodiscard]] static Task<void> drive(std::shared_ptr<LiveRun> run);
  [[nodiscard]] static Task<std::shared_ptr<LiveRun>> drive_one(std::shared_ptr<LiveRun> run);
  void leave_to_others();
  void drive_apart();
  void drive_follower_apart();
  [[nodiscard]] std::optional<std::vector<Mail>> take_mail();
  /// False: it does not go on here.
  [[nodiscard]] Task<bool> handle(std::vector<Mail> mails);
  /// `entrance` is that of a run which is not in the store yet.
  [[nodiscard]] Task<std::optional<CommitOutcome>> activate(std::vector<Mail> mails, Batch extra,
                                                            StoreTime now, Entrance entrance);
  /// Does the first, unless other things come first; the others are put back.
  [[nodiscard]] Task<bool> transact_first(std::vector<Mail> transactions);
  [[nodiscard]] Task<void> transact(std::shared_ptr<StepRun> step, std::uint32_t attempt);
  [[nodiscard]] Writing write_transaction(record::Activation row, StoreTime now);
  [[nodiscard]] bool is_gone() const;
  /// Takes from `mails` what the run did not come to, for `late`.
  [[nodiscard]] Activated run_code(StoreTime now, std::vector<Mail>& mails,
                                   std::vector<Mail>& late);
  /// Not for this run any more: its next one gets them, or whoever sent them is told.
  void give_back(std::vector<Mail> mails);
  [[nodiscard]] Task<void> end_by_force(record::RunHead::State state, record::RunFailure failure,
                                        Mail mail);
  [[nodiscard]] Task<bool> leave_memory();
  [[nodiscard]] Task<void> write_timers_again(Batch extra);
  [[nodiscard]] Task<void> write_step_row(std::uint64_t operation);
  void write_attempts(Writing& writing, std::uint64_t operation,
                      const StepRun::Change& change) const;
  [[nodiscard]] Task<void> end_pause(std::shared_ptr<StepRun> step, std::string timer);
  [[nodiscard]] Task<void> begin_next(std::shared_ptr<StepRun> step);
  [[nodiscard]] Task<void> keep_until_start(std::vector<Mail> mails);
  void note_timers(const Writing& writing);
  void answer_query(const Mail& mail, Batch& answers);
  [[nodiscard]] bool refuses(const Mail& update, Batch& answers);
  /// First in the mailbox, or for whoever comes after it.
  void put_back(std::vector<Mail> mails);
  /// Takes what it needs of `writing` and `activated`.
  void after_commit(Writing& writing, Activated& activated, const std::vector<Mail>& mails,
                    Version version, StoreTime now);
  [[nodiscard]] static Task<void> answer_when_durable(
      std::shared_ptr<LiveRun> run, Version version,
      std::vector<std::shared_ptr<AnswerDuty>> answers);
  [[nodiscard]] static Task<void> send_on(std::shared_ptr<LiveRun> run, Writing writing);
  void finish(Version version);

  // live_run_commit.cpp: what an activation leads to, as rows. live_run_mail.cpp: the mail.
  // live_run_transact.cpp: steps that are transactions. live_run_names.cpp: ids of children.
  [[nodiscard]] Task<StateChanges> settle_state(std::vector<BegunStateAccess>& accesses);
  /// Adds the names of children, or that they are taken.
  [[nodiscard]] Task<void> settle_names(Activated& activated, StateChanges& changes);
  /// Not one that would end with its parent, in the same commit.
  [[nodiscard]] static bool is_begun(const Activated& activated, const BegunChild& child);
  [[nodiscard]] RunPlace place_of_child(const BegunChild& child) const;
  [[nodiscard]] Writing write(Activated& activated, const std::vector<Mail>& mails, StoreTime now,
                              const LockChanges& locks);
  void write_row(Writing& writing, Activated& activated, const LockChanges& locks);
  [[nodiscard]] std::uint64_t full_with(std::size_t signals) const;
  /// Or there is none yet.
  [[nodiscard]] bool last_row_is_in_head() const;
  void require_last_row(Batch& batch) const;
  [[nodiscard]] bool may_be_lost(Version version) const;
  void write_own_timers(Writing& writing, bool starts_later) const;
  void write_end(Writing& writing, Activated& activated, StoreTime now);
  void write_continuation(Writing& writing, const RunEnd& end, StoreTime now);
  /// `released` are permits that were asked to end.
  void close(Writing& writing, StoreTime now, const std::vector<std::uint64_t>& released = {});
  void write_child(Writing& writing, record::RunOperation& operation, const BegunChild& child,
                   StoreTime now, bool is_all_it_waits_for);
  void write_tell(Writing& writing, const BegunTell& tell, StoreTime now) const;
  void drop_timer(Writing& writing, StoreTime due, std::uint64_t operation) const;
  void set_timer(Writing& writing, StoreTime due, std::uint64_t operation) const;
  void drop_step(Writing& writing, std::uint64_t operation) const;
  void ask_child_to_stop(Writing& writing, std::uint64_t operation, StoreTime now) const;
  void send(Writing& writing, const RunPlace& to, record::RunMessage message, StoreTime now) const;
  [[nodiscard]] bool has_work_besides(const record::Activation& record) const;

  // live_run_locks.cpp
  /// At gates.
  [[nodiscard]] bool holds_or_waits() const noexcept {
    return !locks_.empty() || !permits_.empty() || head_.holds_size() > 0 || waits_at_gate();
  }
  /// Of pools, which are its children.
  [[nodiscard]] bool has_permits() const;
  /// Others may wait for it, at gates or for its end.
  [[nodiscard]] bool has_what_others_want() const {
    return head_.has_parent() || holds_or_waits() || has_permits();
  }
  /// How a run stands when it asks: whether it waits for nothing else, and others may wait for it.
  struct Standing {
    bool waits_for_this_alone = false;
    bool has_what_others_want = false;
  };
  /// `attempt` is of a step; zero: it is none.
  [[nodiscard]] SharedRequest request_for(std::uint64_t operation, const LockTerms& terms,
                                          Standing standing, StoreTime now,
                                          std::uint32_t attempt = 0);
  [[nodiscard]] SharedAsker asker();
  [[nodiscard]] RunGates::DeedsByGate deeds_of(Activated& activated, StoreTime now);
  /// What comes of the deeds in `changes`.
  [[nodiscard]] Task<void> settle_locks(Activated& activated, LockChanges& changes);
  /// The same at once; false: something has to be read or waited for.
  [[nodiscard]] bool settle_known_locks(Activated& activated, StoreTime now, LockChanges& changes);
  /// Of those in `changes`, asked for by the activation.
  [[nodiscard]] Task<void> note_asked(LockChanges& changes, Activated& activated);
  void note_locks_asked(LockChanges& changes, Activated& activated);
  void guard_locks(Batch& batch, const record::Activation& row, const LockChanges& changes) const;
  void after_commit_of(LockChanges& changes, Activated& activated, Writing& writing,
                       Version version);
  /// Those who were let in by a commit.
  void tell_admitted(RunGates::Change& gates, Version version, Writing& writing);
  void hand_over(const RunGates::Change::Told& told, Writing& writing);
  [[nodiscard]] bool hand_over_at_once(const RunGates::Change::Told& told);
  /// Null: it is not in memory here.
  [[nodiscard]] std::shared_ptr<LiveRun> run_in_memory(const RunGates::Change::Told& told,
                                                       const std::string& uid) const;
  void remember_locks(Activated& activated, const record::Activation& row);
  /// False: it does not say what was granted.
  [[nodiscard]] bool learn_fence(const record::RunEvent& event);
  /// False: of one it is not known, and those behind it are left.
  [[nodiscard]] bool learn_fences(const std::vector<Mail>& mails);
  [[nodiscard]] Task<void> complete_grants(std::vector<Mail>& mails);
  void deliver_granted();
  void deliver_found();

  // live_run_waits.cpp: waits for children that were begun earlier.
  /// That it does nothing but wait for, and others may have to know.
  struct ChildWait {
    std::uint64_t operation = 0;
    WaitForEnd wait;
  };
  [[nodiscard]] std::optional<ChildWait> wait_for_child() const;
  /// The one after the activation, with what is to be committed for it; nothing: there is none, or
  /// it is refused, which becomes an event.
  [[nodiscard]] Task<std::optional<ChildWait>> settle_wait(const Activated& activated,
                                                           const LockChanges& locks,
                                                           StateChanges& changes);

  // live_run_admission.cpp
  /// At one of its workflow.
  [[nodiscard]] bool waits_at_gate() const noexcept {
    return head_.admission().state() == record::RunAdmission::WAITS;
  }
  /// Before its code goes on.
  [[nodiscard]] bool must_enter() const noexcept;
  /// Whether there is something for its code.
  [[nodiscard]] bool wants_in(const std::vector<Mail>& events, StoreTime now) const;
  /// Whether it may go on; if not, it waits where its head says, or has ended.
  [[nodiscard]] Task<bool> enter();
  enum class Turn : std::uint8_t { kHasCome, kIsToCome, kIsLost };
  [[nodiscard]] Task<Turn> turn_at_gate();
  [[nodiscard]] Task<void> mind_the_time_of_its_wait(StoreTime now);
  [[nodiscard]] Task<void> terminate_replaced(StoreTime now);
  [[nodiscard]] Task<void> end_refused(Entrance::Outcome outcome, std::exception_ptr error);
  [[nodiscard]] Task<void> ask_again_later(StoreTime now);
  void write_wait_timers(Writing& writing) const;
  void drop_wait_timers(Writing& writing) const;
  /// Keeps what has come for when it is let in.
  [[nodiscard]] Task<void> wait_outside(std::vector<Mail> events, std::vector<Mail> early,
                                        Batch answers);
  [[nodiscard]] std::vector<Mail> take_kept();
  [[nodiscard]] bool has_kept() const;
  /// All of it is in the store, and nobody here waits for an answer.
  [[nodiscard]] bool can_leave_kept() const;
  /// Nothing of it is under way after the activation, and it is to hold its slots no longer.
  [[nodiscard]] bool may_let_go(const Activated& activated) const;
  [[nodiscard]] Task<LockChanges> settle_letting_go(Activated& activated, StoreTime now,
                                                    Entrance& entrance);
  [[nodiscard]] Task<LockChanges> settle_entrance(Activated& activated, StoreTime now,
                                                  Entrance& entrance, bool passes);
  void take_back_slots(LockChanges& changes);

  // live_run_uses.cpp: plain operations at gates.
  [[nodiscard]] Task<void> settle_light_uses(const Activated& activated, StateChanges& changes);
  static void add_uses(const Activated& activated, RunGates::DeedsByGate& deeds);
  [[nodiscard]] Task<void> settle_uses(LockChanges& changes);
  void tell_uses(const LockChanges& changes, Version version);
  void remember_uses(const Activated& activated, const record::Activation& row);

  // live_run_permits.cpp: of steps under limits.
  [[nodiscard]] static bool asks_for_permits(const Activated& activated);
  void leave_gates_of(std::uint64_t operation, record::GateGrant::End how,
                      RunGates::DeedsByGate& deeds) const;
  void add_permit_endings(const Activated& activated, RunGates::DeedsByGate& deeds) const;
  void add_permit_asks(const Activated& activated, bool waits_for_one_alone, StoreTime now,
                       RunGates::DeedsByGate& deeds);
  static void settle_permits(Activated& activated, LockChanges& changes);
  void write_first_waits(Writing& writing, const Activated& activated, StoreTime now) const;
  void drop_permit_rows(Writing& writing, std::uint64_t operation) const;
  static void drop_permit_messages(Writing& writing, const StepPermits& permits);
  void begin_step(std::uint64_t operation, Version version);
  void ask_for_permits(std::uint64_t operation);
  /// Of one step, until it waits or can begin.
  [[nodiscard]] Task<void> take_permits(std::shared_ptr<StepRun> step);
  void begin_with_permits(const std::shared_ptr<StepRun>& step, bool may_have_run);
  void write_wait(Writing& writing, const StepRun& step, const std::string& waiter_key);
  [[nodiscard]] Task<void> give_permits_back(std::shared_ptr<StepRun> step, StepRun::Change change);
  [[nodiscard]] Task<void> hear_of_permit(std::shared_ptr<StepRun> step, Mail mail);
  void resume_limited_steps();
  /// A change at gates that is no part of an activation, with the rows that `write` makes of what
  /// came of it. Nothing: it has not been made, as `write` said no, or the tenure is over.
  using WriteRows = std::function<bool(Writing& writing)>;
  [[nodiscard]] Task<std::optional<Version>> change_gates(RunGates::DeedsByGate& deeds,
                                                          WriteRows write);

  void remember(Activated& activated, const record::Activation& row, StoreTime now);
  [[nodiscard]] std::vector<std::shared_ptr<StepRun>> open() const;
  [[nodiscard]] std::shared_ptr<StepRun> step_at(std::uint64_t operation) const;

  const std::shared_ptr<Tenure> tenure_;
  const Admission* const admission_;  // Null: its workflow has no limit.

  // For whoever drives it. What is written into the head stays there also if the commit fails, as
  // nothing goes on from there then, or the same is written again.
  record::RunHead head_;
  Version head_version_;
  // What the head there says, which a commit that failed has not changed.
  bool waits_in_store_;
  bool is_full_in_store_;
  bool has_its_timers_ = false;  // There are rows for them, and its process knows.
  RunMachine machine_;
  const std::string& uid_;    // That the machine knows.
  Version last_version_ = 0;  // Of the last row of the journal.
  std::uint64_t next_row_ = 0;
  std::uint64_t next_operation_ = 0;
  std::map<std::uint64_t, StoreTime> timers_;
  std::map<std::uint64_t, Child> children_;
  std::optional<ChildWait> child_wait_;  // That the store knows of.
  std::map<std::uint64_t, OpenLock> locks_;
  SharedAsker asker_;                             // It, at gates; null: it has not asked yet.
  std::map<std::uint64_t, StepPermits> permits_;  // Of open steps under limits.
  std::map<std::uint64_t, GateUse> uses_;         // That the code does not know the outcome of.
  std::vector<record::RunEvent> granted_;         // By the last commit, to be delivered.
  std::vector<record::RunEvent> found_;
  std::shared_ptr<LiveRun> follower_;  // That it has let in, and that is to be driven next.

  mutable std::mutex mutex_;
  std::vector<Mail> mail_;
  std::vector<Mail> kept_;  // Until it is let in.
  bool waits_outside_ = false;
  bool driven_ = true;  // By whoever makes it, until `begin` or `resume` is done.
  bool gone_ = false;
  using Steps = std::map<std::uint64_t, std::shared_ptr<StepRun>, std::less<>,
                         FrameAllocator<std::pair<const std::uint64_t, std::shared_ptr<StepRun>>>>;
  Steps steps_;
  TimePoint last_driven_{};
  std::optional<Version> end_version_;

  Bell ended_;
};

}  // namespace holdfast::detail
