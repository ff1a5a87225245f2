// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include <holdfast/detail/owned_task.hpp>
#include <holdfast/task.hpp>

// g++ before 13 destroys what a lambda captured, or a braced argument holds, twice if that is
// written inside an awaited expression (its bugs 99576 and 107288).
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
#define HOLDFAST_AWAITED_TEMPORARIES_BREAK 1
#else
#define HOLDFAST_AWAITED_TEMPORARIES_BREAK 0
#endif

namespace holdfast::detail {

template <typename T>
struct UnwrapTask {
  using Type = T;
  static constexpr bool kIsTask = false;
};
template <typename T>
struct UnwrapTask<Task<T>> {
  using Type = T;
  static constexpr bool kIsTask = true;
};

/// A function that runs while something is held: what `run_exclusive` and its like return.
///
/// The function returns a value or a `Task`. Await this once.
template <typename AcquireOperation, typename Function>
class [[nodiscard]] Guarded {
  using Returned = UnwrapTask<std::invoke_result_t<Function&>>;

 public:
  using Value = typename Returned::Type;

  /// `make_acquire()` returns the operation, which cannot be moved.
  template <typename MakeAcquire>
  Guarded(const MakeAcquire& make_acquire, Function function)
      : acquire_(make_acquire()), function_(std::move(function)) {}
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() = default;

  /// Blocks this thread; for functions that return a value.
  Value wait()
    requires(!Returned::kIsTask)
  {
    const auto hold = acquire_.wait();
    return std::invoke(function_);
  }

  auto operator co_await() & { return await(); }

  auto operator co_await() && {
    static_assert(
        !HOLDFAST_AWAITED_TEMPORARIES_BREAK || std::is_trivially_destructible_v<Function>,
        "this compiler (g++ before 13) destroys the captures of a lambda inside a co_await "
        "twice: name the operation first (auto work = mutex.run_exclusive(...);), then "
        "co_await work; or capture by reference only");
    return await();
  }

 private:
  OwnedTask<Value> await() { return OwnedTask<Value>(run(acquire_, function_)); }

  static Task<Value> run(AcquireOperation& acquire, Function& function) {
    const auto hold = co_await acquire;
    if constexpr (Returned::kIsTask) {
      Task<Value> task = std::invoke(function);
      if constexpr (std::is_void_v<Value>) {
        co_await task;
      } else {
        co_return co_await task;
      }
    } else if constexpr (std::is_void_v<Value>) {
      std::invoke(function);
    } else {
      co_return std::invoke(function);
    }
  }

  AcquireOperation acquire_;
  Function function_;
};

template <typename MakeAcquire, typename Function>
Guarded(const MakeAcquire&, Function)
    -> Guarded<std::invoke_result_t<const MakeAcquire&>, Function>;

}  // namespace holdfast::detail
