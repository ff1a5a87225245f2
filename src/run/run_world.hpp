// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>

#include <holdfast/executor.hpp>
#include <holdfast/session.hpp>
#include <holdfast/store.hpp>

#include "bell.hpp"
#include "call_step.hpp"
#include "coro/background_tasks.hpp"
#include "run_gates.hpp"
#include "run_place.hpp"
#include "watchdog.hpp"

namespace holdfast::detail {

class Admission;
class Tenure;
class WorkflowCode;

/// What everything that belongs to one engine shares.
struct RunWorld {
  RunWorld(Session& in, Executor& for_runs, Executor& for_steps, std::uint64_t seed)
      : session(in),
        store(in.store()),
        gates(store),
        tasks(for_runs),
        step_tasks(for_steps),
        random_(seed == 0 ? random_seed() : seed) {}

  Session& session;
  Store& store;
  RunGates gates;
  /// Where runs are driven, and where steps may block.
  BackgroundTasks tasks;
  BackgroundTasks step_tasks;
  /// Rung when something is due earlier than was known.
  Bell agenda;
  /// Rung when a partition was lost.
  Bell losses;
  /// Rung when a run has come into memory or left it, or has nothing to do at present.
  Bell rests;
  Watchdog watchdog;

  /// The code of a workflow; null: it is not known here.
  std::function<const WorkflowCode*(const std::string& type)> code_of;
  /// What its definition says of its starts; null: nothing, or it is not known here.
  std::function<const Admission*(const std::string& type)> admission_of;
  /// Who drives the runs of a partition, if it is this process.
  std::function<std::shared_ptr<Tenure>(const RunPlace& place)> tenure_of;
  std::function<void(const std::string& text)> warn;
  /// How many signals a run may have that nobody took before it is sent no more.
  std::size_t signals_kept_max = 0;
  /// Of the test kit, instead of the code of steps. Empty: that itself.
  CallStep call_step;

  /// A uid, or a ticket: sorted by time, in the order in which this process asked for them.
  [[nodiscard]] std::string next_uid(StoreTime now) {
    const std::lock_guard lock(mutex_);
    return new_uid(now, next_count_++, random_());
  }

 private:
  [[nodiscard]] static std::uint64_t random_seed() {
    std::random_device device;
    return (static_cast<std::uint64_t>(device()) << 32U) | device();
  }

  std::mutex mutex_;
  std::uint32_t next_count_ = 0;
  std::mt19937_64 random_;
};

}  // namespace holdfast::detail
