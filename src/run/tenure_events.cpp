// SPDX-License-Identifier: Apache-2.0
// What happens to the runs of a partition: timers that are due, and messages from its inbox.
#include <utility>

#include <holdfast/error.hpp>

#include "run_directory.hpp"
#include "run_rows.hpp"
#include "tenure.hpp"

namespace holdfast::detail {

namespace {

record::RunEvent event_of(record::RunEvent::Kind kind, std::uint64_t operation = 0) {
  record::RunEvent event;
  event.set_kind(kind);
  event.set_operation(operation);
  return event;
}

/// Takes the event out of the message.
Mail mail_of(std::string key, record::RunMessage& message) {
  Mail mail;
  mail.consumed = std::move(key);
  mail.reply_key = message.reply_key();
  mail.event = std::move(*message.mutable_event());
  switch (message.kind()) {
    case record::RunMessage::WAKE:
      mail.kind = Mail::Kind::kWake;
      break;
    case record::RunMessage::TERMINATE:
      mail.kind = Mail::Kind::kTerminate;
      break;
    case record::RunMessage::RETRY_NOW:
      mail.kind = Mail::Kind::kRetryNow;
      break;
    case record::RunMessage::QUERY:
      mail.kind = Mail::Kind::kQuery;
      break;
    default:
      break;
  }
  return mail;
}

Mail mail_of_timer(std::string key, const TimerKey& timer) {
  Mail mail;
  mail.consumed = std::move(key);
  if (timer.operation == kDeadlineTimer) {
    mail.kind = Mail::Kind::kTimeUp;
  } else if (timer.operation == kStartTimer) {
    mail.event = event_of(record::RunEvent::STARTED);
  } else if (timer.operation == kAdmissionTimer) {
    mail.kind = Mail::Kind::kWaitOver;
  } else {
    mail.event = event_of(record::RunEvent::TIMER_FIRED, timer.operation);
  }
  return mail;
}

/// Not what is about an operation of the run that has ended.
bool is_for_its_next_one(const record::RunMessage& message) {
  if (message.kind() != record::RunMessage::EVENT) {
    return true;
  }
  switch (message.event().kind()) {
    case record::RunEvent::CHILD_ENDED:
    case record::RunEvent::LOCK_SETTLED:
    case record::RunEvent::LOCK_LOST:
    case record::RunEvent::CHILD_TOLD:
      return false;
    default:
      return true;
  }
}

}  // namespace

// --- Timers --------------------------------------------------------------------------------------

void Tenure::add_timer(const std::string& key) {
  bool is_next = false;
  {
    const std::lock_guard lock(mutex_);
    const std::optional<StoreTime> before = timers_.next();
    timers_.add(key);
    const std::optional<StoreTime> after = timers_.next();
    is_next = after && (!before || *after < *before);
  }
  if (is_next) {
    world_->agenda.ring();
  }
}

void Tenure::remove_timer(const std::string& key) {
  const std::lock_guard lock(mutex_);
  timers_.remove(key);
}

std::optional<StoreTime> Tenure::next_due() {
  const std::lock_guard lock(mutex_);
  return timers_.next();
}

Task<void> Tenure::fire_due() {
  for (;;) {
    std::optional<std::string> after;
    {
      const std::lock_guard lock(mutex_);
      after = timers_.begin_reading();
    }
    if (after) {
      const ScanOptions next{.after = *after, .limit = TimerWindow::kRead, .read = Read::kApplied};
      Page page;
      try {
        page = co_await world_->store.scan(keys_.timers(), next);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        timers_.give_up_reading();
        throw;
      }
      const std::lock_guard lock(mutex_);
      timers_.end_reading(page);
    }
    const StoreTime now = co_await world_->store.time();
    std::vector<std::string> due;
    {
      const std::lock_guard lock(mutex_);
      due = timers_.take_due(now);
    }
    if (due.empty()) {
      co_return;
    }
    for (std::size_t fired = 0; fired < due.size(); ++fired) {
      try {
        co_await fire(due[fired]);
      } catch (...) {
        // They are due still.
        const std::lock_guard lock(mutex_);
        for (std::size_t left = fired; left < due.size(); ++left) {
          timers_.add(due[left]);
        }
        throw;
      }
    }
  }
}

Task<void> Tenure::fire(std::string key) {
  const TimerKey timer = read_timer_key(key, keys_.timers());
  const Whereabouts where = co_await deliver(timer.uid, mail_of_timer(key, timer));
  if (where == Whereabouts::kGone) {
    Batch batch;
    batch.erase(key);
    static_cast<void>(co_await apply(std::move(batch)));
  }
}

// --- Messages ------------------------------------------------------------------------------------

/// Whoever has read the row before, and brings it later, will find that it is gone.
void Tenure::row_done(const std::string& key) {
  if (key.starts_with(keys_.inbox())) {
    const std::lock_guard lock(mutex_);
    taken_.erase(key);
  }
}

Task<void> Tenure::take_message(std::string key, record::RunMessage message) {
  {
    const std::lock_guard lock(mutex_);
    if (!taken_.insert(key).second) {
      co_return;
    }
  }
  try {
    // Who brings it may be late: others saw the row, and it is done.
    const std::optional<Entry> row = co_await world_->store.get(key, Read::kApplied);
    if (row) {
      co_await pass_on(key, std::move(message));
      co_return;
    }
  } catch (...) {
    // It is in the inbox still, and is seen there again.
    const std::lock_guard lock(mutex_);
    taken_.erase(key);
    throw;
  }
  const std::lock_guard lock(mutex_);
  taken_.erase(key);
}

bool Tenure::take_here(const std::shared_ptr<LiveRun>& run, const std::string& key,
                       record::RunMessage& message, std::shared_ptr<LiveRun>& to_drive) {
  Mail mail = mail_of(key, message);
  const bool is_taken = take_here(run, mail, to_drive);
  if (!is_taken) {
    *message.mutable_event() = std::move(mail.event);
  }
  return is_taken;
}

bool Tenure::take_here(const std::shared_ptr<LiveRun>& run, Mail& mail,
                       std::shared_ptr<LiveRun>& to_drive) {
  {
    const std::lock_guard lock(mutex_);
    if (!taken_.insert(mail.consumed).second) {
      return true;
    }
  }
  switch (run->take(mail)) {
    case LiveRun::Taken::kNot: {
      const std::lock_guard lock(mutex_);
      taken_.erase(mail.consumed);
      return false;
    }
    case LiveRun::Taken::kAsFirst:
      to_drive = run;
      return true;
    case LiveRun::Taken::kBehindOthers:
      return true;
  }
  return false;
}

Task<void> Tenure::pass_on(std::string key, record::RunMessage message) {
  const std::string uid = message.uid();
  const record::RunMessage whole = message;
  const Whereabouts where = co_await deliver(uid, mail_of(key, message));
  if (where == Whereabouts::kGone) {
    co_await answer_for_the_gone(std::move(key), whole);
  }
}

void Tenure::return_mail(std::vector<Mail> mails) {
  for (Mail& mail : mails) {
    if (mail.consumed.starts_with(keys_.inbox()) && !is_over()) {
      {
        const std::lock_guard lock(mutex_);
        taken_.erase(mail.consumed);
      }
      run(take_again(shared_from_this(), std::move(mail.consumed)));
    }
  }
}

void Tenure::set_aside(const std::string& uid, const std::vector<Mail>& mails) {
  if (mails.empty()) {
    return;
  }
  const std::lock_guard lock(mutex_);
  std::vector<std::string>& rows = aside_[uid];
  for (const Mail& mail : mails) {
    rows.push_back(mail.consumed);
  }
}

/// In the order in which it came. While it is here nobody else takes it.
Task<std::vector<Mail>> Tenure::mail_set_aside(std::string uid) {
  std::vector<std::string> rows;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = aside_.find(uid); found != aside_.end()) {
      rows = found->second;
    }
  }
  std::vector<Mail> mails;
  for (const std::string& key : rows) {
    const std::optional<Entry> row = co_await world_->store.get(key, Read::kApplied);
    if (row && key.starts_with(keys_.inbox())) {
      auto message = read_row<record::RunMessage>(*row, "the message to a run");
      mails.push_back(mail_of(key, message));
    } else if (row) {
      mails.push_back(mail_of_timer(key, read_timer_key(key, keys_.timers())));
    }
  }
  co_return mails;
}

Task<void> Tenure::take_again(std::shared_ptr<Tenure> tenure, std::string key) {
  const std::optional<Entry> row = co_await tenure->world_->store.get(key, Read::kApplied);
  if (row) {
    co_await tenure->take_message(std::move(key),
                                  read_row<record::RunMessage>(*row, "the message to a run"));
  }
}

/// The run has ended meanwhile. If it goes on as another one, that gets the message.
Task<void> Tenure::answer_for_the_gone(std::string key, record::RunMessage message) {
  const std::optional<Entry> row =
      co_await world_->store.get(keys_.run(message.uid()), Read::kApplied);
  const record::RunHead head = row ? read_run_head(*row) : record::RunHead();
  if (row && !has_ended(head)) {
    throw StoreBusy("run '" + message.uid() + "' goes on, and the partition was given up");
  }
  Batch batch;
  batch.erase(key);
  if (head.state() == record::RunHead::CONTINUED && is_for_its_next_one(message)) {
    message.set_uid(head.continued_as());
    batch.put(key, message.SerializeAsString());
    const std::optional<CommitOutcome> outcome = co_await apply(std::move(batch));
    if (outcome && outcome->committed() != nullptr) {
      co_await pass_on(std::move(key), std::move(message));
    }
    co_return;
  }
  if (!message.reply_key().empty()) {
    const NoSuchRun too_late("the run '" + message.uid() + "' has ended meanwhile");
    batch.put(message.reply_key(), reply_row(nullptr, std::make_exception_ptr(too_late)));
  }
  if (message.has_start() && key > head.ended_by()) {
    co_await start_instead(std::move(key), std::move(message));
    co_return;
  }
  const std::optional<CommitOutcome> outcome = co_await apply(std::move(batch));
  if (outcome) {
    row_done(key);
  }
}

/// One whose workflow has a limit is put into the store first: it may have to wait, and if it is
/// refused, nobody is there to be told but those who look for it.
Task<std::optional<CommitOutcome>> Tenure::start_next(record::RunHead head, Batch batch,
                                                      StoreTime now) {
  const std::string uid = world_->next_uid(now);
  const std::string name = name_row(keys_.place_of(uid));
  batch.put(run_id_key(head.id()), name);
  for (const std::string& key : head.start_keys()) {
    batch.put(start_key_key(key), name);
  }
  head.set_started_at_ns(ns_of(now));
  head.set_deadline_ns(deadline_of(head));
  std::optional<CommitOutcome> outcome;
  const bool begins_at_once =
      world_->code_of(head.type()) != nullptr && world_->admission_of(head.type()) == nullptr;
  if (begins_at_once) {
    Entrance without_limit;
    outcome = co_await start(uid, std::move(head), std::move(batch), std::move(without_limit), now);
    co_return outcome;
  }
  batch.put(keys_.run(uid), head.SerializeAsString());
  outcome = co_await apply(std::move(batch));
  if (outcome && outcome->committed() != nullptr) {
    static_cast<void>(co_await find(uid));
  }
  co_return outcome;
}

/// The run that was to be signalled has ended: the signal goes to the next one of its id, or to the
/// one that was started with the key meanwhile, or makes one. None is made if that one has ended.
Task<void> Tenure::start_instead(std::string key, record::RunMessage message) {
  Store& store = world_->store;
  for (bool done = false; !done && !is_over();) {
    const StoreTime now = co_await store.time();
    Batch batch;
    batch.erase(key);
    std::optional<RunRow> next =
        co_await find_named(store, run_id_key(message.start().id()), batch);
    if (next && next->place.uid == message.uid()) {
      next.reset();
    }
    bool of_key_has_ended = false;
    for (const std::string& start_key : message.start().start_keys()) {
      if (!next) {
        next = co_await find_named(store, start_key_key(start_key), batch);
        of_key_has_ended = next && has_ended(next->head);
      }
    }
    std::optional<CommitOutcome> outcome;
    if (next && !of_key_has_ended) {
      message.set_uid(next->place.uid);
      const PartitionKeys there(next->place.queue, next->place.partition);
      batch.put(there.message(world_->next_uid(now)), message.SerializeAsString());
    }
    if (next) {
      outcome = co_await apply(std::move(batch));
    } else {
      outcome = co_await start_next(message.start(), std::move(batch), now);
    }
    done = !outcome || outcome->committed() != nullptr;
  }
  row_done(key);
}

}  // namespace holdfast::detail
