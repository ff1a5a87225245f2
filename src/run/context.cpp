// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <utility>

#include <holdfast/workflow.hpp>

#include "run_machine.hpp"
#include "run_payload.hpp"
#include "state/cell_key.hpp"

namespace holdfast {

namespace detail {

RunOperation::~RunOperation() {
  const auto* const value = std::get_if<boost::json::value>(&outcome_);
  if (is_lock_ && value != nullptr && !value->is_null()) {
    machine_.release_lock(number_);
  }
}

bool RunOperation::give_up() noexcept {
  cancelled_ = true;
  return machine_.give_up(*this);
}

boost::json::value RunOperation::take(std::string_view what) {
  if (auto* value = std::get_if<boost::json::value>(&outcome_)) {
    boost::json::value taken = std::move(*value);
    outcome_ = Taken{};
    return taken;
  }
  auto* const error = std::get_if<std::exception_ptr>(&outcome_);
  if (error != nullptr && !cancelled_) {
    std::rethrow_exception(*error);
  }
  if (std::holds_alternative<Taken>(outcome_)) {
    refuse_second_await(what);
  }
  throw Cancelled("the run was asked to stop while it waited for '" + std::string(what) + "'");
}

void refuse_second_await(std::string_view what) {
  throw WrongContext("'" + std::string(what) +
                     "' is awaited twice: an operation is awaited once; keep its value");
}

void refuse_transaction() { throw WrongContext("a step that is no transaction was called as one"); }

void refuse_without_transaction() {
  throw PermanentFailure(
      "there is no database here that a transaction could be one of: use a store of SQLite, and in "
      "a test with holdfast/testing.hpp fake it");
}

void check_is_workflow(bool is_workflow) {
  if (!is_workflow) {
    throw WrongContext(
        "a workflow awaits a task that does not take its Context: such a task can await what would "
        "not happen again in a replay. Give it the Context, or call it in a step");
  }
}

RunMachine& machine_of(Context& context) noexcept { return context.machine_; }

}  // namespace detail

const std::string& Context::run_id() const noexcept { return machine_.facts().id; }
const std::string& Context::run_uid() const noexcept { return machine_.facts().uid; }
const std::string& Context::root_id() const noexcept { return machine_.root_id(); }
const std::string& Context::root_uid() const noexcept { return machine_.facts().root_uid; }
const std::string& Context::parent_id() const noexcept { return machine_.facts().parent_id; }
StoreTime Context::started_at() const noexcept { return machine_.facts().started_at; }
const std::string& Context::type() const noexcept { return machine_.facts().type; }
bool Context::is_replaying() const noexcept { return machine_.is_replaying(); }
StoreTime Context::now() const noexcept { return machine_.now(); }
std::uint64_t Context::random() noexcept { return machine_.random(); }

std::string Context::uuid() {
  constexpr std::string_view kDigits = "0123456789abcdef";
  // Version 4, variant 1: random but for six bits that say so.
  const std::array<std::uint64_t, 2> bits{
      (random() & ~std::uint64_t{0xf000}) | 0x4000U,
      (random() & ~(std::uint64_t{3} << 62U)) | (std::uint64_t{2} << 62U)};
  std::string text;
  for (std::size_t i = 0; i < 32; ++i) {
    if (i == 8 || i == 12 || i == 16 || i == 20) {
      text.push_back('-');
    }
    text.push_back(kDigits[(bits[i / 16] >> (60U - 4U * (i % 16))) & 0xfU]);
  }
  return text;
}

std::int64_t Context::version(std::string_view change, std::int64_t oldest, std::int64_t newest) {
  return machine_.version(change, oldest, newest);
}

Durable<void> Context::sleep_until(StoreTime due) { return {machine_.begin_timer(due), "sleep"}; }

Context::Operation Context::begin_step(std::string_view name,
                                       std::unique_ptr<detail::StepCode> code,
                                       const StepOptions& options) {
  return machine_.begin_step(name, std::move(code), options);
}

Context::Operation Context::begin_signal(std::string_view name) {
  return machine_.begin_signal(name);
}

Context::Operation Context::begin_child(std::string_view type, boost::json::value input,
                                        const ChildOptions& options) {
  return machine_.begin_child(type, std::move(input), options);
}

namespace {

detail::LockTerms terms_of(const detail::RunMachine::Facts& facts, std::string_view name,
                           GateDefinition definition, const LockOptions& options) {
  detail::LockTerms terms;
  switch (options.scope) {
    case LockScope::kGlobal:
      break;
    case LockScope::kWorkflow:
      terms.gate.append("workflow/").append(facts.type).append("/");
      break;
    case LockScope::kExecution:
      terms.gate.append("execution/").append(facts.root_uid).append("/");
      break;
  }
  terms.gate.append(name);
  terms.definition = std::move(definition);
  terms.weight = options.weight;
  terms.priority = options.priority;
  terms.reason = options.reason;
  terms.queue_max = options.queue_max;
  terms.timeout = options.timeout;
  terms.victim = options.victim;
  return terms;
}

GateDefinition readers_and_writer() {
  GateDefinition definition;
  definition.kind = GateDefinition::Kind::kReadWrite;
  definition.capacity = kGateReadersMax;
  return definition;
}

}  // namespace

Durable<RunLock> Context::lock(std::string_view name, const LockOptions& options) {
  return {machine_.begin_lock(terms_of(machine_.facts(), name, {}, options)), std::string(name)};
}

Durable<std::optional<RunLock>> Context::try_lock(std::string_view name,
                                                  const LockOptions& options) {
  detail::LockTerms terms = terms_of(machine_.facts(), name, {}, options);
  terms.only_tries = true;
  return {machine_.begin_lock(std::move(terms)), std::string(name)};
}

Durable<RunLock> Context::shared_lock(std::string_view name, const LockOptions& options) {
  detail::LockTerms terms = terms_of(machine_.facts(), name, readers_and_writer(), options);
  terms.shared = true;
  return {machine_.begin_lock(std::move(terms)), std::string(name)};
}

Durable<RunLock> Context::unique_lock(std::string_view name, const LockOptions& options) {
  detail::LockTerms terms = terms_of(machine_.facts(), name, readers_and_writer(), options);
  return {machine_.begin_lock(std::move(terms)), std::string(name)};
}

Durable<RunLock> Context::acquire(const Limit& limit, const LockOptions& options) {
  return {
      machine_.begin_lock(terms_of(machine_.facts(), limit.name(), limit.definition(), options)),
      limit.name()};
}

Durable<std::optional<RunLock>> Context::try_acquire(const Limit& limit,
                                                     const LockOptions& options) {
  detail::LockTerms terms = terms_of(machine_.facts(), limit.name(), limit.definition(), options);
  terms.only_tries = true;
  return {machine_.begin_lock(std::move(terms)), limit.name()};
}

Context::Operation Context::begin_condition(std::function<bool()> predicate) {
  return machine_.begin_condition(std::move(predicate), std::nullopt);
}

Context::Operation Context::begin_condition(std::function<bool()> predicate, Duration timeout) {
  return machine_.begin_condition(std::move(predicate), timeout);
}

void Context::set_signal_handler(std::string_view name, detail::RunHandler handler) {
  machine_.on_signal(name, std::move(handler));
}

void Context::set_update_handler(std::string_view name, detail::RunHandler handler,
                                 detail::RunHandler validator) {
  machine_.on_update(name, std::move(handler), std::move(validator));
}

void Context::set_query_handler(std::string_view name, detail::RunHandler handler) {
  machine_.on_query(name, std::move(handler));
}

void Context::end_to_continue(boost::json::value input) {
  machine_.continue_as_new(std::move(input));
}

// --- State ---------------------------------------------------------------------------------------

namespace detail {

std::shared_ptr<RunOperation> begin_state(RunMachine& machine, std::string_view key,
                                          std::unique_ptr<StateCode> code) {
  return machine.begin_state(key, std::move(code));
}

std::string run_cell_key(const std::string& prefix, std::string_view name) {
  return prefix + checked_key_part("name of the cell", name);
}

}  // namespace detail

RunScope Context::execution() {
  return {machine_, detail::scope_prefix("execution", machine_.facts().root_uid)};
}
RunScope Context::workflow_scope() {
  return {machine_, detail::scope_prefix("workflow", machine_.facts().type)};
}
RunScope Context::global() { return {machine_, detail::global_prefix()}; }
RunScope Context::request(std::string_view id) {
  return {machine_, detail::scope_prefix("request", id)};
}
RunScope Context::session(std::string_view id) {
  return {machine_, detail::scope_prefix("session", id)};
}
RunScope Context::user(std::string_view id) { return {machine_, detail::scope_prefix("user", id)}; }
RunScope Context::org(std::string_view id) { return {machine_, detail::scope_prefix("org", id)}; }

// --- Steps ---------------------------------------------------------------------------------------

void StepContext::report(const boost::json::value& progress) const {
  std::string text = detail::payload_text(progress, "the progress of a step");
  if (facts_.link != nullptr) {
    facts_.link->heartbeat(std::move(text));
  }
}

boost::json::value StepContext::last_progress_json() const {
  return detail::parse_payload(*facts_.last_progress);
}

}  // namespace holdfast
