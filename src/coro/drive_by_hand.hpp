// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>

namespace holdfast::detail {

/// Runs an executor that has no threads until `done()`: ready work first, then time, if it is
/// virtual; real time and other threads are waited for with `wait_for_post`.
template <typename Executor, typename Done, typename WaitForPost>
void drive_by_hand(Executor& executor, const Done& done, const WaitForPost& wait_for_post) {
  auto* const virtual_clock = dynamic_cast<VirtualClock*>(&executor.clock());
  while (!done()) {
    if (executor.run_one()) {
      continue;
    }
    if (virtual_clock == nullptr) {
      wait_for_post();
    } else if (!virtual_clock->advance_to_next()) {
      throw WrongContext(
          "nothing is ready, no timer is armed, and the task that is waited for has not ended: it "
          "waits for something that nobody will do");
    }
  }
}

}  // namespace holdfast::detail
