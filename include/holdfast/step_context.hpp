// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>

#include <holdfast/detail/workflow_code.hpp>
#include <holdfast/task.hpp>

namespace holdfast {

namespace detail {

/// Where an attempt of a step tells that it goes on. Thread-safe.
class StepLink {
 public:
  StepLink(const StepLink&) = delete;
  StepLink& operator=(const StepLink&) = delete;

  /// `progress` is the text of a payload.
  virtual void heartbeat(std::string progress) = 0;

 protected:
  StepLink() = default;
  ~StepLink() = default;
};

/// What is known before an attempt begins.
struct AttemptFacts {
  /// Outlives the attempt. Null: nobody listens.
  StepLink* link = nullptr;
  /// What the attempt before reported last, as the text of a payload.
  std::optional<std::string> last_progress{};
  /// An attempt may have been under way when a process died.
  bool recovered = false;
  std::uint64_t fence = 0;
};

}  // namespace detail

/// What a step can ask about itself.
class StepContext {
 public:
  StepContext(std::string idempotency_key, std::uint32_t attempt, std::stop_token stop,
              detail::AttemptFacts facts = {})
      : idempotency_key_(std::move(idempotency_key)),
        attempt_(attempt),
        stop_(std::move(stop)),
        facts_(std::move(facts)) {}

  /// The same at each attempt, and never that of another step: whoever is asked twice with it can
  /// tell, and does it once.
  [[nodiscard]] const std::string& idempotency_key() const noexcept { return idempotency_key_; }
  /// From 1 on.
  [[nodiscard]] std::uint32_t attempt() const noexcept { return attempt_; }
  /// False: this is the first time that anything of it happens.
  [[nodiscard]] bool may_have_run() const noexcept { return attempt_ > 1 || facts_.recovered; }
  [[nodiscard]] const std::stop_token& stop_token() const noexcept { return stop_; }
  /// Of the permit of `StepOptions::limit`, or else of `HoldSlot::kForStep`: greater than that of
  /// every permit before. 0: it has no limit.
  [[nodiscard]] std::uint64_t fence() const noexcept { return facts_.fence; }

  /// Says that the attempt goes on, and how far it is: see `StepOptions::heartbeat_timeout`. From
  /// any thread. Throws `BadPayload` if the progress is too long.
  void heartbeat() { report(nullptr); }
  template <typename Progress>
    requires(Payload<std::remove_cvref_t<Progress>>)
  void heartbeat(const Progress& progress) {
    report(detail::to_payload(progress));
  }
  /// What the attempt before this one reported last, so that this one can go on from there. Throws
  /// `BadPayload` if it is of another type.
  template <Payload T>
    requires(!std::is_void_v<T>)
  [[nodiscard]] std::optional<T> last_progress() const {
    std::optional<T> progress;
    if (facts_.last_progress) {
      progress = detail::from_payload<T>(last_progress_json(), "progress");
    }
    return progress;
  }

 private:
  void report(const boost::json::value& progress) const;
  [[nodiscard]] boost::json::value last_progress_json() const;

  std::string idempotency_key_;
  std::uint32_t attempt_;
  std::stop_token stop_;
  detail::AttemptFacts facts_;
};

namespace detail {

/// A step's function with the question whether it has been done already.
template <typename Function, typename Check>
class Verified {
  using Returned = StepReturned<Function>;
  using Known =
      UnwrapTask<decltype(call_step(std::declval<Check&>(), std::declval<StepContext&>()))>;
  using Value = typename Returned::Type;
  static constexpr bool kIsTask = Returned::kIsTask || Known::kIsTask;
  static_assert(std::is_void_v<Value>
                    ? std::same_as<typename Known::Type, bool>
                    : std::convertible_to<typename Known::Type, std::optional<KeptAs<Value>>>,
                "the check of a step returns std::optional of what the step returns, or bool if "
                "the step returns nothing: whether its effect has happened");

 public:
  Verified(Function function, Check check)
      : function_(std::move(function)), check_(std::move(check)) {}

  Value operator()(StepContext& step)
    requires(!kIsTask)
  {
    if (step.may_have_run()) {
      auto known = call_step(check_, step);
      if (known) {
        if constexpr (std::is_void_v<Value>) {
          return;
        } else {
          return *std::move(known);
        }
      }
    }
    return call_step(function_, step);
  }
  Task<Value> operator()(StepContext& step)
    requires kIsTask
  {
    if (step.may_have_run()) {
      typename Known::Type known{};
      if constexpr (Known::kIsTask) {
        auto asking = call_step(check_, step);
        known = co_await asking;
      } else {
        known = call_step(check_, step);
      }
      if (known) {
        if constexpr (std::is_void_v<Value>) {
          co_return;
        } else {
          co_return *std::move(known);
        }
      }
    }
    if constexpr (!Returned::kIsTask) {
      co_return call_step(function_, step);
    } else {
      auto doing = call_step(function_, step);
      if constexpr (std::is_void_v<Value>) {
        co_await doing;
      } else {
        Value value = co_await doing;
        co_return value;
      }
    }
  }

 private:
  Function function_;
  Check check_;
};

}  // namespace detail

/// A step's function that is asked first whether its effect has happened, before each attempt that
/// may not be the first: `check` takes nothing or a `StepContext&`, and returns the value with
/// which it has, or nothing; of a step that returns nothing, a bool.
///
/// ```
/// auto charge = ctx.run("charge", with_verify(
///     [&](StepContext& step) { return bank.pay(order, step.idempotency_key()); },
///     [&](StepContext& step) { return bank.find_payment(step.idempotency_key()); }));
/// const Payment payment = co_await charge;
/// ```
template <typename Function, typename Check>
[[nodiscard]] auto with_verify(Function function, Check check) {
  return detail::Verified<Function, Check>(std::move(function), std::move(check));
}

}  // namespace holdfast
