// SPDX-License-Identifier: Apache-2.0
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <holdfast/asio.hpp>
#include <holdfast/mutex.hpp>

holdfast::Task<void> task();

boost::asio::awaitable<void> wait(holdfast::Mutex& mutex, boost::asio::steady_timer& timer) {
  static_cast<void>(mutex.is_locked());
  static_cast<void>(timer.expiry());
  co_await AWAITED;
}
