// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <holdfast/clock.hpp>
#include <holdfast/detail/run_handler.hpp>
#include <holdfast/detail/run_operation.hpp>
#include <holdfast/detail/run_together.hpp>
#include <holdfast/detail/transaction_code.hpp>
#include <holdfast/detail/workflow_code.hpp>
#include <holdfast/detail/workflow_promise.hpp>
#include <holdfast/durable.hpp>
#include <holdfast/error.hpp>
#include <holdfast/outcome.hpp>
#include <holdfast/run_cell.hpp>
#include <holdfast/run_error.hpp>
#include <holdfast/run_gate.hpp>
#include <holdfast/run_lock.hpp>
#include <holdfast/run_options.hpp>
#include <holdfast/step_context.hpp>
#include <holdfast/store.hpp>
#include <holdfast/task.hpp>
#include <holdfast/workflow_definition.hpp>

namespace holdfast {

class Context;

namespace detail {
class RunMachine;
[[nodiscard]] RunMachine& machine_of(Context& context) noexcept;
}  // namespace detail

/// What a workflow can do. Its code runs again from the start after a crash, over a journal of what
/// it did: so it must do the same again, and everything else belongs into steps.
///
/// ```
/// Task<Receipt> fulfil(Context& ctx, Order order) {
///   auto charge = ctx.run("charge", [&](StepContext& step) {
///     return pay(order, step.idempotency_key());
///   });
///   const Payment payment = co_await charge;
///   co_await ctx.sleep(24h);
///   co_return Receipt{order.id, payment.id};
/// }
/// ```
///
/// A coroutine that takes a `Context&` can await these operations, other such coroutines, and
/// nothing else: that is a compile error. When the run is asked to stop, what it waits for throws
/// `Cancelled`, and so does all that it waits for after that, but for what is `shielded`. A step
/// that is under way is asked to stop, and its end is waited for, as it may use what the code has;
/// if it succeeds all the same, that is its result.
class Context {
 public:
  explicit Context(detail::RunMachine& machine) noexcept : machine_(machine) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] const std::string& run_id() const noexcept;
  /// Of this run alone, also when another one takes its id later.
  [[nodiscard]] const std::string& run_uid() const noexcept;
  /// Of the run at the top, of which this is a child or a child's child; its own, if it is none.
  [[nodiscard]] const std::string& root_id() const noexcept;
  /// Of that run, and of the first one, if it continues others: the cells of `execution()` are
  /// under it.
  [[nodiscard]] const std::string& root_uid() const noexcept;
  /// Empty: it is no child.
  [[nodiscard]] const std::string& parent_id() const noexcept;
  [[nodiscard]] const std::string& type() const noexcept;
  /// A reset does not change it.
  [[nodiscard]] StoreTime started_at() const noexcept;
  /// The code goes over what it did before. For logs, never for decisions.
  [[nodiscard]] bool is_replaying() const noexcept;

  /// The time at which the run was woken last, by the store's clock: the same when it is replayed.
  [[nodiscard]] StoreTime now() const noexcept;
  /// As good as random, and the same when it is replayed.
  [[nodiscard]] std::uint64_t random() noexcept;
  [[nodiscard]] std::string uuid();

  /// Which of several versions of the code a run follows at this place: `newest`, if it comes here
  /// for the first time, and the same ever after; `oldest`, if it was here before the question was
  /// put into the code.
  [[nodiscard]] std::int64_t version(std::string_view change, std::int64_t oldest,
                                     std::int64_t newest);

  // --- Operations --------------------------------------------------------------------------------

  /// Does something outside, at least once, and remembers its result. `function` takes nothing or a
  /// `StepContext&`, and returns a value, for which it may block its thread, or a `Task`. Throws
  /// `InvalidArgument` at once; where it is awaited, `StepFailed`. With g++ 12, name the operation
  /// if the function captures more than references.
  template <typename Function>
  [[nodiscard]] auto run(std::string_view name, Function function,
                         const StepOptions& options = {}) {
    using Code = detail::StepCodeOf<Function>;
    using Step = Durable<typename Code::Value, std::is_trivially_destructible_v<Function>>;
    return Step(begin_step(name, std::make_unique<Code>(std::move(function)), options),
                std::string(name));
  }

  /// Runs SQL of yours and remembers its result in one transaction of the store's own database: it
  /// happens once, whatever crashes. `function` takes a `Transaction&`, and returns a value. If it
  /// throws, all of it is taken back, and it is tried again as a step is. It is `StepFailed` at
  /// once if the SQL did what it must not (`TransactionRefused`), if a guard does not hold
  /// (`StaleFence`), and if the store has no SQL (`Unsupported`).
  ///
  /// ```
  /// auto take = ctx.transact("take stock", [item](Transaction& transaction) {
  ///   sqlite3* db = sqlite_connection(transaction);  // <holdfast/sqlite_transaction.hpp>
  ///   ...
  ///   return left;
  /// });
  /// const int left = co_await take;
  /// ```
  ///
  /// See `Store::transact` for where it is called: it holds up all other commits. One at a time of
  /// a run, also in `all`. Whoever cancels the run, or a time-out, can keep it from beginning, and
  /// from being committed when the function returns; nothing interrupts the function.
  template <typename Function>
  [[nodiscard]] auto transact(std::string_view name, Function function,
                              const StepOptions& options = {}) {
    using Code = detail::TransactionCodeOf<Function>;
    using Step = Durable<typename Code::Value, std::is_trivially_destructible_v<Function>>;
    return Step(begin_step(name, std::make_unique<Code>(std::move(function)), options),
                std::string(name));
  }

  /// Zero or less is over at once.
  [[nodiscard]] Durable<void> sleep(Duration time) { return sleep_until(now() + time); }
  [[nodiscard]] Durable<void> sleep_until(StoreTime due);

  /// The next signal of this name, in the order in which they came; one that came before is kept.
  template <Payload T>
  [[nodiscard]] Durable<T> signal(std::string_view name) {
    return {begin_signal(name), std::string(name)};
  }

  /// Another run, under this one. Its result; throws `RunFailed` if it has none. With g++ 12, name
  /// an input, or the operation, that is written in braces.
  template <Payload In, Payload Out>
    requires(!std::is_void_v<In>)
  [[nodiscard]] Durable<Out> child(const Workflow<In, Out>& workflow,
                                   const std::type_identity_t<In>& input,
                                   const ChildOptions& options = {}) {
    return {begin_child(workflow.name(), detail::to_payload(input), options), workflow.name()};
  }
  template <Payload In, Payload Out>
    requires(!std::is_void_v<In> && std::is_aggregate_v<In> &&
             !std::is_trivially_destructible_v<In>)
  [[nodiscard]] Durable<Out, false> child(const Workflow<In, Out>& workflow,
                                          std::type_identity_t<In>&& input,
                                          const ChildOptions& options = {}) {
    return {begin_child(workflow.name(), detail::to_payload(std::move(input)), options),
            workflow.name()};
  }
  template <Payload Out>
  [[nodiscard]] Durable<Out> child(const Workflow<void, Out>& workflow,
                                   const ChildOptions& options = {}) {
    return {begin_child(workflow.name(), nullptr, options), workflow.name()};
  }
  /// The same for one whose code is elsewhere: `ctx.child<Receipt>("fulfil", order)`.
  template <Payload Out, typename In>
    requires(Payload<std::remove_cvref_t<In>>)
  [[nodiscard]] auto child(std::string_view type, In&& input, const ChildOptions& options = {}) {
    using Plain = std::remove_cvref_t<In>;
    constexpr bool kSafe = std::is_lvalue_reference_v<In> || !std::is_aggregate_v<Plain> ||
                           std::is_trivially_destructible_v<Plain>;
    return Durable<Out, kSafe>(
        begin_child(type, detail::to_payload(std::forward<In>(input)), options), std::string(type));
  }

  // --- Several at once ---------------------------------------------------------------------------

  /// Waits for all: operations, named or not, and coroutines that take the `Context&`. As
  /// `holdfast::all`: the results in their order, `void` as `std::monostate`; if one fails, nobody
  /// waits for the others any more, and its failure is thrown. Coroutines begin in the order in
  /// which they are given. Of operations, name all but one: compilers differ in which of two in one
  /// call they make first.
  ///
  /// ```
  /// auto [stock, credit] = co_await ctx.all(check_stock(ctx, order), check_credit(ctx, order));
  /// ```
  template <detail::RunWait... Waits>
    requires(sizeof...(Waits) > 0)
  [[nodiscard]] auto all(Waits&&... waits) {
    check_waits<Waits...>();
    return detail::all_in_run<detail::WaitedValue<Waits>...>(
        *this, detail::as_part(*this, std::forward<Waits>(waits))...);
  }
  /// The same for a list of one type.
  template <detail::RunWait Wait>
  [[nodiscard]] auto all(std::vector<Wait> waits) {
    return detail::all_in_run<detail::WaitedValue<Wait>>(*this,
                                                         detail::as_parts(*this, std::move(waits)));
  }
  /// The same, with so many under way at once. They begin in their order.
  template <typename T>
  [[nodiscard]] auto all(std::vector<Task<T>> tasks, const FanOut& options) {
    return detail::all_in_run<T>(*this, detail::as_parts(*this, std::move(tasks)),
                                 detail::checked_at_most(options));
  }
  /// Waits for the first, however it ends; nobody waits for the others any more. As
  /// `holdfast::any`.
  ///
  /// ```
  /// auto answer = ctx.signal<Answer>("answer");
  /// const auto first = co_await ctx.any(answer, ctx.sleep(24h));
  /// if (first.index() == 1) { ... }  // Too late.
  /// ```
  template <detail::RunWait... Waits>
    requires(sizeof...(Waits) > 0)
  [[nodiscard]] auto any(Waits&&... waits) {
    check_waits<Waits...>();
    return detail::any_in_run<detail::WaitedValue<Waits>...>(
        *this, detail::as_part(*this, std::forward<Waits>(waits))...);
  }
  template <detail::RunWait Wait>
  [[nodiscard]] auto any(std::vector<Wait> waits) {
    return detail::any_in_run<detail::WaitedValue<Wait>>(*this,
                                                         detail::as_parts(*this, std::move(waits)));
  }

  // --- What comes from outside -------------------------------------------------------------------

  /// Until `predicate` is true. It is asked at once, and whenever something has happened to the
  /// run; it looks at what the workflow knows, and does nothing else.
  template <std::predicate Predicate>
  [[nodiscard]] Durable<void, std::is_trivially_destructible_v<Predicate>> wait_until(
      Predicate predicate) {
    return {begin_condition(std::move(predicate)), "wait_until"};
  }
  /// False: the time was up before.
  template <std::predicate Predicate>
  [[nodiscard]] Durable<bool, std::is_trivially_destructible_v<Predicate>> wait_until(
      Predicate predicate, Duration timeout) {
    return {begin_condition(std::move(predicate), timeout), "wait_until"};
  }

  // Handlers stay until the run ends: what they refer to must, too. They do not wait, begin no
  // operation, and are called in the order in which things came.

  /// From now on `function` gets each signal of this name, beginning with those that were kept.
  /// What it throws stops the run, which then fails with it.
  template <Payload T, typename Function>
  void on_signal(std::string_view name, Function function) {
    set_signal_handler(name, detail::handler_of<T, void>(std::string(name), std::move(function)));
  }
  /// Answers updates of this name. What it throws is the answer, too. `validator` takes the same,
  /// and throws to refuse one before it happens; it changes nothing.
  template <Payload In, Payload Out, typename Function>
  void on_update(std::string_view name, Function function) {
    set_update_handler(name, detail::handler_of<In, Out>(std::string(name), std::move(function)),
                       detail::handler_of<In, void>(std::string(name), detail::AcceptsAll<In>{}));
  }
  template <Payload In, Payload Out, typename Function, typename Validator>
  void on_update(std::string_view name, Function function, Validator validator) {
    set_update_handler(name, detail::handler_of<In, Out>(std::string(name), std::move(function)),
                       detail::handler_of<In, void>(std::string(name), std::move(validator)));
  }
  /// Answers queries of this name, with what it looks up; it changes nothing.
  template <Payload Out, typename Function>
    requires(std::invocable<Function&>)
  void on_query(std::string_view name, Function function) {
    set_query_handler(name, detail::handler_of<void, Out>(std::string(name), std::move(function)));
  }
  template <Payload In, Payload Out, typename Function>
    requires(!std::is_void_v<In> && std::invocable<Function&, In>)
  void on_query(std::string_view name, Function function) {
    set_query_handler(name, detail::handler_of<In, Out>(std::string(name), std::move(function)));
  }

  // --- Locks -------------------------------------------------------------------------------------

  // Waits its turn, first come, first served, among all who use the store; for days, if it must, at
  // the cost of a row. The commit that makes room lets the next one in, and wakes it. A wait keeps
  // its place through crashes, and is over when the run is cancelled or ends. Where it is awaited,
  // these throw `TimedOut`, `QueueFull`, `Unsatisfiable`, `DefinitionMismatch`, and `DeadlockError`
  // if the run would wait for one who waits for it; `Dropped`, if an operator took the lock away
  // before the run saw it. If one takes it away later, the next operation of the run is a
  // `StaleFence`, and nothing that the run did without the lock is committed.

  /// One at a time.
  [[nodiscard]] Durable<RunLock> lock(std::string_view name, const LockOptions& options = {});
  /// Many readers at once, or one writer: the same one as `Gates::shared_mutex`.
  [[nodiscard]] Durable<RunLock> shared_lock(std::string_view name,
                                             const LockOptions& options = {});
  [[nodiscard]] Durable<RunLock> unique_lock(std::string_view name,
                                             const LockOptions& options = {});
  /// So many at a time, by weight.
  [[nodiscard]] Durable<RunLock> acquire(const Limit& limit, const LockOptions& options = {});
  /// Nothing: it would have to wait.
  [[nodiscard]] Durable<std::optional<RunLock>> try_lock(std::string_view name,
                                                         const LockOptions& options = {});
  [[nodiscard]] Durable<std::optional<RunLock>> try_acquire(const Limit& limit,
                                                            const LockOptions& options = {});

  /// The plain operations, with leases: see `RunGate`. Throws `InvalidArgument` for a definition
  /// that cannot be.
  [[nodiscard]] RunGate gate(std::string_view name, GateDefinition definition = {}) {
    return {machine_, name, std::move(definition)};
  }

  // --- State -------------------------------------------------------------------------------------

  /// A cell of `execution()`.
  template <CellType T>
  [[nodiscard]] RunCell<T> state(std::string_view name, T initial = T{}) {
    return execution().cell<T>(name, std::move(initial));
  }
  /// The cells of this run, its children, those whose child it is, and all that these continue. A
  /// later run of the same id has others.
  [[nodiscard]] RunScope execution();
  /// Those of every run of this type.
  [[nodiscard]] RunScope workflow_scope();
  [[nodiscard]] RunScope global();
  [[nodiscard]] RunScope request(std::string_view id);
  [[nodiscard]] RunScope session(std::string_view id);
  [[nodiscard]] RunScope user(std::string_view id);
  [[nodiscard]] RunScope org(std::string_view id);

  // --- Ends and cleanup --------------------------------------------------------------------------

  /// Ends this run and goes on as a new one of the same id and code, with a new journal and the
  /// signals that nobody took. Nothing after it counts.
  template <typename In>
    requires(Payload<std::remove_cvref_t<In>>)
  [[noreturn]] void continue_as_new(In&& input) {
    end_to_continue(detail::to_payload(std::forward<In>(input)));
  }
  [[noreturn]] void continue_as_new() { end_to_continue(nullptr); }

  /// How an operation, or a coroutine that takes the `Context&`, ends; it throws nothing. So one
  /// can wait for more after a failure:
  ///
  /// ```
  /// auto charge = ctx.run("charge", ...);
  /// auto charged = co_await ctx.attempt(charge);
  /// if (!charged) {
  ///   co_await ctx.shielded(tell_customer(ctx, charged.message()));
  ///   charged.rethrow();
  /// }
  /// ```
  template <detail::RunWait Wait>
  [[nodiscard]] auto attempt(Wait&& wait) {
    check_waits<Wait>();
    return detail::attempt_in_run<detail::WaitedValue<Wait>>(
        *this, detail::as_part(*this, std::forward<Wait>(wait)));
  }
  /// Waits for a coroutine that takes the `Context&`, to its end, though the run is asked to stop.
  template <detail::RunWait Wait>
  [[nodiscard]] auto shielded(Wait&& wait) {
    check_waits<Wait>();
    return detail::shield_in_run<detail::WaitedValue<Wait>>(
        *this, detail::as_part(*this, std::forward<Wait>(wait)));
  }

 private:
  using Operation = std::shared_ptr<detail::RunOperation>;
  friend detail::RunMachine& detail::machine_of(Context& context) noexcept;

  template <typename... Waits>
  static constexpr void check_waits() {
    static_assert((detail::can_be_written_inside<Waits>() && ...),
                  "g++ before 13 destroys twice what this function captured. Name the operation, "
                  "then give its name: auto step = ctx.run(...); co_await ctx.all(step, ...);");
    static_assert((detail::kIsTemporaryOperation<Waits> + ... + 0) <= 1,
                  "compilers differ in which of two operations in one call they make first, and "
                  "the journal has them in their order. Name them: auto first = ctx.sleep(...); "
                  "auto second = ctx.run(...); co_await ctx.all(first, second);");
  }
  [[nodiscard]] Operation begin_step(std::string_view name, std::unique_ptr<detail::StepCode> code,
                                     const StepOptions& options);
  [[nodiscard]] Operation begin_signal(std::string_view name);
  [[nodiscard]] Operation begin_child(std::string_view type, boost::json::value input,
                                      const ChildOptions& options);
  [[nodiscard]] Operation begin_condition(std::function<bool()> predicate);
  [[nodiscard]] Operation begin_condition(std::function<bool()> predicate, Duration timeout);
  void set_signal_handler(std::string_view name, detail::RunHandler handler);
  void set_update_handler(std::string_view name, detail::RunHandler handler,
                          detail::RunHandler validator);
  void set_query_handler(std::string_view name, detail::RunHandler handler);
  [[noreturn]] void end_to_continue(boost::json::value input);

  detail::RunMachine& machine_;
};

}  // namespace holdfast
