// SPDX-License-Identifier: Apache-2.0
#include "run_machine.hpp"

#include <algorithm>
#include <coroutine>
#include <utility>

#include <holdfast/detail/check.hpp>
#include <holdfast/detail/frame_allocator.hpp>
#include <holdfast/store_error.hpp>

#include "run_failure.hpp"
#include "run_gates.hpp"
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
    case record::RunOperation::CHILD:
      return "child '" + operation.name() + "'";
    case record::RunOperation::STATE:
      return "a use of cell '" + operation.name() + "'";
    case record::RunOperation::LOCK:
      return "lock '" + operation.name() + "'";
    case record::RunOperation::TELL:
      return "word of '" + operation.name() + "'";
    case record::RunOperation::GATE:
      return "a use of gate '" + operation.name() + "'";
    default:
      return "an operation of a later version";
  }
}

/// Puts back what a question from outside has used up.
class Restored {
 public:
  explicit Restored(std::uint64_t& number) noexcept : number_(number), before_(number) {}
  Restored(const Restored&) = delete;
  Restored& operator=(const Restored&) = delete;
  ~Restored() { number_ = before_; }

 private:
  std::uint64_t& number_;
  std::uint64_t before_;
};

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

  /// Whoever has it destroys it.
  [[nodiscard]] std::coroutine_handle<> start(TaskContext& task) const noexcept {
    coroutine_.promise().set_root(task);
    task.schedule(coroutine_);
    return coroutine_;
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

/// While it lives, the code that runs may look, and not begin anything.
class RunMachine::NoOperations {
 public:
  NoOperations(RunMachine& machine, const char* where) noexcept
      : machine_(machine), outer_(std::exchange(machine.no_operations_in_, where)) {}
  NoOperations(const NoOperations&) = delete;
  NoOperations& operator=(const NoOperations&) = delete;
  ~NoOperations() { machine_.no_operations_in_ = outer_; }

 private:
  RunMachine& machine_;
  const char* outer_;
};

namespace {

RunMachine::Facts complete(RunMachine::Facts facts) {
  if (facts.uid.empty()) {
    facts.uid = facts.id;
  }
  if (facts.root_uid.empty()) {
    facts.root_uid = facts.root_id.empty() ? facts.id : facts.root_id;
  }
  return facts;
}

UpdateReply reply_of(const record::RunAnswer& answer) {
  UpdateReply reply{answer.request(), nullptr, nullptr};
  if (answer.has_failure()) {
    reply.error = answer_exception_of(answer.failure());
  } else {
    reply.value = parse_payload(answer.payload());
  }
  return reply;
}

record::RunAnswer answer_of(const UpdateReply& reply) {
  record::RunAnswer answer;
  answer.set_request(reply.request);
  if (reply.error) {
    *answer.mutable_failure() = failure_of(reply.error);
  } else {
    answer.set_payload(payload_text(reply.value));
  }
  return answer;
}

/// An answer that is too long to be passed on.
record::RunAnswer forgotten_answer(const std::string& request) {
  const OutcomeUnknown forgotten(
      "update '" + request +
      "' was made by an earlier run of the chain, and what it answered is not known any more: "
      "query the run, and do not send it again");
  record::RunAnswer answer;
  answer.set_request(request);
  *answer.mutable_failure() = failure_of(std::make_exception_ptr(forgotten));
  return answer;
}

}  // namespace

RunMachine::RunMachine(const WorkflowCode& code, Facts facts)
    : code_(code),
      facts_(complete(std::move(facts))),
      task_(activator_, facts_.id),
      random_state_(stable_hash(facts_.random_uid.empty() ? facts_.uid : facts_.random_uid)) {
  signals_.know(facts_.requests_done);
  for (const record::RunAnswer& answer : facts_.answers) {
    updates_.add(answer.request(), reply_of(answer));
  }
}

RunMachine::~RunMachine() {
  if (root_) {
    root_.destroy();
  }
}

// --- Activations ---------------------------------------------------------------------------------

/// Of the locks that are lost, those that come first; how many. Before what was held, so that
/// nothing is done any more under a lock that is gone.
template <class Events>
std::size_t RunMachine::deliver_losses(const Events& events) {
  std::size_t count = 0;
  for (const Event& event : events) {
    if (event.kind() != Event::LOCK_LOST) {
      break;
    }
    deliver(event);
    ++count;
  }
  return count;
}

Activated RunMachine::activate_from(StoreTime now, std::span<record::RunEvent> events) {
  HOLDFAST_CHECK(!ended_, "a run was activated after its end");
  for (const Event& event : events) {
    check_is_known(event);
  }
  begin_activation(now);
  current().record.set_format(kRunFormat);
  current().record.set_now_ns(now.time_since_epoch().count());
  const std::size_t losses = deliver_losses(events);
  if (losses > 0 && has_held()) {
    current().record.set_losses_first(true);
  }
  deliver_held();
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (i >= losses) {
      if (ended_) {
        break;  // It is none of this run any more.
      }
      deliver(events[i]);
    }
    *current().record.add_events() = std::move(events[i]);
  }
  return end_activation();
}

Activated RunMachine::replay(const record::Activation& row) {
  for (const Event& event : row.events()) {
    check_is_known(event);
  }
  expected_ = &row;
  if (ended_) {
    row_ = activations_;
    stray(row.events().empty() ? "an activation" : "another event", "the end of the workflow");
    throw NondeterminismError(*strayed_);
  }
  begin_activation(StoreTime(Duration(row.now_ns())));
  const std::size_t losses = row.losses_first() ? deliver_losses(row.events()) : 0;
  deliver_held();
  for (std::size_t i = losses; i < static_cast<std::size_t>(row.events_size()); ++i) {
    deliver(row.events(static_cast<int>(i)));
  }
  const std::uint64_t begun = next_operation_ - first_of_activation_;
  if (begun < static_cast<std::uint64_t>(row.operations_size())) {
    stray(text_of(row.operations(static_cast<int>(begun))), "nothing");
  }
  if (strayed_) {
    throw NondeterminismError(*strayed_);
  }
  expected_ = nullptr;
  held_.assign(row.held().begin(), row.held().end());
  return end_activation();
}

void RunMachine::hold(std::vector<record::RunEvent> events) {
  HOLDFAST_CHECK(held_.empty(), "events were held twice for one activation");
  held_ = std::move(events);
}

void RunMachine::begin_activation(StoreTime now) {
  now_ = now;
  row_ = activations_++;
  first_of_activation_ = next_operation_;
}

Activated RunMachine::end_activation() {
  withdraw_given_up();
  Activated done = std::move(current());
  current_.reset();
  if (done.end && done.end->continue_with) {
    done.end->requests_done = signals_.requests_done();
    done.end->signals_left = signals_.take_kept();
    done.end->answers = last_answers();
  }
  return done;
}

Activated& RunMachine::current() {
  if (current_ == nullptr) {
    current_ = std::make_unique<Activated>();
  }
  return *current_;
}

void RunMachine::deliver_held() {
  const std::vector<Event> held = std::exchange(held_, {});
  for (const Event& event : held) {
    deliver(event);
  }
}

void RunMachine::check_is_known(const Event& event) const {
  if (event.kind() == Event::UNKNOWN || !Event::Kind_IsValid(event.kind())) {
    throw NewerFormat("the journal of run '" + facts_.id +
                      "' has an event of a later version of Holdfast; use a newer one");
  }
}

void RunMachine::deliver(const Event& event) {
  if (strayed_ || ended_) {
    return;
  }
  switch (event.kind()) {
    case Event::STARTED:
      start();
      break;
    case Event::STEP_ENDED:
    case Event::TIMER_FIRED:
    case Event::CHILD_ENDED:
    case Event::STATE_SETTLED:
    case Event::LOCK_SETTLED:
    case Event::GATE_SETTLED:
      settle(event);
      break;
    case Event::WAIT_REFUSED:
      refuse_wait(event);
      break;
    case Event::LOCK_LOST:
      lose_lock(event.operation());
      break;
    case Event::CHILD_STARTED:
      permit_began(event.operation());
      break;
    case Event::CHILD_TOLD:
      permit_told(event);
      break;
    case Event::SIGNALLED:
      take_signal(event);
      break;
    case Event::UPDATED:
      take_update(event);
      break;
    case Event::CANCEL_REQUESTED:
      task_.request_stop();
      break;
    default:
      check_is_known(event);
  }
  go_on();
}

/// Until all of the code waits for something that has not happened.
void RunMachine::go_on() {
  do {
    activator_.drain();
  } while (settle_conditions());
}

void RunMachine::limit_steps(std::vector<Limit> limits) {
  HOLDFAST_CHECK(!root_, "the steps of a run were limited after its start");
  facts_.step_limits = std::move(limits);
}

void RunMachine::start() {
  HOLDFAST_CHECK(!root_, "a run was started twice");
  root_ = run_root(*this).start(task_);
}

RunMachine::Root RunMachine::run_root(RunMachine& machine) {
  RunEnd end;
  {
    Result<boost::json::value> result;
    Capture<boost::json::value> capture{machine.code_.run(machine.context_, machine.facts_.input),
                                        result};
    co_await capture;
    end = machine.end_of(result);
  }
  machine.ended_ = true;
  // They may refer to what has gone with the code.
  machine.signals_.forget_handlers();
  machine.handlers_.forget();
  machine.conditions_.clear();
  machine.current().end = std::move(end);
}

RunEnd RunMachine::end_of(Result<boost::json::value>& result) {
  RunEnd end;
  if (continue_with_) {
    end.continue_with = std::move(continue_with_);
  } else if (!result.failed()) {
    end.value = result.take_value();
    try {
      end.text = payload_text(end.value, "the result of the run");
    } catch (const BadPayload&) {
      end.value = nullptr;
      end.error = std::current_exception();
    }
  } else {
    end.error = result.exception();
    if (handler_error_ && failure_of(end.error).code() == static_cast<int>(ErrorCode::kCancelled)) {
      end.error = handler_error_;  // That is why it was stopped.
    }
  }
  return end;
}

// --- Events --------------------------------------------------------------------------------------

void RunMachine::settle(const Event& event) {
  if (event.kind() == Event::CHILD_ENDED && end_permit(event)) {
    return;
  }
  const Operation operation = pending_.take(event.operation());
  if (operation == nullptr) {
    return;  // It was given up meanwhile, or has ended in another way.
  }
  if (locks_.contains(event.operation())) {
    settle_lock(event, *operation);
  } else if (!event.has_failure()) {
    const bool is_time_up = event.kind() == Event::TIMER_FIRED;
    operation->settle(is_time_up ? boost::json::value(false) : parse_payload(event.payload()));
  } else if (event.kind() == Event::CHILD_ENDED) {
    operation->fail(child_exception_of(event.failure()));
  } else if (event.kind() == Event::STATE_SETTLED) {
    operation->fail(state_exception_of(event.failure()));
  } else if (event.kind() == Event::GATE_SETTLED) {
    operation->fail(lock_exception_of(event.failure(), event.payload()));
  } else {
    operation->fail(exception_of(event.failure()));
  }
}

void RunMachine::settle_lock(const Event& event, RunOperation& operation) {
  if (event.kind() == Event::TIMER_FIRED) {
    const std::string gate = locks_.at(event.operation()).gate;
    release_lock(event.operation());
    operation.fail(std::make_exception_ptr(
        TimedOut("'" + gate + "': the deadline passed while run '" + facts_.id + "' waited")));
  } else if (event.has_failure()) {
    locks_.erase(event.operation());
    operation.fail(lock_exception_of(event.failure(), event.payload()));
  } else {
    boost::json::value granted = grant_value(event.payload());
    if (granted.is_null()) {
      locks_.erase(event.operation());
    }
    operation.settle(std::move(granted));
  }
}

/// The child is asked to stop, as any that nobody waits for any more.
void RunMachine::refuse_wait(const Event& event) {
  if (const Operation operation = pending_.take(event.operation())) {
    current().given_up.push_back(event.operation());
    operation->fail(lock_exception_of(event.failure(), event.payload()));
  }
}

void RunMachine::lose_lock(std::uint64_t operation) {
  if (const auto lock = locks_.find(operation); lock != locks_.end()) {
    lock->second.is_lost = true;
  }
  for (const auto& [child, permit] : permits_) {
    if (permit->lock == operation && permit->phase == RunPermit::Phase::kHeld) {
      lose_permit(*permit);
      return;
    }
  }
}

void RunMachine::take_signal(const Event& event) {
  const NoOperations only_looks(*this, "a handler of signals");
  try {
    signals_.take(event);
  } catch (const StoreCorrupt&) {
    throw;
  } catch (...) {
    if (!handler_error_) {
      handler_error_ = std::current_exception();
    }
    task_.request_stop();
  }
}

void RunMachine::take_update(const Event& event) {
  if (!event.request().empty()) {
    if (const UpdateReply* known = updates_.find(event.request())) {
      current().replies.push_back(*known);
      return;
    }
  }
  boost::json::value argument = parse_payload(event.payload());
  UpdateReply reply{event.request(), nullptr, nullptr};
  try {
    check_has_not_ended("takes no updates");
    const NoOperations only_looks(*this, "a handler of updates");
    reply.value = handlers_.update(facts_.id, event.name(), std::move(argument));
    static_cast<void>(payload_text(reply.value, "the answer to update '" + event.name() + "'"));
  } catch (...) {
    reply.value = nullptr;
    reply.error = std::current_exception();
  }
  if (!event.request().empty()) {
    updates_.add(event.request(), reply);
  }
  current().replies.push_back(std::move(reply));
}

std::vector<record::RunAnswer> RunMachine::last_answers() const {
  std::vector<record::RunAnswer> answers;
  const std::vector<std::string> requests = updates_.last(kRequestsPassedOnMax);
  std::size_t bytes = 0;
  for (auto request = requests.rbegin(); request != requests.rend(); ++request) {
    record::RunAnswer answer = answer_of(*updates_.find(*request));
    bytes += answer.payload().size() + answer.failure().message().size();
    answers.push_back(bytes <= kAnswerBytesPassedOnMax ? std::move(answer)
                                                       : forgotten_answer(*request));
  }
  std::reverse(answers.begin(), answers.end());
  return answers;
}

/// One at a time, so that what the predicate said still holds when its code goes on. False: none
/// was true.
bool RunMachine::settle_conditions() {
  bool any = false;
  for (Condition& condition : conditions_) {
    Operation& operation = condition.operation;
    const bool is_waited_for =
        operation.use_count() > 1 && !operation->is_settled() && !operation->is_cancelled();
    if (!is_waited_for) {
      operation.reset();
      condition.predicate = nullptr;
      continue;
    }
    bool is_true = true;
    try {
      const NoOperations only_looks(*this, "a predicate of wait_until");
      is_true = condition.predicate();
      if (is_true) {
        operation->settle(true);
      }
    } catch (...) {
      operation->fail(std::current_exception());
    }
    if (is_true) {
      stop_waiting_for(operation->number());
      operation.reset();
      condition.predicate = nullptr;
      any = true;
      activator_.drain();
      if (ended_) {
        break;  // With its end, they have gone.
      }
    }
  }
  std::erase_if(conditions_, [](const Condition& one) { return one.operation == nullptr; });
  return any;
}

bool RunMachine::give_up(const RunOperation& operation) noexcept {
  const bool is_under_way = operation.number() < first_of_activation_;
  if (operation.must_end() && is_under_way) {
    current().unwanted.push_back(operation.number());
    return false;
  }
  stop_waiting_for(operation.number());
  return true;
}

void RunMachine::stop_waiting_for(std::uint64_t operation) noexcept {
  if (pending_.take(operation) == nullptr) {
    return;
  }
  locks_.erase(operation);
  (operation >= first_of_activation_ ? withdrawn_ : current().given_up).push_back(operation);
}

/// What was begun and given up at once has not been begun.
void RunMachine::withdraw_given_up() {
  if (withdrawn_.empty()) {
    return;
  }
  std::sort(withdrawn_.begin(), withdrawn_.end());
  const auto is_withdrawn = [this](const auto& one) {
    return std::binary_search(withdrawn_.begin(), withdrawn_.end(), one.operation);
  };
  Activated& begun = current();
  std::erase_if(begun.steps, is_withdrawn);
  std::erase_if(begun.timers, is_withdrawn);
  std::erase_if(begun.children, is_withdrawn);
  std::erase_if(begun.state, is_withdrawn);
  std::erase_if(begun.locks, is_withdrawn);
  std::erase_if(begun.uses, is_withdrawn);
  withdrawn_.clear();
}

void RunMachine::fetch_ahead(FetchStep step) const noexcept {
  constexpr std::size_t kOfFrame = 512;
  if (step == FetchStep::kParts) {
    pending_.fetch_ahead();
    detail::fetch_ahead(facts_.uid.data());
    detail::fetch_ahead(facts_.id.data());
    if (!locks_.empty()) {
      detail::fetch_ahead(&*locks_.begin(), sizeof(*locks_.begin()));
    }
    if (root_) {
      detail::fetch_ahead(root_.address(), kOfFrame);
    }
  } else if (const RunOperation* const first = pending_.first(); first != nullptr) {
    if (step == FetchStep::kOperation) {
      detail::fetch_ahead(first, sizeof(RunOperation));
    } else {
      detail::fetch_ahead(first->waiting_frame(), kOfFrame);
    }
  }
}

// --- Questions from outside ----------------------------------------------------------------------

void RunMachine::check_has_not_ended(const char* so) const {
  if (ended_) {
    throw NoSuchHandler("run '" + facts_.id + "' has ended, and " + so);
  }
}

boost::json::value RunMachine::query(std::string_view name, boost::json::value payload) {
  check_has_not_ended("answers no queries");
  const NoOperations only_looks(*this, "a handler of queries");
  const Restored random(random_state_);
  return handlers_.query(facts_.id, name, std::move(payload));
}

void RunMachine::check_update(std::string_view name, boost::json::value payload) {
  check_has_not_ended("takes no updates");
  const NoOperations only_looks(*this, "a validator of updates");
  const Restored random(random_state_);
  handlers_.check_update(facts_.id, name, std::move(payload));
}

void RunMachine::on_signal(std::string_view name, RunHandler handler) {
  check_may_begin();
  const NoOperations only_looks(*this, "a handler of signals");
  signals_.handle(name, std::move(handler));
}

void RunMachine::on_update(std::string_view name, RunHandler handler, RunHandler validator) {
  check_may_begin();
  handlers_.on_update(name, std::move(handler), std::move(validator));
}

void RunMachine::on_query(std::string_view name, RunHandler handler) {
  check_may_begin();
  handlers_.on_query(name, std::move(handler));
}

// --- What the code begins ------------------------------------------------------------------------

std::uint64_t RunMachine::random() noexcept { return next_random(random_state_); }

void RunMachine::check_may_begin() {
  if (no_operations_in_ != nullptr) {
    throw WrongContext("run '" + facts_.id + "': " + no_operations_in_ +
                       " begins an operation; it may look at what the workflow knows, and note "
                       "what came, and the workflow goes on from there");
  }
  if (continue_with_) {
    throw ContinueAsNew{};
  }
  for (auto& [operation, lock] : locks_) {
    if (lock.is_lost && !std::exchange(lock.is_told, true)) {
      throw StaleFence("run '" + facts_.id + "' does not have the lock '" + lock.gate +
                       "' any more: an operator has released it");
    }
  }
  if (next_operation_ - first_of_activation_ >= kOperationsAtOnceMax) {
    throw Unsatisfiable(
        "run '" + facts_.id + "' begins more than " + std::to_string(kOperationsAtOnceMax) +
        " operations without waiting for anything: is there a loop without an end?");
  }
}

void RunMachine::continue_as_new(boost::json::value input) {
  check_may_begin();
  static_cast<void>(payload_text(input, "the input of continue_as_new"));
  continue_with_ = std::move(input);
  throw ContinueAsNew{};
}

const record::RunOperation* RunMachine::expected() const noexcept {
  const std::uint64_t index = next_operation_ - first_of_activation_;
  if (expected_ == nullptr || index >= static_cast<std::uint64_t>(expected_->operations_size())) {
    return nullptr;
  }
  return &expected_->operations(static_cast<int>(index));
}

std::int64_t RunMachine::version(std::string_view change, std::int64_t oldest,
                                 std::int64_t newest) {
  if (oldest > newest) {
    throw InvalidArgument("version '" + std::string(change) + "': oldest is " +
                          std::to_string(oldest) + ", and newest " + std::to_string(newest));
  }
  std::int64_t value = newest;
  if (is_replaying()) {
    const record::RunOperation* recorded = expected();
    if (recorded == nullptr || recorded->kind() != record::RunOperation::VERSION ||
        recorded->name() != change) {
      return oldest;  // It was here before the question was.
    }
    value = recorded->value();
  }
  static_cast<void>(begin(record::RunOperation::VERSION, change));
  if (!is_replaying()) {
    last_record().set_value(value);
  }
  if (value < oldest || value > newest) {
    stray("version " + std::to_string(value) + " of '" + std::string(change) + "'",
          "code for versions " + std::to_string(oldest) + " to " + std::to_string(newest));
  }
  return value;
}

RunMachine::Operation RunMachine::begin(Kind kind, std::string_view name) {
  check_may_begin();
  if (is_replaying()) {
    check_against_journal(kind, name);
  } else {
    record::RunOperation& record = *current().record.add_operations();
    record.set_kind(kind);
    record.set_name(name.data(), name.size());
  }
  return std::allocate_shared<RunOperation>(FrameAllocator<RunOperation>(), *this,
                                            next_operation_++);
}

record::RunOperation& RunMachine::last_record() {
  return *current().record.mutable_operations(current().record.operations_size() - 1);
}

void RunMachine::check_against_journal(Kind kind, std::string_view name) {
  if (strayed_) {
    return;
  }
  const record::RunOperation* recorded = expected();
  if (recorded != nullptr && recorded->kind() == kind && recorded->name() == name) {
    return;
  }
  record::RunOperation begun;
  begun.set_kind(kind);
  begun.set_name(std::string(name));
  stray(recorded == nullptr ? "nothing more" : text_of(*recorded), text_of(begun));
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

std::vector<std::string> RunMachine::waits_for() const {
  std::vector<std::string> waits;
  for (const auto& [operation, lock] : locks_) {
    if (pending_.contains(operation)) {
      waits.push_back("lock '" + lock.gate + "'");
    }
  }
  for (const std::string& name : signals_.awaited()) {
    waits.push_back("signal '" + name + "'");
  }
  if (!conditions_.empty()) {
    std::string text("a wait_until whose predicate is false");
    for (const std::string& name : signals_.handled()) {
      text.append(", which a signal '").append(name).append("' might change");
    }
    waits.push_back(std::move(text));
  }
  return waits;
}

RunMachine::Operation RunMachine::begin_condition(std::function<bool()> predicate,
                                                  std::optional<Duration> timeout) {
  check_may_begin();
  bool is_true = false;
  {
    const NoOperations only_looks(*this, "a predicate of wait_until");
    is_true = predicate();
  }
  if (is_true || !timeout) {
    // The journal need not know it: what the predicate says follows from what it knows.
    auto operation = std::make_shared<RunOperation>(*this, RunOperation::kNoNumber);
    if (!is_true) {
      conditions_.push_back({operation, std::move(predicate)});
    } else if (!strayed_) {
      operation->settle(true);
    }
    return operation;
  }
  Operation operation = begin_timer(now_ + *timeout);
  if (!operation->is_settled()) {
    conditions_.push_back({operation, std::move(predicate)});
  }
  return operation;
}

}  // namespace holdfast::detail
