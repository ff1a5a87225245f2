// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <holdfast/store.hpp>

namespace holdfast::detail {

/// Where the rows of a partition are. Runs fall into partitions of their task queue, and each is
/// driven by one process at a time.
class PartitionKeys {
 public:
  PartitionKeys(std::string_view queue, std::uint32_t partition);

  /// Who drives it; its version is in a guard of everything that is written for its runs.
  [[nodiscard]] std::string owner() const { return "partition/" + place_; }
  [[nodiscard]] std::string runs() const { return "run/" + place_ + "/"; }
  /// In the order of their due times.
  [[nodiscard]] std::string timers() const { return "timer/" + place_ + "/"; }
  /// What others have to tell the runs, in the order in which it came.
  [[nodiscard]] std::string inbox() const { return "inbox/" + place_ + "/"; }

  [[nodiscard]] std::string run(std::string_view uid) const { return runs().append(uid); }
  /// The rows of its journal.
  [[nodiscard]] std::string journal(std::string_view uid) const;
  [[nodiscard]] std::string journal_row(std::string_view uid, std::uint64_t row) const;
  [[nodiscard]] std::string timer(StoreTime due, std::string_view uid,
                                  std::uint64_t operation) const;
  /// `ticket` sorts by time, and nobody else has it.
  [[nodiscard]] std::string message(std::string_view ticket) const { return inbox().append(ticket); }

 private:
  std::string place_;
};

/// Where it is written which run has a name at present.
[[nodiscard]] std::string run_id_key(std::string_view id);

/// What the key of a timer says.
struct TimerKey {
  StoreTime due{};
  std::string uid;
  std::uint64_t operation = 0;
};
/// Throws `StoreCorrupt` if it is none.
[[nodiscard]] TimerKey read_timer_key(std::string_view key, std::string_view prefix);

}  // namespace holdfast::detail
