// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <holdfast/engine.hpp>

#include "call_step.hpp"

namespace holdfast::detail {

/// What the test kit sees and changes of an engine that it drives by hand. Nothing of this is for
/// programs.
class EngineProbe {
 public:
  explicit EngineProbe(Engine& engine) noexcept : core_(*engine.core_) {}

  // Before anything runs.

  void add(const std::string& name, std::shared_ptr<const WorkflowCode> code,
           std::shared_ptr<const Admission> admission);
  void set_call_step(CallStep call_step);

  /// When the next timer of a run is due, as of the last sweep, or a gate may let in more of them.
  [[nodiscard]] std::optional<StoreTime> next_due() const;
  /// Runs that wait leave the memory, as after a long time: what wakes them rebuilds them.
  void forget_waiting();
  /// Throws `NoSuchRun`.
  [[nodiscard]] Task<bool> has_ended(std::string id);
  [[nodiscard]] Task<boost::json::value> result(std::string id);
  /// Why a run does not go on, in words: for when there is nothing left to do.
  [[nodiscard]] Task<std::string> why_it_waits(std::string id);

 private:
  EngineCore& core_;
};

}  // namespace holdfast::detail
