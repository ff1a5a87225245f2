// SPDX-License-Identifier: Apache-2.0
// What an activation of a run leads to, as rows of one commit.
#include <algorithm>
#include <unordered_set>
#include <utility>

#include <holdfast/error.hpp>

#include "live_run.hpp"
#include "run_failure.hpp"
#include "run_keys.hpp"
#include "run_payload.hpp"
#include "run_rows.hpp"
#include "state/envelope.hpp"
#include "store/record_out.hpp"
#include "tenure.hpp"

namespace holdfast::detail {

namespace {

/// The last value of a cell that an activation has seen.
struct SeenCell {
  std::optional<Entry> row;
  std::optional<boost::json::value> value;
  bool written = false;
};

void write_cell(Batch& batch, const std::string& key, SeenCell& cell,
                const std::string& operation) {
  if (!std::exchange(cell.written, true)) {
    if (cell.row) {
      batch.require_version(key, cell.row->version);
    } else {
      batch.require_absent(key);
    }
  }
  if (cell.value) {
    check_storable(*cell.value, key);
    batch.put(key, (cell.row ? Envelope(*cell.row) : Envelope()).with(*cell.value, operation));
  } else {
    batch.erase(key);
  }
}

/// Has the row of an activation in the head for as long as it lives, without a copy.
class RowInHead {
 public:
  enum class As : std::uint8_t { kFirst, kLast };
  RowInHead(record::RunHead& head, record::Activation& row, As as) noexcept : head_(head), as_(as) {
    if (as_ == As::kFirst) {
      head_.unsafe_arena_set_allocated_first(&row);
    } else {
      head_.unsafe_arena_set_allocated_last(&row);
    }
  }
  RowInHead(const RowInHead&) = delete;
  RowInHead& operator=(const RowInHead&) = delete;
  ~RowInHead() {
    static_cast<void>(as_ == As::kFirst ? head_.unsafe_arena_release_first()
                                        : head_.unsafe_arena_release_last());
  }

 private:
  record::RunHead& head_;
  const As as_;
};

/// Such as a lock that is refused at once.
bool is_settled_by(const record::Activation& row, std::uint64_t operation) {
  return std::ranges::any_of(
      row.held(), [&](const record::RunEvent& event) { return event.operation() == operation; });
}

bool contains(const std::vector<std::uint64_t>& operations, std::uint64_t operation) {
  return std::find(operations.begin(), operations.end(), operation) != operations.end();
}

record::RunMessage message_to(const RunPlace& to, record::RunMessage::Kind kind) {
  record::RunMessage message;
  message.set_format(kRunFormat);
  message.set_uid(to.uid);
  message.set_kind(kind);
  return message;
}

record::RunMessage cancellation_of(const RunPlace& to) {
  record::RunMessage message = message_to(to, record::RunMessage::EVENT);
  message.mutable_event()->set_kind(record::RunEvent::CANCEL_REQUESTED);
  return message;
}

}  // namespace

Task<LiveRun::StateChanges> LiveRun::settle_state(std::vector<BegunStateAccess>& accesses) {
  StateChanges changes;
  std::map<std::string, SeenCell> cells;
  for (BegunStateAccess& access : accesses) {
    auto found = cells.find(access.key);
    if (found == cells.end()) {
      SeenCell cell;
      cell.row = co_await tenure_->world().store.get(access.key, Read::kApplied);
      if (cell.row) {
        cell.value = Envelope(*cell.row).value();
      }
      found = cells.emplace(access.key, std::move(cell)).first;
    }
    record::RunEvent& event = changes.events.emplace_back();
    event.set_kind(record::RunEvent::STATE_SETTLED);
    event.set_operation(access.operation);
    SeenCell& cell = found->second;
    try {
      StateCode::Change change = access.code->apply(cell.value);
      event.set_payload(payload_text(change.answer));
      if (change.writes) {
        SeenCell next = cell;
        next.value = std::move(change.value);
        Batch batch;
        std::string operation = uid_;
        operation.append(":").append(std::to_string(access.operation));
        write_cell(batch, access.key, next, operation);
        changes.batch.append(std::move(batch));
        cell = std::move(next);
      }
    } catch (...) {
      event.clear_payload();
      *event.mutable_failure() = failure_of(std::current_exception());
    }
  }
  co_return changes;
}

bool LiveRun::is_begun(const Activated& activated, const BegunChild& child) {
  const bool outlives = !activated.end || child.terms.parent_close == ParentClose::kAbandon;
  return outlives && !contains(activated.given_up, child.operation);
}

LiveRun::Writing LiveRun::write(Activated& activated, const std::vector<Mail>& mails, StoreTime now,
                                const LockChanges& locks) {
  Writing writing;
  for (const Mail& mail : mails) {
    if (!mail.consumed.empty()) {
      writing.batch.erase(mail.consumed);
    }
  }
  if (!activated.end) {  // With the run, all of them go.
    for (const auto* events : {&activated.record.events(), &activated.record.held()}) {
      for (const record::RunEvent& event : *events) {
        if (event.kind() == record::RunEvent::STEP_ENDED) {
          drop_step(writing, event.operation());
        } else if (event.kind() == record::RunEvent::LOCK_SETTLED) {
          if (const auto timer = timers_.find(event.operation()); timer != timers_.end()) {
            drop_timer(writing, timer->second, event.operation());
          }
        }
      }
    }
  }
  for (const BegunTimer& timer : activated.timers) {
    if (!activated.end && !contains(activated.given_up, timer.operation) &&
        !is_settled_by(activated.record, timer.operation)) {
      set_timer(writing, timer.due, timer.operation);
    }
  }
  if (!activated.end) {
    write_first_waits(writing, activated, now);
  }
  const std::unordered_set<std::uint64_t> refused = refused_children(activated.record);
  for (const BegunChild& child : activated.children) {
    if (is_begun(activated, child) && !refused.contains(child.operation)) {
      const auto index = static_cast<int>(child.operation - next_operation_);
      write_child(writing, *activated.record.mutable_operations(index), child, now,
                  machine_.waits_for_one_alone());
    }
  }
  for (const std::uint64_t operation : activated.given_up) {
    if (const auto timer = timers_.find(operation); timer != timers_.end()) {
      drop_timer(writing, timer->second, operation);
    }
    ask_child_to_stop(writing, operation, now);
  }
  for (const std::uint64_t operation : activated.unwanted) {
    ask_child_to_stop(writing, operation, now);
  }
  for (const BegunTell& tell : activated.tells) {
    write_tell(writing, tell, now);
  }
  for (const UpdateReply& reply : activated.replies) {
    for (const Mail& mail : mails) {
      if (!mail.reply_key.empty() && mail.event.request() == reply.request) {
        writing.batch.put(mail.reply_key, reply_row(reply.value, reply.error));
      }
    }
  }
  if (activated.end) {
    write_end(writing, activated, now);
  } else {
    write_row(writing, activated, locks);
  }
  return writing;
}

void LiveRun::ask_child_to_stop(Writing& writing, std::uint64_t operation, StoreTime now) const {
  if (const auto child = children_.find(operation); child != children_.end()) {
    send(writing, child->second.place, cancellation_of(child->second.place), now);
  }
}

/// A new run has its first row in its head, so that it costs one row. The head says whether
/// whoever takes over has something to do for the run; that a run waits is written later, when it
/// leaves the memory.
void LiveRun::write_row(Writing& writing, Activated& activated, const LockChanges& locks) {
  const bool is_new = head_version_ == 0;
  const bool begins_steps = std::ranges::any_of(
      activated.steps, [](const BegunStep& step) { return step.permit.waiter_key.empty(); });
  const bool has_work = locks.any_granted || begins_steps || has_work_besides(activated.record);
  const std::uint64_t full = full_with(machine_.signals_kept());
  if (is_new || (has_work && waits_in_store_) || (full > 0) != is_full_in_store_ ||
      locks.slots_let_go) {
    const std::string key = tenure_->keys().run(uid_);
    head_.set_waits(!has_work);
    head_.set_signals_kept(full);
    std::optional<RowInHead> row;
    if (!is_new) {
      if (may_be_lost(head_version_)) {
        writing.batch.require_version(key, head_version_);
      }
    } else if (activated.record.format() != 0) {
      row.emplace(head_, activated.record, RowInHead::As::kFirst);
    }
    put_record(writing.batch, key, head_);
    writing.has_head = true;
  }
  if (next_row_ == 0) {
    const bool begins = activated.record.format() != 0;
    write_own_timers(writing, !begins);
    if (begins && head_.starts_at_ns() != 0) {
      drop_timer(writing, time_of(head_.starts_at_ns()), kStartTimer);
    }
  }
  if (!is_new) {
    require_last_row(writing.batch);
    const std::string row = tenure_->keys().journal_row(uid_, next_row_);
    writing.batch.require_new(row);
    put_record(writing.batch, row, activated.record);
  }
}

bool LiveRun::last_row_is_in_head() const {
  return next_row_ == 0 || (next_row_ == 1 && head_.has_first());
}

void LiveRun::require_last_row(Batch& batch) const {
  if (last_row_is_in_head()) {
    if (may_be_lost(head_version_)) {
      batch.require_version(tenure_->keys().run(uid_), head_version_);
    }
  } else if (may_be_lost(last_version_)) {
    batch.require_version(tenure_->keys().journal_row(uid_, next_row_ - 1), last_version_);
  }
}

/// A row that was applied can be lost still, to a disk that is full: what follows from it must not
/// be written then, and there need not be anybody who waits until it is durable. One that is
/// durable is there, as nobody else writes rows of this run while the epoch is ours: so nobody has
/// to look for it on the disk, when it is long ago that it was written.
bool LiveRun::may_be_lost(Version version) const {
  return !tenure_->world().store.is_durable(version);
}

/// How many signals the head says that nobody took: nothing, if more may come.
std::uint64_t LiveRun::full_with(std::size_t signals) const {
  return signals >= tenure_->world().signals_kept_max ? signals : 0;
}

/// Those that are none of an operation.
void LiveRun::write_own_timers(Writing& writing, bool starts_later) const {
  if (starts_later && head_.starts_at_ns() != 0) {
    set_timer(writing, time_of(head_.starts_at_ns()), kStartTimer);
  }
  if (head_.deadline_ns() != 0) {
    set_timer(writing, time_of(head_.deadline_ns()), kDeadlineTimer);
  }
  write_wait_timers(writing);
}

void LiveRun::write_end(Writing& writing, Activated& activated, StoreTime now) {
  const RunEnd& end = *activated.end;
  if (end.continue_with) {
    head_.set_state(record::RunHead::CONTINUED);
    write_continuation(writing, end, now);
  } else if (end.error) {
    *head_.mutable_failure() = failure_of(end.error);
    const bool cancelled = head_.failure().code() == static_cast<int>(ErrorCode::kCancelled);
    head_.set_state(cancelled ? record::RunHead::CANCELLED : record::RunHead::FAILED);
  } else {
    head_.set_state(record::RunHead::COMPLETED);
    head_.set_result(end.text);
  }
  const RowInHead row(head_, activated.record,
                      head_version_ == 0 ? RowInHead::As::kFirst : RowInHead::As::kLast);
  head_.set_rows(next_row_ + 1);
  close(writing, now, activated.given_up);
}

/// Everything that hangs on a run goes with it, in the commit that ends it.
void LiveRun::close(Writing& writing, StoreTime now, const std::vector<std::uint64_t>& released) {
  head_.set_ended_at_ns(ns_of(now));
  head_.clear_waits();
  for (const auto& [operation, due] : timers_) {
    drop_timer(writing, due, operation);
  }
  for (const std::shared_ptr<StepRun>& step : open()) {
    drop_step(writing, step->operation());
  }
  if (next_row_ == 0 && head_.starts_at_ns() != 0) {
    drop_timer(writing, time_of(head_.starts_at_ns()), kStartTimer);
  }
  if (head_.deadline_ns() != 0) {
    drop_timer(writing, time_of(head_.deadline_ns()), kDeadlineTimer);
  }
  drop_wait_timers(writing);
  if (child_wait_) {
    end_wait_for_end(writing.batch, child_wait_->wait);
  }
  for (const auto& [operation, child] : children_) {
    if (child.lock && contains(released, operation)) {
      continue;  // To be terminated as well would look as if it had not been released.
    }
    if (child.close == ParentClose::kTerminate) {
      record::RunMessage message = message_to(child.place, record::RunMessage::TERMINATE);
      message.mutable_event()->set_payload("its parent has ended");
      send(writing, child.place, std::move(message), now);
    } else if (child.close == ParentClose::kCancel) {
      send(writing, child.place, cancellation_of(child.place), now);
    }
  }
  if (head_.has_parent() && head_.state() != record::RunHead::CONTINUED) {
    const RunPlace parent = place_of(head_.parent().place());
    record::RunMessage message = message_to(parent, record::RunMessage::EVENT);
    record::RunEvent& event = *message.mutable_event();
    event.set_kind(record::RunEvent::CHILD_ENDED);
    event.set_operation(head_.parent().operation());
    if (head_.state() == record::RunHead::COMPLETED) {
      event.set_payload(head_.result());
    } else {
      *event.mutable_failure() = head_.failure();
      event.mutable_failure()->clear_code();  // Of what the child did, not of the wait for it.
      event.mutable_failure()->set_message(ending_text(info_of(head_, place())));
    }
    send(writing, parent, std::move(message), now);
  }
  const std::string key = tenure_->keys().run(uid_);
  if (head_version_ != 0) {
    if (may_be_lost(head_version_)) {
      writing.batch.require_version(key, head_version_);
    }
    if (!last_row_is_in_head()) {
      require_last_row(writing.batch);
    }
  }
  put_record(writing.batch, key, head_);
  writing.has_head = true;
}

/// The next run of the chain takes over the id, the keys, the parent, the signals that nobody took,
/// and what is known of requests.
void LiveRun::write_continuation(Writing& writing, const RunEnd& end, StoreTime now) {
  const std::string uid = tenure_->world().next_uid(now);
  record::RunHead next;
  next.set_format(kRunFormat);
  next.set_type(head_.type());
  next.set_id(id_of(head_, place()));
  next.set_input(payload_text(*end.continue_with));
  next.set_started_at_ns(ns_of(now));
  next.set_root_id(head_.root_id().empty() ? next.id() : head_.root_id());
  next.set_root_uid(root_uid_of(head_, place()));
  next.set_timeout_ns(head_.timeout_ns());
  next.set_chain_deadline_ns(head_.chain_deadline_ns());
  next.set_deadline_ns(deadline_of(next));
  *next.mutable_start_keys() = head_.start_keys();
  *next.mutable_attributes() = head_.attributes();
  *next.mutable_holds() = head_.holds();
  for (record::RunHold& hold : *next.mutable_holds()) {
    if (hold.actor().empty()) {
      hold.set_actor(run_actor(uid_));
    }
  }
  *next.mutable_admission() = head_.admission();
  *next.mutable_step_limits() = head_.step_limits();
  next.set_priority(head_.priority());
  if (head_.has_parent()) {
    *next.mutable_parent() = head_.parent();
  }
  next.mutable_signals()->Assign(end.signals_left.begin(), end.signals_left.end());
  next.set_signals_kept(full_with(end.signals_left.size()));
  next.mutable_requests()->Assign(end.requests_done.begin(), end.requests_done.end());
  next.mutable_answers()->Assign(end.answers.begin(), end.answers.end());
  head_.set_continued_as(uid);
  writing.batch.put(tenure_->keys().run(uid), next.SerializeAsString());
  const std::string name = name_row(tenure_->keys().place_of(uid));
  writing.batch.put(run_id_key(next.id()), name);
  for (const std::string& key : next.start_keys()) {
    writing.batch.put(start_key_key(key), name);
  }
  writing.children.push_back(uid);
}

RunPlace LiveRun::place_of_child(const BegunChild& child) const {
  std::string uid = child_uid(uid_, child.operation);
  if (child.terms.queue.empty()) {
    return tenure_->keys().place_of(uid);
  }
  const std::uint32_t partition = partition_for(uid);
  return {child.terms.queue, partition, std::move(uid)};
}

/// A child that goes to other processes is put into the inbox of theirs.
void LiveRun::write_child(Writing& writing, record::RunOperation& operation,
                          const BegunChild& child, StoreTime now, bool is_all_it_waits_for) {
  const RunPlace where = place_of_child(child);
  const std::string& uid = where.uid;
  const bool is_elsewhere = !child.terms.queue.empty();
  *operation.mutable_child() = record_of(where);
  operation.set_value(static_cast<std::int64_t>(child.terms.parent_close));
  record::RunHead head;
  head.set_format(kRunFormat);
  head.set_type(child.type);
  head.set_id(child.terms.id);
  head.set_input(payload_text(child.input));
  head.set_started_at_ns(ns_of(now));
  if (!child.terms.is_root) {
    head.set_root_id(head_.root_id().empty() ? id_of(head_, place()) : head_.root_id());
    head.set_root_uid(root_uid_of(head_, place()));
  }
  head.set_timeout_ns(child.terms.timeout.count());
  head.set_priority(child.terms.priority);
  head.set_deadline_ns(deadline_of(head));
  head.mutable_parent()->set_operation(child.operation);
  head.mutable_parent()->set_id(id_of(head_, place()));
  if (is_all_it_waits_for) {
    const std::vector<std::string> blocked = run_actors(head_, uid_);
    head.mutable_parent()->mutable_blocked()->Assign(blocked.begin(), blocked.end());
  }
  *head.mutable_parent()->mutable_place() = record_of(place());
  if (child.terms.takes_lock) {
    const std::string& gate = locks_.at(*child.terms.takes_lock).gate;
    record::RunHold& hold = *head.add_holds();
    hold.set_gate(gate);
    hold.set_holder_key(run_holder_key(gate, uid_, *child.terms.takes_lock));
  }
  for (const std::string& key : child.terms.start_keys) {
    head.add_start_keys(key);
    writing.batch.put(start_key_key(key), name_row(where));
  }
  const PartitionKeys there(where.queue, where.partition);
  writing.batch.put(there.run(uid), head.SerializeAsString());
  if (is_elsewhere) {
    send(writing, where, message_to(where, record::RunMessage::WAKE), now);
  } else {
    writing.children.push_back(uid);
  }
}

/// Not to one that has ended.
void LiveRun::write_tell(Writing& writing, const BegunTell& tell, StoreTime now) const {
  std::optional<RunPlace> to;
  if (!tell.child) {
    if (head_.has_parent()) {
      to = place_of(head_.parent().place());
    }
  } else if (const auto child = children_.find(*tell.child); child != children_.end()) {
    to = child->second.place;
  }
  if (!to) {
    return;
  }
  record::RunMessage message = message_to(*to, record::RunMessage::EVENT);
  *message.mutable_event() = tell.event;
  if (!tell.child) {
    message.mutable_event()->set_operation(head_.parent().operation());
  }
  send(writing, *to, std::move(message), now);
}

void LiveRun::set_timer(Writing& writing, StoreTime due, std::uint64_t operation) const {
  const std::string key = tenure_->keys().timer(due, uid_, operation);
  writing.batch.put(key, "");
  writing.timers_set.push_back(key);
}

void LiveRun::drop_timer(Writing& writing, StoreTime due, std::uint64_t operation) const {
  const std::string key = tenure_->keys().timer(due, uid_, operation);
  writing.batch.erase(key);
  writing.timers_gone.push_back(key);
}

void LiveRun::drop_step(Writing& writing, std::uint64_t operation) const {
  const std::shared_ptr<StepRun> step = step_at(operation);
  if (step == nullptr) {
    return;
  }
  if (step->has_row()) {
    writing.batch.erase(tenure_->keys().attempts(uid_, operation));
  }
  for (const StoreTime due : step->timers()) {
    drop_timer(writing, due, operation);
  }
  drop_permit_rows(writing, operation);
}

void LiveRun::send(Writing& writing, const RunPlace& to, record::RunMessage message,
                   StoreTime now) const {
  const PartitionKeys there(to.queue, to.partition);
  std::string key = there.message(tenure_->world().next_uid(now));
  writing.batch.put(key, message.SerializeAsString());
  writing.messages.push_back({to, std::move(key), std::move(message)});
}

/// Whether something is to be done for it that no timer and no message brings back.
bool LiveRun::has_work_besides(const record::Activation& record) const {
  if (record.held_size() > 0) {
    return true;
  }
  const auto has_ended_now = [&](std::uint64_t operation) {
    return std::any_of(record.events().begin(), record.events().end(), [&](const auto& event) {
      return event.kind() == record::RunEvent::STEP_ENDED && event.operation() == operation;
    });
  };
  const std::vector<std::shared_ptr<StepRun>> steps = open();
  return std::any_of(steps.begin(), steps.end(), [&](const auto& step) {
    return !step->is_pausing() && !has_ended_now(step->operation());
  });
}

}  // namespace holdfast::detail
