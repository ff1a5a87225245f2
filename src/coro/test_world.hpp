// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stop_token>
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
  std::stop_source stop_all{};

  template <typename T>
  T run(Task<T> task) {
    return sync_wait(executor, std::move(task));
  }
  /// Starts `task` and runs everything as far as it goes without time passing.
  template <typename T>
  Spawned<T> start(Task<T> task, const SpawnOptions& options = {}, std::stop_token stop = {}) {
    auto spawned = spawn(executor, std::move(task), options,
                         stop.stop_possible() ? std::move(stop) : stop_all.get_token());
    executor.drain();
    return spawned;
  }
  /// Lets time pass; whatever it wakes runs at its own moment.
  void advance(Duration by) {
    const TimePoint target = clock.now() + by;
    while (clock.next_due().value_or(TimePoint::max()) <= target) {
      clock.advance_to_next();
      executor.drain();
    }
    clock.advance(target - clock.now());
    executor.drain();
  }
};

/// Ends the tasks that a test left waiting before it takes away what they use: the last member of
/// whatever that is.
class EndTasks {
 public:
  explicit EndTasks(World& world) noexcept : world_(world) {}
  EndTasks(const EndTasks&) = delete;
  EndTasks& operator=(const EndTasks&) = delete;
  ~EndTasks() {
    world_.stop_all.request_stop();
    world_.executor.drain();
  }

 private:
  World& world_;
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
