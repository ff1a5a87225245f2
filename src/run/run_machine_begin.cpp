// SPDX-License-Identifier: Apache-2.0
// The operations that the code of a run begins.
#include <algorithm>
#include <limits>
#include <utility>

#include "gate/gate_keys.hpp"
#include "run_machine.hpp"
#include "run_payload.hpp"

namespace holdfast::detail {

namespace {

void check_name(std::string_view what, std::string_view name) {
  if (name.empty() || name.size() > kOperationNameBytesMax) {
    std::string text("the name of ");
    text.append(what).append(" has ").append(std::to_string(name.size()));
    text.append(" bytes; give 1 to ").append(std::to_string(kOperationNameBytesMax));
    throw InvalidArgument(text);
  }
}

LockTerms terms_of(const Limit& limit, std::string_view step) {
  static_cast<void>(GateKeys(limit.name()));
  LockTerms terms;
  terms.gate = limit.name();
  terms.definition = limit.definition();
  terms.reason.append("step '").append(step).append("'");
  terms.queue_max = std::numeric_limits<std::uint64_t>::max();
  return terms;
}

/// By name, so that no two steps wait for each other; but a name that others begin with comes after
/// those: who waits for the permit of a key does not keep one of all from the other keys.
bool is_taken_before(std::string_view one, std::string_view other) {
  const bool is_longer = one.size() > other.size() && one.starts_with(other);
  const bool is_shorter = one.size() < other.size() && other.starts_with(one);
  return is_longer || (!is_shorter && one < other);
}

}  // namespace

StepLimits RunMachine::limits_of(std::string_view step, const StepOptions& options) const {
  StepLimits limits;
  for (const Limit& limit : facts_.step_limits) {
    LockTerms& of_run = limits.wanted.emplace_back(terms_of(limit, step));
    of_run.priority = facts_.step_priority;
    of_run.as_stored = true;
  }
  if (options.limit != nullptr) {
    LockTerms own = terms_of(*options.limit, step);
    own.weight = options.limit_weight;
    own.priority = options.limit_priority;
    std::erase_if(limits.wanted, [&](const LockTerms& other) { return other.gate == own.gate; });
    limits.wanted.push_back(std::move(own));
  }
  const std::string own =
      options.limit != nullptr ? options.limit->name() : facts_.step_limits.front().name();
  std::ranges::sort(limits.wanted, is_taken_before, &LockTerms::gate);
  const auto place = std::ranges::find(limits.wanted, own, &LockTerms::gate);
  limits.own = static_cast<std::size_t>(place - limits.wanted.begin());
  return limits;
}

RunMachine::Operation RunMachine::begin_step(std::string_view name, std::unique_ptr<StepCode> code,
                                             const StepOptions& options) {
  check_name("a step", name);
  check_options(name, options);
  StepLimits limits;
  if (code->transacts()) {
    check_transaction_options(name, options);
  } else if (options.limit != nullptr || !facts_.step_limits.empty()) {
    limits = limits_of(name, options);
  }
  if (const record::RunOperation* recorded = expected(); recorded != nullptr) {
    limits.in_journal.assign(recorded->limits().begin(), recorded->limits().end());
  }
  Operation operation = begin(record::RunOperation::STEP, name);
  if (!is_replaying()) {
    for (const LockTerms& limit : limits.wanted) {
      last_record().add_limits(limit.gate);
    }
  }
  operation->set_must_end();
  pending_.add(operation);
  BegunStep& step = current().steps.emplace_back();
  step.limits = std::move(limits);
  step.operation = operation->number();
  step.name = name;
  step.code = std::move(code);
  step.terms.options = options;
  step.terms.options.idempotency_key = {};
  step.terms.options.limit = nullptr;  // It need not be there any more.
  if (options.idempotency_key.empty()) {
    const std::string number = std::to_string(operation->number());
    step.terms.idempotency_key.reserve(facts_.uid.size() + 1 + number.size());
    step.terms.idempotency_key.append(facts_.uid).append(":").append(number);
  } else {
    step.terms.idempotency_key = options.idempotency_key;
  }
  return operation;
}

RunMachine::Operation RunMachine::begin_timer(StoreTime due) {
  Operation operation = begin(record::RunOperation::SLEEP, {});
  if (!is_replaying()) {
    last_record().set_due_ns(due.time_since_epoch().count());
  }
  if (due > now_) {
    pending_.add(operation);
    current().timers.push_back({operation->number(), due});
  } else if (!strayed_) {
    operation->settle(false);
  }
  return operation;
}

RunMachine::Operation RunMachine::begin_signal(std::string_view name) {
  check_name("a signal", name);
  Operation operation = begin(record::RunOperation::SIGNAL, name);
  if (!strayed_) {
    signals_.await(name, operation);
  }
  return operation;
}

RunMachine::Operation RunMachine::begin_child(std::string_view type, boost::json::value input,
                                              const ChildOptions& options) {
  check_name("a child", type);
  check_options(type, options);
  static_cast<void>(payload_text(input, "the input of child '" + std::string(type) + "'"));
  Operation operation = begin(record::RunOperation::CHILD, type);
  if (options.must_end) {
    operation->set_must_end();
  }
  pending_.add(operation);
  BegunChild& child = current().children.emplace_back();
  child.operation = operation->number();
  child.type = type;
  child.input = std::move(input);
  child.terms = {std::string(options.id),
                 std::string(options.queue),
                 options.parent_close,
                 options.timeout,
                 options.priority,
                 options.is_root,
                 {options.idempotency_keys.begin(), options.idempotency_keys.end()}};
  return operation;
}

RunMachine::Operation RunMachine::begin_state(std::string_view key,
                                              std::unique_ptr<StateCode> code) {
  Operation operation = begin(record::RunOperation::STATE, key);
  pending_.add(operation);
  current().state.push_back({operation->number(), std::string(key), std::move(code)});
  return operation;
}

RunMachine::Operation RunMachine::begin_lock(LockTerms terms) {
  check_gate_name(terms.gate);
  if (terms.timeout && *terms.timeout < Duration::zero()) {
    throw InvalidArgument("the time-out of lock '" + terms.gate + "' is below zero");
  }
  Operation operation = begin(record::RunOperation::LOCK, terms.gate);
  operation->set_is_lock();
  pending_.add(operation);
  const std::uint64_t number = operation->number();
  locks_.emplace(number, Lock{terms.gate});
  if (terms.timeout && terms.may_wait()) {
    const StoreTime due = now_ + *terms.timeout;
    current().timers.push_back({number, due});
    if (!is_replaying()) {
      last_record().set_due_ns(due.time_since_epoch().count());
    }
  }
  current().locks.push_back({number, std::move(terms)});
  return operation;
}

RunMachine::Operation RunMachine::begin_gate(GateUse use) {
  const auto is_there = [&](const BegunUse& begun) { return begun.use.gate == use.gate; };
  if (std::ranges::any_of(current().uses, is_there)) {
    throw WrongContext("run '" + facts_.id + "' does two things at '" + use.gate +
                       "' at once: await the first before the second");
  }
  if (use.now == StoreTime{}) {
    use.now = now_;
  }
  Operation operation = begin(record::RunOperation::GATE, use.gate);
  pending_.add(operation);
  current().uses.push_back({operation->number(), std::move(use)});
  return operation;
}

void RunMachine::release_lock(std::uint64_t operation) noexcept {
  if (locks_.erase(operation) > 0) {
    current().let_go.push_back(operation);
  }
}

}  // namespace holdfast::detail
