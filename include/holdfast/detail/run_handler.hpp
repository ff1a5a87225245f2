// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/json/value.hpp>

#include <concepts>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>

#include <holdfast/detail/workflow_code.hpp>

namespace holdfast::detail {

/// What a run does with a signal, an update or a query, with its types taken off.
using RunHandler = std::function<boost::json::value(boost::json::value)>;

template <typename Function, typename In>
struct HandlerReturned {
  static_assert(std::invocable<Function&, In>, "the handler does not take what is sent to it");
  using Type = std::invoke_result_t<Function&, In>;
};
template <typename Function>
struct HandlerReturned<Function, void> {
  static_assert(std::invocable<Function&>,
                "the handler takes something, and nothing is sent to it: name the type");
  using Type = std::invoke_result_t<Function&>;
};

/// A validator that refuses nothing.
template <typename In>
struct AcceptsAll {
  void operator()(const In& /*input*/) const noexcept {}
};
template <>
struct AcceptsAll<void> {
  void operator()() const noexcept {}
};

/// `what` names the argument in errors.
template <Payload In, Payload Out, typename Function>
RunHandler handler_of(std::string what, Function function) {
  using Returned = typename HandlerReturned<Function, In>::Type;
  static_assert(!UnwrapTask<Returned>::kIsTask,
                "a handler does not wait: let it note what came, and the workflow wait for that "
                "with ctx.wait_until(...)");
  return [what = std::move(what),
          function = std::move(function)](boost::json::value argument) mutable {
    const auto call = [&]() -> decltype(auto) {
      if constexpr (std::is_void_v<In>) {
        return std::invoke(function);
      } else {
        return std::invoke(function, from_payload<In>(std::move(argument), what));
      }
    };
    if constexpr (std::is_void_v<Out>) {
      static_cast<void>(call());
      return boost::json::value();
    } else {
      return to_payload(Out(call()));
    }
  };
}

}  // namespace holdfast::detail
