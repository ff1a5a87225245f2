// SPDX-License-Identifier: Apache-2.0
#include "committer.hpp"

#include <algorithm>
#include <utility>

#include <holdfast/detail/check.hpp>

#include "conditions.hpp"

namespace holdfast::detail {

namespace {

constexpr std::size_t kLostMax = 1'024;

/// To wake a thread on an idle core takes long, and it is done twice for each answer. As long as a
/// sync takes, and at most this long, it is worth waiting for whoever was answered to come back.
constexpr Duration kSpinMax = std::chrono::microseconds(200);
/// A group takes the time of so many syncs to write before it is large enough.
constexpr int kWorthOfSync = 2;
constexpr Duration kQuietMax = std::chrono::microseconds(25);

void pause_cpu() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an unknown error";
  }
}

std::optional<Entry> entry_of(std::string_view key, const Known& known) {
  if (!known.value) {
    return std::nullopt;
  }
  return Entry{std::string(key), *known.value, known.version};
}

Group group_of(const Rows& rows, Version last) {
  Group group{.changes = {}, .last = last};
  group.changes.reserve(rows.size());
  for (const auto& [key, known] : rows) {
    group.changes.push_back({key, known.value ? &*known.value : nullptr, known.version});
  }
  return group;
}

}  // namespace

// --- Requests and waits --------------------------------------------------------------------------

void Committer::Request::begin() {
  Committer& committer = committer_;
  bool wake = false;
  {
    const std::lock_guard lock(committer.mutex_);
    ++committer.arrived_;
    if (committer.failed_) {
      error_ = committer.failed_;
    } else if (!committer.can_decide_at_once(batch_)) {
      give_up_at_ = MonotonicTime::now() + committer.limits_.busy_timeout;
      committer.queue_.push(*this);
      wake = std::exchange(committer.asleep_, false);
      if (!wake) {
        return;
      }
    } else if (!committer.complete_when_decided(*this)) {
      return;
    }
  }
  if (wake) {
    // Without the lock, which the thread that wakes up wants. The request may be gone by now; the
    // committer is not, as long as a task uses it.
    committer.work_.notify_one();
    return;
  }
  complete();
}

void Committer::Request::stop() noexcept {
  {
    const std::lock_guard lock(committer_.mutex_);
    if (!queued_) {
      return;
    }
    committer_.queue_.remove(*this);
    error_ = std::make_exception_ptr(
        Cancelled("a commit to " + committer_.backend_.url() +
                  " was asked to stop before it was decided: nothing happened"));
  }
  complete();
}

CommitOutcome Committer::Request::result() {
  if (error_) {
    std::rethrow_exception(error_);
  }
  return *std::move(outcome_);
}

void Committer::Durable::begin() {
  {
    const std::lock_guard lock(committer_.mutex_);
    if (const Lost* lost = committer_.find_lost(version_)) {
      error_ = lost->why;
    } else if (version_ > committer_.durable_ && version_ <= committer_.last_) {
      const bool writing = version_ <= committer_.writing_last_;
      (writing ? committer_.for_writing_ : committer_.for_gathering_).durables.push_back(this);
      return;
    }
  }
  complete();
}

void Committer::Durable::stop() noexcept {
  {
    const std::lock_guard lock(committer_.mutex_);
    if (std::erase(committer_.for_writing_.durables, this) +
            std::erase(committer_.for_gathering_.durables, this) ==
        0) {
      return;
    }
    error_ = std::make_exception_ptr(
        Cancelled("the wait for commit " + std::to_string(version_) + " was asked to stop"));
  }
  complete();
}

void Committer::Durable::rethrow() const {
  if (error_) {
    std::rethrow_exception(error_);
  }
}

void Committer::Queue::push(Request& request) noexcept {
  request.queued_ = true;
  request.previous_ = last_;
  request.next_ = nullptr;
  (last_ == nullptr ? first_ : last_->next_) = &request;
  last_ = &request;
}

void Committer::Queue::remove(Request& request) noexcept {
  request.queued_ = false;
  (request.previous_ == nullptr ? first_ : request.previous_->next_) = request.next_;
  (request.next_ == nullptr ? last_ : request.next_->previous_) = request.previous_;
}

void Committer::complete(const std::vector<Request*>& requests) noexcept {
  Wakeups wakeups;
  for (Request* request : requests) {
    request->complete(wakeups);
  }
}

void Committer::complete(const Waiters& waiters, const std::exception_ptr& error) noexcept {
  Wakeups wakeups;
  for (Request* request : waiters.requests) {
    request->error_ = error;
    request->complete(wakeups);
  }
  for (Durable* durable : waiters.durables) {
    durable->error_ = error;
    durable->complete(wakeups);
  }
}

// --- Reading what was applied --------------------------------------------------------------------

Committer::Applied Committer::applied(std::string_view key) {
  const std::lock_guard lock(mutex_);
  for (const Rows* rows : {&gathering_, &writing_}) {
    if (const Known* known = find_row(*rows, key)) {
      return {true, entry_of(key, *known)};
    }
  }
  return {};
}

Committer::AppliedOver Committer::applied_over(std::string_view prefix, std::string_view after) {
  const std::lock_guard lock(mutex_);
  AppliedOver over{backend_.snapshot(), {}};
  for (const Rows* rows : {&writing_, &gathering_}) {
    auto row = after < prefix ? rows->lower_bound(prefix) : rows->upper_bound(after);
    for (; row != rows->end() && row->first.starts_with(prefix); ++row) {
      over.changes.insert_or_assign(row->first, entry_of(row->first, row->second));
    }
  }
  return over;
}

void Committer::check_usable() {
  const std::lock_guard lock(mutex_);
  if (failed_) {
    std::rethrow_exception(failed_);
  }
}

// --- Deciding ------------------------------------------------------------------------------------

bool Committer::gathered_enough() const noexcept {
  return gathering_bytes_ >= limits_.group_bytes_max ||
         gathering_.size() >= limits_.group_keys_max ||
         gathering_batches_ >= limits_.group_batches_max;
}

const Known* Committer::find(std::string_view key) {
  for (const Rows* rows : {&gathering_, &writing_}) {
    if (const Known* known = find_row(*rows, key)) {
      return known;
    }
  }
  return known_.find(key);
}

bool Committer::can_decide_at_once(const Batch& batch) {
  return has_turn_ && !yielding_ && !deciding_ && queue_.empty() && !gathered_enough() &&
         std::all_of(batch.conditions().begin(), batch.conditions().end(),
                     [&](const auto& condition) { return find(condition.key) != nullptr; });
}

bool Committer::complete_when_decided(Request& request) {
  request.outcome_ = decide(request.batch_);
  if (request.until_ == Request::Until::kDecided || last_ == durable_) {
    return true;
  }
  // Also a refusal waits for what it is founded on.
  (gathering_.empty() ? for_writing_ : for_gathering_).requests.push_back(&request);
  return false;
}

CommitOutcome Committer::decide(Batch& batch) {
  const auto version_of = [&](const std::string& key) {
    const Known* known = find(key);
    HOLDFAST_CHECK(known != nullptr, "a batch was decided on a key that was not read");
    return known->value ? std::optional(known->version) : std::nullopt;
  };
  if (const Batch::Condition* broken = broken_condition(batch, version_of)) {
    return refusal(*broken, entry_of(broken->key, *find(broken->key)));
  }
  gather(std::move(batch).take_writes());
  return Committed{last_};
}

void Committer::gather(std::vector<Batch::Write> writes) {
  if (writes.empty()) {
    return;
  }
  ++last_;
  ++gathering_batches_;
  for (Batch::Write& write : writes) {
    gathering_bytes_ += write.key.size() + (write.value ? write.value->size() : 0);
    // The end is where keys go that are made in their order; elsewhere it is no worse a hint.
    gathering_.insert_or_assign(gathering_.end(), std::move(write.key),
                                Known{std::move(write.value), last_});
  }
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
  }
  durable_ = last_;
  gathering_.clear();
  gathering_bytes_ = 0;
  gathering_batches_ = 0;
  writing_.clear();
  known_.clear();
}

// --- The committer's thread ----------------------------------------------------------------------

Committer::Committer(Backend& backend, WatchList& watches, const CommitterLimits& limits)
    : backend_(backend), watches_(watches), limits_(limits), thread_([this] { run(); }) {}

Committer::~Committer() {
  {
    const std::lock_guard lock(mutex_);
    HOLDFAST_CHECK(queue_.empty(), "a store was closed before a task that commits to it ended");
    closing_ = true;
    work_.notify_one();
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
      end_turn();
    }
  }
}

void Committer::wait_for_work(Lock& lock) {
  const auto is_work = [&] { return closing_ || !queue_.empty(); };
  if (!is_work()) {
    // Whoever was just answered often has more to say, and would have to wake this thread.
    lock.unlock();
    wait_for_arrivals(arrived_.load() + 1, std::min<Duration>(cost_.of_sync, kSpinMax));
    lock.lock();
  }
  while (!is_work()) {
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

/// A group should be worth its sync. Those who were answered a moment ago are about to come back,
/// and would miss a group that left with the first of them.
void Committer::let_a_group_gather(Lock& lock) {
  const std::uint64_t arrived = arrived_;
  const std::uint64_t all_are_back = arrived_when_answered_ + answered_;
  const auto worth = static_cast<std::uint64_t>(kWorthOfSync * cost_.of_sync /
                                                std::max<Duration>(cost_.of_key, Duration(1)));
  if (gathering_batches_ >= worth || arrived >= all_are_back) {
    return;
  }
  const std::uint64_t until = std::min(all_are_back, arrived + worth - gathering_batches_);
  lock.unlock();
  wait_for_arrivals(until, std::min<Duration>(cost_.of_sync / 2, kSpinMax));
  lock.lock();
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
    known_.clear();
  }
  last_ = std::max(last_, turn->last);
  durable_ = last_;
  has_turn_ = true;
  return true;
}

void Committer::end_turn() {
  has_turn_ = false;
  yielding_ = false;
  backend_.end_turn();
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
  while (!failed_ && (!queue_.empty() || !gathering_.empty())) {
    const bool last_of_turn = yielding_;
    if (!last_of_turn) {
      let_a_group_gather(lock);
      decide_queued(lock);
    }
    if (!gathering_.empty()) {
      write_gathered(lock);
    }
    if (last_of_turn) {
      return;
    }
    yielding_ = backend_.turn_wanted();
  }
}

std::vector<Committer::Request*> Committer::take_queued() {
  std::vector<Request*> taken;
  std::size_t bytes = gathering_bytes_;
  std::size_t keys = gathering_.size();
  while (!queue_.empty() && bytes < limits_.group_bytes_max && keys < limits_.group_keys_max &&
         gathering_batches_ + taken.size() < limits_.group_batches_max) {
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
    if (request->error_ || complete_when_decided(*request)) {
      completed.push_back(request);
    }
  }
  known_.trim();
  deciding_ = false;
  lock.unlock();
  complete(completed);
  lock.lock();
}

void Committer::fetch(Lock& lock, const std::vector<Request*>& requests) {
  std::vector<std::pair<Request*, std::string_view>> wanted;
  for (Request* request : requests) {
    for (const Batch::Condition& condition : request->batch_.conditions()) {
      if (find(condition.key) == nullptr) {
        wanted.emplace_back(request, condition.key);
      }
    }
  }
  if (wanted.empty()) {
    return;
  }
  lock.unlock();
  // Nobody else looks at what is known as long as `deciding_` is set.
  for (const auto& [request, key] : wanted) {
    try {
      if (known_.find(key) == nullptr) {
        learn(key, backend_.read(key));
      }
    } catch (...) {
      request->error_ = std::current_exception();
    }
  }
  lock.lock();
}

void Committer::learn(std::string_view key, Backend::Found found) {
  if (found.entry) {
    known_.add(std::string(key), {std::move(found.entry->value), found.entry->version});
  } else if (found.next_known) {
    known_.add_gap(std::string(key), std::move(found.next));
  } else {
    known_.add(std::string(key), {});
  }
}

void Committer::write_gathered(Lock& lock) {
  writing_.swap(gathering_);
  gathering_bytes_ = 0;
  gathering_batches_ = 0;
  std::swap(for_writing_, for_gathering_);
  writing_last_ = last_;
  lock.unlock();
  Failure failure;
  const Group group = group_of(writing_, writing_last_);
  try {
    learn_cost(backend_.write(group));
  } catch (...) {
    failure = failure_of_backend();
  }
  lock.lock();
  if (failure.not_written) {
    lose(lock, failure.not_written);
  } else if (failure.of_rest) {
    fail(lock, failure);
  } else {
    wrote(lock, group);
  }
}

void Committer::learn_cost(const Backend::Cost& cost) noexcept {
  // The sync of a large group takes longer. What a small one costs is the least seen lately.
  cost_.of_sync = cost_.of_sync == Duration::zero()
                      ? cost.of_sync
                      : std::min(cost.of_sync, cost_.of_sync + cost_.of_sync / 64);
  cost_.of_key = cost.of_key;
}

void Committer::wrote(Lock& lock, const Group& group) {
  durable_ = writing_last_;
  const Waiters waiters = std::exchange(for_writing_, {});
  answered_ = waiters.requests.size();
  arrived_when_answered_ = arrived_;
  lock.unlock();
  complete(waiters, nullptr);
  backend_.announce(group);
  if (!watches_.empty()) {
    for (const Change& change : group.changes) {
      watches_.notify(change.key);
    }
  }
  lock.lock();
  known_.add(std::exchange(writing_, {}));
  known_.trim();
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
