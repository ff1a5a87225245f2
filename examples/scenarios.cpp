// SPDX-License-Identifier: Apache-2.0
#include "scenario.hpp"

#include <array>
#include <string_view>

#if HOLDFAST_HAS_RUNS
#include "kept_lock.hpp"
#include "orders.hpp"
#endif
#if HOLDFAST_HAS_TAKEOVER
#include "takeover.hpp"
#endif

namespace examples {

namespace {

constexpr std::array kScenarios{
    Scenario{.name = "checkout",
             .summary = "many requests for few orders: no double charge, no oversell",
             .play = checkout},
    Scenario{.name = "api_client",
             .summary = "so many calls at once, so many per second",
             .play = api_client},
    Scenario{.name = "log_lines",
             .summary = "many tasks write one file: no line torn or lost",
             .play = log_lines},
    Scenario{.name = "transfer",
             .summary = "money in both directions: no deadlock; done wrong, it is found and named",
             .play = transfer},
#if HOLDFAST_HAS_TAKEOVER
    Scenario{.name = "takeover",
             .summary = "the holder of a durable lock is killed: the next in line takes over",
             .play = takeover},
#endif
#if HOLDFAST_HAS_RUNS
    Scenario{.name = "orders",
             .summary = "workers are killed while they charge: every order is charged once",
             .play = orders},
    Scenario{
        .name = "kept_lock",
        .summary = "workers are killed while their runs hold a lock: it stays theirs, in order",
        .play = kept_lock},
#endif
};

}  // namespace

std::span<const Scenario> scenarios() noexcept { return kScenarios; }

std::optional<int> play_part([[maybe_unused]] int argc, [[maybe_unused]] const char* const* argv) {
#if HOLDFAST_HAS_TAKEOVER
  if (argc == 4 && argv[1] == kTakeoverPart) {
    return play_takeover_part(argv[2], argv[3]);
  }
#endif
#if HOLDFAST_HAS_RUNS
  if (argc == 4 && argv[1] == kOrdersPart) {
    return play_orders_part(argv[2], argv[3]);
  }
  if (argc == 4 && argv[1] == kKeptLockPart) {
    return play_kept_lock_part(argv[2], argv[3]);
  }
#endif
  return std::nullopt;
}

}  // namespace examples
