// SPDX-License-Identifier: Apache-2.0
#include "partition_driver.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <holdfast/all_any.hpp>
#include <holdfast/error.hpp>
#include <holdfast/this_task.hpp>

#include "gate/session_rules.hpp"
#include "run_failure.hpp"
#include "run_head.hpp"
#include "run_payload.hpp"

namespace holdfast::detail {

namespace {

constexpr std::size_t kRowsRead = 1'000;
/// How long a lost wake-up may go unnoticed.
constexpr Duration kSweepInterval = std::chrono::seconds(1);

record::RunEvent event_of(record::RunEvent::Kind kind, std::uint64_t operation = 0) {
  record::RunEvent event;
  event.set_kind(kind);
  event.set_operation(operation);
  return event;
}

bool has_ended(const record::RunHead& head) { return head.state() != record::RunHead::RUNNING; }

Task<void> until_changed(Watch& watch) { co_await watch.changed(); }
Task<void> for_a_while(Duration time) { co_await this_task::sleep_for(time); }

/// Until something under the watch has changed, or for so long.
Task<void> wait_for_news(Watch& watch, Duration time) {
  static_cast<void>(co_await any(until_changed(watch), for_a_while(time)));
}

void write_end(record::RunHead& head, const RunEnd& end, StoreTime now) {
  head.set_ended_at_ns(now.time_since_epoch().count());
  if (!end.error) {
    head.set_state(record::RunHead::COMPLETED);
    head.set_result(payload_text(end.value));
    return;
  }
  *head.mutable_failure() = failure_of(end.error);
  const bool cancelled = head.failure().code() == static_cast<int>(ErrorCode::kCancelled);
  head.set_state(cancelled ? record::RunHead::CANCELLED : record::RunHead::FAILED);
}

}  // namespace

PartitionDriver::PartitionDriver(DriverWorld world, PartitionKeys keys)
    : world_(std::move(world)), keys_(std::move(keys)) {}

// --- Ownership -----------------------------------------------------------------------------------

Task<bool> PartitionDriver::take() {
  const std::string key = keys_.owner();
  const std::optional<Entry> row = co_await world_.store.get(key, Read::kApplied);
  Batch batch;
  if (!row) {
    batch.require_absent(key);
  } else {
    record::RunPartition owner;
    if (!owner.ParseFromString(row->value) || owner.format() == 0) {
      throw StoreCorrupt("the row '" + key + "' of a partition of runs is damaged");
    }
    const std::optional<Entry> session =
        co_await world_.store.get(owner.session_key(), Read::kApplied);
    const StoreTime now = co_await world_.store.time();
    if (liveness(session, now) == Liveness::kLive) {
      co_return false;
    }
    if (session) {
      bury(batch, *session);
    }
    batch.require_version(key, row->version);
  }
  record::RunPartition mine;
  mine.set_format(kRunFormat);
  mine.set_session_key(world_.session.key());
  mine.set_session_name(world_.session.name());
  batch.put(key, mine.SerializeAsString());
  const CommitOutcome outcome = co_await world_.session.commit(std::move(batch));
  if (outcome.committed() == nullptr) {
    co_return false;
  }
  epoch_ = outcome.committed()->version;
  co_await recover();
  run_in_background(world_.executor, watch_timers());
  run_in_background(world_.executor, watch_inbox());
  co_return true;
}

/// Goes on with those that had something to do; the others wait in the store.
Task<void> PartitionDriver::recover() {
  const std::string prefix = keys_.runs();
  std::string after;
  for (bool more = true; more;) {
    const ScanOptions next{.after = after, .limit = kRowsRead, .read = Read::kApplied};
    const Page page = co_await world_.store.scan(prefix, next);
    for (const Entry& entry : page.entries) {
      const record::RunHead head = read_run_head(entry);
      if (!has_ended(head) && !head.waits()) {
        static_cast<void>(co_await find_or_load(entry.key.substr(prefix.size())));
      }
      after = entry.key;
    }
    more = page.more;
  }
}

// --- Runs in memory ------------------------------------------------------------------------------

Task<void> PartitionDriver::start(std::string uid, std::string type, boost::json::value input) {
  const StoreTime now = co_await world_.store.time();
  auto run = std::make_shared<LiveRun>();
  run->uid = uid;
  run->head.set_format(kRunFormat);
  run->head.set_type(type);
  run->head.set_input(payload_text(input));
  run->head.set_started_at_ns(now.time_since_epoch().count());
  const std::string key = keys_.run(uid);
  Batch batch;
  batch.guard(keys_.owner(), epoch_).require_absent(key).put(key, run->head.SerializeAsString());
  const CommitOutcome outcome = co_await world_.store.apply(std::move(batch));
  if (outcome.committed() == nullptr) {
    throw StoreBusy("the run '" + uid + "' was not started: another process has taken over");
  }
  const Version version = outcome.committed()->version;
  run->head_version = version;
  if (const WorkflowCode* code = world_.code_of(type)) {
    run->machine = std::make_unique<RunMachine>(
        *code, RunMachine::Facts{std::move(uid), std::move(type), std::move(input)});
    {
      const std::lock_guard lock(mutex_);
      runs_.emplace(run->uid, run);
    }
    deliver(run, event_of(record::RunEvent::STARTED), {});
  }
  co_await world_.store.until_durable(version);
}

Task<PartitionDriver::Run> PartitionDriver::find_or_load(std::string uid) {
  const Hold turn = co_await loading_.lock();
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = runs_.find(uid); found != runs_.end()) {
      co_return found->second;
    }
  }
  std::vector<BegunStep> open_steps;
  const Run run = co_await load(uid, open_steps);
  if (run == nullptr) {
    co_return nullptr;
  }
  {
    const std::lock_guard lock(mutex_);
    runs_.emplace(std::move(uid), run);
  }
  if (run->next_row == 0) {
    deliver(run, event_of(record::RunEvent::STARTED), {});
  }
  begin_steps(run, std::move(open_steps));
  co_return run;
}

/// Rebuilds it from its journal. Nothing if it has ended, or its workflow is not known here.
Task<PartitionDriver::Run> PartitionDriver::load(std::string uid,
                                                 std::vector<BegunStep>& open_steps) {
  const std::string key = keys_.run(uid);
  const std::optional<Entry> row = co_await world_.store.get(key, Read::kApplied);
  if (!row) {
    co_return nullptr;
  }
  auto run = std::make_shared<LiveRun>();
  run->uid = uid;
  run->head = read_run_head(*row);
  run->head_version = row->version;
  const WorkflowCode* code = world_.code_of(run->head.type());
  if (has_ended(run->head) || code == nullptr) {
    co_return nullptr;
  }
  run->machine = std::make_unique<RunMachine>(
      *code, RunMachine::Facts{uid, run->head.type(), parse_payload(run->head.input())});
  std::map<std::uint64_t, BegunStep> steps;
  const std::string prefix = keys_.journal(uid);
  std::string after;
  for (bool more = true; more;) {
    const ScanOptions next{.after = after, .limit = kRowsRead, .read = Read::kApplied};
    const Page page = co_await world_.store.scan(prefix, next);
    for (const Entry& entry : page.entries) {
      const record::Activation activation = read_activation(entry);
      for (const record::RunEvent& event : activation.events()) {
        steps.erase(event.operation());
      }
      for (BegunStep& step : run->machine->replay(activation).steps) {
        const std::uint64_t operation = step.operation;
        steps.emplace(operation, std::move(step));
      }
      ++run->next_row;
      after = entry.key;
    }
    more = page.more;
  }
  for (auto& [operation, step] : steps) {
    open_steps.push_back(std::move(step));
  }
  co_return run;
}

void PartitionDriver::deliver(const Run& run, record::RunEvent event, std::string consumed) {
  {
    const std::lock_guard lock(mutex_);
    run->events.push_back(std::move(event));
    if (!consumed.empty()) {
      run->consumed.push_back(std::move(consumed));
    }
    if (std::exchange(run->driven, true)) {
      return;
    }
  }
  run_in_background(world_.executor, drive(run));
}

// --- Activations ---------------------------------------------------------------------------------

std::optional<PartitionDriver::Mail> PartitionDriver::take_mail(LiveRun& run) {
  const std::lock_guard lock(mutex_);
  if (run.events.empty()) {
    run.driven = false;
    return std::nullopt;
  }
  return Mail{std::exchange(run.events, {}), std::exchange(run.consumed, {})};
}

Task<void> PartitionDriver::drive(Run run) {
  for (;;) {
    std::optional<Mail> mail = take_mail(*run);
    if (!mail) {
      co_return;
    }
    const bool goes_on = co_await activate(run, *std::move(mail));
    if (!goes_on) {
      const std::lock_guard lock(mutex_);
      runs_.erase(run->uid);
      co_return;
    }
  }
}

/// False: it has ended, or is not ours any more.
Task<bool> PartitionDriver::activate(Run run, Mail mail) {
  const StoreTime now = co_await world_.store.time();
  for (const record::RunEvent& event : mail.events) {
    if (event.kind() == record::RunEvent::STEP_ENDED) {
      run->steps.erase(event.operation());
    }
  }
  Activated activated = run->machine->activate(now, std::move(mail.events));
  Batch batch = batch_of(*run, activated, now);
  for (const std::string& key : mail.consumed) {
    batch.erase(key);
  }
  const CommitOutcome outcome = co_await world_.store.apply(std::move(batch));
  if (outcome.committed() == nullptr) {
    lose();
    co_return false;
  }
  const Version version = outcome.committed()->version;
  if (activated.end) {
    co_return false;
  }
  ++run->next_row;
  {
    const std::lock_guard lock(mutex_);
    for (const std::string& key : mail.consumed) {
      taken_.erase(key);
    }
  }
  if (!activated.steps.empty()) {
    // Nothing of it leaves the process before it cannot be lost any more.
    co_await world_.store.until_durable(version);
    begin_steps(run, std::move(activated.steps));
  }
  co_return true;
}

Batch PartitionDriver::batch_of(LiveRun& run, const Activated& activated, StoreTime now) {
  Batch batch;
  batch.guard(keys_.owner(), epoch_);
  const std::string head_key = keys_.run(run.uid);
  if (activated.end) {
    write_end(run.head, *activated.end, now);
    run.head.set_journal_rows(run.next_row);
    *run.head.mutable_last() = activated.record;
    batch.require_version(head_key, run.head_version);
    batch.put(head_key, run.head.SerializeAsString());
    return batch;
  }
  const std::string row = keys_.journal_row(run.uid, run.next_row);
  batch.require_absent(row).put(row, activated.record.SerializeAsString());
  for (const BegunTimer& timer : activated.timers) {
    batch.put(keys_.timer(timer.due, run.uid, timer.operation), "");
  }
  return batch;
}

// --- Steps ---------------------------------------------------------------------------------------

void PartitionDriver::begin_steps(const Run& run, std::vector<BegunStep> steps) {
  for (BegunStep& step : steps) {
    run->steps.insert(step.operation);
    Executor& where = step.code->blocks() ? world_.steps : world_.executor;
    run_in_background(where, run_step(run, std::make_shared<BegunStep>(std::move(step))));
  }
}

Task<void> PartitionDriver::run_step(Run run, std::shared_ptr<BegunStep> step) {
  record::RunEvent event = event_of(record::RunEvent::STEP_ENDED, step->operation);
  std::string key = run->uid;
  key.append(":").append(std::to_string(step->operation));
  StepContext context(std::move(key), 1, this_task::stop_token());
  try {
    const boost::json::value value = co_await step->code->run(context);
    event.set_payload(payload_text(value));
  } catch (const Cancelled&) {
    if (this_task::stop_requested()) {
      throw;
    }
    *event.mutable_failure() = failure_of(std::current_exception());
  } catch (...) {
    *event.mutable_failure() = failure_of(std::current_exception());
  }
  deliver(run, std::move(event), {});
}

// --- Timers and messages -------------------------------------------------------------------------

Task<void> PartitionDriver::watch_timers() {
  Watch watch = world_.store.watch(keys_.timers());
  for (;;) {
    const std::optional<StoreTime> next = co_await fire_due_timers();
    const StoreTime now = co_await world_.store.time();
    const Duration pause = next ? std::max(*next - now, Duration::zero()) : kSweepInterval;
    co_await wait_for_news(watch, std::min(pause, kSweepInterval));
  }
}

/// When the next one is due.
Task<std::optional<StoreTime>> PartitionDriver::fire_due_timers() {
  const std::string prefix = keys_.timers();
  std::string after;
  for (;;) {
    const ScanOptions first{.after = after, .limit = kRowsRead};
    const Page page = co_await world_.store.scan(prefix, first);
    const StoreTime now = co_await world_.store.time();
    for (const Entry& entry : page.entries) {
      after = entry.key;
      const TimerKey timer = read_timer_key(entry.key, prefix);
      if (timer.due > now) {
        co_return timer.due;
      }
      {
        const std::lock_guard lock(mutex_);
        if (!taken_.insert(entry.key).second) {
          continue;
        }
      }
      const Run run = co_await find_or_load(timer.uid);
      if (run != nullptr) {
        deliver(run, event_of(record::RunEvent::TIMER_FIRED, timer.operation), entry.key);
      }
    }
    if (!page.more) {
      co_return std::nullopt;
    }
  }
}

Task<void> PartitionDriver::watch_inbox() {
  Watch watch = world_.store.watch(keys_.inbox());
  for (;;) {
    co_await take_messages();
    co_await wait_for_news(watch, kSweepInterval);
  }
}

Task<void> PartitionDriver::take_messages() {
  const std::string prefix = keys_.inbox();
  std::string after;
  for (bool more = true; more;) {
    const ScanOptions next{.after = after, .limit = kRowsRead};
    const Page page = co_await world_.store.scan(prefix, next);
    for (const Entry& entry : page.entries) {
      after = entry.key;
      {
        const std::lock_guard lock(mutex_);
        if (!taken_.insert(entry.key).second) {
          continue;
        }
      }
      record::RunMessage message = read_message(entry);
      const Run run = co_await find_or_load(message.uid());
      if (run != nullptr) {
        deliver(run, std::move(*message.mutable_event()), entry.key);
      }
    }
    more = page.more;
  }
}

// --- In the background ---------------------------------------------------------------------------

void PartitionDriver::run_in_background(Executor& executor, Task<void> task) {
  const std::lock_guard lock(mutex_);
  if (closed_) {
    return;
  }
  background_.remove_if([](const Spawned<void>& one) { return one.ended(); });
  background_.push_back(spawn(executor, std::move(task)));
}

/// Another process has taken over, or has written where only this one may: nothing of what is here
/// counts any more.
void PartitionDriver::lose() {
  const std::lock_guard lock(mutex_);
  epoch_ = 0;
  runs_.clear();
  taken_.clear();
}

void PartitionDriver::close() {
  std::list<Spawned<void>> ending;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    ending = std::exchange(background_, {});
  }
  for (Spawned<void>& one : ending) {
    one.request_stop();
  }
}

}  // namespace holdfast::detail
