// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>

#include <holdfast/executor.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/task.hpp>

namespace holdfast::testing {

/// Virtual time, and an executor that is drained by hand: what most tests need.
struct World {
  VirtualClock clock;
  ManualExecutor executor{clock};

  template <typename T>
  T run(Task<T> task) {
    return sync_wait(executor, std::move(task));
  }
  /// Starts `task` and runs everything as far as it goes without time passing.
  template <typename T>
  Spawned<T> start(Task<T> task, const SpawnOptions& options = {}) {
    auto spawned = spawn(executor, std::move(task), options);
    executor.drain();
    return spawned;
  }
  void advance(Duration by) {
    clock.advance(by);
    executor.drain();
  }
};

/// The text of the `Exception` that `call` throws, or what it did instead.
template <typename Exception, typename Call>
std::string error_text(const Call& call) {
  try {
    call();
  } catch (const Exception& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("threw something else: ") + error.what();
  }
  return "threw nothing";
}

}  // namespace holdfast::testing
