// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <holdfast/all_any.hpp>
#include <holdfast/clock.hpp>
#include <holdfast/detail/run_operation.hpp>
#include <holdfast/detail/workflow_code.hpp>
#include <holdfast/detail/workflow_promise.hpp>
#include <holdfast/error.hpp>
#include <holdfast/run_options.hpp>
#include <holdfast/store.hpp>
#include <holdfast/task.hpp>

namespace holdfast {

namespace detail {
class RunMachine;
}

/// The code of a workflow does something else than its journal says. The run stands still, and goes
/// on when the code fits again.
class NondeterminismError final : public detail::ErrorOf<ErrorCode::kNondeterminism> {
  using ErrorOf::ErrorOf;
};

/// An input, a result or a signal is not of the type that the code wants.
class BadPayload final : public detail::ErrorOf<ErrorCode::kBadPayload> {
  using ErrorOf::ErrorOf;
};

/// A run has no query or update of that name.
class NoSuchHandler final : public detail::ErrorOf<ErrorCode::kNoSuchHandler> {
  using ErrorOf::ErrorOf;
};

/// A run has refused an update. It has no trace of it.
class UpdateRefused final : public detail::ErrorOf<ErrorCode::kUpdateRefused> {
  using ErrorOf::ErrorOf;
};

/// A run has failed, was cancelled, terminated or timed out, and its result was asked for, or
/// waited for by its parent.
class RunFailed final : public detail::ErrorOf<ErrorCode::kRunFailed> {
  using ErrorOf::ErrorOf;
};

/// A step has failed for good.
class StepFailed final : public Error {
 public:
  StepFailed(std::string type, const std::string& message, int original_code)
      : Error(ErrorCode::kStepFailed, message),
        type_(std::move(type)),
        original_code_(original_code) {}

  /// What it threw: the number of an error of ours has a name, everything else is "Error".
  [[nodiscard]] const std::string& type() const noexcept { return type_; }
  /// 0: it is none of ours.
  [[nodiscard]] int original_code() const noexcept { return original_code_; }

 private:
  std::string type_;
  int original_code_;
};

/// What a workflow waits for: each operation of its `Context` returns one. Await it once; it goes
/// on by itself from the moment it was made, so two can be under way at once.
template <Payload T, bool kFromTemporary = true>
class [[nodiscard]] Durable {
 public:
  using DurableOperation = Durable;
  /// False: g++ before 13 would destroy something twice.
  static constexpr bool kMayBeTemporary = kFromTemporary;

  Durable(std::shared_ptr<detail::RunOperation> operation, std::string what)
      : operation_(std::move(operation)), what_(std::move(what)) {}
  Durable(Durable&&) noexcept = default;
  Durable& operator=(Durable&&) = delete;
  ~Durable() = default;

  /// Trivial, and a value: g++ 12 would copy what an `await_transform` returns by reference.
  class Awaiter {
   public:
    explicit Awaiter(Durable& durable) noexcept : durable_(&durable) {}
    [[nodiscard]] bool await_ready() const noexcept { return durable_->operation_->is_settled(); }
    template <detail::TaskPromise Promise>
    bool await_suspend(std::coroutine_handle<Promise> coroutine) noexcept {
      context_ = &coroutine.promise().task_context();
      return durable_->operation_->wait(*context_, coroutine);
    }
    T await_resume() {
      if (context_ != nullptr) {
        context_->end_wait();
      }
      return detail::from_payload<T>(durable_->operation_->take(durable_->what_), durable_->what_);
    }

   private:
    Durable* durable_;
    detail::TaskContext* context_ = nullptr;
  };

 private:
  std::shared_ptr<detail::RunOperation> operation_;
  std::string what_;
};

/// What a step can ask about itself.
class StepContext {
 public:
  StepContext(std::string idempotency_key, std::uint32_t attempt, std::stop_token stop)
      : idempotency_key_(std::move(idempotency_key)), attempt_(attempt), stop_(std::move(stop)) {}

  /// The same at each attempt, and never that of another step: whoever is asked twice with it can
  /// tell, and does it once.
  [[nodiscard]] const std::string& idempotency_key() const noexcept { return idempotency_key_; }
  /// From 1 on.
  [[nodiscard]] std::uint32_t attempt() const noexcept { return attempt_; }
  [[nodiscard]] const std::stop_token& stop_token() const noexcept { return stop_; }

 private:
  std::string idempotency_key_;
  std::uint32_t attempt_;
  std::stop_token stop_;
};

/// What a workflow can do. Its code runs again from the start after a crash, over a journal of what
/// it did: so it must do the same again, and everything else belongs into steps.
///
/// ```
/// Task<Receipt> fulfil(Context& ctx, Order order) {
///   auto charge = ctx.run("charge", [&](StepContext& step) { return pay(order,
///   step.idempotency_key()); }); const Payment payment = co_await charge; co_await ctx.sleep(24h);
///   co_return Receipt{order.id, payment.id};
/// }
/// ```
///
/// A coroutine that takes a `Context&` can await these operations, other such coroutines, and
/// nothing else: that is a compile error.
class Context {
 public:
  explicit Context(detail::RunMachine& machine) noexcept : machine_(machine) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] const std::string& run_id() const noexcept;
  [[nodiscard]] const std::string& type() const noexcept;
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

  /// Does something outside, at least once, and remembers its result. `function` takes nothing or a
  /// `StepContext&`, and returns a value, for which it may block its thread, or a `Task`. With g++
  /// 12, name the operation if the function captures more than references.
  template <typename Function>
  [[nodiscard]] auto run(std::string_view name, Function function) {
    using Code = detail::StepCodeOf<Function>;
    using Step = Durable<typename Code::Value, std::is_trivially_destructible_v<Function>>;
    return Step(begin_step(name, std::make_unique<Code>(std::move(function))), std::string(name));
  }

  /// Zero or less is over at once.
  [[nodiscard]] Durable<void> sleep(Duration time) { return sleep_until(now() + time); }
  [[nodiscard]] Durable<void> sleep_until(StoreTime due);

  /// The next signal of this name, in the order in which they came; one that came before is kept.
  template <Payload T>
  [[nodiscard]] Durable<T> signal(std::string_view name) {
    return {begin_signal(name), std::string(name)};
  }

 private:
  [[nodiscard]] std::shared_ptr<detail::RunOperation> begin_step(
      std::string_view name, std::unique_ptr<detail::StepCode> code);
  [[nodiscard]] std::shared_ptr<detail::RunOperation> begin_signal(std::string_view name);

  detail::RunMachine& machine_;
};

}  // namespace holdfast
