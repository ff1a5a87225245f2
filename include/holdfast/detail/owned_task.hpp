// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <coroutine>
#include <utility>

#include <holdfast/task.hpp>

namespace holdfast::detail {

/// Awaits a task that lives in the awaiter, so that both last as long as the co_await: for
/// operations that are made of a coroutine.
template <typename T>
class OwnedTask {
 public:
  explicit OwnedTask(Task<T> task) : task_(std::move(task)), inner_(task_.operator co_await()) {}
  OwnedTask(const OwnedTask&) = delete;
  OwnedTask& operator=(const OwnedTask&) = delete;
  ~OwnedTask() = default;

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <typename Promise>
  bool await_suspend(std::coroutine_handle<Promise> parent) noexcept {
    return inner_.await_suspend(parent);
  }
  T await_resume() { return inner_.await_resume(); }

 private:
  Task<T> task_;
  typename Task<T>::Awaiter inner_;
};

}  // namespace holdfast::detail
