// SPDX-License-Identifier: Apache-2.0
#include <holdfast/lock_all.hpp>

#include <algorithm>
#include <numeric>

#include <holdfast/error.hpp>

namespace holdfast {

namespace detail {

std::vector<std::size_t> canonical_order(std::span<const AcquireRequest> requests) {
  std::vector<std::size_t> order(requests.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto id = [&](std::size_t i) { return requests[i].turnstile->id(); };
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return id(a) < id(b); });
  const auto twice = std::adjacent_find(
      order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return id(a) == id(b); });
  if (twice != order.end()) {
    throw InvalidArgument("lock_all: arguments " + std::to_string(*twice + 1) + " and " +
                          std::to_string(*std::next(twice) + 1) +
                          " are the same lock, which would wait for itself; give it once");
  }
  return order;
}

}  // namespace detail

Task<std::vector<Hold>> lock_all(std::vector<AcquireRequest> requests, WaitOptions options,
                                 std::stop_token stop) {
  detail::check(options);
  std::vector<Hold> holds(requests.size());
  options = detail::with_deadline(options);
  for (const std::size_t i : detail::canonical_order(requests)) {
    Acquire one(requests[i], options, stop);
    Hold hold = co_await one;
    holds[i] = std::move(hold);
  }
  co_return holds;
}

}  // namespace holdfast
