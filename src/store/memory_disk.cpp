// SPDX-License-Identifier: Apache-2.0
#include "memory_disk.hpp"

#include <algorithm>
#include <iterator>

#include <holdfast/detail/check.hpp>

#include "backend.hpp"
#include "conditions.hpp"
#include "printable.hpp"

namespace holdfast {

namespace {

constexpr const char* kCrashed =
    "the machine of this memory store has crashed; open it again on its disk";

std::exception_ptr power_cut() {
  return std::make_exception_ptr(
      OutcomeUnknown("the machine of a memory store crashed before this was durable"));
}

}  // namespace

MemoryDisk::MemoryDisk(Clock& clock, const MemoryFaults& faults)
    : state_(std::make_unique<State>(clock, faults)) {}

MemoryDisk::MemoryDisk(Clock& clock, std::vector<Entry> entries)
    : state_(std::make_unique<State>(clock, std::move(entries))) {}

MemoryDisk::~MemoryDisk() = default;

void MemoryDisk::crash() { state_->crash(); }
void MemoryDisk::set_faults(const MemoryFaults& faults) { state_->set_faults(faults); }
std::uint64_t MemoryDisk::commit_count() const { return state_->commit_count(); }
std::uint64_t MemoryDisk::crash_count() const { return state_->generation() - 1; }

MemoryDisk::State::SyncTimer::SyncTimer(State& owner) noexcept
    : Timer([](Timer& timer) noexcept { static_cast<SyncTimer&>(timer).state.sync_due(); }),
      state(owner) {}

MemoryDisk::State::State(Clock& clock, const MemoryFaults& faults) : clock_(clock) {
  set_faults(faults);
}

MemoryDisk::State::State(Clock& clock, std::vector<Entry> entries) : State(clock, MemoryFaults{}) {
  for (Entry& entry : entries) {
    if (entry.key.empty() || entry.version == 0) {
      throw InvalidArgument("an entry for a memory disk has no key, or version 0: key '" +
                            detail::printable(entry.key) + "'");
    }
    last_ = std::max(last_, entry.version);
    static_cast<void>(replace(entry.key, std::move(entry.value), entry.version));
  }
}

MemoryDisk::State::~State() {
  HOLDFAST_CHECK(waiting_.empty(), "a memory disk went before a task that waits for it");
  clock_.disarm(timer_);
}

std::uint64_t MemoryDisk::State::generation() const {
  const std::lock_guard lock(mutex_);
  return generation_;
}

std::uint64_t MemoryDisk::State::commit_count() const {
  const std::lock_guard lock(mutex_);
  return commits_;
}

Version MemoryDisk::State::last_version() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

std::uint64_t MemoryDisk::State::entry_count() const {
  const std::lock_guard lock(mutex_);
  return rows_.size();
}

std::size_t MemoryDisk::State::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

void MemoryDisk::State::set_faults(const MemoryFaults& faults) {
  const std::lock_guard lock(mutex_);
  faults_ = faults;
  random_.seed(faults.seed);
  commits_until_crash_ = faults.crash_at_commit.value_or(0);
}

bool MemoryDisk::State::chance(double probability) {
  return probability > 0 && std::bernoulli_distribution(probability)(random_);
}

bool MemoryDisk::State::fails_before_it_is_applied(bool crashes) {
  if (crashes && faults_.crash_outcome != CrashOutcome::kBySeed) {
    return faults_.crash_outcome == CrashOutcome::kLost;
  }
  return chance(0.5);
}

void MemoryDisk::State::check_alive(std::uint64_t generation) const {
  const std::lock_guard lock(mutex_);
  refuse_the_dead(generation);
}

void MemoryDisk::State::refuse_the_dead(std::uint64_t generation) const {
  if (generation != generation_) {
    throw StoreFailed(kCrashed);
  }
}

std::optional<Version> MemoryDisk::State::version_of(std::string_view key) const {
  const auto found = rows_.find(key);
  return found == rows_.end() ? std::nullopt : std::optional(found->second.version);
}

std::optional<Entry> MemoryDisk::State::entry_of(std::string_view key) const {
  const auto found = rows_.find(key);
  if (found == rows_.end()) {
    return std::nullopt;
  }
  return Entry{std::string(key), found->second.value, found->second.version};
}

std::optional<Entry> MemoryDisk::State::get(std::uint64_t generation, std::string_view key,
                                            Read read) const {
  const std::lock_guard lock(mutex_);
  refuse_the_dead(generation);
  if (read == Read::kDurable) {
    // What the first commit that is not durable overwrote is what the disk has.
    for (const Unsynced& unsynced : unsynced_) {
      for (const auto& [changed, before] : unsynced.before) {
        if (changed == key) {
          return before ? std::optional(Entry{changed, before->value, before->version})
                        : std::nullopt;
        }
      }
    }
  }
  return entry_of(key);
}

MemoryDisk::State::Rows MemoryDisk::State::durable_before_unsynced() const {
  Rows rows = rows_;
  for (auto unsynced = unsynced_.rbegin(); unsynced != unsynced_.rend(); ++unsynced) {
    for (auto change = unsynced->before.rbegin(); change != unsynced->before.rend(); ++change) {
      if (change->second) {
        rows.insert_or_assign(change->first, *change->second);
      } else {
        rows.erase(change->first);
      }
    }
  }
  return rows;
}

Page MemoryDisk::State::scan(std::uint64_t generation, std::string_view prefix,
                             std::string_view after, std::size_t limit, Read read) const {
  const std::lock_guard lock(mutex_);
  refuse_the_dead(generation);
  const bool as_of_the_disk = read == Read::kDurable && !unsynced_.empty();
  const Rows durable = as_of_the_disk ? durable_before_unsynced() : Rows{};
  const Rows& rows = as_of_the_disk ? durable : rows_;
  Page page;
  std::size_t bytes = 0;
  auto row = after < prefix ? rows.lower_bound(prefix) : rows.upper_bound(after);
  for (; row != rows.end() && row->first.starts_with(prefix); ++row) {
    if (page.entries.size() == limit || bytes > detail::kPageBytesMax) {
      page.more = true;
      break;
    }
    page.entries.push_back({row->first, row->second.value, row->second.version});
    bytes += row->first.size() + row->second.value.size();
  }
  return page;
}

void MemoryDisk::State::disturb(const Batch& batch, News& news) {
  for (const Batch::Condition& condition : batch.conditions()) {
    const auto row = rows_.find(condition.key);
    if (condition.kind == Batch::Kind::kVersion && row != rows_.end() &&
        row->second.version == condition.version) {
      Batch same;
      same.put(condition.key, row->second.value);
      write(same, news);
      return;
    }
  }
}

void MemoryDisk::State::check_space(const Batch& batch) const {
  if (faults_.bytes_max == MemoryFaults{}.bytes_max) {
    return;
  }
  std::size_t added = 0;
  std::size_t freed = 0;
  for (const Batch::Write& write : batch.writes()) {
    const auto row = rows_.find(write.key);
    freed += row == rows_.end() ? 0 : row->first.size() + row->second.value.size();
    added += write.value ? write.key.size() + write.value->size() : 0;
  }
  if (added > freed && bytes_ + added - freed > faults_.bytes_max) {
    throw StoreFull("a memory disk of " + std::to_string(faults_.bytes_max) +
                    " bytes has no room for " + std::to_string(added - freed) + " more");
  }
}

MemoryDisk::State::Decision MemoryDisk::State::commit(std::uint64_t generation,
                                                      const Batch& batch) {
  News news(*this);
  const std::lock_guard lock(mutex_);
  refuse_the_dead(generation);
  if (chance(faults_.busy_chance)) {
    throw StoreBusy("a memory store was busy, by its faults");
  }
  const bool crashes = commits_until_crash_ == 1;
  commits_until_crash_ -= commits_until_crash_ == 0 ? 0 : 1;
  const bool fails = crashes || chance(faults_.unknown_chance);
  const bool fails_before = fails && fails_before_it_is_applied(crashes);
  std::optional<CommitOutcome> outcome;
  if (!fails_before) {
    outcome = apply(batch, news);
  }
  if (crashes) {
    lose_power();
  }
  if (fails) {
    throw OutcomeUnknown("a memory store failed in the middle of a commit, by its faults");
  }
  return {*std::move(outcome), unsynced_.empty() ? std::nullopt : std::optional(last_)};
}

CommitOutcome MemoryDisk::State::apply(const Batch& batch, News& news) {
  if (chance(faults_.conflict_chance)) {
    disturb(batch, news);
  }
  const auto conditions = batch.conditions();
  const auto broken = detail::broken_condition(
      batch, [&](std::size_t condition) { return version_of(conditions[condition].key); });
  if (broken) {
    return detail::refusal(conditions[*broken], entry_of(conditions[*broken].key));
  }
  check_space(batch);
  ++commits_;
  return Committed{write(batch, news)};
}

Version MemoryDisk::State::write(const Batch& batch, News& news) {
  if (batch.writes().empty()) {
    return last_;
  }
  const Version version = ++last_;
  const bool at_once = faults_.sync_delay_max == Duration::zero() && unsynced_.empty();
  Unsynced unsynced{version, {}, {}};
  for (const Batch::Write& write : batch.writes()) {
    std::optional<Row> before =
        replace(write.key, std::optional<std::string>(write.value), version);
    if (at_once) {
      news.add(write.key);
    } else {
      unsynced.before.emplace_back(write.key, std::move(before));
    }
  }
  if (!at_once) {
    schedule_sync(std::move(unsynced));
  }
  return version;
}

std::optional<MemoryDisk::State::Row> MemoryDisk::State::replace(std::string_view key,
                                                                 std::optional<std::string> value,
                                                                 Version version) {
  const auto found = rows_.lower_bound(key);
  const bool there = found != rows_.end() && found->first == key;
  std::optional<Row> before;
  if (there) {
    bytes_ -= key.size() + found->second.value.size();
    before = std::move(found->second);
  }
  if (value) {
    bytes_ += key.size() + value->size();
    if (there) {
      found->second = {*std::move(value), version};
    } else {
      rows_.emplace_hint(found, key, Row{*std::move(value), version});
    }
  } else if (there) {
    rows_.erase(found);
  }
  return before;
}

void MemoryDisk::State::schedule_sync(Unsynced unsynced) {
  const auto delay_max = static_cast<std::uint64_t>(faults_.sync_delay_max.count());
  const auto delay = static_cast<Duration::rep>(random_() % (delay_max + 1));
  unsynced.durable_at = clock_.now() + Duration(delay);
  if (!unsynced_.empty()) {
    unsynced.durable_at = std::max(unsynced.durable_at, unsynced_.back().durable_at);
  }
  unsynced_.push_back(std::move(unsynced));
  arm_timer();
}

void MemoryDisk::State::arm_timer() {
  if (!unsynced_.empty() && !std::exchange(timer_armed_, true)) {
    clock_.arm(timer_, unsynced_.front().durable_at);
  }
}

void MemoryDisk::State::disarm_timer() noexcept {
  // A callback that is under way arms it again if there is a reason.
  if (timer_armed_ && clock_.try_disarm(timer_)) {
    timer_armed_ = false;
  }
}

Version MemoryDisk::State::durable_version() const {
  return unsynced_.empty() ? last_ : unsynced_.front().version - 1;
}

bool MemoryDisk::State::is_durable(std::uint64_t generation, Version version) const {
  const std::lock_guard lock(mutex_);
  refuse_the_dead(generation);
  return version <= durable_version();
}

std::vector<MemoryDisk::State::Durable*> MemoryDisk::State::take_durable_waiters() {
  const auto first_durable =
      std::partition(waiting_.begin(), waiting_.end(),
                     [&](const Durable* waiter) { return waiter->version_ > durable_version(); });
  std::vector<Durable*> ended(first_durable, waiting_.end());
  waiting_.erase(first_durable, waiting_.end());
  return ended;
}

void MemoryDisk::State::sync_due() noexcept {
  News news(*this);
  std::vector<Durable*> ended;
  {
    const std::lock_guard lock(mutex_);
    timer_armed_ = false;
    ended = sync_until(clock_.now(), news);
    arm_timer();
  }
  complete(ended);
}

void MemoryDisk::State::sync_all(std::uint64_t generation) noexcept {
  News news(*this);
  std::vector<Durable*> ended;
  {
    const std::lock_guard lock(mutex_);
    if (generation == generation_) {
      disarm_timer();
      ended = sync_until(TimePoint::max(), news);
    }
  }
  complete(ended);
}

std::vector<MemoryDisk::State::Durable*> MemoryDisk::State::sync_until(TimePoint due, News& news) {
  while (!unsynced_.empty() && unsynced_.front().durable_at <= due) {
    for (const auto& [key, before] : unsynced_.front().before) {
      news.add(key);
    }
    unsynced_.pop_front();
  }
  return take_durable_waiters();
}

void MemoryDisk::State::complete(const std::vector<Durable*>& waiters) noexcept {
  for (Durable* waiter : waiters) {
    waiter->complete();
  }
}

void MemoryDisk::State::crash() {
  const std::lock_guard lock(mutex_);
  lose_power();
}

void MemoryDisk::State::lose_power() {
  const std::size_t surviving = unsynced_.empty() ? 0 : random_() % (unsynced_.size() + 1);
  while (unsynced_.size() > surviving) {
    auto& before = unsynced_.back().before;
    for (auto change = before.rbegin(); change != before.rend(); ++change) {
      put_back(change->first, std::move(change->second));
    }
    unsynced_.pop_back();
  }
  unsynced_.clear();
  disarm_timer();
  ++generation_;
  for (Durable* waiter : std::exchange(waiting_, {})) {
    waiter->error_ = power_cut();
    waiter->complete();
  }
  const auto ended = std::exchange(watches_, std::make_shared<WatchLists>());
  for (const auto& watches : *ended) {
    watches->end(std::make_exception_ptr(StoreFailed(kCrashed)));
  }
}

void MemoryDisk::State::put_back(const std::string& key, std::optional<Row> row) {
  const Version version = row ? row->version : 0;
  std::optional<std::string> value;
  if (row) {
    value = std::move(row->value);
  }
  static_cast<void>(replace(key, std::move(value), version));
}

MemoryDisk::State::News::~News() {
  for (const std::string_view key : keys_) {
    for (const auto& watches : *watches_) {
      watches->notify({&key, 1});
    }
  }
}

void MemoryDisk::State::News::add(std::string_view key) {
  if (!watches_) {
    watches_ = state_.watches_;
    watched_ = std::any_of(watches_->begin(), watches_->end(),
                           [](const auto& watches) { return !watches->empty(); });
  }
  if (watched_) {
    keys_.emplace_back(key);
  }
}

void MemoryDisk::State::add_watches(std::shared_ptr<detail::WatchList> watches) {
  const std::lock_guard lock(mutex_);
  auto lists = std::make_shared<WatchLists>(*watches_);
  lists->push_back(std::move(watches));
  watches_ = std::move(lists);
}

void MemoryDisk::State::remove_watches(const std::shared_ptr<detail::WatchList>& watches) {
  const std::lock_guard lock(mutex_);
  auto lists = std::make_shared<WatchLists>(*watches_);
  std::erase(*lists, watches);
  watches_ = std::move(lists);
}

bool MemoryDisk::State::Durable::commit() {
  try {
    Decision decision = state_.commit(generation_, *batch_);
    outcome_ = std::move(decision.outcome);
    version_ = decision.on_its_way.value_or(0);
    return decision.on_its_way && !decision_is_enough_;
  } catch (...) {
    error_ = std::current_exception();
    return false;
  }
}

void MemoryDisk::State::Durable::begin() {
  if (!batch_ || commit()) {
    const std::lock_guard lock(state_.mutex_);
    if (generation_ != state_.generation_) {
      error_ = power_cut();
    } else if (version_ > state_.durable_version()) {
      state_.waiting_.push_back(this);
      return;
    }
  }
  complete();
}

void MemoryDisk::State::Durable::stop() noexcept {
  {
    const std::lock_guard lock(state_.mutex_);
    // A batch that was decided is told of, however long that takes.
    if (batch_ || std::erase(state_.waiting_, this) == 0) {
      return;
    }
    error_ = std::make_exception_ptr(
        Cancelled("the wait for commit " + std::to_string(version_) + " was asked to stop"));
  }
  complete();
}

void MemoryDisk::State::Durable::rethrow() const {
  if (error_) {
    std::rethrow_exception(error_);
  }
}

CommitOutcome MemoryDisk::State::Durable::outcome() {
  rethrow();
  return *std::move(outcome_);
}

}  // namespace holdfast
