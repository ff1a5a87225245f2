// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Holdfast and Boost.Asio, both ways. The only header of Holdfast that needs Boost (1.81).
///
/// ```
/// boost::asio::awaitable<void> append(holdfast::Mutex& mutex, std::string line) {
///   holdfast::Hold hold = co_await holdfast::async_wait(mutex.lock({.timeout = 5s}),
///                                                       boost::asio::use_awaitable);
///   co_await boost::asio::async_write(file, boost::asio::buffer(line),
///                                     boost::asio::use_awaitable);
/// }
///
/// holdfast::Task<std::size_t> read(tcp::socket& socket, std::span<char> into) {
///   co_return co_await socket.async_read_some(boost::asio::buffer(into), holdfast::use_task);
/// }
/// ```
///
///   | from      | to        | write                                             |
///   |-----------|-----------|---------------------------------------------------|
///   | Asio code | a lock    | `async_wait(mutex.lock(), token)`                 |
///   | Asio code | a `Task`  | `async_run(executor, task(), token)`              |
///   | a `Task`  | Asio      | `co_await socket.async_read_some(…, use_task)`    |
///   | tasks     | on Asio   | `AsioExecutor executor(io_context);`              |

#include <array>
#include <cstddef>
#include <exception>
#include <stop_token>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <boost/asio/async_result.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/compose.hpp>
#include <boost/asio/system_executor.hpp>

#include <holdfast/acquire.hpp>
#include <holdfast/detail/asio_executor.hpp>
#include <holdfast/detail/asio_run.hpp>
#include <holdfast/detail/asio_task.hpp>
#include <holdfast/detail/asio_wait.hpp>
#include <holdfast/detail/keyed_turnstiles.hpp>
#include <holdfast/hold.hpp>
#include <holdfast/lock_all.hpp>
#include <holdfast/task.hpp>

namespace holdfast {

namespace detail {

using AsioWaitSignature = void(std::exception_ptr, Hold);

/// Takes the locks of a `LockAll` one after the other.
template <std::size_t kCount>
struct AsioLockAll {
  std::array<AcquireRequest, kCount> requests;
  std::vector<std::size_t> order;
  WaitOptions options;
  std::stop_token stop;
  std::array<Hold, kCount> holds{};
  std::size_t taken = 0;

  template <typename Self>
  void operator()(Self& self) {
    self.reset_cancellation_state(boost::asio::enable_total_cancellation());
    options = {.timeout = {},
               .deadline = deadline_of(options, MonotonicTime::now()),
               .priority = options.priority};
    take_next(self);
  }
  template <typename Self>
  void operator()(Self& self, std::exception_ptr error, Hold hold) {
    if (error != nullptr) {
      holds = {};
    } else {
      holds[order[taken++]] = std::move(hold);
    }
    if (error == nullptr && taken < kCount) {
      take_next(self);
    } else {
      self.complete(std::move(error), std::move(holds));
    }
  }
  template <typename Self>
  void take_next(Self& self);
};

}  // namespace detail

/// Waits for a lock or a limit with a completion token: the third way in beside `co_await` and
/// `wait()`, in the same queue. The handler's signature is `void(std::exception_ptr, Hold)`.
///
/// ```
/// async_wait(mutex.lock(), [](std::exception_ptr error, Hold hold) { … });
/// Hold hold = co_await async_wait(mutex.lock({.timeout = 5s}), boost::asio::use_awaitable);
/// ```
///
/// The handler runs on its associated executor (without one: on the system's threads), never inside
/// this call nor inside the release that grants. The executor has work as long as the wait lasts. A
/// cancellation of any type, like the operation's own `std::stop_token`, makes it leave the queue
/// and end with `Cancelled`. If the execution context is destroyed first, the handler is destroyed
/// with it, and whatever was granted goes to the next in line. Releasing a lock posts to the
/// contexts of those who wait for it: let the threads that release end before a context does.
template <boost::asio::completion_token_for<detail::AsioWaitSignature> Token>
auto async_wait(const Acquire& operation, Token&& token) {
  return boost::asio::async_initiate<Token, detail::AsioWaitSignature>(
      detail::StartAsioWait{}, token, detail::AsioTicket{operation.request()}, operation.options(),
      operation.stop());
}

/// The same for a lock or limit by key.
template <typename Key, typename Hash,
          boost::asio::completion_token_for<detail::AsioWaitSignature> Token>
auto async_wait(const detail::KeyedAcquire<Key, Hash>& operation, Token&& token) {
  return boost::asio::async_initiate<Token, detail::AsioWaitSignature>(
      detail::StartAsioWait{}, token, detail::AsioKeyedTicket<Key, Hash>{operation.request()},
      operation.options(), operation.stop());
}

/// The same for several locks at once; the signature is
/// `void(std::exception_ptr, std::array<Hold, n>)`.
template <std::size_t kCount, typename Token>
auto async_wait(const LockAll<kCount>& operation, Token&& token) {
  return boost::asio::async_compose<Token, void(std::exception_ptr, std::array<Hold, kCount>)>(
      detail::AsioLockAll<kCount>{operation.requests(), operation.order(), operation.options(),
                                  operation.stop()},
      token);
}

template <std::size_t kCount>
template <typename Self>
void detail::AsioLockAll<kCount>::take_next(Self& self) {
  const Acquire next(requests[order[taken]], options, stop);
  async_wait(next, std::move(self));
}

/// Runs `task` on `executor`, which is told to a completion token. The handler's signature is
/// `void(std::exception_ptr, T)`, or `void(std::exception_ptr)` for a `Task<void>`.
///
/// ```
/// int total = co_await async_run(executor, count_everything(), boost::asio::use_awaitable);
/// ```
///
/// The handler runs on its associated executor (without one: on that of an `AsioExecutor`, or on
/// the system's threads). A cancellation of any type asks the task to stop; the operation ends when
/// the task has. If the handler's execution context is destroyed first, the task is asked to stop
/// and ends unseen.
template <typename T,
          boost::asio::completion_token_for<typename detail::AsioRunSignature<T>::Type> Token>
auto async_run(AsioExecutor& executor, Task<T> task, Token&& token) {
  using Start = detail::StartAsioRun<boost::asio::any_io_executor>;
  return boost::asio::async_initiate<Token, typename detail::AsioRunSignature<T>::Type>(
      Start{&executor, executor.get_executor()}, token, std::move(task));
}
template <typename T,
          boost::asio::completion_token_for<typename detail::AsioRunSignature<T>::Type> Token>
auto async_run(Executor& executor, Task<T> task, Token&& token) {
  using Start = detail::StartAsioRun<boost::asio::system_executor>;
  return boost::asio::async_initiate<Token, typename detail::AsioRunSignature<T>::Type>(
      Start{&executor, {}}, token, std::move(task));
}

/// The completion token with which a `Task` awaits an Asio operation.
///
/// ```
/// const std::size_t size = co_await socket.async_read_some(buffer, use_task);
/// const auto [error, size] = co_await socket.async_read_some(buffer, as_tuple(use_task));
/// ```
///
/// The operation starts when it is awaited, and the task goes on, on its own executor, when it has
/// ended: with its values (several as a tuple), or with an exception: an error code as
/// `boost::system::system_error`, an exception as itself. With `boost::asio::as_tuple` nothing is
/// thrown for a code. A stop of the task cancels the operation, through its cancellation slot and
/// in a strand on its executor; if that aborts it, `Cancelled` is thrown; if it succeeds all the
/// same, its result counts. An operation that is destroyed with its execution context ends with
/// `Closed`.
struct UseTask {};
inline constexpr UseTask use_task{};  // NOLINT(readability-identifier-naming): as Asio's tokens.

}  // namespace holdfast

template <typename... Args>
class boost::asio::async_result<holdfast::UseTask, void(Args...)> {
 public:
  template <typename Initiation, typename... InitArgs>
  static auto initiate(Initiation&& initiation, holdfast::UseTask /*token*/,
                       InitArgs&&... init_args) {
    using Stored = std::tuple<std::decay_t<InitArgs>...>;
    return holdfast::detail::AsioTaskOperation<std::decay_t<Initiation>, Stored, Args...>(
        std::forward<Initiation>(initiation), Stored(std::forward<InitArgs>(init_args)...));
  }
};
