// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include <holdfast/store.hpp>

#include "run_keys.hpp"

namespace holdfast::detail {

/// The next timers of a partition, in memory. Its driver alone writes them, so all that is known
/// here is how far ahead it has read. However many there are, few are kept. For one thread at a
/// time.
class TimerWindow {
 public:
  /// `prefix`: of the timers of the partition.
  explicit TimerWindow(std::string prefix) : prefix_(std::move(prefix)) {}

  /// What was written, and what was erased.
  void add(const std::string& key);
  void remove(const std::string& key);

  /// Behind which key to read on; nothing: all that is needed is here.
  [[nodiscard]] std::optional<std::string> begin_reading();
  /// What was read. What was added meanwhile is not lost.
  void end_reading(const Page& page);
  /// Nothing could be read.
  void give_up_reading() { reading_ = false; }

  /// When the first one is due.
  [[nodiscard]] std::optional<StoreTime> next() const;
  /// Those that are due, the first ones first.
  [[nodiscard]] std::vector<std::string> take_due(StoreTime now);

  /// How many to read at once.
  static constexpr std::size_t kRead = 1'000;

 private:
  void shorten();

  const std::string prefix_;
  std::set<std::string> keys_;
  std::string read_to_;    // The last key that was read.
  bool complete_ = false;  // There are none behind those that are here.
  bool reading_ = false;
};

}  // namespace holdfast::detail
