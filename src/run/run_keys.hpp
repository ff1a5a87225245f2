// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <holdfast/store.hpp>

#include "run_place.hpp"

namespace holdfast::detail {

/// What the keys begin with that belong to runs.
inline constexpr std::string_view kRunPrefix = "run/";
inline constexpr std::string_view kJournalPrefix = "journal/";

/// Where the rows of a partition are. Runs fall into partitions of their task queue, and each is
/// driven by one process at a time.
class PartitionKeys {
 public:
  PartitionKeys(std::string_view queue, std::uint32_t partition);

  [[nodiscard]] const std::string& queue() const noexcept { return queue_; }
  [[nodiscard]] std::uint32_t partition() const noexcept { return partition_; }
  [[nodiscard]] RunPlace place_of(std::string uid) const {
    return {queue_, partition_, std::move(uid)};
  }

  /// Who drives it; its version is in a guard of everything that is written for its runs.
  [[nodiscard]] const std::string& owner() const noexcept { return owner_; }
  [[nodiscard]] const std::string& runs() const noexcept { return runs_; }
  /// In the order of their due times.
  [[nodiscard]] const std::string& timers() const noexcept { return timers_; }
  /// What others have to tell the runs, in the order in which it came.
  [[nodiscard]] const std::string& inbox() const noexcept { return inbox_; }

  [[nodiscard]] std::string run(std::string_view uid) const;
  /// The rows of its journal, then those of its steps that are tried again.
  [[nodiscard]] std::string journal(std::string_view uid) const;
  [[nodiscard]] std::string journal_row(std::string_view uid, std::uint64_t row) const;
  [[nodiscard]] std::string attempts(std::string_view uid, std::uint64_t operation) const;
  [[nodiscard]] std::string timer(StoreTime due, std::string_view uid,
                                  std::uint64_t operation) const;
  /// `ticket` sorts by time, and nobody else has it.
  [[nodiscard]] std::string message(std::string_view ticket) const;
  /// Why it stands still.
  [[nodiscard]] std::string parked(std::string_view uid) const;

 private:
  std::string queue_;
  std::uint32_t partition_;
  std::string place_;
  std::string owner_;
  std::string runs_;
  std::string timers_;
  std::string inbox_;
};

/// What the keys of a queue begin with: of its runs, its partitions' owners, its inboxes, and of
/// the engines that drive its runs.
[[nodiscard]] std::string runs_of(std::string_view queue);
[[nodiscard]] std::string owners_of(std::string_view queue);
[[nodiscard]] std::string inboxes_of(std::string_view queue);
[[nodiscard]] std::string engines_of(std::string_view queue);
/// The partition in a key behind such a prefix. Throws `StoreCorrupt` if there is none.
[[nodiscard]] std::uint32_t partition_in(std::string_view key, std::string_view prefix);
/// The place of the run whose head has this key. Throws `StoreCorrupt` if it is none.
[[nodiscard]] RunPlace place_in_run_key(std::string_view key);
/// The place of the run `uid`, to which the message with this key goes. Throws likewise.
[[nodiscard]] RunPlace place_in_message_key(std::string_view key, std::string_view uid);

/// Where it is written which run has a name, and which was started with a key.
[[nodiscard]] std::string run_id_key(std::string_view id);
[[nodiscard]] std::string start_key_key(std::string_view start_key);
/// Where the answer to a request of a session goes.
inline constexpr std::string_view kReplyPrefix = "reply/";
[[nodiscard]] std::string reply_key(std::string_view session_id, std::string_view request);
/// Who waits for the answer under this key. Throws `StoreCorrupt` if it is none.
[[nodiscard]] std::string session_in_reply_key(std::string_view key);

/// Timers that are none of an operation.
inline constexpr std::uint64_t kAdmissionTimer = 0xffff'fffd;
inline constexpr std::uint64_t kStartTimer = 0xffff'fffe;
inline constexpr std::uint64_t kDeadlineTimer = 0xffff'ffff;

/// What the key of a timer says.
struct TimerKey {
  StoreTime due{};
  std::string uid;
  std::uint64_t operation = 0;
};
/// Throws `StoreCorrupt` if it is none.
[[nodiscard]] TimerKey read_timer_key(std::string_view key, std::string_view prefix);

/// What the rest of a key in a run's journal says.
struct JournalKey {
  bool is_attempts = false;
  std::uint64_t number = 0;  ///< Of the row, or of the operation.
};
[[nodiscard]] JournalKey read_journal_key(std::string_view key, std::string_view prefix);

}  // namespace holdfast::detail
