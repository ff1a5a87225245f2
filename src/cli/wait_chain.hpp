// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include <holdfast/run_inspection.hpp>

#include "lock_facts.hpp"

namespace holdfast::cli {

using Sentences = std::vector<std::string>;

/// Who holds what is waited for, what they are at or wait for in turn, and so on. Each lock and
/// each run is followed once. What it is made of outlives it.
class WaitChain {
 public:
  WaitChain(Store& store, const Locks& locks, Sentences& sentences)
      : store_(store), locks_(locks), sentences_(sentences) {}

  /// Tells of all who hold it.
  [[nodiscard]] Task<void> follow_lock(const GateInfo& gate);
  /// Tells of what the run waits for, and not of the run.
  [[nodiscard]] Task<void> follow_run(const RunInspection& run);

 private:
  [[nodiscard]] Task<void> tell_of_process(std::string who, const GateHolderInfo& holder);
  [[nodiscard]] Task<void> tell_of_run(std::string who, const RunInspection& run);
  [[nodiscard]] Task<void> follow_child(const RunWaitInfo& child);
  [[nodiscard]] std::string margin() const { return std::string(2 * path_.size(), ' '); }
  /// ": a circle", or nothing.
  [[nodiscard]] std::string circle_text(const std::string& step) const;

  Store& store_;
  const Locks& locks_;
  Sentences& sentences_;
  std::set<std::string> seen_;
  std::vector<std::string> path_;  // Of locks and runs, from the first to what is told of now.
};

}  // namespace holdfast::cli
