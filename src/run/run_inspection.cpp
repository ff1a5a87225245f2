// SPDX-License-Identifier: Apache-2.0
#include <holdfast/run_inspection.hpp>

#include <algorithm>
#include <map>
#include <utility>

#include "gate/session_rules.hpp"
#include "run_directory.hpp"
#include "run_keys.hpp"
#include "run_rows.hpp"

namespace holdfast {

namespace {

using detail::RunRow;
using Journal = std::vector<record::Activation>;

// --- What the journal says -----------------------------------------------------------------------

/// Signals that were asked for, by their names. One that came too early is kept.
class SignalsAsked {
 public:
  void ask(const std::string& name) {
    Line& line = lines_[name];
    (line.kept > 0 ? line.kept-- : line.asked++);
  }
  /// The journal does not say who has given up waiting: so all are taken for served.
  void come(const std::string& name) {
    Line& line = lines_[name];
    if (line.asked > 0) {
      line.asked = 0;
    } else {
      ++line.kept;
    }
  }
  [[nodiscard]] std::vector<RunWaitInfo> waits() const {
    std::vector<RunWaitInfo> waits;
    for (const auto& [name, line] : lines_) {
      if (line.asked > 0) {
        waits.push_back({.kind = RunWaitInfo::Kind::kSignal, .name = name, .child_type = {}});
      }
    }
    return waits;
  }

 private:
  struct Line {
    std::uint64_t asked = 0;
    std::uint64_t kept = 0;
  };
  std::map<std::string, Line> lines_;
};

/// What has begun and was not settled. Other rows of the store know what was given up.
struct Begun {
  std::map<std::uint64_t, record::RunOperation> operations;  ///< By their numbers.
  SignalsAsked signals;
};

Begun begun_by(const Journal& journal) {
  Begun begun;
  const auto settle = [&](const record::RunEvent& event) {
    switch (event.kind()) {
      case record::RunEvent::SIGNALLED:
        begun.signals.come(event.name());
        break;
      case record::RunEvent::TIMER_FIRED:
      case record::RunEvent::CHILD_ENDED:
      case record::RunEvent::LOCK_SETTLED:
      case record::RunEvent::CHILD_STARTED:  // A permit, whose end nobody waits for.
        begun.operations.erase(event.operation());
        break;
      default:
        break;
    }
  };
  std::uint64_t number = 0;
  for (const record::Activation& row : journal) {
    std::ranges::for_each(row.events(), settle);
    for (const record::RunOperation& operation : row.operations()) {
      if (operation.kind() == record::RunOperation::SIGNAL) {
        begun.signals.ask(operation.name());
      } else {
        begun.operations.emplace(number, operation);
      }
      ++number;
    }
    std::ranges::for_each(row.held(), settle);
  }
  return begun;
}

// --- What other rows say -------------------------------------------------------------------------

Task<std::optional<RunWaitInfo>> timer_wait(Store& store, const RunRow& run, std::uint64_t number,
                                            const record::RunOperation& operation) {
  const StoreTime due = detail::time_of(operation.due_ns());
  const detail::PartitionKeys keys(run.place.queue, run.place.partition);
  const std::optional<Entry> timer = co_await store.get(keys.timer(due, run.place.uid, number));
  std::optional<RunWaitInfo> wait;
  if (timer) {
    wait.emplace();
    wait->kind = RunWaitInfo::Kind::kTime;
    wait->until = due;
  }
  co_return wait;
}

/// A child that has gone on as another run has its id still.
Task<std::optional<RunWaitInfo>> child_wait(Store& store, const record::RunOperation& operation) {
  std::optional<RunRow> child;
  if (operation.has_child()) {
    child = co_await detail::read_run(store, detail::place_of(operation.child()));
  }
  if (child && child->head.state() == record::RunHead::CONTINUED) {
    child = co_await detail::find_run(store, detail::id_of(child->head, child->place));
  }
  std::optional<RunWaitInfo> wait;
  if (child && !detail::has_ended(child->head)) {
    wait.emplace();
    wait->kind = RunWaitInfo::Kind::kChild;
    wait->name = detail::id_of(child->head, child->place);
    wait->child_type = child->head.type();
  }
  co_return wait;
}

Task<std::optional<RunWaitInfo>> lock_wait(Store& store, const record::RunOperation& operation) {
  std::optional<Entry> waiter;
  if (!operation.waiter_key().empty()) {
    waiter = co_await store.get(operation.waiter_key());
  }
  std::optional<RunWaitInfo> wait;
  if (waiter) {
    wait.emplace();
    wait->kind = RunWaitInfo::Kind::kLock;
    wait->name = operation.name();
    if (operation.due_ns() != 0) {
      wait->until = detail::time_of(operation.due_ns());
    }
  }
  co_return wait;
}

Task<std::vector<RunWaitInfo>> waits_of(Store& store, const RunRow& run, const Journal& journal) {
  const Begun begun = begun_by(journal);
  std::vector<RunWaitInfo> waits;
  if (journal.empty()) {
    waits.emplace_back().kind = RunWaitInfo::Kind::kStart;
    if (run.head.starts_at_ns() != 0) {
      waits.back().until = detail::time_of(run.head.starts_at_ns());
    }
  }
  for (const auto& [number, operation] : begun.operations) {
    std::optional<RunWaitInfo> wait;
    switch (operation.kind()) {
      case record::RunOperation::SLEEP:
        wait = co_await timer_wait(store, run, number, operation);
        break;
      case record::RunOperation::CHILD:
        wait = co_await child_wait(store, operation);
        break;
      case record::RunOperation::LOCK:
        wait = co_await lock_wait(store, operation);
        break;
      default:
        break;
    }
    if (wait) {
      waits.push_back(*std::move(wait));
    }
  }
  for (RunWaitInfo& wait : begun.signals.waits()) {
    waits.push_back(std::move(wait));
  }
  co_return waits;
}

// --- Who drives it -------------------------------------------------------------------------------

Task<std::optional<SessionInfo>> driver_of(Store& store, const RunRow& run) {
  const detail::PartitionKeys keys(run.place.queue, run.place.partition);
  const std::optional<Entry> row = co_await store.get(keys.owner());
  std::optional<Entry> session;
  if (row) {
    const auto owner = detail::read_row<record::RunPartition>(*row, "the partition of runs");
    if (!owner.session_key().empty()) {
      session = co_await store.get(owner.session_key());
    }
  }
  std::optional<SessionInfo> driver;
  if (session) {
    const StoreTime now = co_await store.time();
    driver = detail::read_session(*session, now);
  }
  co_return driver;
}

Task<std::size_t> count_engines(Store& store, std::string queue) {
  std::size_t count = 0;
  const Page engines = co_await store.scan(detail::engines_of(queue));
  for (const Entry& entry : engines.entries) {
    const auto engine = detail::read_row<record::RunEngine>(entry, "the engine");
    const std::optional<Entry> session = co_await store.get(engine.session_key());
    const StoreTime now = co_await store.time();
    if (detail::liveness(session, now) == detail::Liveness::kLive) {
      ++count;
    }
  }
  co_return count;
}

// --- All of it -----------------------------------------------------------------------------------

Task<std::optional<RunInspection>> inspect_by_id(Store& store, std::string id) {
  std::optional<RunInspection> inspection;
  const std::optional<RunRow> run = co_await detail::find_run(store, std::move(id));
  if (!run) {
    co_return inspection;
  }
  inspection.emplace();
  inspection->partition = run->place.partition;
  Journal journal;
  if (!detail::has_ended(run->head)) {
    journal = co_await detail::read_journal(store, *run);
    inspection->waits = co_await waits_of(store, *run, journal);
    inspection->driver = co_await driver_of(store, *run);
    inspection->engines = co_await count_engines(store, run->place.queue);
    if (run->head.deadline_ns() != 0) {
      inspection->deadline = detail::time_of(run->head.deadline_ns());
    }
  }
  inspection->run = co_await detail::describe_run(store, *run, journal);
  co_return inspection;
}

Task<std::optional<RunInfo>> find_info(Store& store, std::string id) {
  const std::optional<RunRow> run = co_await detail::find_run(store, std::move(id));
  std::optional<RunInfo> info;
  if (run) {
    info = detail::info_of(run->head, run->place);
  }
  co_return info;
}

std::string run_uid_of(GateTie tie, std::string_view actor) {
  constexpr std::string_view kRun = "run/";  // As `run_actor` writes it.
  const bool is_run = tie == GateTie::kNothing && actor.starts_with(kRun);
  return is_run ? std::string(actor.substr(kRun.size())) : std::string{};
}

}  // namespace

Task<std::optional<RunInspection>> inspect_run(Store& store, std::string_view id) {
  return inspect_by_id(store, std::string(id));
}

Task<std::optional<RunInfo>> find_run(Store& store, std::string_view id) {
  return find_info(store, std::string(id));
}

std::string run_uid_of(const GateHolderInfo& holder) {
  return run_uid_of(holder.tie, holder.actor);
}
std::string run_uid_of(const GateWaiterInfo& waiter) {
  return run_uid_of(waiter.tie, waiter.actor);
}
std::string run_uid_of(const GateGrantInfo& grant) { return run_uid_of(grant.tie, grant.actor); }

}  // namespace holdfast
