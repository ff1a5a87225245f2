// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <holdfast/engine.hpp>
#include <holdfast/gate_inspection.hpp>
#include <holdfast/session.hpp>
#include <holdfast/store.hpp>
#include <holdfast/task.hpp>

namespace holdfast {

/// Something that a run has begun and that has not come, other than a step.
struct RunWaitInfo {
  enum class Kind : std::uint8_t {
    kStart,  ///< It has not begun.
    kTime,
    /// Its code has asked for it, and it has not come since. That the code has given up waiting is
    /// not known to the store.
    kSignal,
    kChild,  ///< Which goes on.
    kLock,
  };
  Kind kind = Kind::kTime;
  std::string name;        ///< Of the signal or the lock; the id of the child.
  std::string child_type;  ///< Of a child.
  /// When the time comes; of a start: if it is to begin later; of a lock: when the run gives up.
  std::optional<StoreTime> until{};
};

/// A run as it stands, from what the store knows of it.
struct RunInspection {
  RunInfo run;  ///< With its open steps.
  std::uint32_t partition = 0;
  /// The process that drives its partition. One that is not live any more is replaced by another of
  /// the queue's. Nothing: nobody has it.
  std::optional<SessionInfo> driver;
  std::size_t engines = 0;            ///< That share the runs of its queue, in processes that live.
  std::optional<StoreTime> deadline;  ///< By when it has to end.
  /// What it waits for besides its steps. None, and no step: its code is at work, or waits for a
  /// condition of its own (`Context::wait_until`), which nobody else can know.
  std::vector<RunWaitInfo> waits;
};

/// The run that has the id, or had it last. Nothing: there is none. Reads its journal, and changes
/// nothing; needs no engine.
///
/// ```
/// const std::optional<RunInspection> order = co_await inspect_run(*store, "order-7");
/// ```
[[nodiscard]] Task<std::optional<RunInspection>> inspect_run(Store& store, std::string_view id);

/// The same without its steps, in one or two short reads.
[[nodiscard]] Task<std::optional<RunInfo>> find_run(Store& store, std::string_view id);

/// The uid of the run that holds a gate, or waits there; its id is the name of the holder. Empty:
/// it is no run.
[[nodiscard]] std::string run_uid_of(const GateHolderInfo& holder);
[[nodiscard]] std::string run_uid_of(const GateWaiterInfo& waiter);
[[nodiscard]] std::string run_uid_of(const GateGrantInfo& grant);

}  // namespace holdfast
