// SPDX-License-Identifier: Apache-2.0
// The program that docs/asio.md quotes.
#include <array>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <holdfast/asio.hpp>
#include <holdfast/sync.hpp>

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

holdfast::Mutex mutex;
int visits = 0;  // Guarded by the mutex, whoever comes.

// [three_ways]
holdfast::Task<void> from_a_task() {
  const holdfast::Hold hold = co_await mutex.lock();
  ++visits;
}

void from_a_thread() {
  const holdfast::Hold hold = mutex.lock().wait();
  ++visits;
}

asio::awaitable<void> from_asio() {
  const holdfast::Hold hold =
      co_await holdfast::async_wait(mutex.lock({.timeout = 5s}), asio::use_awaitable);
  ++visits;
}
// [three_ways]

// [bridges]
holdfast::Task<int> nap(asio::io_context& io) {
  asio::steady_timer timer(io, 1ms);
  co_await timer.async_wait(holdfast::use_task);  // Asio, awaited by a task.
  co_return 42;
}

asio::awaitable<void> run_a_task(asio::io_context& io, holdfast::AsioExecutor& executor) {
  // A task, awaited by Asio.
  const int answer = co_await holdfast::async_run(executor, nap(io), asio::use_awaitable);
  std::printf("the task said %d\n", answer);
}
// [bridges]

}  // namespace

int main() {
  // [main]
  asio::io_context io;
  holdfast::AsioExecutor executor(io);
  auto task = holdfast::spawn(executor, from_a_task());
  asio::co_spawn(io, from_asio(), asio::detached);
  asio::co_spawn(io, run_a_task(io, executor), asio::detached);
  std::thread thread(from_a_thread);
  io.run();  // Returns when the task and the coroutines have ended.
  // [main]
  thread.join();
  task.get();
  std::printf("%d visits, one at a time\n", visits);
}
