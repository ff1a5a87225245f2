// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/json/value.hpp>

#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include <holdfast/detail/guarded.hpp>
#include <holdfast/detail/workflow_code.hpp>
#include <holdfast/step_context.hpp>
#include <holdfast/task.hpp>

namespace holdfast::testing {

/// A call of a step, as a fake sees it: one attempt.
class StepCall {
 public:
  /// What outlives the call.
  struct Facts {
    const std::string& step;
    const std::string& run_id;
    const std::string& workflow;
    const boost::json::value& run_input;
    std::uint64_t number;
  };
  StepCall(const Facts& facts, StepContext& context) noexcept : facts_(facts), context_(context) {}
  StepCall(const StepCall&) = delete;
  StepCall& operator=(const StepCall&) = delete;

  [[nodiscard]] const std::string& step() const noexcept { return facts_.step; }
  [[nodiscard]] const std::string& run_id() const noexcept { return facts_.run_id; }
  [[nodiscard]] const std::string& workflow() const noexcept { return facts_.workflow; }
  /// What the run was started with. Throws `BadPayload` if it is of another type.
  template <Payload T>
  [[nodiscard]] T run_input() const {
    return holdfast::detail::from_payload<T>(facts_.run_input, "input");
  }
  /// How often a step of this name was called so far, with this one, in all runs.
  [[nodiscard]] std::uint64_t number() const noexcept { return facts_.number; }
  /// Of this step, from 1 on.
  [[nodiscard]] std::uint32_t attempt() const noexcept { return context_.attempt(); }
  [[nodiscard]] const std::string& idempotency_key() const noexcept {
    return context_.idempotency_key();
  }
  /// What the step itself would have got: for heartbeats, and to see that it is to stop.
  [[nodiscard]] StepContext& context() const noexcept { return context_; }

 private:
  Facts facts_;
  StepContext& context_;
};

}  // namespace holdfast::testing

namespace holdfast::detail {

using StepFake = std::function<Task<boost::json::value>(testing::StepCall& call)>;

template <typename Function>
inline constexpr bool kIsStepFake =
    std::invocable<Function&, testing::StepCall&> || std::invocable<Function&, StepContext&> ||
    std::invocable<Function&>;

template <typename Function>
decltype(auto) call_fake(Function& function, testing::StepCall& call) {
  if constexpr (std::invocable<Function&, testing::StepCall&>) {
    return std::invoke(function, call);
  } else if constexpr (std::invocable<Function&, StepContext&>) {
    return std::invoke(function, call.context());
  } else {
    return std::invoke(function);
  }
}

/// Takes the types off. It stays where it is while one of its calls is under way.
template <typename Function>
class StepFakeOf {
  using Returned = UnwrapTask<decltype(call_fake(std::declval<Function&>(),
                                                 std::declval<testing::StepCall&>()))>;
  using Value = typename Returned::Type;
  static_assert(Payload<Value>,
                "a fake returns what its step does: nothing, JSON, or what Boost.JSON can convert "
                "to it and back");

 public:
  explicit StepFakeOf(Function function) : function_(std::move(function)) {}

  Task<boost::json::value> operator()(testing::StepCall& call) {
    boost::json::value value;
    if constexpr (Returned::kIsTask) {
      auto task = call_fake(function_, call);
      if constexpr (std::is_void_v<Value>) {
        co_await task;
      } else {
        Value result = co_await task;
        value = to_payload(std::move(result));
      }
    } else if constexpr (std::is_void_v<Value>) {
      call_fake(function_, call);
    } else {
      value = to_payload(call_fake(function_, call));
    }
    co_return value;
  }

 private:
  Function function_;
};

/// `fake` is a function, or the value that the step returns each time.
template <typename Fake>
StepFake step_fake_of(Fake fake) {
  if constexpr (kIsStepFake<Fake>) {
    return StepFakeOf<Fake>(std::move(fake));
  } else if constexpr (std::convertible_to<Fake, std::string_view>) {
    return StepFakeOf([text = std::string(fake)] { return text; });
  } else {
    static_assert(Payload<Fake>,
                  "a fake is a function that takes nothing, a StepCall& or a StepContext&; or a "
                  "value that Boost.JSON can convert: describe the struct with "
                  "BOOST_DESCRIBE_STRUCT; or fail_times(...).then(...)");
    return StepFakeOf([value = std::move(fake)] { return value; });
  }
}

}  // namespace holdfast::detail

namespace holdfast::testing {

/// The first calls fail; those after that are for `then`.
class FailTimes {
 public:
  FailTimes(std::uint64_t times, std::string message)
      : times_(times), message_(std::move(message)) {}

  /// A value, or a function as `TestEngine::fake_step` takes it.
  template <typename Then>
  [[nodiscard]] auto then(Then next) const {
    return [left = times_, message = message_,
            fake = holdfast::detail::step_fake_of(std::move(next))](StepCall& call) mutable {
      if (left > 0) {
        --left;
        throw std::runtime_error(message);
      }
      return fake(call);
    };
  }

 private:
  std::uint64_t times_;
  std::string message_;
};

/// ```
/// world.fake_step("ship", fail_times(2, "no truck").then(Parcel{"P1"}));
/// ```
[[nodiscard]] inline FailTimes fail_times(std::uint64_t times, std::string message) {
  return {times, std::move(message)};
}
/// A fake that throws `std::runtime_error` each time.
[[nodiscard]] inline auto fail_always(std::string message) {
  return [text = std::move(message)] { throw std::runtime_error(text); };
}

}  // namespace holdfast::testing
