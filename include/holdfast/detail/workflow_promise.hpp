// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <coroutine>
#include <type_traits>
#include <utility>

#include <holdfast/detail/guarded.hpp>
#include <holdfast/task.hpp>

namespace holdfast {

class Context;

namespace detail {

/// Throws `WrongContext` if not.
void check_is_workflow(bool is_workflow);

/// What a workflow may await says so by this member.
template <typename Awaitable>
concept DurableAwaitable = requires { typename Awaitable::DurableOperation; };

/// The promise of coroutines that take a `Context&`: they are workflows, or parts of them, and
/// await nothing that a journal does not know.
template <typename T>
class WorkflowPromiseOf final : public TaskPromiseOf<T> {
 public:
  WorkflowPromiseOf() noexcept { this->mark_as_workflow(); }

  HOLDFAST_COROUTINE_WRAPPER Task<T> get_return_object() noexcept {
    return TaskPromiseOf<T>::task_of(std::coroutine_handle<WorkflowPromiseOf>::from_promise(*this));
  }

  template <typename Awaitable>
  auto await_transform(Awaitable&& awaitable) {
    using Plain = std::remove_cvref_t<Awaitable>;
    if constexpr (UnwrapTask<Plain>::kIsTask) {
      check_is_workflow(awaitable.is_workflow());
      return awaitable.operator co_await();
    } else {
      static_assert(DurableAwaitable<Plain>,
                    "a workflow awaits durable operations of its Context, and coroutines that take "
                    "the Context, too: anything else would not happen again when it is replayed. "
                    "Do it in a step: ctx.run(\"name\", ...)");
      static_assert(std::is_lvalue_reference_v<Awaitable&&> || Plain::kMayBeTemporary ||
                        HOLDFAST_AWAITED_TEMPORARIES_BREAK == 0,
                    "g++ before 13 destroys twice what this function captured. Name the "
                    "operation, then await it: auto step = ctx.run(...); co_await step;");
      return typename Plain::Awaiter(awaitable);
    }
  }
};

}  // namespace detail

}  // namespace holdfast

template <typename T, typename... Arguments>
struct std::coroutine_traits<holdfast::Task<T>, holdfast::Context&, Arguments...> {
  using promise_type = holdfast::detail::WorkflowPromiseOf<T>;
};
/// Of a lambda or a member function.
template <typename T, typename Object, typename... Arguments>
struct std::coroutine_traits<holdfast::Task<T>, Object, holdfast::Context&, Arguments...> {
  using promise_type = holdfast::detail::WorkflowPromiseOf<T>;
};
