// SPDX-License-Identifier: Apache-2.0
#include "run_machine.hpp"

#include <coroutine>
#include <utility>

#include <holdfast/detail/check.hpp>

#include "run_failure.hpp"
#include "run_payload.hpp"
#include "stable_hash.hpp"

namespace holdfast::detail {

namespace {

/// A small generator of good quality, whose state is one number (SplitMix64).
std::uint64_t next_random(std::uint64_t& state) noexcept {
  state += 0x9e3779b97f4a7c15U;
  std::uint64_t mixed = state;
  mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9U;
  mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebU;
  return mixed ^ (mixed >> 31U);
}

std::string text_of(const record::RunOperation& operation) {
  switch (operation.kind()) {
    case record::RunOperation::STEP:
      return "step '" + operation.name() + "'";
    case record::RunOperation::SLEEP:
      return "a sleep";
    case record::RunOperation::SIGNAL:
      return "a wait for signal '" + operation.name() + "'";
    case record::RunOperation::VERSION:
      return "version of '" + operation.name() + "'";
    default:
      return "an operation of a later version";
  }
}

}  // namespace

/// The coroutine around the workflow's own. It belongs to the machine, which can destroy it
/// wherever it stands.
class RunMachine::Root {
 public:
  class promise_type : public PromiseBase {
   public:
    Root get_return_object() noexcept {
      return Root(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }
    [[nodiscard]] std::suspend_always final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() const noexcept { std::terminate(); }
  };

  explicit Root(std::coroutine_handle<promise_type> coroutine) noexcept : coroutine_(coroutine) {}
  Root(Root&& other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
  Root& operator=(Root&&) = delete;
  ~Root() {
    if (coroutine_) {
      coroutine_.destroy();
    }
  }
  void start(TaskContext& task) noexcept {
    coroutine_.promise().set_root(task);
    task.schedule(coroutine_);
  }

 private:
  std::coroutine_handle<promise_type> coroutine_;
};

Clock& RunMachine::Activator::clock() noexcept {
  check_failed("nothing in a run reads a clock", "a run asked for a clock", __FILE__, __LINE__);
}

void RunMachine::Activator::drain() noexcept {
  while (!ready_.empty()) {
    Work& work = ready_.pop();
    work.run(work);
  }
}

RunMachine::RunMachine(const WorkflowCode& code, Facts facts)
    : code_(code),
      facts_(std::move(facts)),
      task_(activator_, facts_.id),
      random_state_(stable_hash(facts_.id)) {}

RunMachine::~RunMachine() = default;

// --- Activations ---------------------------------------------------------------------------------

Activated RunMachine::activate(StoreTime now, std::vector<record::RunEvent> events) {
  HOLDFAST_CHECK(!ended_, "a run was activated after its end");
  now_ = now;
  row_ = activations_++;
  first_of_activation_ = next_operation_;
  current_ = {};
  current_.record.set_format(kRunFormat);
  current_.record.set_now_ns(now.time_since_epoch().count());
  for (record::RunEvent& event : events) {
    deliver(event);
    *current_.record.add_events() = std::move(event);
  }
  return std::exchange(current_, {});
}

Activated RunMachine::replay(const record::Activation& row) {
  expected_ = &row;
  const auto& events = row.events();
  if (ended_) {
    row_ = activations_;
    stray(events.empty() ? "an activation" : "another event", "the end of the workflow");
  } else {
    Activated again = activate(StoreTime(Duration(row.now_ns())), {events.begin(), events.end()});
    const auto begun = static_cast<std::uint64_t>(again.record.operations_size());
    if (!strayed_ && begun < static_cast<std::uint64_t>(row.operations_size())) {
      stray(text_of(row.operations(static_cast<int>(begun))), "nothing");
    }
    if (!strayed_) {
      expected_ = nullptr;
      return again;
    }
  }
  throw NondeterminismError(*strayed_);
}

void RunMachine::deliver(const Event& event) {
  if (strayed_) {
    return;
  }
  switch (event.kind()) {
    case Event::STARTED:
      start();
      break;
    case Event::STEP_ENDED:
    case Event::TIMER_FIRED:
      settle(event);
      break;
    case Event::SIGNALLED:
      take_signal(event);
      break;
    case Event::CANCEL_REQUESTED:
      task_.request_stop();
      break;
    default:
      throw NewerFormat("the journal of run '" + facts_.id +
                        "' has an event of a later version of Holdfast; use a newer one");
  }
  activator_.drain();
}

void RunMachine::start() {
  HOLDFAST_CHECK(root_ == nullptr, "a run was started twice");
  root_ = std::make_unique<Root>(run_root(*this));
  root_->start(task_);
}

RunMachine::Root RunMachine::run_root(RunMachine& machine) {
  RunEnd end;
  {
    Result<boost::json::value> result;
    Capture<boost::json::value> capture{machine.code_.run(machine.context_, machine.facts_.input),
                                        result};
    co_await capture;
    if (result.failed()) {
      end.error = result.exception();
    } else {
      end.value = result.take_value();
    }
  }
  machine.ended_ = true;
  machine.current_.end = std::move(end);
}

void RunMachine::settle(const Event& event) {
  const auto found = pending_.find(event.operation());
  if (found == pending_.end()) {
    return;  // It was cancelled meanwhile, or has ended in another way.
  }
  const std::shared_ptr<RunOperation> operation = std::move(found->second);
  pending_.erase(found);
  if (event.has_failure()) {
    operation->fail(exception_of(event.failure()));
  } else {
    operation->settle(parse_payload(event.payload()));
  }
}

void RunMachine::take_signal(const Event& event) {
  Signals& signals = signals_[event.name()];
  boost::json::value payload = parse_payload(event.payload());
  while (!signals.awaited.empty()) {
    const std::shared_ptr<RunOperation> operation = std::move(signals.awaited.front());
    signals.awaited.pop_front();
    const bool someone_waits = !operation->is_cancelled() && operation.use_count() > 1;
    if (someone_waits) {
      operation->settle(std::move(payload));
      return;
    }
  }
  signals.kept.push_back(std::move(payload));
}

// --- What the code begins ------------------------------------------------------------------------

std::uint64_t RunMachine::random() noexcept { return next_random(random_state_); }

const record::RunOperation* RunMachine::expected() const noexcept {
  const std::uint64_t index = next_operation_ - first_of_activation_;
  if (expected_ == nullptr || index >= static_cast<std::uint64_t>(expected_->operations_size())) {
    return nullptr;
  }
  return &expected_->operations(static_cast<int>(index));
}

std::int64_t RunMachine::version(std::string_view change, std::int64_t oldest,
                                 std::int64_t newest) {
  record::RunOperation operation;
  operation.set_kind(record::RunOperation::VERSION);
  operation.set_name(std::string(change));
  operation.set_value(newest);
  if (is_replaying()) {
    const record::RunOperation* recorded = expected();
    if (recorded == nullptr || recorded->kind() != record::RunOperation::VERSION ||
        recorded->name() != change) {
      return oldest;  // It was here before the question was.
    }
    operation.set_value(recorded->value());
  }
  static_cast<void>(begin(operation));
  if (operation.value() < oldest || operation.value() > newest) {
    stray("version " + std::to_string(operation.value()) + " of '" + std::string(change) + "'",
          "code for versions " + std::to_string(oldest) + " to " + std::to_string(newest));
  }
  return operation.value();
}

std::shared_ptr<RunOperation> RunMachine::begin(record::RunOperation operation) {
  check_against_journal(operation);
  auto begun = std::make_shared<RunOperation>(next_operation_++);
  *current_.record.add_operations() = std::move(operation);
  return begun;
}

void RunMachine::check_against_journal(const record::RunOperation& operation) {
  if (!is_replaying() || strayed_) {
    return;
  }
  const record::RunOperation* recorded = expected();
  if (recorded == nullptr) {
    stray("nothing more", text_of(operation));
  } else if (recorded->kind() != operation.kind() || recorded->name() != operation.name()) {
    stray(text_of(*recorded), text_of(operation));
  }
}

/// From here on nothing that the code does counts, and nothing it waits for happens.
void RunMachine::stray(std::string expected, std::string found) {
  if (!strayed_) {
    std::string text("run '");
    text.append(facts_.id).append("' (").append(facts_.type).append("): at row ");
    text.append(std::to_string(row_)).append(" of the journal, operation ");
    text.append(std::to_string(next_operation_)).append(", it has ").append(expected);
    text.append(", and the code comes to ").append(found);
    strayed_ = std::move(text);
  }
}

std::shared_ptr<RunOperation> RunMachine::begin_step(std::string_view name,
                                                     std::unique_ptr<StepCode> code) {
  record::RunOperation record;
  record.set_kind(record::RunOperation::STEP);
  record.set_name(std::string(name));
  auto operation = begin(std::move(record));
  pending_.emplace(operation->number(), operation);
  current_.steps.push_back({operation->number(), std::string(name), std::move(code), {}});
  return operation;
}

std::shared_ptr<RunOperation> RunMachine::begin_timer(StoreTime due) {
  record::RunOperation record;
  record.set_kind(record::RunOperation::SLEEP);
  record.set_due_ns(due.time_since_epoch().count());
  auto operation = begin(std::move(record));
  if (due <= now_) {
    operation->settle(nullptr);
    return operation;
  }
  pending_.emplace(operation->number(), operation);
  current_.timers.push_back({operation->number(), due});
  return operation;
}

std::shared_ptr<RunOperation> RunMachine::begin_signal(std::string_view name) {
  record::RunOperation record;
  record.set_kind(record::RunOperation::SIGNAL);
  record.set_name(std::string(name));
  auto operation = begin(std::move(record));
  Signals& signals = signals_[std::string(name)];
  if (signals.kept.empty()) {
    signals.awaited.push_back(operation);
    return operation;
  }
  operation->settle(std::move(signals.kept.front()));
  signals.kept.pop_front();
  return operation;
}

}  // namespace holdfast::detail
