// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include <holdfast/executor.hpp>
#include <holdfast/store.hpp>

#include "errand.hpp"
#include "play.hpp"

namespace holdfast::testing {

/// Looks at what a simulation left in its store.
class Inspection {
 public:
  Inspection(Executor& executor, Store& store, const std::deque<Order>& orders,
             const std::deque<Gathering>& gatherings, const Outside& world)
      : executor_(executor),
        store_(store),
        orders_(orders),
        gatherings_(gatherings),
        world_(world) {}

  /// The ids of runs that go on.
  [[nodiscard]] std::vector<std::string> open_runs();
  /// When all have ended. What is wrong, line by line.
  [[nodiscard]] std::vector<std::string> find_faults();
  /// When all were purged.
  [[nodiscard]] std::vector<std::string> find_leftovers();
  /// All that is there, for people.
  [[nodiscard]] std::string dump();

 private:
  [[nodiscard]] std::vector<Entry> rows(const std::string& prefix);
  void read_runs();
  void check_ends();
  void check_replays();
  [[nodiscard]] std::map<int, int> times_that_may_be() const;
  void check_effects();
  void check_pushes();
  void check_gathered();
  void check_no_rows(const std::string& prefix);
  void fault(std::string text) { faults_.push_back(std::move(text)); }

  Executor& executor_;
  Store& store_;
  const std::deque<Order>& orders_;
  const std::deque<Gathering>& gatherings_;
  const Outside& world_;
  std::map<std::string, RunInfo> last_;  // Of each id, the run that had it last.
  std::vector<std::string> faults_;
};

}  // namespace holdfast::testing
