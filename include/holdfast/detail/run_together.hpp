// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <coroutine>
#include <cstddef>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <holdfast/all_any.hpp>
#include <holdfast/detail/fork.hpp>
#include <holdfast/detail/guarded.hpp>
#include <holdfast/detail/shield.hpp>
#include <holdfast/detail/workflow_promise.hpp>
#include <holdfast/durable.hpp>
#include <holdfast/outcome.hpp>
#include <holdfast/task.hpp>

/// Several waits of a workflow at once. All are coroutines that take the `Context&`, so that they
/// are parts of a workflow themselves.
namespace holdfast::detail {

/// What `Context` throws to end a run and go on as a new one. No `std::exception`: code that
/// catches those lets it pass.
struct ContinueAsNew {};

/// What a part of a workflow waits for: an operation, or a coroutine that takes the `Context&`.
template <typename T>
struct WaitOf {
  static constexpr bool kIsWait = false;
};
template <typename T, bool kFromTemporary>
struct WaitOf<Durable<T, kFromTemporary>> {
  static constexpr bool kIsWait = true;
  using Value = T;
};
template <typename T>
struct WaitOf<Task<T>> {
  static constexpr bool kIsWait = true;
  using Value = T;
};
template <typename T>
concept RunWait = WaitOf<std::remove_cvref_t<T>>::kIsWait;
template <typename T>
using WaitedValue = typename WaitOf<std::remove_cvref_t<T>>::Value;

/// Whether g++ before 13 makes something of it, written inside a co_await.
template <typename T>
constexpr bool can_be_written_inside() {
  if constexpr (std::is_lvalue_reference_v<T> || UnwrapTask<std::remove_cvref_t<T>>::kIsTask) {
    return true;
  } else {
    return std::remove_cvref_t<T>::kMayBeTemporary || HOLDFAST_AWAITED_TEMPORARIES_BREAK == 0;
  }
}

/// 1 if it was made in the call itself.
template <typename T>
inline constexpr int kIsTemporaryOperation =
    !std::is_lvalue_reference_v<T> && !UnwrapTask<std::remove_cvref_t<T>>::kIsTask ? 1 : 0;

template <typename T, bool kFromTemporary>
Task<T> await_operation(Context& /*context*/, Durable<T, kFromTemporary> operation) {
  if constexpr (std::is_void_v<T>) {
    co_await operation;
  } else {
    T value = co_await operation;
    co_return value;
  }
}
template <typename T, bool kFromTemporary>
Task<T> await_named(Context& /*context*/, Durable<T, kFromTemporary>& operation) {
  if constexpr (std::is_void_v<T>) {
    co_await operation;
  } else {
    T value = co_await operation;
    co_return value;
  }
}

/// A coroutine that does what `wait` does.
template <typename T, bool kFromTemporary>
Task<T> as_part(Context& context, Durable<T, kFromTemporary>&& wait) {
  return await_operation<T, kFromTemporary>(context, std::move(wait));
}
template <typename T, bool kFromTemporary>
Task<T> as_part(Context& context, Durable<T, kFromTemporary>& wait) {
  return await_named<T, kFromTemporary>(context, wait);
}
template <typename T>
Task<T> as_part(Context& /*context*/, Task<T>&& wait) {
  check_is_workflow(wait.is_workflow());
  return std::move(wait);
}
template <typename T>
Task<T> as_part(Context& /*context*/, Task<T>& wait) {
  check_is_workflow(wait.is_workflow());
  return std::move(wait);
}

template <typename Wait>
auto as_parts(Context& context, std::vector<Wait> waits) {
  std::vector<Task<WaitedValue<Wait>>> parts;
  parts.reserve(waits.size());
  for (Wait& wait : waits) {
    parts.push_back(as_part(context, std::move(wait)));
  }
  return parts;
}

/// A fork as a workflow may await it: its branches are parts of the workflow.
class DurableFork {
 public:
  using DurableOperation = DurableFork;
  static constexpr bool kMayBeTemporary = true;

  explicit DurableFork(Fork& fork) noexcept : fork_(&fork) {}

  class Awaiter {
   public:
    explicit Awaiter(const DurableFork& fork) noexcept : fork_(fork.fork_) {}
    [[nodiscard]] bool await_ready() const noexcept { return fork_->await_ready(); }
    template <TaskPromise Promise>
    void await_suspend(std::coroutine_handle<Promise> parent) {
      fork_->await_suspend(parent);
    }
    std::optional<std::size_t> await_resume() noexcept { return fork_->await_resume(); }

   private:
    Fork* fork_;
  };

 private:
  Fork* fork_;
};

template <typename... Ts>
Task<std::tuple<ValueOf<Ts>...>> all_in_run(Context& /*context*/, Task<Ts>... tasks) {
  std::tuple<Result<Ts>...> results;
  Fork fork(Fork::Decision::kFirstFailure);
  std::apply([&](auto&... result) { (fork.add(run_branch<Ts>(std::move(tasks), &result)), ...); },
             results);
  const auto failed = co_await DurableFork(fork);
  if (failed) {
    visit_at(
        results, *failed, [](auto, auto& result) { rethrow_if_failed(result); },
        std::index_sequence_for<Ts...>{});
  }
  co_return std::apply(
      [](auto&... result) { return std::tuple<ValueOf<Ts>...>(result.take_value()...); }, results);
}

template <typename T>
using AllOf = std::conditional_t<std::is_void_v<T>, void, std::vector<ValueOf<T>>>;

template <typename T>
AllOf<T> take_all(std::vector<Result<T>>& results) {
  if constexpr (!std::is_void_v<T>) {
    std::vector<T> values;
    values.reserve(results.size());
    for (auto& result : results) {
      values.push_back(result.take());
    }
    return values;
  }
}

template <typename T>
Task<AllOf<T>> all_in_run(Context& /*context*/, std::vector<Task<T>> tasks) {
  std::vector<Result<T>> results(tasks.size());
  Fork fork(Fork::Decision::kFirstFailure);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    fork.add(run_branch<T>(std::move(tasks[i]), &results[i]));
  }
  const auto failed = co_await DurableFork(fork);
  if (failed) {
    rethrow_if_failed(results[*failed]);
  }
  if constexpr (std::is_void_v<T>) {
    co_return;
  } else {
    co_return take_all(results);
  }
}

/// One of those who take the next task until none is left.
template <typename T>
Task<void> take_turns(Context& /*context*/, std::vector<Task<T>>& tasks,
                      std::vector<Result<T>>& results, std::size_t& next) {
  while (next < tasks.size()) {
    const std::size_t mine = next++;
    if constexpr (std::is_void_v<T>) {
      co_await tasks[mine];
      results[mine].set_value(std::monostate{});
    } else {
      T value = co_await tasks[mine];
      results[mine].set_value(std::move(value));
    }
    // What it kept goes now, not when all have ended.
    const Task<T> ended = std::move(tasks[mine]);
  }
}

/// At most `at_most` under way at once.
template <typename T>
Task<AllOf<T>> all_in_run(Context& context, std::vector<Task<T>> tasks, std::size_t at_most) {
  std::vector<Result<T>> results(tasks.size());
  const std::size_t takers = std::min(at_most, tasks.size());
  std::vector<Result<void>> ends(takers);
  std::size_t next = 0;
  Fork fork(Fork::Decision::kFirstFailure);
  for (std::size_t i = 0; i < takers; ++i) {
    fork.add(run_branch<void>(take_turns<T>(context, tasks, results, next), &ends[i]));
  }
  const auto failed = co_await DurableFork(fork);
  if (failed) {
    rethrow_if_failed(ends[*failed]);
  }
  if constexpr (std::is_void_v<T>) {
    co_return;
  } else {
    co_return take_all(results);
  }
}

template <typename... Ts>
Task<std::variant<ValueOf<Ts>...>> any_in_run(Context& /*context*/, Task<Ts>... tasks) {
  std::tuple<Result<Ts>...> results;
  Fork fork(Fork::Decision::kFirstEnd);
  std::apply([&](auto&... result) { (fork.add(run_branch<Ts>(std::move(tasks), &result)), ...); },
             results);
  const auto first = co_await DurableFork(fork);
  std::optional<std::variant<ValueOf<Ts>...>> value;
  visit_at(
      results, *first,
      [&](auto index, auto& result) {
        value.emplace(std::in_place_index<decltype(index)::value>, result.take_value());
      },
      std::index_sequence_for<Ts...>{});
  co_return std::move(*value);
}

template <typename T>
Task<First<T>> any_in_run(Context& /*context*/, std::vector<Task<T>> tasks) {
  if (tasks.empty()) {
    throw InvalidArgument("any: the list is empty; there is no first of none");
  }
  std::vector<Result<T>> results(tasks.size());
  Fork fork(Fork::Decision::kFirstEnd);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    fork.add(run_branch<T>(std::move(tasks[i]), &results[i]));
  }
  const auto first = co_await DurableFork(fork);
  auto value = results[*first].take_value();
  co_return First<T>{*first, std::move(value)};
}

template <typename T>
Task<Outcome<T>> attempt_in_run(Context& /*context*/, Task<T> task) {
  Result<T> result;
  try {
    if constexpr (std::is_void_v<T>) {
      co_await task;
      result.set_value(std::monostate{});
    } else {
      T value = co_await task;
      result.set_value(std::move(value));
    }
  } catch (const ContinueAsNew&) {
    throw;
  } catch (...) {
    result.set_exception(std::current_exception());
  }
  co_return Outcome<T>(std::move(result));
}

template <typename T>
Task<T> shield_in_run(Context& /*context*/, Task<T> task) {
  Shield<T> shield(std::move(task));
  if constexpr (std::is_void_v<T>) {
    co_await shield;
  } else {
    T value = co_await shield;
    co_return value;
  }
}

}  // namespace holdfast::detail
