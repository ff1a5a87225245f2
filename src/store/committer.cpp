// SPDX-License-Identifier: Apache-2.0
#include "committer.hpp"

#include <algorithm>
#include <utility>

#include <holdfast/detail/check.hpp>

#include "conditions.hpp"

namespace holdfast::detail {

namespace {

constexpr std::size_t kLostMax = 1'024;

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
  {
    const std::lock_guard lock(committer_.mutex_);
    if (committer_.failed_) {
      error_ = committer_.failed_;
    } else if (!committer_.can_decide_at_once(batch_)) {
      give_up_at_ = MonotonicTime::now() + committer_.limits_.busy_timeout;
      committer_.queue_.push(*this);
      committer_.work_.notify_one();
      return;
    } else if (!committer_.complete_when_decided(*this)) {
      return;
    }
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
  for (Request* request : requests) {
    request->complete();
  }
}

void Committer::complete(const Waiters& waiters, const std::exception_ptr& error) noexcept {
  for (Request* request : waiters.requests) {
    request->error_ = error;
    request->complete();
  }
  for (Durable* durable : waiters.durables) {
    durable->error_ = error;
    durable->complete();
  }
}

// --- Reading what was applied --------------------------------------------------------------------

Committer::Applied Committer::applied(std::string_view key) {
  const std::lock_guard lock(mutex_);
  for (const Rows* rows : {&gathering_, &writing_}) {
    if (const auto found = rows->find(key); found != rows->end()) {
      return {true, entry_of(key, found->second)};
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
    if (const auto found = rows->find(key); found != rows->end()) {
      return &found->second;
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
    gathering_.insert_or_assign(std::move(write.key), Known{std::move(write.value), last_});
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
    work_.wait(lock, [&] { return closing_ || !queue_.empty(); });
    if (queue_.empty()) {
      return;
    }
    if (take_turn(lock)) {
      write_all_there_is(lock);
      end_turn(lock);
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
    known_.clear();
  }
  last_ = std::max(last_, turn->last);
  durable_ = last_;
  has_turn_ = true;
  return true;
}

void Committer::end_turn(Lock& /*lock*/) {
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
  std::vector<std::pair<std::string, Known>> fetched;
  lock.unlock();
  for (const auto& [request, key] : wanted) {
    try {
      std::optional<Entry> entry = backend_.read(key);
      fetched.emplace_back(key, entry ? Known{std::move(entry->value), entry->version} : Known{});
    } catch (...) {
      request->error_ = std::current_exception();
    }
  }
  lock.lock();
  for (auto& [key, known] : fetched) {
    known_.add(std::move(key), std::move(known));
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
  try {
    backend_.write(group_of(writing_, writing_last_));
  } catch (...) {
    failure = failure_of_backend();
  }
  lock.lock();
  if (failure.not_written) {
    lose(lock, failure.not_written);
  } else if (failure.of_rest) {
    fail(lock, failure);
  } else {
    wrote(lock);
  }
}

void Committer::wrote(Lock& lock) {
  durable_ = writing_last_;
  std::vector<std::string> changed;
  if (!watches_.empty()) {
    changed.reserve(writing_.size());
    for (const auto& [key, known] : writing_) {
      changed.push_back(key);
    }
  }
  known_.add(std::exchange(writing_, {}));
  known_.trim();
  const Waiters waiters = std::exchange(for_writing_, {});
  lock.unlock();
  complete(waiters, nullptr);
  for (const std::string& key : changed) {
    watches_.notify(key);
  }
  lock.lock();
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
