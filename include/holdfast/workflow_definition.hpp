// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <holdfast/admission.hpp>
#include <holdfast/detail/workflow_code.hpp>
#include <holdfast/detail/workflow_promise.hpp>
#include <holdfast/task.hpp>

namespace holdfast {

namespace detail {

/// What a workflow function takes besides the context, and what it returns.
template <typename Function>
struct WorkflowForm;
template <typename Out, typename In>
struct WorkflowForm<Task<Out> (*)(Context&, In)> {
  using Input = std::remove_cvref_t<In>;
  using Output = Out;
};
template <typename Out>
struct WorkflowForm<Task<Out> (*)(Context&)> {
  using Input = void;
  using Output = Out;
};

template <typename Function>
class WorkflowCodeOf final : public WorkflowCode {
  using Input = typename WorkflowForm<Function>::Input;
  using Output = typename WorkflowForm<Function>::Output;

 public:
  explicit WorkflowCodeOf(Function function) noexcept : function_(function) {}

  [[nodiscard]] Task<boost::json::value> run(Context& context,
                                             boost::json::value input) const override {
    boost::json::value value;
    auto task = call(context, std::move(input));
    if constexpr (std::is_void_v<Output>) {
      co_await task;
    } else {
      Output result = co_await task;
      value = to_payload(std::move(result));
    }
    co_return value;
  }

 private:
  Task<Output> call(Context& context, boost::json::value input) const {
    if constexpr (std::is_void_v<Input>) {
      return function_(context);
    } else {
      return function_(context, from_payload<Input>(std::move(input), "input"));
    }
  }

  Function function_;
};

}  // namespace detail

/// A workflow: its code, the name by which runs in the store find it, and how many of them may go
/// on at once.
template <Payload In, Payload Out>
class Workflow {
  using InputRef = std::add_lvalue_reference_t<const In>;

 public:
  Workflow(std::string name, std::shared_ptr<const detail::WorkflowCode> code)
      : name_(std::move(name)), code_(std::move(code)) {}

  /// The same one with a limit, for each key and for all together: see `Concurrency`. `key` takes
  /// the input, and returns what a `std::string` can be made of. Throws `InvalidArgument`.
  template <typename Key>
    requires(std::invocable<const Key&, InputRef>)
  [[nodiscard]] Workflow concurrency(const Concurrency& terms, Key key) const {
    return limited(terms, [key = std::move(key)](const boost::json::value& input) {
      return std::string(std::invoke(key, detail::from_payload<In>(input, "input")));
    });
  }
  [[nodiscard]] Workflow concurrency(const Concurrency& terms) const {
    return limited(terms, nullptr);
  }
  /// One run at a time, of all or of each key: a second start is given the handle of the first.
  [[nodiscard]] Workflow singleton() const {
    return concurrency({.max = 1, .when_full = WhenFull::kJoin});
  }
  template <typename Key>
    requires(std::invocable<const Key&, InputRef>)
  [[nodiscard]] Workflow singleton(Key key) const {
    return concurrency({.max = 1, .when_full = WhenFull::kJoin}, std::move(key));
  }

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::shared_ptr<const detail::WorkflowCode>& code() const noexcept {
    return code_;
  }
  /// Null: any number may go on at once.
  [[nodiscard]] const std::shared_ptr<const detail::Admission>& admission() const noexcept {
    return admission_;
  }

 private:
  [[nodiscard]] Workflow limited(const Concurrency& terms, detail::Admission::KeyOf key_of) const {
    Workflow limited = *this;
    limited.admission_ = std::make_shared<const detail::Admission>(name_, terms, std::move(key_of));
    return limited;
  }

  std::string name_;
  std::shared_ptr<const detail::WorkflowCode> code_;
  std::shared_ptr<const detail::Admission> admission_;
};

/// ```
/// const auto fulfilment = workflow("fulfil", fulfil);  // Task<Receipt> fulfil(Context&, Order)
/// ```
template <typename Function>
[[nodiscard]] auto workflow(std::string_view name, Function function) {
  using Pointer = decltype(+function);
  using Form = detail::WorkflowForm<Pointer>;
  return Workflow<typename Form::Input, typename Form::Output>(
      std::string(name), std::make_shared<detail::WorkflowCodeOf<Pointer>>(+function));
}

}  // namespace holdfast
