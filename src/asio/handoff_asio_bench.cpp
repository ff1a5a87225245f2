// SPDX-License-Identifier: Apache-2.0
// What one writes with Boost.Asio alone to let one coroutine in at a time: a channel with room for
// one message is full while the lock is free.
#include <cstdint>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/channel.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "benchmarks/harness.hpp"
#include "sync/sync_bench.hpp"

namespace holdfast::bench {

namespace {

namespace asio = boost::asio;
using Channel = asio::experimental::channel<void(boost::system::error_code)>;

constexpr std::uint64_t kTakers = 100;
constexpr std::uint64_t kTakes = 2'000;
constexpr std::uint64_t kHandoffs = kTakers * kTakes;

asio::awaitable<void> take_turns(Channel& channel, std::uint64_t& count) {
  for (std::uint64_t i = 0; i < kTakes; ++i) {
    co_await channel.async_receive(asio::use_awaitable);
    keep(++count);
    co_await channel.async_send(boost::system::error_code{}, asio::use_awaitable);
  }
}

/// The same with a release that does not suspend.
asio::awaitable<void> take_turns_by_try(Channel& channel, std::uint64_t& count) {
  for (std::uint64_t i = 0; i < kTakes; ++i) {
    co_await channel.async_receive(asio::use_awaitable);
    keep(++count);
    require(channel.try_send(boost::system::error_code{}), "the channel was full");
  }
}

template <typename MakeTask>
double channel_ns(const MakeTask& make_task) {
  asio::io_context context(1);
  Channel channel(context, 1);
  std::uint64_t count = 0;
  for (std::uint64_t i = 0; i < kTakers; ++i) {
    asio::co_spawn(context, make_task(channel, count), asio::detached);
  }
  context.poll();  // All wait now: nothing has been sent yet.
  const Stopwatch stopwatch;
  require(channel.try_send(boost::system::error_code{}), "the channel was full");
  context.restart();
  context.run();
  const double elapsed_ns = stopwatch.elapsed_ns();
  require(count == kHandoffs, "not every hand-off happened");
  return elapsed_ns / kHandoffs;
}

const Registration kHandoffAsio({
    .suite = "sync",
    .name = "handoff_asio",
    .ours = handoff_mutex_ns,
    .peer = [] { return channel_ns(take_turns); },
    .peer_name = "Boost.Asio channel",
    .limit = {.ratio_max = 1.0 / 3},
});

const Registration kHandoffAsioTry({
    .suite = "sync",
    .name = "handoff_asio_try",
    .ours = handoff_mutex_ns,
    .peer = [] { return channel_ns(take_turns_by_try); },
    .peer_name = "Boost.Asio channel, try_send",
});

}  // namespace

}  // namespace holdfast::bench
