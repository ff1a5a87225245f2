// SPDX-License-Identifier: Apache-2.0
#include "engine_core.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include <holdfast/all_any.hpp>
#include <holdfast/capabilities.hpp>
#include <holdfast/error.hpp>
#include <holdfast/this_task.hpp>

#include "busy_pause.hpp"
#include "collector.hpp"
#include "gate/gate_keys.hpp"
#include "permit_run.hpp"
#include "run_keys.hpp"
#include "run_rows.hpp"
#include "schedule_state.hpp"
#include "schedule_workflow.hpp"

namespace holdfast::detail {

namespace {

constexpr std::size_t kRowsRead = 1'000;
/// How long a lost wake-up may go unnoticed.
constexpr Duration kSweepInterval = std::chrono::minutes(1);

Task<void> until_changed(Watch& watch) { co_await watch.changed(); }
Task<void> until_rung(Bell& bell, std::uint64_t heard) { co_await bell.rung_since(heard); }
Task<void> for_a_while(Duration time) { co_await this_task::sleep_for(time); }

/// Until `due`, at most for a sweep's interval.
Duration time_until(std::optional<StoreTime> due, StoreTime now) {
  const Duration time = due ? *due - now : kSweepInterval;
  return std::clamp(time, Duration::zero(), kSweepInterval);
}

void warn_on_standard_error(const std::string& text) {
  std::fprintf(stderr, "holdfast: %s\n", text.c_str());
}

Executor& needed(Executor* executor) {
  if (executor == nullptr) {
    throw InvalidArgument("an Engine needs an executor: set EngineOptions::executor");
  }
  return *executor;
}

/// What is under way may outlive the engine for a moment.
std::shared_ptr<const WallClock> wall_clock_of(const EngineOptions& options) {
  if (options.wall_clock == nullptr) {
    return std::make_shared<SystemWallClock>();
  }
  return {std::shared_ptr<void>(), options.wall_clock};
}

}  // namespace

EngineCore::EngineCore(Session& session, const EngineOptions& options)
    : world_(std::make_shared<RunWorld>(
          session, needed(options.executor),
          options.steps == nullptr ? needed(options.executor) : *options.steps, options.seed)),
      wall_clock_(wall_clock_of(options)),
      idle_time_(options.idle_time),
      watchdog_time_(options.watchdog_time),
      ownership_(std::make_shared<Ownership>(world_, std::string(options.queue))),
      loops_(needed(options.executor)) {
  require_capabilities(session.store(), {.atomic = true, .notifies = true}, "Engine");
  if (options.queue.empty()) {
    throw InvalidArgument("EngineOptions::queue is empty: leave it at \"default\", or name one");
  }
  if (options.idle_time < Duration::zero() || options.watchdog_time < Duration::zero()) {
    throw InvalidArgument("EngineOptions: a time is below zero");
  }
  if (options.signals_kept_max == 0) {
    throw InvalidArgument("EngineOptions::signals_kept_max is 0: a run keeps at least one");
  }
  world_->signals_kept_max = options.signals_kept_max;
  world_->warn = options.warn == nullptr ? warn_on_standard_error : options.warn;
  // What is under way may outlive the engine for a moment.
  world_->code_of = [known = known_](const std::string& type) {
    const auto found = known->find(type);
    return found == known->end() ? nullptr : found->second.code.get();
  };
  world_->admission_of = [known = known_](const std::string& type) {
    const auto found = known->find(type);
    return found == known->end() ? nullptr : found->second.admission.get();
  };
  world_->tenure_of = [ownership = std::weak_ptr(ownership_)](const RunPlace& place) {
    const std::shared_ptr<Ownership> there = ownership.lock();
    return there != nullptr ? there->tenure_of(place) : nullptr;
  };
  add(permit_workflow().name(), permit_workflow().code(), nullptr);
  add(std::string(kScheduleType), schedule_code(wall_clock_, session.store()), nullptr);
  add(debouncer().name(), debouncer().code(), nullptr);
  add(batcher().name(), batcher().code(), nullptr);
}

void EngineCore::add(const std::string& name, std::shared_ptr<const WorkflowCode> code,
                     std::shared_ptr<const Admission> admission) {
  if (!known_->emplace(name, Known{std::move(code), std::move(admission)}).second) {
    throw InvalidArgument("two workflows are called '" + name + "'");
  }
}

std::shared_ptr<Tenure> EngineCore::tenure_of(const RunPlace& place) const {
  return ownership_->tenure_of(place);
}

std::size_t EngineCore::live_runs() const {
  std::size_t count = 0;
  for (const std::shared_ptr<Tenure>& tenure : ownership_->tenures()) {
    count += tenure->live_count();
  }
  return count;
}

// --- Begin and end -------------------------------------------------------------------------------

Task<void> EngineCore::begin() {
  co_await recover_all();
  if (watchdog_time_ > Duration::zero()) {
    world_->watchdog.begin(watchdog_time_, world_->warn);
  }
  loops_.run(insist(shared_from_this(), keep_share));
  loops_.run(insist(shared_from_this(), keep_agenda));
  loops_.run(insist(shared_from_this(), keep_inbox));
  loops_.run(insist(shared_from_this(), keep_gates));
  if (idle_time_ > Duration::zero()) {
    loops_.run(insist(shared_from_this(), keep_memory_small));
  }
}

Task<void> EngineCore::recover_all() {
  co_await ownership_->join();
  co_await take_share();
}

Task<void> EngineCore::take_share() {
  look_again_ = co_await ownership_->balance();
  for (const std::shared_ptr<Tenure>& tenure : ownership_->tenures()) {
    if (!tenure->is_recovered()) {
      co_await read_inbox(tenure->keys().inbox(), Read::kApplied);
      co_await tenure->recover();
    }
  }
  world_->agenda.ring();
}

Task<std::optional<StoreTime>> EngineCore::sweep() {
  co_await take_share();
  // Before the inbox: there it is said who was let in.
  static_cast<void>(co_await world_->gates.attend());
  co_await read_inbox(inboxes_of(queue()), Read::kApplied);
  for (const std::shared_ptr<Tenure>& tenure : ownership_->tenures()) {
    co_await tenure->fire_due();
  }
  const std::optional<StoreTime> look_at_gates = world_->gates.next_look();
  const std::optional<StoreTime> due = next_due();
  co_return due&& look_at_gates ? std::min(due, look_at_gates) : due ? due : look_at_gates;
}

std::optional<StoreTime> EngineCore::next_due() const {
  std::optional<StoreTime> next;
  for (const std::shared_ptr<Tenure>& tenure : ownership_->tenures()) {
    const std::optional<StoreTime> due = tenure->next_due();
    if (due && (!next || *due < *next)) {
      next = due;
    }
  }
  return next;
}

Task<void> EngineCore::stop(Duration grace) {
  stopping_ = true;
  co_await loops_.join();
  static_cast<void>(co_await any(until_quiet(), for_a_while(grace)));
  co_await ownership_->hand_over();
  co_await ownership_->leave();
  close();
  co_await world_->step_tasks.join();
  co_await world_->tasks.join();
}

Task<void> EngineCore::until_quiet() {
  for (;;) {
    const std::uint64_t heard = world_->rests.count();
    const auto tenures = ownership_->tenures();
    const bool quiet = std::all_of(tenures.begin(), tenures.end(),
                                   [](const auto& tenure) { return tenure->is_quiet(); });
    if (quiet) {
      co_return;
    }
    co_await world_->rests.rung_since(heard);
  }
}

void EngineCore::close() {
  stopping_ = true;
  loops_.close();
  world_->watchdog.end();
  world_->tasks.close();
  world_->step_tasks.close();
  for (const std::shared_ptr<Tenure>& tenure : ownership_->tenures()) {
    tenure->drop_runs();
  }
}

// --- Loops ---------------------------------------------------------------------------------------

Task<void> EngineCore::insist(std::shared_ptr<EngineCore> core,
                              Task<void> (*loop)(std::shared_ptr<EngineCore>)) {
  for (;;) {
    std::string failure;
    try {
      co_await loop(core);
    } catch (const Cancelled&) {
      co_return;
    } catch (const Error& error) {
      failure = error.what();
      if (error.remedy() == Remedy::kGiveUp) {
        core->world_->warn("the engine of queue '" + core->queue() + "' stands still: " + failure);
        co_return;
      }
    }
    co_await busy_pause();
  }
}

Task<void> EngineCore::keep_share(std::shared_ptr<EngineCore> core) {
  RunWorld& world = *core->world_;
  Watch owners = world.store.watch(owners_of(core->queue()));
  Watch engines = world.store.watch(engines_of(core->queue()));
  for (;;) {
    const std::uint64_t heard = world.losses.count();
    co_await core->take_share();
    const StoreTime now = co_await world.store.time();
    static_cast<void>(co_await any(until_changed(owners), until_changed(engines),
                                   until_rung(world.losses, heard),
                                   for_a_while(time_until(core->look_again_, now))));
  }
}

Task<void> EngineCore::keep_agenda(std::shared_ptr<EngineCore> core) {
  RunWorld& world = *core->world_;
  for (;;) {
    const std::uint64_t heard = world.agenda.count();
    for (const std::shared_ptr<Tenure>& tenure : core->ownership_->tenures()) {
      co_await tenure->fire_due();
    }
    const std::optional<StoreTime> next = core->next_due();
    if (!next) {
      co_await world.agenda.rung_since(heard);
      continue;
    }
    const StoreTime now = co_await world.store.time();
    const Duration time = std::max(*next - now, Duration::zero());
    static_cast<void>(co_await any(until_rung(world.agenda, heard), for_a_while(time)));
  }
}

Task<void> EngineCore::read_inbox(std::string prefix, Read read) {
  const std::string queue_prefix = inboxes_of(queue());
  std::string after;
  for (bool more = true; more;) {
    const ScanOptions next{.after = after, .limit = kRowsRead, .read = read};
    const Page page = co_await world_->store.scan(prefix, next);
    for (const Entry& entry : page.entries) {
      after = entry.key;
      const auto tenure = ownership_->tenure_of(partition_in(entry.key, queue_prefix));
      if (tenure != nullptr) {
        co_await tenure->take_message(entry.key,
                                      read_row<record::RunMessage>(entry, "the message to a run"));
      }
    }
    more = page.more;
  }
}

Task<void> EngineCore::keep_inbox(std::shared_ptr<EngineCore> core) {
  Watch watch = core->world_->store.watch(inboxes_of(core->queue()));
  for (;;) {
    co_await core->read_inbox(inboxes_of(core->queue()), Read::kDurable);
    static_cast<void>(co_await any(until_changed(watch), for_a_while(kSweepInterval)));
  }
}

Task<void> EngineCore::keep_gates(std::shared_ptr<EngineCore> core) {
  RunWorld& world = *core->world_;
  Watch watch = world.store.watch(kUnattendedPrefix);
  for (;;) {
    const std::uint64_t heard = world.gates.earlier().count();
    const std::optional<StoreTime> next = co_await world.gates.attend();
    const StoreTime now = co_await world.store.time();
    static_cast<void>(co_await any(until_changed(watch), until_rung(world.gates.earlier(), heard),
                                   for_a_while(time_until(next, now))));
  }
}

Task<void> EngineCore::keep_memory_small(std::shared_ptr<EngineCore> core) {
  RunWorld& world = *core->world_;
  for (;;) {
    const std::uint64_t heard = world.rests.count();
    if (core->live_runs() == 0) {
      co_await world.rests.rung_since(heard);
      continue;
    }
    co_await this_task::sleep_for(core->idle_time_);
    const TimePoint since = world.store.clock().now() - core->idle_time_;
    for (const std::shared_ptr<Tenure>& tenure : core->ownership_->tenures()) {
      tenure->evict(since);
    }
  }
}

}  // namespace holdfast::detail
