// SPDX-License-Identifier: Apache-2.0
// The least that a coroutine needs, for the samples.
#pragma once
#include <coroutine>
#include <string>
#include <utility>

struct Task {
  struct promise_type {
    Task get_return_object() { return {}; }
    std::suspend_never initial_suspend() { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() {}
  };
};

template <typename T>
struct Awaitable {
  bool await_ready() { return true; }
  void await_suspend(std::coroutine_handle<>) {}
  T await_resume() { return T{}; }
};

inline Awaitable<bool> ask() { return {}; }
inline Awaitable<int> number() { return {}; }

template <typename Function>
Awaitable<int> call(Function) {
  return {};
}
