// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <holdfast/detail/guarded.hpp>
#include <holdfast/run_options.hpp>
#include <holdfast/task.hpp>
#include <holdfast/workflow.hpp>

namespace holdfast {

namespace detail {

/// A compensation that has not begun.
class Undo {
 public:
  Undo() = default;
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;
  virtual ~Undo() = default;
  /// Once.
  [[nodiscard]] virtual Task<void> run(Context& context) = 0;
};

template <typename Function>
class UndoOf final : public Undo {
 public:
  UndoOf(std::string_view name, Function function, const StepOptions& options)
      : name_(name),
        function_(std::move(function)),
        options_(options),
        idempotency_key_(options.idempotency_key) {}

  [[nodiscard]] Task<void> run(Context& context) override {
    options_.idempotency_key = idempotency_key_;
    auto step = context.run(name_, std::move(function_), options_);
    if constexpr (std::is_void_v<typename StepCodeOf<Function>::Value>) {
      co_await step;
    } else {
      static_cast<void>(co_await step);
    }
  }

 private:
  std::string name_;
  Function function_;
  StepOptions options_;
  std::string idempotency_key_;
};

using Undos = std::vector<std::unique_ptr<Undo>>;
[[nodiscard]] Task<void> run_undos(Context& context, Undos& undos);
[[noreturn]] void throw_both(const std::exception_ptr& failure,
                             const std::exception_ptr& compensation);

}  // namespace detail

/// What is to be undone if something later fails. See also `run_saga`.
class Saga {
 public:
  explicit Saga(Context& context) noexcept : context_(context) {}
  Saga(const Saga&) = delete;
  Saga& operator=(const Saga&) = delete;

  /// `function` is that of a step, which undoes what was done before this. It owns what it uses, or
  /// refers to what outlives the saga. Throws `InvalidArgument`.
  template <typename Function>
  void undo(std::string_view name, Function function, const StepOptions& options = {}) {
    detail::check_options(name, options);
    undos_.push_back(
        std::make_unique<detail::UndoOf<Function>>(name, std::move(function), options));
  }
  /// Undoes all, the last first, each once, though the run is asked to stop meanwhile. If one fails
  /// for good, the others are undone still, and the first failure is thrown.
  [[nodiscard]] Task<void> compensate() {
    return context_.shielded(detail::run_undos(context_, undos_));
  }

 private:
  Context& context_;
  detail::Undos undos_;
};

namespace detail {

template <typename T, typename Body>
Task<T> saga_in_run(Context& context, Body body) {
  Saga saga(context);
  Task<T> task = body(context, saga);
  auto outcome = co_await context.attempt(task);
  if (!outcome) {
    auto undone = co_await context.attempt(saga.compensate());
    if (!undone) {
      throw_both(outcome.error(), undone.error());
    }
    outcome.rethrow();
  }
  if constexpr (!std::is_void_v<T>) {
    co_return outcome.value();
  }
}

}  // namespace detail

/// Runs `body`, a coroutine that takes the `Context&` and a `Saga&`; if it throws, a cancellation
/// included, undoes what it told the saga, and throws the same. If that fails, too, it is a
/// `StepFailed` that has both messages.
///
/// ```
/// const auto book = [&](Context& ctx, Saga& saga) -> Task<Trip> {
///   const Flight flight = co_await book_flight(ctx, wish);
///   saga.undo("cancel flight", [flight] { airline.cancel(flight); });
///   const Hotel hotel = co_await book_hotel(ctx, wish);  // If it throws, the flight is cancelled.
///   co_return Trip{flight, hotel};
/// };
/// const Trip trip = co_await run_saga(ctx, book);
/// ```
template <typename Body>
[[nodiscard]] auto run_saga(Context& context, Body&& body) {
  using Plain = std::remove_cvref_t<Body>;
  using Returned = detail::UnwrapTask<std::invoke_result_t<Plain&, Context&, Saga&>>;
  static_assert(Returned::kIsTask, "the body of a saga is a coroutine: Task<T>(Context&, Saga&)");
  static_assert(std::is_lvalue_reference_v<Body> || std::is_trivially_destructible_v<Plain> ||
                    HOLDFAST_AWAITED_TEMPORARIES_BREAK == 0,
                "g++ before 13 destroys twice what this function captured. Name it, then give its "
                "name: const auto body = [...]; co_await run_saga(ctx, body);");
  return detail::saga_in_run<typename Returned::Type, Plain>(context, std::forward<Body>(body));
}

}  // namespace holdfast
