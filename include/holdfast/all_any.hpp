// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <holdfast/detail/check.hpp>
#include <holdfast/detail/fork.hpp>
#include <holdfast/error.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/task.hpp>

namespace holdfast {

namespace detail {

template <typename T>
using ValueOf = typename Result<T>::Value;

template <typename T>
Branch run_branch(Task<T> task, Result<T>* result) {
  {
    Capture<T> capture{std::move(task), *result};
    co_await capture;
  }
  co_return result->failed();
}

template <typename T>
void rethrow_if_failed(const Result<T>& result) {
  if (result.failed()) {
    std::rethrow_exception(result.exception());
  }
}

/// Calls `visit(results[index])`, with `index` known only at run time.
template <typename Results, typename Visit, std::size_t... kIndex>
void visit_at(Results& results, std::size_t index, const Visit& visit,
              std::index_sequence<kIndex...> /*all*/) {
  static_cast<void>((
      (kIndex == index
           ? (visit(std::integral_constant<std::size_t, kIndex>{}, std::get<kIndex>(results)), true)
           : false) ||
      ...));
}

}  // namespace detail

/// Runs the tasks at the same time and gives their results in the order of the arguments (`void` as
/// `std::monostate`). If one fails, the others are asked to stop, and when all have ended the first
/// failure is thrown.
///
/// ```
/// auto [user, orders] = co_await all(load_user(id), load_orders(id));
/// ```
template <typename... Ts>
Task<std::tuple<detail::ValueOf<Ts>...>> all(Task<Ts>... tasks) {
  std::tuple<detail::Result<Ts>...> results;
  detail::Fork fork(detail::Fork::Decision::kFirstFailure);
  std::apply(
      [&](auto&... result) { (fork.add(detail::run_branch<Ts>(std::move(tasks), &result)), ...); },
      results);
  const auto failed = co_await fork;
  if (failed) {
    detail::visit_at(
        results, *failed, [](auto, auto& result) { detail::rethrow_if_failed(result); },
        std::index_sequence_for<Ts...>{});
  }
  co_return std::apply(
      [](auto&... result) { return std::tuple<detail::ValueOf<Ts>...>(result.take_value()...); },
      results);
}

/// The same for tasks of one type.
template <typename T>
Task<std::conditional_t<std::is_void_v<T>, void, std::vector<detail::ValueOf<T>>>> all(
    std::vector<Task<T>> tasks) {
  std::vector<detail::Result<T>> results(tasks.size());
  detail::Fork fork(detail::Fork::Decision::kFirstFailure);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    fork.add(detail::run_branch<T>(std::move(tasks[i]), &results[i]));
  }
  const auto failed = co_await fork;
  if (failed) {
    detail::rethrow_if_failed(results[*failed]);
  }
  if constexpr (!std::is_void_v<T>) {
    std::vector<T> values;
    values.reserve(results.size());
    for (auto& result : results) {
      values.push_back(result.take());
    }
    co_return values;
  }
}

/// Runs the tasks at the same time until the first ends, however it ends; the others are asked to
/// stop, and when all have ended the first one's value is returned or its failure thrown. The index
/// of the variant says which it was.
///
/// ```
/// auto first = co_await any(ask(server_a), ask(server_b));
/// ```
template <typename... Ts>
  requires(sizeof...(Ts) > 0)
Task<std::variant<detail::ValueOf<Ts>...>> any(Task<Ts>... tasks) {
  std::tuple<detail::Result<Ts>...> results;
  detail::Fork fork(detail::Fork::Decision::kFirstEnd);
  std::apply(
      [&](auto&... result) { (fork.add(detail::run_branch<Ts>(std::move(tasks), &result)), ...); },
      results);
  const auto first = co_await fork;
  std::optional<std::variant<detail::ValueOf<Ts>...>> value;
  detail::visit_at(
      results, *first,
      [&](auto index, auto& result) {
        value.emplace(std::in_place_index<decltype(index)::value>, result.take_value());
      },
      std::index_sequence_for<Ts...>{});
  co_return std::move(*value);
}

/// What `any` of a list returns.
template <typename T>
struct First {
  std::size_t index;
  detail::ValueOf<T> value;
};

/// The same for tasks of one type. An empty list is an `InvalidArgument`: there is no first of
/// none.
template <typename T>
Task<First<T>> any(std::vector<Task<T>> tasks) {
  if (tasks.empty()) {
    throw InvalidArgument("any: the list of tasks is empty; there is no first of none");
  }
  std::vector<detail::Result<T>> results(tasks.size());
  detail::Fork fork(detail::Fork::Decision::kFirstEnd);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    fork.add(detail::run_branch<T>(std::move(tasks[i]), &results[i]));
  }
  const auto first = co_await fork;
  auto value = results[*first].take_value();
  co_return First<T>{*first, std::move(value)};
}

}  // namespace holdfast
