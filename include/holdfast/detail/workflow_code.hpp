// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/json/conversion.hpp>
#include <boost/json/value.hpp>
#include <boost/json/value_from.hpp>
#include <boost/json/value_to.hpp>

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <holdfast/detail/guarded.hpp>
#include <holdfast/detail/payload_defaults.hpp>
#include <holdfast/detail/payload_fault.hpp>
#include <holdfast/task.hpp>

namespace holdfast {

class Context;
class StepContext;
class Transaction;

/// What goes into a run and comes out of it, and of its steps: nothing, `boost::json::value`, and
/// what Boost.JSON converts to and from it, structs that Boost.Describe describes included. Of
/// these, a member that is a `std::optional` may be missing.
template <typename T>
concept Payload = std::is_void_v<T> || std::same_as<T, boost::json::value> ||
                  (boost::json::has_value_from<T>::value && boost::json::has_value_to<T>::value);

namespace detail {

/// A step was called as a transaction, or the other way round.
[[noreturn]] void refuse_transaction();
[[noreturn]] void refuse_without_transaction();

/// Throws `BadPayload`. `fault` names the place and what was expected there.
[[noreturn]] void refuse_payload(std::string_view what, const std::string& fault);

template <Payload T>
T from_payload(boost::json::value value, std::string_view what) {
  if constexpr (std::is_void_v<T>) {
    return;
  } else if constexpr (std::same_as<T, boost::json::value>) {
    return value;
  } else {
    auto converted = boost::json::try_value_to<T>(value);
    if (converted.has_error()) {
      add_missing_members<T>(value);
      converted = boost::json::try_value_to<T>(value);
    }
    if (converted.has_error()) {
      refuse_payload(what, payload_fault<T>(value, std::string(what), converted.error()));
    }
    return *std::move(converted);
  }
}

template <typename T>
boost::json::value to_payload(T&& value) {
  return boost::json::value_from(std::forward<T>(value));
}

/// A read or a change of a cell, with its types taken off.
class StateCode {
 public:
  StateCode() = default;
  StateCode(const StateCode&) = delete;
  StateCode& operator=(const StateCode&) = delete;
  virtual ~StateCode() = default;

  struct Change {
    boost::json::value answer;  ///< For the code that waits.
    bool writes = false;
    std::optional<boost::json::value> value;  ///< What to write; nothing: the cell is erased.
  };
  /// `current`: nothing if the cell was not written, or was erased. May be asked again, with
  /// another value. What it throws is thrown to the code that waits.
  [[nodiscard]] virtual Change apply(const std::optional<boost::json::value>& current) = 0;
};

/// What a step does, with its types taken off.
class StepCode {
 public:
  StepCode() = default;
  StepCode(const StepCode&) = delete;
  StepCode& operator=(const StepCode&) = delete;
  virtual ~StepCode() = default;

  /// An ordinary function, which may block its thread.
  [[nodiscard]] virtual bool blocks() const noexcept = 0;
  [[nodiscard]] virtual Task<boost::json::value> run(StepContext& step) = 0;

  /// It is done by `transact`, in the commit that says so, and not by `run`.
  [[nodiscard]] virtual bool transacts() const noexcept { return false; }
  [[nodiscard]] virtual boost::json::value transact(Transaction& /*transaction*/) {
    refuse_transaction();
  }
};

template <typename Function>
decltype(auto) call_step(Function& function, StepContext& step) {
  if constexpr (std::invocable<Function&, StepContext&>) {
    return std::invoke(function, step);
  } else {
    static_assert(std::invocable<Function&>,
                  "the function of a step takes nothing, or a StepContext&");
    return std::invoke(function);
  }
}

template <typename Function>
using StepReturned =
    UnwrapTask<decltype(call_step(std::declval<Function&>(), std::declval<StepContext&>()))>;

/// So that a type can be named where there may be none.
template <typename T>
using KeptAs = std::conditional_t<std::is_void_v<T>, bool, T>;

template <typename Function>
class StepCodeOf final : public StepCode {
  using Returned = StepReturned<Function>;

 public:
  using Value = typename Returned::Type;
  static_assert(Payload<Value>,
                "a step returns nothing, JSON, or what Boost.JSON can convert to it and back: "
                "describe the struct with BOOST_DESCRIBE_STRUCT");

  explicit StepCodeOf(Function function) : function_(std::move(function)) {}

  [[nodiscard]] bool blocks() const noexcept override { return !Returned::kIsTask; }
  [[nodiscard]] Task<boost::json::value> run(StepContext& step) override {
    boost::json::value value;
    if constexpr (Returned::kIsTask) {
      auto task = call_step(function_, step);
      if constexpr (std::is_void_v<Value>) {
        co_await task;
      } else {
        Value result = co_await task;
        value = to_payload(std::move(result));
      }
    } else if constexpr (std::is_void_v<Value>) {
      call_step(function_, step);
    } else {
      value = to_payload(call_step(function_, step));
    }
    co_return value;
  }

 private:
  Function function_;
};

/// A workflow, with its types taken off.
class WorkflowCode {
 public:
  WorkflowCode() = default;
  WorkflowCode(const WorkflowCode&) = delete;
  WorkflowCode& operator=(const WorkflowCode&) = delete;
  virtual ~WorkflowCode() = default;

  [[nodiscard]] virtual Task<boost::json::value> run(Context& context,
                                                     boost::json::value input) const = 0;
};

}  // namespace detail

}  // namespace holdfast
