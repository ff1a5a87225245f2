// SPDX-License-Identifier: Apache-2.0
// What a room does by itself, for those who wait in it.
#include <algorithm>
#include <utility>

#include <holdfast/error.hpp>
#include <holdfast/this_task.hpp>

#include "gate_room.hpp"

namespace holdfast::detail {

namespace {

constexpr std::size_t kGrantsRead = 1'000;
/// How long a dead holder or a lost wake-up may go unnoticed.
constexpr Duration kSweepInterval = std::chrono::seconds(1);
constexpr std::size_t kLookedForMax = 1'000;

}  // namespace

void GateRoom::run_in_background(Task<void> task) {
  background_.run(quietly(shared_from_this(), std::move(task)));
}

/// It mostly need not wait: then the next one in line is let in by this thread.
void GateRoom::run_as_duty(std::function<Task<void>()> duty) {
  background_.run_here(quietly(shared_from_this(), insist(Duties::Duty(duties_), std::move(duty))));
}

/// A row that is left behind would be in the way of others for as long as the session lives.
Task<void> GateRoom::insist(Duties::Duty /*counted*/, std::function<Task<void>()> duty) {
  for (;;) {
    const bool done = co_await unless_busy(duty());
    if (done) {
      break;
    }
    co_await this_task::sleep_for(kSweepInterval);
  }
}

/// Nobody can be told but those who wait.
Task<void> GateRoom::quietly(std::shared_ptr<GateRoom> room, Task<void> task) {
  std::exception_ptr error;
  try {
    co_await std::move(task);
  } catch (const Cancelled&) {
    co_return;
  } catch (const Error&) {
    error = std::current_exception();
  }
  if (error) {
    co_await room->fail_all(error);
  }
}

Task<void> GateRoom::fail_all(std::exception_ptr error) {
  const EndingsAfterTurn endings_after(*this);
  const Hold turn = co_await turn_.lock();
  attended_ = false;  // Whoever waits next is looked after again.
  {
    const std::lock_guard lock(endings_mutex_);
    endings_.clear();  // They end with the session.
    ending_ = false;
  }
  for (const auto& [request, arrival] : std::exchange(waiting_, {})) {
    arrival->fail(error);
  }
}

void GateRoom::attend() {
  if (attended_.exchange(true)) {
    return;
  }
  run_in_background(watch_for_grants());
  run_in_background(sweep());
}

/// With the turn.
void GateRoom::plan_to_look_at(StoreTime at) {
  if (!next_look_at_ || at < *next_look_at_) {
    next_look_at_ = at;
    run_in_background(look_at(at));
  }
}

Task<void> GateRoom::look_at(StoreTime at) {
  const StoreTime now = co_await store_.time();
  co_await this_task::sleep_for(std::max(at - now, Duration::zero()));
  {
    const EndingsAfterTurn endings_after(*this);
    const Hold turn = co_await turn_.lock();
    if (next_look_at_ == at) {
      next_look_at_.reset();
    }
  }
  static_cast<void>(co_await unless_busy(serve_once()));
}

Task<void> GateRoom::watch_for_grants() {
  Watch watch = store_.watch(own_holders_);
  for (;;) {
    const bool looked = co_await unless_busy(look_for_grants_of_others());
    if (looked) {
      co_await watch.changed();
    } else {
      co_await this_task::sleep_for(kSweepInterval);
    }
  }
}

/// False: the commit is not in the store, or may not be.
Task<bool> GateRoom::unless_lost(Version version) {
  bool lasts = true;
  try {
    co_await store_.until_durable(version);
  } catch (const StoreBusy&) {
    lasts = false;
  } catch (const StoreFull&) {
    lasts = false;
  } catch (const OutcomeUnknown&) {
    lasts = false;
  }
  co_return lasts;
}

/// False: the store was busy or full, and it has to be tried again.
Task<bool> GateRoom::unless_busy(Task<void> task) {
  bool done = true;
  try {
    co_await std::move(task);
  } catch (const StoreBusy&) {
    done = false;
  } catch (const StoreFull&) {
    done = false;
  }
  co_return done;
}

/// Most news of a hot gate is of what this session did itself. To keep the turn while looking would
/// make those who hand the gate over do it by way of another thread.
Task<void> GateRoom::look_for_grants_of_others() {
  const Version told_before = told_up_to_;
  std::optional<Entry> head = co_await store_.get(keys().head(), Read::kApplied);
  if (head && told_before <= head->version && head->version <= told_up_to_) {
    co_return;
  }
  const EndingsAfterTurn endings_after(*this);
  const Hold turn = co_await turn_.lock();
  head = co_await store_.get(keys().head(), Read::kApplied);
  if (!head || head->version != told_up_to_) {
    co_await tell_all_who_were_let_in(std::move(head));
  }
}

Task<void> GateRoom::look_for_grants() {
  const EndingsAfterTurn endings_after(*this);
  const Hold turn = co_await turn_.lock();
  std::optional<Entry> head = co_await store_.get(keys().head(), Read::kApplied);
  co_await tell_all_who_were_let_in(std::move(head));
}

/// With the turn; `head` was read in it, before those who were let in.
Task<void> GateRoom::tell_all_who_were_let_in(std::optional<Entry> head) {
  if (waiting_.empty()) {
    co_return;
  }
  const std::string& prefix = own_holders_;
  std::string after;
  for (bool more = true; more;) {
    const ScanOptions behind{.after = after, .limit = kGrantsRead, .read = Read::kApplied};
    const Page page = co_await store_.scan(prefix, behind);
    for (const Entry& entry : page.entries) {
      const auto found = find_waiting(std::string_view(entry.key).substr(prefix.size()));
      if (found == waiting_.end()) {
        continue;
      }
      ledger_.forget();
      GateRows granted(keys());
      granted.read_holder(entry);
      found->second->let_in({entry.version, granted.slots_of(entry.key), false});
      waiting_.erase(found);
    }
    more = page.more;
    after = page.entries.empty() ? after : page.entries.back().key;
  }
  const Version version = head ? head->version : 0;
  others_came_ = others_came_ || version != told_up_to_;
  told_up_to_ = version;
}

/// The net under all that wakes.
Task<void> GateRoom::sweep() {
  for (;;) {
    co_await this_task::sleep_for(kSweepInterval);
    const bool looked = co_await unless_busy(look_for_grants());
    if (looked) {
      static_cast<void>(co_await unless_busy(serve_once()));
    }
  }
}

Task<void> GateRoom::serve_once() {
  const EndingsAfterTurn endings_after(*this);
  const Hold turn = co_await turn_.lock();
  if (waiting_.empty()) {
    others_came_ = false;
    co_return;
  }
  co_await ledger_.forget_what_is_old();
  const Plan plan = [](GateRows& rows, KnownLeases& leases, StoreTime now) {
    return serve(rows, leases, now);
  };
  const Changed changed = co_await change(plan);
  welcome(changed);
  co_await look_for_dropped();
}

/// With the turn, after the rows were read. Who was let in by another process, and put out again by
/// an operator before it was seen here, has no row any more, and nobody to wake it.
Task<void> GateRoom::look_for_dropped() {
  if (!others_came_) {
    co_return;
  }
  std::vector<std::uint64_t> without_row;
  const auto& waiters = ledger_.rows()->waiters();
  // They are let in in their order, so whoever was is before all that wait, but for those that are
  // too heavy at present. To look for each of many would take too long.
  const bool look_for_each =
      !ledger_.rows()->has_more_waiters() && waiting_.size() <= kLookedForMax;
  others_came_ = !look_for_each;
  for (const auto& [request, arrival] : waiting_) {
    const bool is_gone = look_for_each
                             ? !waiters.contains(arrival->waiter_key)
                             : waiters.empty() || arrival->waiter_key < waiters.begin()->first;
    if (is_gone) {
      without_row.push_back(request);
    }
  }
  for (const std::uint64_t request : without_row) {
    // Read after the other was seen to be gone: a grant between the two would be here.
    const std::string holder_key = own_holder(request);
    const std::optional<Entry> holder = co_await store_.get(holder_key, Read::kApplied);
    if (holder) {
      continue;
    }
    const auto arrival = waiting_.extract(request).mapped();
    arrival->fail(std::make_exception_ptr(
        Dropped("'" + name() + "': an operator has ended the hold before it was seen here")));
  }
}

}  // namespace holdfast::detail
