// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <concepts>
#include <type_traits>

#include <holdfast/error.hpp>
#include <holdfast/task.hpp>
#include <holdfast/this_task.hpp>

namespace holdfast::detail {

/// Between two attempts to use a store that is busy or full.
inline Task<void> busy_pause() { co_await this_task::sleep_for(std::chrono::milliseconds(100)); }

/// What `read` gives, again and again until the store has time for it.
template <std::invocable Read>
std::invoke_result_t<Read&> read_when_not_busy(Read read) {
  for (;;) {
    try {
      auto value = co_await read();
      co_return value;
    } catch (const Error& error) {
      if (error.remedy() != Remedy::kTryAgain) {
        throw;
      }
    }
    co_await busy_pause();
  }
}

}  // namespace holdfast::detail
