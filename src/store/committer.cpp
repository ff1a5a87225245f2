// SPDX-License-Identifier: Apache-2.0
#include "committer.hpp"

#include <algorithm>
#include <utility>

#include <holdfast/detail/check.hpp>

#include "base/pause_cpu.hpp"
#include "conditions.hpp"

namespace holdfast::detail {

namespace {

constexpr std::size_t kLostMax = 1'024;

/// To wake a thread on an idle core takes long, and it is done twice for each answer. As long as a
/// sync takes, and at most this long, it is worth waiting for whoever was answered to come back.
constexpr Duration kSpinMax = std::chrono::microseconds(200);
constexpr Duration kQuietMax = std::chrono::microseconds(25);
/// So many batches are worth writing while others come.
constexpr std::uint64_t kSlice = 32;
/// A group takes the time of so many syncs to write before it is large enough.
constexpr int kWorthOfSync = 4;
/// While a group grows, another process is kept waiting at most so much longer.
constexpr Duration kLookForOthers = std::chrono::microseconds(500);
/// So few leave a core to whoever looks out for them.
constexpr std::size_t kFew = 4;

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an unknown error";
  }
}

std::optional<Entry> entry_of(std::string_view key, const Row& row) {
  if (!row.exists()) {
    return std::nullopt;
  }
  return Entry{std::string(key), std::string(*row.value()), row.version};
}

/// By key, as that is how the disk has them.
std::vector<Change> changes_of(const RowList& rows) {
  std::vector<Change> changes;
  changes.reserve(rows.size());
  rows.for_each([&](const Row& row) {
    if (row.is_for_the_disk()) {
      changes.push_back({row.key, row.value(), row.version, row.must_be_new()});
    }
  });
  if (!std::ranges::is_sorted(changes, {}, &Change::key)) {
    std::ranges::sort(changes, {}, &Change::key);
  }
  return changes;
}

}  // namespace

// --- Reading what was applied --------------------------------------------------------------------

Committer::Applied Committer::applied(std::string_view key) {
  const std::lock_guard lock(mutex_);
  const Row* row = rows_.find(key);
  const bool may_others_have_changed_it = row != nullptr && row->version <= durable_ && !has_turn_;
  if (row == nullptr || may_others_have_changed_it) {
    return {};
  }
  return {true, entry_of(key, *row)};
}

Committer::AppliedOver Committer::applied_over(std::string_view prefix, std::string_view after) {
  const std::lock_guard lock(mutex_);
  AppliedOver over{backend_.snapshot(), {}};
  for (const RowList* rows : {&rows_.taken(), &rows_.kept_back(), &rows_.gathered()}) {
    rows->for_each([&](const Row& row) {
      if (row.key > after && row.key.starts_with(prefix)) {
        over.changes.insert_or_assign(row.key, entry_of(row.key, row));
      }
    });
  }
  return over;
}

void Committer::check_usable() {
  if (has_failed_.load(std::memory_order_acquire)) {
    const std::lock_guard lock(mutex_);
    std::rethrow_exception(failed_);
  }
}

// --- Deciding ------------------------------------------------------------------------------------

bool Committer::is_enough(const RowList& rows, std::size_t batches,
                          std::size_t parts) const noexcept {
  return rows.bytes() >= limits_.group_bytes_max / parts ||
         rows.size() >= limits_.group_keys_max / parts ||
         batches >= limits_.group_batches_max / parts;
}

/// Nobody would be answered sooner if the group was written now. Where the last one was waited for,
/// somebody will wait for this one. Not beyond a half, so that as much may gather while it is
/// written.
bool Committer::may_grow() const noexcept {
  return !closing_ && !yielding_ && !was_waited_for_ && queue_.empty() && for_writing_.empty() &&
         for_gathering_.empty() && !is_enough(rows_.gathered(), gathered_batches_, 2) &&
         !is_enough(rows_.kept_back(), gathered_batches_, 2);
}

bool Committer::can_decide_at_once(const Batch& batch) {
  return has_turn_ && !yielding_ && !deciding_ && queue_.empty() &&
         !is_enough(rows_.gathered(), gathered_batches_) &&
         !is_enough(rows_.kept_back(), gathered_batches_) && look_up(batch);
}

bool Committer::look_up(const Batch& batch) {
  looked_up_.clear();
  for (const Batch::Condition& condition : batch.conditions()) {
    const bool is_later = is_checked_later(condition);
    const Row* const row = is_later ? rows_.find_row(condition.key) : rows_.find(condition.key);
    if (row == nullptr && !is_later) {
      return false;
    }
    looked_up_.push_back(row);
  }
  return true;
}

void Committer::look_up_fetched(const Batch& batch) {
  const bool is_known = look_up(batch);
  HOLDFAST_CHECK(is_known, "a batch was decided on a key that was not read");
}

bool Committer::has_to_be_read(const Batch::Condition& condition) {
  return !is_checked_later(condition) && rows_.find(condition.key) == nullptr;
}

bool Committer::is_checked_later(const Batch::Condition& condition) const noexcept {
  return condition.kind == Batch::Kind::kNew && backend_.checks_what_must_be_new();
}

bool Committer::complete_when_decided(Request& request) {
  request.outcome_ = decide(request.batch_);
  if (request.until_ == Request::Until::kDecided || last_ == durable_) {
    return true;
  }
  // Also a refusal waits for what it is founded on.
  (gathered_batches_ == 0 ? for_writing_ : for_gathering_).requests.push_back(&request);
  return false;
}

CommitOutcome Committer::decide(const Batch& batch) {
  const auto version_of = [&](std::size_t condition) {
    const Row* const row = looked_up_[condition];
    return row != nullptr && row->exists() ? std::optional(row->version) : std::nullopt;
  };
  if (const auto broken = broken_condition(batch, version_of)) {
    const Batch::Condition condition = batch.conditions()[*broken];
    return refusal(condition, entry_of(condition.key, *looked_up_[*broken]));
  }
  gather(batch);
  return Committed{last_};
}

void Committer::gather(const Batch& batch) {
  if (batch.writes().empty()) {
    return;
  }
  ++last_;
  ++gathered_batches_;
  for (const Batch::Write& write : batch.writes()) {
    rows_.gather(write.key, write.value, last_, write.is_new ? OnDisk::kNothing : OnDisk::kUnknown);
    rows_.trim(1);  // Now and then: the next one to be forgotten is fetched meanwhile.
  }
  const auto conditions = batch.conditions();
  for (std::size_t i = 0; i < conditions.size(); ++i) {
    if (looked_up_[i] == nullptr) {
      rows_.check_when_written(conditions[i].key);
    }
  }
}

bool Committer::is_durable(Version version) {
  if (is_surely_durable(version)) {
    return true;
  }
  const std::lock_guard lock(mutex_);
  return version <= durable_ && find_lost(version) == nullptr;
}

const Committer::Lost* Committer::find_lost(Version version) const noexcept {
  const auto found = std::find_if(lost_.begin(), lost_.end(), [&](const Lost& lost) {
    return lost.first <= version && version <= lost.last;
  });
  return found == lost_.end() ? nullptr : &*found;
}

void Committer::forget_undurable(const std::exception_ptr& why) {
  if (last_ > durable_) {
    if (lost_.size() == kLostMax) {
      // A version that lies between two that were lost was given to nobody.
      lost_[1].first = lost_[0].first;
      lost_.erase(lost_.begin());
    }
    lost_.push_back({durable_ + 1, last_, why});
    has_lost_ = true;
  }
  durable_ = last_;
  rows_.clear();
  written_keys_.clear();
  gathered_batches_ = 0;
  written_batches_ = 0;
}

// --- The committer's thread ----------------------------------------------------------------------

Committer::Committer(Backend& backend, WatchList& watches, const CommitterLimits& limits)
    : backend_(backend), watches_(watches), limits_(limits), thread_([this] { run(); }) {}

Committer::~Committer() {
  {
    const std::lock_guard lock(mutex_);
    HOLDFAST_CHECK(queue_.empty(), "a store was closed before a task that commits to it ended");
    closing_ = true;
    wake();
    if (taking_turn_) {
      backend_.interrupt();
    }
  }
  thread_.join();
}

void Committer::run() {
  Lock lock(mutex_);
  for (;;) {
    wait_for_work(lock);
    if (queue_.empty()) {
      return;
    }
    if (take_turn(lock)) {
      write_all_there_is(lock);
      end_turn(lock);
    }
  }
}

/// With the lock held, or this could be too late: as soon as the thread has done what it was woken
/// for, it may be that the store is closed.
void Committer::wake() noexcept {
  if (std::exchange(asleep_, false)) {
    work_.notify_one();
  }
}

void Committer::wait_for_work(Lock& lock) {
  while (!closing_ && queue_.empty()) {
    asleep_ = true;
    work_.wait(lock);
  }
  asleep_ = false;
}

/// Spins until `arrived_` is so far, or the first one has not come for `patience`, or another one
/// for a little while.
void Committer::wait_for_arrivals(std::uint64_t until, Duration patience) const noexcept {
  std::uint64_t seen = arrived_.load(std::memory_order_relaxed);
  TimePoint give_up_at = MonotonicTime::now() + patience;
  while (seen < until) {
    for (int i = 0; i < 16; ++i) {
      pause_cpu();
    }
    const std::uint64_t arrived = arrived_.load(std::memory_order_relaxed);
    const TimePoint now = MonotonicTime::now();
    if (arrived != seen) {
      seen = arrived;
      give_up_at = now + kQuietMax;
    } else if (now > give_up_at) {
      return;
    }
  }
}

bool Committer::take_turn(Lock& lock) {
  const TimePoint until = queue_.first()->give_up_at_;
  std::optional<Backend::Turn> turn;
  Failure failure;
  taking_turn_ = true;
  lock.unlock();
  try {
    turn = backend_.begin_turn(until);
  } catch (...) {
    failure = failure_of_backend();
  }
  lock.lock();
  taking_turn_ = false;
  if (failure.not_written) {
    refuse_queued(lock, failure.not_written, TimePoint::max());
    return false;
  }
  if (failure.of_rest) {
    fail(lock, failure);
    return false;
  }
  if (!turn) {
    if (queue_.empty()) {
      return false;
    }
    const auto seconds = std::chrono::duration<double>(limits_.busy_timeout).count();
    refuse_queued(lock,
                  std::make_exception_ptr(StoreBusy(
                      backend_.url() + " is busy: another process has kept this one from writing " +
                      "for " + std::to_string(seconds) + " s. Nothing happened: try again")),
                  MonotonicTime::now());
    return false;
  }
  if (turn->others_wrote) {
    rows_.clear();
  }
  last_ = std::max(last_, turn->last);
  durable_ = last_;
  has_turn_ = true;
  return true;
}

void Committer::end_turn(Lock& lock) {
  has_turn_ = false;
  yielding_ = false;
  lock.unlock();
  backend_.end_turn();
  lock.lock();
}

void Committer::refuse_queued(Lock& lock, const std::exception_ptr& error, TimePoint given_up_by) {
  std::vector<Request*> refused;
  for (Request* request = queue_.first(); request != nullptr;) {
    Request* const next = request->next_;
    if (request->give_up_at_ <= given_up_by) {
      queue_.remove(*request);
      request->error_ = error;
      refused.push_back(request);
    }
    request = next;
  }
  lock.unlock();
  complete(refused);
  lock.lock();
}

void Committer::write_all_there_is(Lock& lock) {
  while (!failed_ && has_work(lock)) {
    let_grow(lock);
    const bool last_of_turn = yielding_;
    if (next_is_alone() && gathered_batches_ == 0 && !yielding_) {
      transact(lock);
    } else if (write_group(lock)) {
      commit_written(lock);
    }
    if (last_of_turn) {
      return;
    }
    yielding_ = backend_.turn_wanted();
  }
}

/// Whoever was just answered often has more to say, and would have to wake this thread.
bool Committer::has_work(Lock& lock) {
  const auto is_work = [&] { return !queue_.empty() || gathered_batches_ > 0; };
  if (!is_work() && !yielding_ && answered_ > 0) {
    const std::uint64_t next = arrived_ + 1;
    lock.unlock();
    wait_for_arrivals(next, std::min<Duration>(cost_.of_sync, kSpinMax));
    lock.lock();
  }
  return is_work();
}

/// Nobody waits for what there is, and so it can wait for what comes: rows that are overwritten, or
/// go again, need not be written then, and those that stay share the pages that they change. Not if
/// others have the store open, who may wait to see what was made durable.
void Committer::let_grow(Lock& lock) {
  if (!may_grow() || !backend_.is_alone()) {
    return;
  }
  const TimePoint begun = MonotonicTime::now();
  Duration left = limits_.unwaited_for_max;
  while (may_grow() && left > Duration::zero()) {
    asleep_ = true;
    work_.wait_for(lock, std::min(kLookForOthers, left));
    asleep_ = false;
    lock.unlock();
    const bool is_turn_wanted = backend_.turn_wanted();
    lock.lock();
    yielding_ = is_turn_wanted;
    left = limits_.unwaited_for_max - (MonotonicTime::now() - begun);
  }
}

/// Writes what there is, and what comes while that is written, into one transaction.
bool Committer::write_group(Lock& lock) {
  do {
    if (!yielding_) {
      decide_queued(lock);
    }
    if (gathered_batches_ > 0 && !write_gathered(lock, rows_.take())) {
      return false;
    }
  } while (more_is_coming(lock));
  // With all that was decided by now: it may be what became of rows that were kept back.
  if (rows_.has_kept_back() && !write_gathered(lock, rows_.take_all())) {
    return false;
  }
  return written_batches_ > 0;
}

/// A group should be worth its sync. Those who were answered a moment ago are about to come back,
/// and would miss a group that left with the first of them.
bool Committer::more_is_coming(Lock& lock) {
  const std::uint64_t all_are_back = arrived_when_answered_ + answered_;
  const auto worth = static_cast<std::uint64_t>(kWorthOfSync * cost_.of_sync /
                                                std::max<Duration>(cost_.of_key, Duration(1)));
  const auto is_more = [&] {
    return (!queue_.empty() && !next_is_alone()) || gathered_batches_ > 0;
  };
  if (yielding_ || is_enough(rows_.taken(), written_batches_) ||
      is_enough(rows_.kept_back(), written_batches_)) {
    return false;
  }
  if (queue_.empty() && gathered_batches_ < kSlice && arrived_ < all_are_back) {
    const std::uint64_t until =
        std::min<std::uint64_t>(all_are_back, arrived_ + kSlice - gathered_batches_);
    lock.unlock();
    wait_for_arrivals(until, std::min<Duration>(cost_.of_sync / 2, kSpinMax));
    lock.lock();
  }
  return is_more() && written_batches_ < std::max<std::uint64_t>(worth, answered_);
}

std::vector<Committer::Request*> Committer::take_queued() {
  std::vector<Request*> taken;
  std::size_t bytes = rows_.gathered().bytes() + rows_.kept_back().bytes();
  std::size_t keys = rows_.gathered().size() + rows_.kept_back().size();
  while (!queue_.empty() && !next_is_alone() && bytes < limits_.group_bytes_max &&
         keys < limits_.group_keys_max &&
         gathered_batches_ + taken.size() < limits_.group_batches_max) {
    Request& request = *queue_.first();
    queue_.remove(request);
    taken.push_back(&request);
    bytes += request.batch_.bytes();
    keys += request.batch_.writes().size();
  }
  return taken;
}

void Committer::decide_queued(Lock& lock) {
  const std::vector<Request*> taken = take_queued();
  if (taken.empty()) {
    return;
  }
  deciding_ = true;
  fetch(lock, taken);
  std::vector<Request*> completed;
  for (Request* request : taken) {
    if (!request->error_) {
      look_up_fetched(request->batch_);
    }
    if (request->error_ || complete_when_decided(*request)) {
      completed.push_back(request);
    }
  }
  rows_.trim(4 * taken.size());
  deciding_ = false;
  lock.unlock();
  complete(completed);
  lock.lock();
}

void Committer::fetch(Lock& lock, const std::vector<Request*>& requests) {
  // Nobody else decides as long as `deciding_` is set, so all stays known until that is over.
  std::vector<std::pair<Request*, std::string_view>> wanted;
  for (Request* request : requests) {
    for (const Batch::Condition& condition : request->batch_.conditions()) {
      if (has_to_be_read(condition)) {
        wanted.emplace_back(request, condition.key);
      }
    }
  }
  for (const auto& [request, key] : wanted) {
    if (rows_.find(key) != nullptr) {
      continue;
    }
    Backend::Found found;
    lock.unlock();
    try {
      found = backend_.read(key);
    } catch (...) {
      request->error_ = std::current_exception();
    }
    lock.lock();
    if (!request->error_) {
      learn(key, std::move(found));
    }
  }
}

void Committer::learn(std::string_view key, Backend::Found found) {
  if (found.entry) {
    rows_.learn(key, found.entry->value, found.entry->version);
  } else if (found.next_known) {
    rows_.learn_gap(std::string(key), std::move(found.next));
  } else {
    rows_.learn(key, std::nullopt, 0);
  }
}

/// False: it has failed, and who has to be told was told.
bool Committer::write_gathered(Lock& lock, const RowList& rows) {
  written_batches_ += std::exchange(gathered_batches_, 0);
  for_writing_.append(for_gathering_);
  writing_last_ = last_;
  return succeeds(lock, [&] {
    const std::vector<Change> changes = changes_of(rows);
    written_keys_.reserve(written_keys_.size() + changes.size());
    for (const Change& change : changes) {
      written_keys_.push_back(change.key);
    }
    backend_.write(changes);
  });
}

void Committer::commit_written(Lock& lock) {
  if (succeeds(lock, [&] { learn_cost(backend_.commit(writing_last_)); })) {
    tell(lock);
  }
}

/// Without the lock.
bool Committer::succeeds(Lock& lock, const std::function<void()>& with_disk) {
  Failure failure;
  lock.unlock();
  try {
    with_disk();
  } catch (...) {
    failure = failure_of_backend();
  }
  lock.lock();
  if (failure.not_written) {
    lose(lock, failure.not_written);
  } else if (failure.of_rest) {
    fail(lock, failure);
  }
  return !failure.not_written && !failure.of_rest;
}

void Committer::learn_cost(const Backend::Cost& cost) noexcept {
  // The sync of a large group takes longer. What a small one costs is the least seen lately.
  cost_.of_sync = cost_.of_sync == Duration::zero()
                      ? cost.of_sync
                      : std::min(cost.of_sync, cost_.of_sync + cost_.of_sync / 64);
  cost_.of_key = cost.of_key;
}

void Committer::tell(Lock& lock) {
  durable_ = writing_last_;
  written_batches_ = 0;
  const Waiters waiters = std::exchange(for_writing_, {});
  was_waited_for_ = !waiters.empty();
  // Some of those who waited for what they had applied have more to say. Many of them keep all
  // cores busy.
  answered_ =
      waiters.requests.size() + (waiters.durables.size() <= kFew ? waiters.durables.size() : 0);
  arrived_when_answered_ = arrived_;
  lock.unlock();
  complete(waiters, nullptr);
  backend_.announce(durable_, written_keys_);
  if (!watches_.empty()) {
    watches_.notify(written_keys_);
  }
  written_keys_.clear();
  lock.lock();
  rows_.wrote();
}

void Committer::lose(Lock& lock, const std::exception_ptr& why) {
  forget_undurable(why);
  const Waiters writing = std::exchange(for_writing_, {});
  const Waiters gathering = std::exchange(for_gathering_, {});
  lock.unlock();
  complete(writing, why);
  complete(gathering, why);
  lock.lock();
}

/// Within a catch block.
Committer::Failure Committer::failure_of_backend() {
  const std::exception_ptr thrown = std::current_exception();
  try {
    throw;
  } catch (const StoreBusy&) {
    return {.not_written = thrown};
  } catch (const StoreFull&) {
    return {.not_written = thrown};
  } catch (const StoreCorrupt&) {
    return {.of_writing = thrown, .of_rest = thrown};
  } catch (...) {
    const std::string text = text_of(thrown);
    return {
        .of_writing = std::make_exception_ptr(OutcomeUnknown(
            text + ": this commit may or may not have happened. Open the store again, and read")),
        .of_rest = std::make_exception_ptr(
            StoreFailed(text + ": nothing more is taken or told. Open the store again"))};
  }
}

void Committer::fail(Lock& lock, const Failure& failure) {
  const auto& [not_written, of_writing, of_rest] = failure;
  failed_ = of_rest;
  has_failed_ = true;
  forget_undurable(of_writing);
  const Waiters writing = std::exchange(for_writing_, {});
  const Waiters gathering = std::exchange(for_gathering_, {});
  lock.unlock();
  complete(writing, of_writing);
  complete(gathering, of_rest);
  watches_.end(of_rest);
  lock.lock();
  refuse_queued(lock, of_rest, TimePoint::max());
}

}  // namespace holdfast::detail
