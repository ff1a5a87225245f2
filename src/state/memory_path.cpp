// SPDX-License-Identifier: Apache-2.0
// Changes of cells in memory: a line per cell, and a time-out for the wait and the work together.
#include <coroutine>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>

#include <holdfast/spawn.hpp>
#include <holdfast/state_error.hpp>
#include <holdfast/this_task.hpp>

#include "cell_slot.hpp"
#include "envelope.hpp"

namespace holdfast::detail {

namespace {

void finish(CellSlot& slot, const CellValue& current, CellValue next) {
  if (next == current) {
    return;
  }
  if (next) {
    check_storable(*next, slot.key());
  }
  slot.put(std::move(next));
}

void mutate_at_once(CellSlot& slot, CellMutator& mutator) {
  const CellValue current = slot.value();
  CellValue next;
  {
    const RunningMutation running(slot);
    next = mutator.next(current);
  }
  finish(slot, current, std::move(next));
}

Task<void> mutate_later(CellSlot& slot, CellMutator& mutator) {
  const CellValue current = slot.value();
  CellValue next;
  {
    const RunningMutation running(slot);
    Task<CellValue> making = mutator.next_later(current);
    next = co_await making;
  }
  finish(slot, current, std::move(next));
}

/// An update function that runs in a task of its own, so that the one who waits for it can leave.
class Flight {
 public:
  Flight(std::shared_ptr<CellSlot> slot, std::shared_ptr<CellMutator> mutator, Hold turn)
      : slot_(std::move(slot)),
        mutator_(std::move(mutator)),
        turn_(std::move(turn)),
        caller_(slot_->core(), *TaskContext::current()) {}

  static Task<void> fly(std::shared_ptr<Flight> flight) {
    flight->caller_.join();
    try {
      Task<void> mutation = mutate_later(*flight->slot_, *flight->mutator_);
      co_await mutation;
    } catch (...) {
      flight->failure_ = std::current_exception();
    }
    flight->leave();
    flight->turn_.release();
    flight->end_with(Ending::kEnded);
  }

  enum class Ending { kNone, kEnded, kTimedOut };
  /// Resumes `coroutine` at the end or the time-out, whichever is first, unless that has come.
  [[nodiscard]] bool wait(TaskContext& context, std::coroutine_handle<> coroutine) {
    const std::lock_guard lock(mutex_);
    if (ending_ == Ending::kNone) {
      waiting_context_ = &context;
      waiting_ = coroutine;
    }
    return ending_ == Ending::kNone;
  }
  void time_out() noexcept { end_with(Ending::kTimedOut); }

  [[nodiscard]] Ending ending() const {
    const std::lock_guard lock(mutex_);
    return ending_;
  }
  /// The one who waited does so no more.
  void leave() noexcept { caller_.cut(); }
  /// After its end.
  void rethrow_failure() {
    if (failure_) {
      std::rethrow_exception(std::move(failure_));
    }
  }

 private:
  void end_with(Ending ending) noexcept {
    TaskContext* context = nullptr;
    std::coroutine_handle<> waiting;
    {
      const std::lock_guard lock(mutex_);
      if (ending_ != Ending::kNone) {
        return;
      }
      ending_ = ending;
      context = waiting_context_;
      waiting = waiting_;
    }
    if (context != nullptr) {
      context->schedule(waiting);
    }
  }

  const std::shared_ptr<CellSlot> slot_;
  const std::shared_ptr<CellMutator> mutator_;
  Hold turn_;
  CallerLink caller_;
  std::exception_ptr failure_;

  mutable std::mutex mutex_;
  Ending ending_ = Ending::kNone;
  TaskContext* waiting_context_ = nullptr;
  std::coroutine_handle<> waiting_;
};

/// Waits for the end of a flight, until a deadline. A stop of the one who waits is handed on to the
/// flight, whose end is waited for all the same: its function may refer to what the caller owns.
class FlightEnd final : private Wait {
 public:
  FlightEnd(Flight& flight, Spawned<void>& runner, Clock& clock, TimePoint deadline)
      : flight_(flight), runner_(runner), clock_(clock), alarm_(flight) {
    clock_.arm(alarm_, deadline);
  }
  FlightEnd(const FlightEnd&) = delete;
  FlightEnd& operator=(const FlightEnd&) = delete;
  ~FlightEnd() { clock_.disarm(alarm_); }

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <TaskPromise Promise>
  bool await_suspend(std::coroutine_handle<Promise> task) {
    context_ = &task.promise().task_context();
    waits_ = context_->begin_wait(*this);
    if (!waits_) {
      runner_.request_stop();
    }
    return flight_.wait(*context_, task);
  }
  Flight::Ending await_resume() {
    if (waits_) {
      context_->end_wait();
    }
    return flight_.ending();
  }

 private:
  struct Alarm : Timer {
    explicit Alarm(Flight& its_flight) noexcept
        : Timer([](Timer& timer) noexcept { static_cast<Alarm&>(timer).flight.time_out(); }),
          flight(its_flight) {}
    Flight& flight;
  };

  void cancel() noexcept override { runner_.request_stop(); }

  Flight& flight_;
  Spawned<void>& runner_;
  Clock& clock_;
  Alarm alarm_;
  TaskContext* context_ = nullptr;
  bool waits_ = false;
};

Task<void> mutate_by(std::shared_ptr<CellSlot> slot, std::shared_ptr<CellMutator> mutator,
                     Hold turn, TimePoint deadline) {
  const auto flight = std::make_shared<Flight>(slot, std::move(mutator), std::move(turn));
  Spawned<void> runner = spawn(this_task::executor(), Flight::fly(flight), {.name = "cell update"});
  FlightEnd end(*flight, runner, this_task::clock(), deadline);
  const Flight::Ending ending = co_await end;
  flight->leave();
  if (ending == Flight::Ending::kTimedOut) {
    throw MutationTimeout(slot->key(), true);
  }
  flight->rethrow_failure();
}

Task<Hold> take_turn(CellSlot& slot, std::optional<TimePoint> deadline) {
  try {
    Hold turn = co_await slot.line().lock({.deadline = deadline});
    co_return std::move(turn);
  } catch (const TimedOut&) {
    throw MutationTimeout(slot.key(), false);
  }
}

}  // namespace

Task<void> mutate_in_memory(std::shared_ptr<CellSlot> slot, std::shared_ptr<CellMutator> mutator) {
  refuse_reentry(*slot);
  const std::optional<Duration> timeout = slot->core().options().mutation_timeout;
  std::optional<TimePoint> deadline;
  if (timeout) {
    deadline = this_task::clock().now() + *timeout;
  }
  Task<Hold> taking = take_turn(*slot, deadline);
  Hold turn = co_await taking;
  if (!mutator->suspends()) {
    mutate_at_once(*slot, *mutator);
  } else if (deadline) {
    Task<void> mutation = mutate_by(slot, std::move(mutator), std::move(turn), *deadline);
    co_await mutation;
  } else {
    Task<void> mutation = mutate_later(*slot, *mutator);
    co_await mutation;
  }
}

}  // namespace holdfast::detail
