// SPDX-License-Identifier: Apache-2.0
#include "live_run.hpp"

#include <algorithm>
#include <iterator>
#include <unordered_set>
#include <utility>

#include <holdfast/error.hpp>

#include "batch_conditions.hpp"
#include "busy_pause.hpp"
#include "run_payload.hpp"
#include "run_rows.hpp"
#include "tenure.hpp"

namespace holdfast::detail {

namespace {

/// So many runs are driven in a row before others may use the thread.
constexpr int kFollowersMax = 64;

RunMachine::Facts facts_of(const record::RunHead& head, RunPlace place) {
  RunMachine::Facts facts;
  facts.id = id_of(head, place);
  facts.type = head.type();
  facts.input = parse_payload(head.input());
  facts.root_id = head.root_id();
  facts.root_uid = root_uid_of(head, place);
  facts.uid = std::move(place.uid);
  facts.parent_id = head.parent().id();
  facts.requests_done.assign(head.requests().begin(), head.requests().end());
  facts.answers.assign(head.answers().begin(), head.answers().end());
  facts.started_at = seen_start_of(head);
  facts.step_limits = step_limits_of(head);
  facts.step_priority = head.priority();
  facts.random_uid = head.random_uid();
  return facts;
}

bool names_children(const Activated& activated) {
  return std::any_of(activated.children.begin(), activated.children.end(),
                     [](const BegunChild& child) { return !child.terms.id.empty(); });
}

}  // namespace

LiveRun::LiveRun(std::shared_ptr<Tenure> tenure, std::string uid, record::RunHead&& head,
                 Version head_version, const WorkflowCode& code)
    : tenure_(std::move(tenure)),
      admission_(tenure_->world().admission_of(head.type())),
      head_(std::move(head)),
      head_version_(head_version),
      waits_in_store_(head_.waits()),
      is_full_in_store_(head_.signals_kept() > 0),
      machine_(code, facts_of(head_, tenure_->keys().place_of(std::move(uid)))),
      uid_(machine_.facts().uid) {}

RunPlace LiveRun::place() const { return tenure_->keys().place_of(uid_); }

std::shared_ptr<StepRun> LiveRun::step_at(std::uint64_t operation) const {
  const std::lock_guard lock(mutex_);
  const auto found = steps_.find(operation);
  return found == steps_.end() ? nullptr : found->second;
}

/// What is open after an activation, or a row of the journal.
void LiveRun::remember(Activated& activated, const record::Activation& row, StoreTime now) {
  {
    const std::lock_guard lock(mutex_);
    for (const record::RunEvent& event : row.held()) {
      if (event.kind() == record::RunEvent::STEP_ENDED) {
        steps_.erase(event.operation());
      }
    }
    for (const record::RunEvent& event : row.events()) {
      switch (event.kind()) {
        case record::RunEvent::STEP_ENDED:
          steps_.erase(event.operation());
          permits_.erase(event.operation());
          break;
        case record::RunEvent::TIMER_FIRED:
          timers_.erase(event.operation());
          break;
        case record::RunEvent::CHILD_ENDED:
          children_.erase(event.operation());
          break;
        default:
          break;
      }
    }
    for (BegunStep& step : activated.steps) {
      const std::uint64_t operation = step.operation;
      const bool is_limited = step.limits.any();
      const bool waits = !step.permit.waiter_key.empty();
      if (is_limited) {
        permits_.emplace(operation, StepPermits(std::move(step.limits), std::move(step.permit)));
      }
      steps_.emplace(operation,
                     std::allocate_shared<StepRun>(FrameAllocator<StepRun>(), std::move(step), now,
                                                   is_limited, waits));
    }
    for (const BegunTimer& timer : activated.timers) {
      timers_.emplace(timer.operation, timer.due);
    }
    const std::unordered_set<std::uint64_t> refused = refused_children(row);
    for (const BegunChild& child : activated.children) {
      if (refused.contains(child.operation)) {
        continue;
      }
      const record::RunOperation& begun =
          row.operations(static_cast<int>(child.operation - next_operation_));
      children_.emplace(
          child.operation,
          Child{place_of(begun.child()), static_cast<ParentClose>(begun.value()),
                child.terms.takes_lock, child.terms.id, machine_.waits_for_one_alone()});
      if (child.terms.takes_lock) {
        locks_.erase(*child.terms.takes_lock);
      }
    }
    for (const std::uint64_t operation : activated.given_up) {
      timers_.erase(operation);
      children_.erase(operation);
    }
    remember_locks(activated, row);
    remember_uses(activated, row);
    for (const std::uint64_t operation : activated.unwanted) {
      if (const auto step = steps_.find(operation); step != steps_.end()) {
        step->second->set_unwanted();
      }
    }
  }
  next_operation_ += static_cast<std::uint64_t>(row.operations_size());
  ++next_row_;
}

// --- From the journal ----------------------------------------------------------------------------

void LiveRun::replay(const record::Activation& row, Version version) {
  Activated again = machine_.replay(row);
  last_version_ = version;
  remember(again, row, time_of(row.now_ns()));
}

void LiveRun::recall(std::uint64_t operation, const record::RunAttempts& attempts) {
  if (const auto step = step_at(operation)) {
    step->recall(attempts);
    if (const auto permits = permits_.find(operation); permits != permits_.end()) {
      permits->second.wait(attempts.waiter_key());
      permits->second.deadline = step->deadline();  // There may be such a timer.
    }
  }
}

void LiveRun::expect(std::vector<Mail> mails) { mail_ = std::move(mails); }

void LiveRun::resume() {
  const bool begins_anew = must_enter();
  if (!begins_anew) {
    resume_steps();
  }
  deliver_found();
  if (next_row_ == 0 || machine_.has_held() || begins_anew) {
    static_cast<void>(deliver({.kind = Mail::Kind::kWake}));
  }
  leave_to_others();
}

void LiveRun::resume_steps() {
  for (const std::shared_ptr<StepRun>& step : open()) {
    step->resume(shared_from_this());
  }
  resume_limited_steps();
}

// --- The mailbox ---------------------------------------------------------------------------------

bool LiveRun::deliver(Mail mail) {
  const Taken taken = take(mail);
  if (taken == Taken::kAsFirst) {
    drive_apart();
  }
  return taken != Taken::kNot;
}

void LiveRun::deliver_here(Mail mail) {
  if (take(mail) == Taken::kAsFirst) {
    tenure_->world().tasks.run_here(drive(shared_from_this()));
  }
}

LiveRun::Taken LiveRun::take(Mail& mail) {
  const std::lock_guard lock(mutex_);
  if (gone_) {
    return Taken::kNot;
  }
  mail_.push_back(std::move(mail));
  return std::exchange(driven_, true) ? Taken::kBehindOthers : Taken::kAsFirst;
}

/// Nothing: there is nothing to do, and from now on somebody else may drive it.
std::optional<std::vector<Mail>> LiveRun::take_mail() {
  const std::lock_guard lock(mutex_);
  if (mail_.empty() && (!machine_.has_held() || waits_outside_)) {
    driven_ = false;
    last_driven_ = tenure_->world().store.clock().now();
    return std::nullopt;
  }
  return std::exchange(mail_, {});
}

/// Whoever made it has driven it so far.
void LiveRun::leave_to_others() {
  bool has_mail = false;
  {
    const std::lock_guard lock(mutex_);
    driven_ = has_mail = !gone_ && (!mail_.empty() || machine_.has_held());
    last_driven_ = tenure_->world().store.clock().now();
  }
  if (has_mail) {
    drive_apart();
  } else {
    tenure_->world().rests.ring();
  }
}

/// And then the one that it has let in, and so on: a lock goes from hand to hand in one thread.
Task<void> LiveRun::drive(std::shared_ptr<LiveRun> run) {
  for (int followers = 0; followers < kFollowersMax; ++followers) {
    std::shared_ptr<LiveRun> next = co_await drive_one(run);
    if (next == nullptr) {
      co_return;
    }
    run = std::move(next);
  }
  run->drive_apart();  // Others want this thread, too.
}

void LiveRun::drive_apart() { tenure_->world().tasks.run(drive(shared_from_this())); }

/// It need not wait for what this one does next.
void LiveRun::drive_follower_apart() {
  if (const auto follower = std::exchange(follower_, nullptr)) {
    follower->drive_apart();
  }
}

/// Until there is nothing to do, or it does not go on here. The one to be driven next, or null.
Task<std::shared_ptr<LiveRun>> LiveRun::drive_one(std::shared_ptr<LiveRun> run) {
  for (;;) {
    // Before others may drive it.
    std::shared_ptr<LiveRun> follower = std::exchange(run->follower_, nullptr);
    std::optional<std::vector<Mail>> mails = run->take_mail();
    if (!mails) {
      run->tenure_->world().rests.ring();
      co_return follower;
    }
    if (follower != nullptr) {
      follower->drive_apart();
    }
    bool goes_on = false;
    std::string failure;
    bool is_its_own = false;
    try {
      goes_on = co_await run->handle(*std::move(mails));
    } catch (const Cancelled&) {
      co_return nullptr;  // The engine ends.
    } catch (const Error& error) {
      failure = error.what();
      is_its_own =
          error.code() == ErrorCode::kNewerFormat || error.code() == ErrorCode::kStoreCorrupt;
    }
    if (is_its_own) {
      co_await run->tenure_->stand_still(run, failure);
    } else if (!failure.empty()) {
      run->tenure_->end(failure);
    }
    if (!goes_on) {
      co_return std::exchange(run->follower_, nullptr);
    }
  }
}

// --- Activations ---------------------------------------------------------------------------------

Task<std::optional<CommitOutcome>> LiveRun::begin(std::shared_ptr<LiveRun> run, Batch extra,
                                                  Entrance entrance, StoreTime now) {
  std::vector<Mail> mails;
  run->has_its_timers_ = true;
  if (run->head_.starts_at_ns() == 0 && !run->waits_at_gate()) {
    mails.emplace_back().event.set_kind(record::RunEvent::STARTED);
  }
  std::optional<CommitOutcome> outcome;
  std::exception_ptr error;
  try {
    outcome = co_await run->activate(std::move(mails), std::move(extra), now, std::move(entrance));
  } catch (...) {
    error = std::current_exception();
  }
  if (!outcome || outcome->committed() == nullptr) {
    run->abandon();
    run->tenure_->forget(*run);
    if (error) {
      std::rethrow_exception(error);
    }
    co_return outcome;
  }
  run->drive_follower_apart();
  run->leave_to_others();
  co_return outcome;
}

Activated LiveRun::run_code(StoreTime now, std::vector<Mail>& mails, std::vector<Mail>& late) {
  std::vector<record::RunEvent> events;
  events.reserve(mails.size());
  // One may start it, and brings with it the signals that the head has for it.
  const auto signals = static_cast<std::size_t>(head_.signals_size());
  std::size_t start = mails.size();
  for (std::size_t i = 0; i < mails.size(); ++i) {
    Mail& mail = mails[i];
    const bool is_start = starts_it(mail);
    if (mail.answer != nullptr || !mail.reply_key.empty()) {
      events.push_back(mail.event);  // The answer is found by its request.
    } else {
      events.push_back(std::move(mail.event));
    }
    if (is_start) {
      start = i;
      events.insert(events.end(), head_.signals().begin(), head_.signals().end());
    }
  }
  const auto events_until = [&](std::size_t mail) { return mail + (start < mail ? signals : 0); };
  if (events.empty() && !machine_.has_held()) {
    return {};  // It starts later.
  }
  const Watchdog::Watched watched(tenure_->world().watchdog, machine_.facts());
  Activated activated = machine_.activate_from(now, events);
  const auto taken = static_cast<std::size_t>(activated.record.events_size());
  std::size_t mails_taken = mails.size();
  while (mails_taken > 0 && events_until(mails_taken - 1) >= taken) {
    --mails_taken;
  }
  if (activated.end && mails_taken > 0) {
    // Signals that its head had for it, and that it did not come to.
    std::vector<record::RunEvent>& left = activated.end->signals_left;
    for (std::size_t i = taken; i < events_until(mails_taken); ++i) {
      left.push_back(std::move(events[i]));
    }
  }
  for (std::size_t i = mails_taken; i < mails.size(); ++i) {
    mails[i].event = std::move(events[events_until(i)]);
    late.push_back(std::move(mails[i]));
  }
  mails.resize(mails_taken);
  return activated;
}

/// One commit carries all that the code did. If it is refused for a cell, a name or a gate that
/// others have changed, the code has seen nothing of it yet, and only the change is made again. Of
/// one that comes in with it, nothing is in the store: whoever starts it begins anew.
Task<std::optional<CommitOutcome>> LiveRun::activate(std::vector<Mail> mails, Batch extra,
                                                     StoreTime now, Entrance entrance) {
  const bool comes_in = !entrance.gates.empty();
  if (!learn_fences(mails)) {
    co_await complete_grants(mails);
  }
  std::vector<Mail> late;
  Activated activated = run_code(now, mails, late);
  for (;;) {
    StateChanges state;
    if (!activated.state.empty() || names_children(activated)) {
      state = co_await settle_state(activated.state);
      co_await settle_names(activated, state);
    }
    if (!activated.uses.empty()) {
      co_await settle_light_uses(activated, state);
    }
    // What brings news keeps it at work; what it asks for at gates may.
    const bool may_rest = state.events.empty() && may_let_go(activated);
    const bool asks = !activated.locks.empty() || !activated.uses.empty();
    LockChanges locks;
    if (may_rest && !asks) {
      locks = co_await settle_letting_go(activated, now, entrance);
    } else if (comes_in) {
      locks = co_await settle_entrance(activated, now, entrance, false);
    } else if (asks || holds_or_waits() || asks_for_permits(activated)) {
      locks.deeds = deeds_of(activated, now);
      if (!settle_known_locks(activated, now, locks)) {
        co_await settle_locks(activated, locks);
      }
    }
    if (may_rest && asks && locks.events.empty() && !locks.any_granted) {
      locks.gates = {};
      locks = co_await settle_letting_go(activated, now, entrance);
    }
    if (locks.is_shut_out) {
      co_return std::nullopt;
    }
    std::optional<ChildWait> child_wait;
    if (!children_.empty()) {
      child_wait = co_await settle_wait(activated, locks, state);
    }
    std::vector<record::RunEvent>& held = state.events;
    std::ranges::move(locks.events, std::back_inserter(held));
    activated.record.mutable_held()->Assign(held.begin(), held.end());
    Writing writing = write(activated, mails, now, locks);
    for (Outgoing& out : stop_messages(tenure_->world(), entrance, now)) {
      writing.batch.put(out.key, out.message.SerializeAsString());
      writing.messages.push_back(std::move(out));
    }
    // The name first: a run that goes on as another one at once gives it away again.
    Batch batch = extra;
    batch.append(std::move(writing.batch));
    if (state.batch.size() > 0) {
      batch.append(state.batch);
    }
    batch.append(locks.gates.take_batch());
    guard_locks(batch, activated.record, locks);
    tenure_->guard(batch);
    std::optional<Tenure::Applied> applied = tenure_->apply_at_once(batch);
    if (!applied) {
      applied = co_await tenure_->apply_guarded(std::move(batch));
    }
    const std::optional<CommitOutcome>& outcome = applied->outcome;
    const bool is_to_be_made_again =
        applied->busy || (outcome && outcome->conflict() != nullptr &&
                          (has_condition_on(state.batch, outcome->conflict()->key) ||
                           locks.gates.is_founded_on(outcome->conflict()->key)));
    if (is_to_be_made_again) {
      take_back_slots(locks);
      locks.gates = {};
      if (applied->busy) {
        co_await busy_pause();
      }
      if (comes_in) {
        co_return std::nullopt;
      }
      continue;
    }
    if (outcome && outcome->committed() != nullptr) {
      if (!held.empty()) {
        machine_.hold(std::move(held));
      }
      child_wait_ = std::move(child_wait);
      after_commit_of(locks, activated, writing, outcome->committed()->version);
      after_commit(writing, activated, mails, outcome->committed()->version, now);
      deliver_granted();
      give_back(std::move(late));
    }
    co_return std::move(applied->outcome);
  }
}

void LiveRun::after_commit(Writing& writing, Activated& activated, const std::vector<Mail>& mails,
                           Version version, StoreTime now) {
  const bool has_activated = activated.record.format() != 0;
  const bool was_new = head_version_ == 0;
  if (writing.has_head) {
    head_version_ = version;
    waits_in_store_ = head_.waits();
    is_full_in_store_ = head_.signals_kept() > 0;
  }
  for (const Mail& mail : mails) {
    if (!mail.consumed.empty()) {
      tenure_->row_done(mail.consumed);
    }
  }
  note_timers(writing);
  if (has_activated) {
    last_version_ = version;
    remember(activated, activated.record, now);
    if (was_new) {
      *head_.mutable_first() = std::move(activated.record);
    }
  }
  if (activated.end) {
    finish(version);
  } else {
    for (const BegunStep& begun : activated.steps) {  // Of which the numbers are left.
      begin_step(begun.operation, version);
    }
    for (const std::uint64_t operation : activated.unwanted) {
      if (const auto step = step_at(operation)) {
        step->stop(shared_from_this());
      }
    }
  }
  std::vector<std::shared_ptr<AnswerDuty>> answers;
  for (const UpdateReply& reply : activated.replies) {
    for (const Mail& mail : mails) {
      if (mail.answer != nullptr && mail.event.request() == reply.request) {
        mail.answer->set(reply.value, reply.error);  // Whoever asks twice is answered twice.
        answers.push_back(mail.answer);
      }
    }
  }
  if (!answers.empty()) {
    tenure_->run(answer_when_durable(shared_from_this(), version, std::move(answers)));
  }
  if (!writing.messages.empty() || !writing.children.empty()) {
    tenure_->run(send_on(shared_from_this(), std::move(writing)));
  }
}

Task<void> LiveRun::answer_when_durable(std::shared_ptr<LiveRun> run, Version version,
                                        std::vector<std::shared_ptr<AnswerDuty>> answers) {
  const bool is_durable = co_await run->tenure_->until_durable(version);
  if (is_durable) {
    for (const std::shared_ptr<AnswerDuty>& answer : answers) {
      answer->give();
    }
  }
}

/// To runs of this process at once; others see the rows.
Task<void> LiveRun::send_on(std::shared_ptr<LiveRun> run, Writing writing) {
  for (const std::string& uid : writing.children) {
    static_cast<void>(co_await run->tenure_->find(uid));
  }
  for (Outgoing& out : writing.messages) {
    if (const auto there = run->tenure_->world().tenure_of(out.to)) {
      co_await there->take_message(std::move(out.key), std::move(out.message));
    }
  }
}

void LiveRun::finish(Version version) {
  {
    const std::lock_guard lock(mutex_);
    end_version_ = version;
  }
  tenure_->forget(*this);
  abandon();
}

Task<void> LiveRun::end_by_force(record::RunHead::State state, record::RunFailure failure,
                                 Mail mail) {
  const std::vector<Mail> mails{std::move(mail)};
  const StoreTime now = co_await tenure_->world().store.time();
  head_.set_state(state);
  *head_.mutable_failure() = std::move(failure);
  if (mails.front().consumed.starts_with(tenure_->keys().inbox())) {
    head_.set_ended_by(mails.front().consumed);
  }
  head_.set_rows(next_row_);
  Activated nothing;
  nothing.end.emplace();
  for (;;) {
    LockChanges locks;
    if (holds_or_waits()) {
      locks.deeds = deeds_of(nothing, now);
      co_await settle_locks(nothing, locks);
    }
    Writing writing;
    if (!mails.front().consumed.empty()) {
      writing.batch.erase(mails.front().consumed);
    }
    close(writing, now);
    Batch batch = std::exchange(writing.batch, {});
    batch.append(locks.gates.take_batch());
    const Tenure::Applied applied = co_await tenure_->try_apply(std::move(batch));
    if (applied.busy) {
      locks.gates = {};
      co_await busy_pause();
      continue;
    }
    const std::optional<CommitOutcome>& outcome = applied.outcome;
    if (outcome && outcome->committed() != nullptr) {
      const Version version = outcome->committed()->version;
      after_commit_of(locks, nothing, writing, version);
      after_commit(writing, nothing, mails, version, now);
    } else if (outcome) {
      if (locks.gates.is_founded_on(outcome->conflict()->key)) {
        continue;
      }
      tenure_->end("run '" + uid_ + "' was changed by somebody else");
    }
    co_return;
  }
}

/// It waits for others: the store has all that is needed to go on with it.
Task<bool> LiveRun::leave_memory() {
  record::Activation nothing;
  if (has_work_besides(nothing) || !can_leave_kept()) {
    co_return true;
  }
  if (!waits_in_store_) {
    head_.set_waits(true);
    const std::string key = tenure_->keys().run(uid_);
    Batch batch;
    batch.require_version(key, head_version_).put(key, head_.SerializeAsString());
    const std::optional<CommitOutcome> outcome = co_await tenure_->apply(std::move(batch));
    if (outcome && outcome->committed() == nullptr) {
      tenure_->end("run '" + uid_ + "' was changed by somebody else");
    }
    if (!outcome || outcome->committed() == nullptr) {
      co_return false;
    }
    head_version_ = outcome->committed()->version;
    waits_in_store_ = true;
  }
  std::vector<Mail> kept;
  {
    const std::lock_guard lock(mutex_);
    if (!mail_.empty()) {
      co_return true;
    }
    gone_ = true;
    kept = std::exchange(kept_, {});
  }
  tenure_->set_aside(uid_, kept);
  tenure_->forget(*this);
  ended_.ring();
  co_return false;
}

void LiveRun::abandon() {
  Steps open;
  std::vector<Mail> unread;
  {
    const std::lock_guard lock(mutex_);
    gone_ = true;
    open = std::exchange(steps_, {});
    unread = std::exchange(mail_, {});
    std::ranges::move(std::exchange(kept_, {}), std::back_inserter(unread));
  }
  for (const auto& [operation, step] : open) {
    step->abandon();
  }
  give_back(std::move(unread));
  ended_.ring();
}

/// Who asks a run that goes on elsewhere, or has ended, is told so when the mail is dropped.
void LiveRun::give_back(std::vector<Mail> mails) { tenure_->return_mail(std::move(mails)); }

// --- How it stands -------------------------------------------------------------------------------

/// To be asked without the lock: steps take theirs first when they tell of their end.
std::vector<std::shared_ptr<StepRun>> LiveRun::open() const {
  std::vector<std::shared_ptr<StepRun>> all;
  const std::lock_guard lock(mutex_);
  all.reserve(steps_.size());
  for (const auto& [operation, step] : steps_) {
    all.push_back(step);
  }
  return all;
}

bool LiveRun::is_idle(TimePoint since) const {
  const std::lock_guard lock(mutex_);
  return !driven_ && last_driven_ <= since;
}

bool LiveRun::is_gone() const {
  const std::lock_guard lock(mutex_);
  return gone_;
}

bool LiveRun::is_quiet() const {
  const std::vector<std::shared_ptr<StepRun>> steps = open();
  {
    const std::lock_guard lock(mutex_);
    if (driven_) {
      return false;
    }
  }
  return std::all_of(steps.begin(), steps.end(),
                     [](const auto& step) { return step->is_pausing(); });
}

std::vector<std::string> LiveRun::waits_for() const {
  std::vector<std::string> waits = machine_.waits_for();
  for (const std::shared_ptr<StepRun>& step : open()) {
    std::string how = "', which is under way";
    if (step->waits_for_permit()) {
      how = "', which waits for a permit";
    } else if (step->is_pausing()) {
      how = "', which is tried again later";
    }
    waits.push_back("step '" + step->name() + how);
  }
  if (!timers_.empty()) {
    waits.emplace_back("a time");
  }
  return waits;
}

std::vector<RunPlace> LiveRun::children() const {
  std::vector<RunPlace> places;
  places.reserve(children_.size());
  for (const auto& [operation, child] : children_) {
    places.push_back(child.place);
  }
  return places;
}

std::optional<Version> LiveRun::end_version() const {
  const std::lock_guard lock(mutex_);
  return end_version_;
}

}  // namespace holdfast::detail
