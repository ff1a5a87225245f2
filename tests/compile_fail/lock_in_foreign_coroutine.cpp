// SPDX-License-Identifier: Apache-2.0
// Neither a lock nor a Task can be awaited in another library's coroutine.
#include <coroutine>
#include <exception>

#include <holdfast/sync.hpp>

struct Foreign {
  struct promise_type {
    Foreign get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

holdfast::Task<void> task();

Foreign wait(holdfast::Mutex& mutex, holdfast::KeyedMutex<int>& keyed) {
  static_cast<void>(mutex.is_locked() || keyed.size() > 0);
  co_await AWAITED;
}
