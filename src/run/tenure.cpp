// SPDX-License-Identifier: Apache-2.0
#include "tenure.hpp"

#include <algorithm>
#include <utility>

#include <holdfast/detail/frame_allocator.hpp>
#include <holdfast/error.hpp>

#include "busy_pause.hpp"
#include "gate/session_rules.hpp"
#include "run_rows.hpp"

namespace holdfast::detail {

namespace {

constexpr std::size_t kRowsRead = 1'000;

/// There may be a new one every few microseconds.
std::shared_ptr<LiveRun> make_live_run(std::shared_ptr<Tenure> tenure, std::string uid,
                                       record::RunHead&& head, Version version,
                                       const WorkflowCode& code) {
  return std::allocate_shared<LiveRun>(FrameAllocator<LiveRun>(), std::move(tenure), std::move(uid),
                                       std::move(head), version, code);
}

/// Empty: it fits.
std::string replay_or_say_why(LiveRun& run, const record::Activation& row, Version version) {
  try {
    run.replay(row, version);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace

// --- Ownership -----------------------------------------------------------------------------------

Task<std::shared_ptr<Tenure>> Tenure::take(std::shared_ptr<RunWorld> world, PartitionKeys keys) {
  const std::optional<Entry> row = co_await world->store.get(keys.owner(), Read::kApplied);
  Batch batch;
  if (!row) {
    batch.require_absent(keys.owner());
  } else {
    const auto owner = read_row<record::RunPartition>(*row, "the partition of runs");
    // One of its own that it has given up is free for it to take anew.
    if (!owner.session_key().empty() && owner.session_key() != world->session.key()) {
      const std::optional<Entry> session =
          co_await world->store.get(owner.session_key(), Read::kApplied);
      const StoreTime now = co_await world->store.time();
      if (liveness(session, now) == Liveness::kLive) {
        co_return nullptr;
      }
      if (session) {
        bury(batch, *session);
      }
    }
    batch.require_version(keys.owner(), row->version);
  }
  record::RunPartition mine;
  mine.set_format(kRunFormat);
  mine.set_session_key(world->session.key());
  mine.set_session_name(world->session.name());
  batch.put(keys.owner(), mine.SerializeAsString());
  const CommitOutcome outcome = co_await world->session.commit(std::move(batch));
  std::shared_ptr<Tenure> taken;
  if (outcome.committed() != nullptr) {
    taken =
        std::make_shared<Tenure>(std::move(world), std::move(keys), outcome.committed()->version);
  }
  co_return taken;
}

Tenure::Tenure(std::shared_ptr<RunWorld> world, PartitionKeys keys, Version epoch)
    : world_(std::move(world)), keys_(std::move(keys)), epoch_(epoch), timers_(keys_.timers()) {}

Task<void> Tenure::recover() {
  const std::string& prefix = keys_.runs();
  std::string after;
  for (bool more = true; more;) {
    const ScanOptions next{.after = after, .limit = kRowsRead, .read = Read::kApplied};
    const Page page = co_await world_->store.scan(prefix, next);
    for (const Entry& entry : page.entries) {
      after = entry.key;
      const record::RunHead head = read_run_head(entry);
      if (!has_ended(head) && !head.waits()) {
        static_cast<void>(co_await find(entry.key.substr(prefix.size())));
      }
    }
    more = page.more;
  }
  recovered_ = true;
}

Task<Tenure::Applied> Tenure::try_apply(Batch batch) {
  guard(batch);
  return apply_guarded(std::move(batch));
}

std::optional<Tenure::Applied> Tenure::apply_at_once(const Batch& batch) {
  std::optional<Applied> applied;
  if (is_over()) {
    applied.emplace();
    return applied;
  }
  try {
    if (auto outcome = world_->store.try_apply(batch)) {
      applied.emplace().outcome = std::move(outcome);
    }
  } catch (const Error&) {
    return applied;  // The second step will come to the same.
  }
  if (applied) {
    look_at_outcome(*applied, {});
  }
  return applied;
}

Task<Tenure::Applied> Tenure::apply_guarded(Batch batch) {
  Applied applied;
  if (is_over()) {
    co_return applied;
  }
  std::string failure;
  try {
    applied.outcome = co_await world_->store.apply(std::move(batch));
  } catch (const Cancelled&) {
    throw;
  } catch (const Error& error) {
    applied.busy = error.remedy() == Remedy::kTryAgain;
    failure = error.what();
  }
  look_at_outcome(applied, std::move(failure));
  co_return applied;
}

void Tenure::look_at_outcome(Applied& applied, std::string failure) {
  if (applied.outcome && applied.outcome->fenced() != nullptr) {
    const bool is_deposed = applied.outcome->fenced()->key == keys_.owner();
    failure = is_deposed ? "another process has taken it over"
                         : "a lock of one of its runs was taken away by force";
    applied.outcome.reset();
  }
  if (!applied.outcome && !applied.busy) {
    end(failure);
  }
}

Task<Tenure::Transacted> Tenure::try_transact(TransactionWork work) {
  Transacted result;
  if (is_over()) {
    co_return result;
  }
  const TransactionWork guarded = [&](Transaction& transaction) {
    try {
      Batch batch = work(transaction);
      batch.guard(keys_.owner(), epoch_);
      return batch;
    } catch (...) {
      result.is_of_work = true;
      throw;
    }
  };
  std::string failure;
  try {
    result.outcome = co_await world_->store.transact(guarded);
  } catch (const Error& error) {
    const bool is_wrong = error.remedy() == Remedy::kFixTheCall;
    if (error.code() == ErrorCode::kCancelled && !result.is_of_work) {
      throw;
    }
    if (result.is_of_work || is_wrong) {
      result.error = std::current_exception();
    }
    result.busy = !result.error && error.remedy() == Remedy::kTryAgain;
    failure = error.what();
  } catch (...) {
    result.error = std::current_exception();
  }
  if (result.outcome && result.outcome->fenced() != nullptr &&
      result.outcome->fenced()->key == keys_.owner()) {
    result.outcome.reset();
    failure = "another process has taken it over";
  }
  if (!result.outcome && !result.busy && !result.error) {
    end(failure);
  }
  co_return result;
}

Task<std::optional<CommitOutcome>> Tenure::apply(Batch batch) {
  Applied applied = co_await try_apply(batch);
  while (applied.busy) {
    co_await busy_pause();
    applied = co_await try_apply(batch);
  }
  co_return std::move(applied.outcome);
}

Task<bool> Tenure::until_durable(Version version) {
  std::string failure;
  try {
    co_await world_->store.until_durable(version);
  } catch (const Cancelled&) {
    throw;
  } catch (const Error& error) {
    failure = error.what();
  }
  if (!failure.empty()) {
    end(failure);
  }
  co_return !is_over();
}

void Tenure::end(const std::string& reason) {
  if (over_.exchange(true)) {
    return;
  }
  drop_runs();
  if (!is_handed_over_) {  // Else it is meant to be given up, and others were faster than we know.
    world_->warn("partition " + std::to_string(keys_.partition()) + " of runs of queue '" +
                 keys_.queue() + "' is given up: " + reason);
  }
  world_->losses.ring();
  world_->rests.ring();  // Nothing of it is in hand any more.
}

void Tenure::drop_runs() {
  Runs dropped;
  {
    const std::lock_guard lock(mutex_);
    dropped.swap(runs_);
  }
  for (const auto& [uid, run] : dropped) {
    run->abandon();
  }
}

void Tenure::run(Task<void> task) {
  world_->tasks.run(end_if_it_fails(shared_from_this(), std::move(task)));
}

Task<void> Tenure::end_if_it_fails(std::shared_ptr<Tenure> tenure, Task<void> task) {
  std::string failure;
  try {
    co_await task;
  } catch (const Cancelled&) {
    throw;
  } catch (const Error& error) {
    failure = error.what();
  }
  if (!failure.empty()) {
    tenure->end(failure);
  }
}

Task<void> Tenure::hand_over() {
  record::RunPartition nobody;
  nobody.set_format(kRunFormat);
  Batch batch;
  batch.put(keys_.owner(), nobody.SerializeAsString());
  is_handed_over_ = true;
  const std::optional<CommitOutcome> outcome = co_await apply(std::move(batch));
  over_ = true;
  drop_runs();
  if (outcome && outcome->committed() != nullptr) {
    static_cast<void>(co_await until_durable(outcome->committed()->version));
  }
}

// --- Runs in memory ------------------------------------------------------------------------------

Task<std::optional<CommitOutcome>> Tenure::start(std::string uid, record::RunHead&& head,
                                                 Batch&& extra, Entrance&& entrance,
                                                 StoreTime now) {
  const WorkflowCode* const code = world_->code_of(head.type());
  HOLDFAST_CHECK(code != nullptr, "a run was started here whose code is not known");
  auto run = make_live_run(shared_from_this(), std::move(uid), std::move(head), 0, *code);
  static_cast<void>(keep(run));
  world_->rests.ring();
  return LiveRun::begin(std::move(run), std::move(extra), std::move(entrance), now);
}

/// Not once all that are here were dropped, or are about to be: nobody would drop this one, which
/// keeps the tenure.
bool Tenure::keep(const std::shared_ptr<LiveRun>& run) {
  const std::lock_guard lock(mutex_);
  const bool is_kept = !is_over() && !world_->tasks.is_closed();
  if (is_kept) {
    runs_.emplace(run->uid(), run);
    aside_.erase(run->uid());
  }
  return is_kept;
}

Task<Tenure::Found> Tenure::find(std::string uid) {
  Found found;
  {
    const std::lock_guard lock(mutex_);
    if (const auto run = runs_.find(uid); run != runs_.end()) {
      found = {Whereabouts::kLive, run->second};
    } else if (parked_.contains(uid)) {
      found.where = Whereabouts::kParked;
    }
  }
  if (found.where == Whereabouts::kGone && !is_over()) {
    found = co_await load(std::move(uid));
  }
  co_return found;
}

std::shared_ptr<LiveRun> Tenure::find_live(const std::string& uid) const {
  const std::lock_guard lock(mutex_);
  const auto run = runs_.find(uid);
  return run == runs_.end() ? nullptr : run->second;
}

Task<Tenure::Found> Tenure::load(std::string uid) {
  const Hold one_at_a_time = co_await loading_.lock();
  {
    const std::lock_guard lock(mutex_);
    if (const auto run = runs_.find(uid); run != runs_.end()) {
      co_return Found{Whereabouts::kLive, run->second};
    }
  }
  const std::optional<Entry> row = co_await world_->store.get(keys_.run(uid), Read::kApplied);
  if (!row) {
    co_return Found{};
  }
  record::RunHead head = read_run_head(*row);
  if (has_ended(head)) {
    co_return Found{};
  }
  const WorkflowCode* const code = world_->code_of(head.type());
  if (code == nullptr) {
    co_await park(uid, "no process that drives queue '" + keys_.queue() + "' knows the workflow '" +
                           head.type() + "': Engine::add it");
    co_return Found{Whereabouts::kParked, nullptr};
  }
  auto run = make_live_run(shared_from_this(), uid, record::RunHead(head), row->version, *code);
  std::string failure;
  if (head.has_first()) {
    failure = replay_or_say_why(*run, head.first(), row->version);
  }
  const std::string prefix = keys_.journal(uid);
  std::string after;
  for (bool more = true; more && failure.empty();) {
    const ScanOptions next{.after = after, .limit = kRowsRead, .read = Read::kApplied};
    const Page page = co_await world_->store.scan(prefix, next);
    for (const Entry& entry : page.entries) {
      after = entry.key;
      const JournalKey key = read_journal_key(entry.key, prefix);
      if (key.is_attempts) {
        run->recall(key.number, read_row<record::RunAttempts>(entry, "the step"));
      } else if (failure.empty()) {
        failure = replay_or_say_why(*run, read_row<record::Activation>(entry, "the journal row"),
                                    entry.version);
      }
    }
    more = page.more;
  }
  if (!failure.empty()) {
    co_await park(uid, failure);
    co_return Found{Whereabouts::kParked, nullptr};
  }
  co_await run->look_for_locks();
  co_await run->look_for_permits();
  co_await run->look_for_uses();
  co_await run->look_for_wait();
  co_await unpark(uid);
  std::vector<Mail> mails = co_await mail_set_aside(uid);
  run->expect(std::move(mails));
  if (!keep(run)) {
    co_return Found{};
  }
  world_->rests.ring();
  run->resume();
  co_return Found{Whereabouts::kLive, run};
}

/// All can see why it stands still. Its journal, its timers and its messages are left as they are.
Task<void> Tenure::park(std::string uid, std::string reason) {
  world_->warn("run '" + uid + "' stands still: " + reason);
  {
    const std::lock_guard lock(mutex_);
    parked_.insert(uid);
  }
  record::RunParked parked;
  parked.set_format(kRunFormat);
  parked.set_reason(std::move(reason));
  Batch batch;
  batch.put(keys_.parked(uid), parked.SerializeAsString());
  static_cast<void>(co_await apply(std::move(batch)));
}

Task<void> Tenure::stand_still(std::shared_ptr<LiveRun> run, std::string reason) {
  run->abandon();
  forget(*run);
  co_await park(run->uid(), std::move(reason));
}

Task<void> Tenure::unpark(std::string uid) {
  const std::string key = keys_.parked(uid);
  const std::optional<Entry> row = co_await world_->store.get(key, Read::kApplied);
  if (row) {
    Batch batch;
    batch.erase(key);
    static_cast<void>(co_await apply(std::move(batch)));
  }
}

Task<Tenure::Whereabouts> Tenure::deliver(std::string uid, Mail mail) {
  for (;;) {
    const Found found = co_await find(uid);
    if (found.where != Whereabouts::kLive || found.run->deliver(mail)) {
      co_return found.where;
    }
    forget(*found.run);
  }
}

void Tenure::forget(const LiveRun& run) {
  std::shared_ptr<LiveRun> last;
  {
    const std::lock_guard lock(mutex_);
    const auto found = runs_.find(run.uid());
    if (found != runs_.end() && found->second.get() == &run) {
      last = std::move(found->second);  // The key is its own, and has to be there to the end.
      runs_.erase(found);
    }
  }
  world_->rests.ring();
}

void Tenure::evict(TimePoint idle_since) {
  for (const std::shared_ptr<LiveRun>& run : live()) {
    if (run->is_idle(idle_since)) {
      static_cast<void>(run->deliver({.kind = Mail::Kind::kEvict}));
    }
  }
}

std::vector<std::shared_ptr<LiveRun>> Tenure::live() const {
  std::vector<std::shared_ptr<LiveRun>> all;
  const std::lock_guard lock(mutex_);
  all.reserve(runs_.size());
  for (const auto& [uid, run] : runs_) {
    all.push_back(run);
  }
  return all;
}

std::size_t Tenure::live_count() const {
  const std::lock_guard lock(mutex_);
  return runs_.size();
}

bool Tenure::is_quiet() const {
  const auto runs = live();
  return std::all_of(runs.begin(), runs.end(), [](const auto& run) { return run->is_quiet(); });
}

}  // namespace holdfast::detail
