// SPDX-License-Identifier: Apache-2.0
#include <holdfast/detail/turnstile.hpp>

#include <algorithm>
#include <mutex>
#include <utility>

#include <holdfast/deadlock.hpp>
#include <holdfast/error.hpp>

#include "contention_recorder.hpp"
#include "owner.hpp"
#include "wait_graph.hpp"

namespace holdfast::detail {

namespace {

// How far behind a waiter that does not fit a lighter one is looked for.
constexpr int kOvertakeWindow = 64;

std::uint64_t next_turnstile_id() noexcept {
  static std::atomic<std::uint64_t> next = 1;
  return next.fetch_add(1, std::memory_order_relaxed);
}

std::string describe(const char* kind, const std::string& name) {
  return name.empty() ? std::string("a ") + kind : std::string(kind) + " '" + name + "'";
}

}  // namespace

TurnstileProfile::TurnstileProfile(const char* kind, const SyncOptions& options)
    : what(std::make_shared<const std::string>(describe(kind, options.name))),
      queue(options.queue),
      overtakes_max(options.overtakes_max),
      graph(options.detector != nullptr ? &options.detector->graph() : nullptr) {
  if (queue.overflow() == QueueLimit::Overflow::kDropOldest && queue.length_max() == 0) {
    throw InvalidArgument(*what +
                          ": QueueLimit::drop_oldest(0) would drop every waiter; give at "
                          "least 1, or QueueLimit::reject(0)");
  }
  if (options.held_long && (options.measure == nullptr || !options.on_held_long)) {
    throw InvalidArgument(*what + ": held_long needs measure (a clock) and on_held_long");
  }
  if (options.held_long && *options.held_long <= Duration::zero()) {
    throw InvalidArgument(*what + ": held_long is " + std::to_string(options.held_long->count()) +
                          " ns; it must be positive");
  }
  if (options.measure != nullptr) {
    recorder = std::make_unique<ContentionRecorder>(*what, options);
  }
}

TurnstileProfile::~TurnstileProfile() = default;

ProfileOwner::~ProfileOwner() {
  if (profile_->recorder != nullptr) {
    profile_->recorder->close();
  }
}

/// Turnstiles that are out of use. Their memory is kept for ever, see `Turnstile`.
class TurnstilePool {
 public:
  static TurnstilePool& instance() {
    static auto* const pool = new TurnstilePool;  // Locks may be static, and outlive any other.
    return *pool;
  }

  Turnstile& take() {
    {
      const std::scoped_lock lock(mutex_);
      if (unused_ != nullptr) {
        return *std::exchange(unused_, unused_->next_unused_);
      }
    }
    return *new Turnstile;
  }

  void put(Turnstile& turnstile) noexcept {
    const std::scoped_lock lock(mutex_);
    turnstile.next_unused_ = std::exchange(unused_, &turnstile);
  }

 private:
  std::mutex mutex_;
  Turnstile* unused_ = nullptr;
};

/// Those to wake when the mutex is free again.
struct Turnstile::WakeList {
  WakeList() = default;
  WakeList(const WakeList&) = delete;
  WakeList& operator=(const WakeList&) = delete;
  ~WakeList() {
    while (first != nullptr) {
      Waiter& waiter = *std::exchange(first, first->next);
      waiter.wake(waiter);
    }
  }

  void push(Waiter& waiter) noexcept {
    waiter.next = nullptr;
    (first == nullptr ? first : last->next) = &waiter;
    last = &waiter;
  }

  Waiter* first = nullptr;
  Waiter* last = nullptr;
};

/// Holds the mutex and owns the word.
class Turnstile::Section {
 public:
  explicit Section(Turnstile& turnstile) noexcept : turnstile_(turnstile), lock_(turnstile.mutex_) {
    std::uint64_t word = turnstile_.word_.load(std::memory_order_acquire);
    if ((word & kManaged) == 0) {
      word = turnstile_.word_.fetch_or(kManaged, std::memory_order_acq_rel);
    }
    generation_ = word >> kGenerationShift;
    turnstile_.free_ = static_cast<std::int32_t>(word);
  }
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;

  ~Section() {
    const bool managed = !turnstile_.queue_.empty() || turnstile_.closed_ || turnstile_.free_ < 0 ||
                         turnstile_.watched_;
    turnstile_.word_.store((generation_ << kGenerationShift) | (managed ? kManaged : 0) |
                               static_cast<std::uint32_t>(turnstile_.free_),
                           std::memory_order_release);
  }

  [[nodiscard]] std::uint64_t generation() const noexcept { return generation_; }
  void next_generation() noexcept {
    generation_ = (generation_ + 1) & (~std::uint64_t{0} >> kGenerationShift);
  }

 private:
  Turnstile& turnstile_;
  std::scoped_lock<SlimLock> lock_;
  std::uint64_t generation_ = 0;
};

Turnstile& Turnstile::make(std::uint32_t capacity, std::shared_ptr<TurnstileProfile> profile,
                           const std::string& part) {
  Turnstile& turnstile = TurnstilePool::instance().take();
  const Section section(turnstile);
  turnstile.id_ = next_turnstile_id();
  if (profile->graph != nullptr) {
    profile->graph->lock_made(turnstile.id_, *profile->what + part, capacity);
  }
  turnstile.profile_ = std::move(profile);
  turnstile.capacity_ = capacity;
  turnstile.free_ = capacity;
  turnstile.closed_ = false;
  turnstile.note_kind();
  return turnstile;
}

void Turnstile::close() noexcept {
  std::shared_ptr<TurnstileProfile> profile;
  std::shared_ptr<Keeper> keeper;
  bool unused = false;
  {
    WakeList woken;
    Section section(*this);
    while (!queue_.empty()) {
      Waiter& waiter = *queue_.first();
      queue_.erase(waiter);
      end(waiter, Ending::kClosed);
      woken.push(waiter);
    }
    if (profile_->graph != nullptr) {
      profile_->graph->lock_gone(id_);
    }
    closed_ = true;
    section.next_generation();
    profile = std::move(profile_);
    keeper = std::move(keeper_);
    note_kind();
    free_ -= 1;  // Ours: whoever leaves last puts the turnstile away, and we have not left yet.
  }
  if (token_clock_ != nullptr) {
    token_clock_->disarm(*token_alarm_);
  }
  {
    const Section section(*this);
    token_clock_ = nullptr;
    token_alarm_.reset();
    token_alarm_at_.reset();
    bucket_.reset();
    note_kind();
    free_ += 1;
    unused = free_ == capacity_;
  }
  if (unused) {
    TurnstilePool::instance().put(*this);
  }
}

void Turnstile::note_kind() noexcept {
  const bool seen =
      profile_ != nullptr && (profile_->recorder != nullptr || profile_->graph != nullptr);
  watched_ = bucket_ || keeper_ != nullptr || seen;
  plain_.store(!closed_ && !watched_ && profile_->overtakes_max == 0 &&
                   profile_->queue.overflow() == QueueLimit::Overflow::kWait,
               std::memory_order_relaxed);
}

bool Turnstile::enter(Waiter& waiter, std::uint32_t generation, Patience patience, Owner owner) {
  if (patience == Patience::kWait && plain_.load(std::memory_order_relaxed)) {
    const Section section(*this);
    if (plain_.load(std::memory_order_relaxed) && section.generation() == generation &&
        waiter.ending == Ending::kNone && waiter.weight <= capacity_) {
      // Nobody can be served because of a newcomer in line: whoever is first has not fitted since
      // the last change.
      const bool granted = grant_at_once(waiter);
      if (!granted) {
        queue_.push(waiter);
      }
      return !granted;
    }
  }
  return enter_any(waiter, generation, patience, owner);
}

bool Turnstile::enter_any(Waiter& waiter, std::uint32_t generation, Patience patience,
                          Owner owner) {
  std::vector<LockOrderInversion> inversions;
  WaitGraph* graph = nullptr;
  bool queued = false;
  {
    WakeList woken;
    const Section section(*this);
    if (section.generation() != generation || closed_) {
      waiter.ending = Ending::kClosed;
      return false;
    }
    if (waiter.ending != Ending::kNone) {  // Abandoned before it came.
      end(waiter, waiter.ending);
      return false;
    }
    graph = profile_->graph;
    queued = enter_open(waiter, patience, owner, woken, inversions);
  }
  if (!inversions.empty()) {
    graph->report(inversions);
  }
  return queued;
}

bool Turnstile::enter_open(Waiter& waiter, Patience patience, const Owner& owner, WakeList& woken,
                           std::vector<LockOrderInversion>& inversions) {
  if (!satisfiable(waiter)) {
    end(waiter, Ending::kUnsatisfiable);
    return false;
  }
  if (profile_->recorder != nullptr || profile_->graph != nullptr) {
    waiter.holder = new Holder(owner, id_, waiter.weight, profile_);
    if (profile_->graph != nullptr && patience != Patience::kTry) {
      inversions = profile_->graph->wants(*waiter.holder);
    }
  }
  if (grant_at_once(waiter)) {
    return false;
  }
  if (patience == Patience::kTry) {
    forget(waiter);
    return false;
  }
  if (patience == Patience::kDeadlinePassed) {
    end(waiter, Ending::kTimedOut);
    return false;
  }
  if (!has_room_for(waiter)) {
    end(waiter, Ending::kQueueFull);
    return false;
  }
  if (profile_->graph != nullptr) {
    try {
      profile_->graph->start_wait(*waiter.holder, waiter.priority);
    } catch (...) {
      forget(waiter);
      throw;
    }
  }
  if (profile_->recorder != nullptr) {
    profile_->recorder->queued(*waiter.holder);
  }
  if (queue_.size() >= profile_->queue.length_max()) {
    drop_oldest(woken);
  }
  queue_.push(waiter);
  serve(woken);
  return true;
}

bool Turnstile::satisfiable(const Waiter& waiter) const noexcept {
  return waiter.weight <= capacity_ && (!bucket_ || waiter.tokens <= bucket_->burst());
}

void Turnstile::end_unsatisfiable(WakeList& woken) noexcept {
  for (Waiter* waiter = queue_.first(); waiter != nullptr;) {
    Waiter& one = *std::exchange(waiter, waiter->next);
    if (!satisfiable(one)) {
      queue_.erase(one);
      end(one, Ending::kUnsatisfiable);
      woken.push(one);
    }
  }
}

// With a full queue only the dropping policy makes room, and only for one who is not below all.
bool Turnstile::has_room_for(const Waiter& waiter) const noexcept {
  return queue_.size() < profile_->queue.length_max() ||
         (profile_->queue.overflow() == QueueLimit::Overflow::kDropOldest &&
          queue_.oldest_of_lowest()->priority <= waiter.priority);
}

void Turnstile::drop_oldest(WakeList& woken) noexcept {
  Waiter& oldest = *queue_.oldest_of_lowest();
  queue_.erase(oldest);
  end(oldest, Ending::kDropped);
  woken.push(oldest);
}

bool Turnstile::grant_at_once(Waiter& waiter) noexcept {
  const Waiter* const first = queue_.first();
  const bool granted = (first == nullptr || first->priority < waiter.priority) && admit(waiter);
  if (granted) {
    grant(waiter);
  }
  return granted;
}

bool Turnstile::admit(Waiter& waiter) noexcept {
  if (free_ < waiter.weight) {
    return false;
  }
  if (!bucket_) {
    return true;
  }
  const TimePoint now = token_clock_->now();
  const auto wait = bucket_->try_take(waiter.tokens, now);
  if (wait) {
    wait_for_tokens(now + *wait);
  }
  return !wait;
}

void Turnstile::grant(Waiter& waiter) noexcept {
  free_ -= waiter.weight;
  waiter.ending = Ending::kGranted;
  if (waiter.holder == nullptr) {
    return;
  }
  if (profile_->graph != nullptr) {
    profile_->graph->granted(*waiter.holder);
  }
  if (profile_->recorder != nullptr) {
    profile_->recorder->granted(*waiter.holder);
  }
}

void Turnstile::end(Waiter& waiter, Ending why) noexcept {
  waiter.ending = why;
  waiter.what = profile_->what;
  waiter.limit = waiter.weight > capacity_ || !bucket_ ? capacity_ : bucket_->burst();
  if (profile_->recorder != nullptr) {
    profile_->recorder->gave_up(why);
  }
  forget(waiter);
}

void Turnstile::forget(Waiter& waiter) noexcept {
  if (waiter.holder == nullptr) {
    return;
  }
  if (profile_->graph != nullptr) {
    profile_->graph->stop_wait(*waiter.holder);
  }
  delete std::exchange(waiter.holder, nullptr);
}

void Turnstile::serve(WakeList& woken) noexcept {
  // Without free units the next in line is not even looked at: it may be far from the cache.
  while (free_ > 0 && !queue_.empty()) {
    Waiter* const first = queue_.first();
    if (admit(*first)) {
      grant(queue_.pop());
      woken.push(*first);
    } else if (!serve_one_behind(*first, woken)) {
      return;
    }
  }
}

// Lets the next one that fits pass those that do not, as long as each of them may be passed. One
// that lacks a token is not passed: all who come after it would lack it, too.
bool Turnstile::serve_one_behind(Waiter& blocked, WakeList& woken) noexcept {
  if (profile_->overtakes_max == 0 || bucket_) {
    return false;
  }
  Waiter* passed = &blocked;
  for (int i = 0; i < kOvertakeWindow; ++i) {
    Waiter* const next = passed->next;
    if (passed->overtaken >= profile_->overtakes_max || next == nullptr) {
      return false;
    }
    if (free_ >= next->weight) {
      for (Waiter* one = &blocked; one != next; one = one->next) {
        ++one->overtaken;
      }
      queue_.erase(*next);
      grant(*next);
      woken.push(*next);
      return true;
    }
    passed = next;
  }
  return false;
}

void Turnstile::abandon(Waiter& waiter, Ending why) noexcept {
  WakeList woken;
  const Section section(*this);
  if (waiter.ending != Ending::kNone) {
    return;
  }
  if (!waiter.queued) {  // Not here yet: it will find this when it comes.
    waiter.ending = why;
    return;
  }
  queue_.erase(waiter);
  end(waiter, why);
  woken.push(waiter);
  serve(woken);
}

void Turnstile::leave_managed(std::uint32_t weight, Holder* holder) noexcept {
  if (plain_.load(std::memory_order_relaxed)) {
    WakeList woken;
    const Section section(*this);
    if (plain_.load(std::memory_order_relaxed)) {
      free_ += weight;
      serve(woken);
      return;
    }
  }
  leave_any(weight, holder);
}

void Turnstile::leave_any(std::uint32_t weight, Holder* holder) noexcept {
  const std::unique_ptr<Holder> gone(holder);
  std::shared_ptr<Keeper> keeper;
  void* entry = nullptr;
  bool unused = false;
  {
    WakeList woken;
    const Section section(*this);
    free_ += weight;
    if (holder != nullptr && holder->profile->recorder != nullptr) {
      holder->profile->recorder->released(*holder);
    }
    if (!closed_) {
      if (holder != nullptr && profile_->graph != nullptr) {
        profile_->graph->released(*holder);
      }
      serve(woken);
      keeper = keeper_;
      entry = keeper_entry_;
    }
    unused = closed_ && free_ == capacity_;
  }
  if (unused) {
    TurnstilePool::instance().put(*this);
  } else if (keeper != nullptr) {
    keeper->left(entry);
  }
}

void Turnstile::set_capacity(std::uint32_t capacity) noexcept {
  WakeList woken;
  const Section section(*this);
  free_ += std::int64_t{capacity} - capacity_;
  capacity_ = capacity;
  if (profile_->graph != nullptr) {
    profile_->graph->capacity_changed(id_, capacity);
  }
  end_unsatisfiable(woken);
  serve(woken);
}

void Turnstile::set_rate(const Rate& rate, Clock& clock) {
  WakeList woken;
  const Section section(*this);
  if (bucket_) {
    bucket_->change_rate(rate, clock.now());
  } else {
    bucket_.emplace(rate, clock.now());
    token_clock_ = &clock;
    token_alarm_.emplace(*this);
    note_kind();
  }
  end_unsatisfiable(woken);
  serve(woken);
}

// One alarm, set for the first in line. If its callback runs already, that will serve the queue.
void Turnstile::wait_for_tokens(TimePoint until) noexcept {
  if (token_alarm_at_) {
    if (*token_alarm_at_ <= until || !token_clock_->try_disarm(*token_alarm_)) {
      return;
    }
  }
  token_alarm_at_ = until;
  token_clock_->arm(*token_alarm_, until);
}

Turnstile::TokenAlarm::TokenAlarm(Turnstile& owner) noexcept
    : Timer([](Timer& timer) noexcept { static_cast<TokenAlarm&>(timer).turnstile.tokens_came(); }),
      turnstile(owner) {}

void Turnstile::tokens_came() noexcept {
  WakeList woken;
  const Section section(*this);
  token_alarm_at_.reset();
  if (!closed_) {
    serve(woken);
  }
}

void Turnstile::set_keeper(std::shared_ptr<Keeper> keeper, void* entry) noexcept {
  const Section section(*this);
  keeper_ = std::move(keeper);
  keeper_entry_ = entry;
  note_kind();
}

std::uint32_t Turnstile::capacity() const noexcept {
  const std::scoped_lock lock(mutex_);
  return capacity_;
}

std::uint32_t Turnstile::free_units() const noexcept {
  const auto units = static_cast<std::int32_t>(word_.load(std::memory_order_acquire));
  return static_cast<std::uint32_t>(std::max(units, 0));
}

std::size_t Turnstile::queue_length() const noexcept {
  const std::scoped_lock lock(mutex_);
  return queue_.size();
}

std::optional<TokenBucket> Turnstile::bucket() const noexcept {
  const std::scoped_lock lock(mutex_);
  return bucket_;
}

}  // namespace holdfast::detail
