// SPDX-License-Identifier: Apache-2.0
#include "run_keys.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>

#include <holdfast/store_error.hpp>

#include "base/sortable_number.hpp"
#include "store/key_part.hpp"
#include "store/printable.hpp"

namespace holdfast::detail {

namespace {

constexpr std::string_view kInboxPrefix = "inbox/";

constexpr std::size_t kTimeDigits = 16;
constexpr std::size_t kNumberDigits = 8;
constexpr std::size_t kPartitionDigits = 3;
/// Sorts behind all digits.
constexpr char kAttemptsMark = '~';

[[noreturn]] void refuse_key(std::string_view key, const char* what) {
  throw StoreCorrupt("the key " + printable(key) + " is that of no " + what);
}

std::uint64_t number_of(std::string_view digits, std::string_view key, const char* what) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), number, 16);
  if (error != std::errc() || end != digits.end()) {
    refuse_key(key, what);
  }
  return number;
}

std::string in_queue(std::string_view kind, std::string_view queue) {
  return std::string(kind).append(key_part(queue)).append("/");
}

}  // namespace

PartitionKeys::PartitionKeys(std::string_view queue, std::uint32_t partition)
    : queue_(queue), partition_(partition), place_(key_part(queue)) {
  place_.append("/").append(sortable(partition, kPartitionDigits));
  owner_ = "partition/" + place_;
  runs_ = std::string(kRunPrefix).append(place_).append("/");
  timers_ = "timer/" + place_ + "/";
  inbox_ = std::string(kInboxPrefix).append(place_).append("/");
}

std::string PartitionKeys::run(std::string_view uid) const {
  std::string key;
  key.reserve(runs_.size() + uid.size());
  key.append(runs_).append(uid);
  return key;
}

std::string PartitionKeys::journal(std::string_view uid) const {
  std::string key;
  key.reserve(kJournalPrefix.size() + place_.size() + uid.size() + 3 + kNumberDigits);
  key.append(kJournalPrefix).append(place_).append("/").append(uid).append("/");
  return key;
}

std::string PartitionKeys::journal_row(std::string_view uid, std::uint64_t row) const {
  std::string key = journal(uid);
  append_sortable(key, row, kNumberDigits);
  return key;
}

std::string PartitionKeys::attempts(std::string_view uid, std::uint64_t operation) const {
  std::string key = journal(uid);
  key.push_back(kAttemptsMark);
  return key.append(sortable(operation, kNumberDigits));
}

std::string PartitionKeys::timer(StoreTime due, std::string_view uid,
                                 std::uint64_t operation) const {
  const auto due_ns = static_cast<std::uint64_t>(due.time_since_epoch().count());
  std::string key = timers_;
  key.append(sortable(due_ns, kTimeDigits)).append("/").append(uid).append("/");
  return key.append(sortable(operation, kNumberDigits));
}

std::string PartitionKeys::message(std::string_view ticket) const {
  std::string key;
  key.reserve(inbox_.size() + ticket.size());
  key.append(inbox_).append(ticket);
  return key;
}

std::string PartitionKeys::parked(std::string_view uid) const {
  return std::string("parked/").append(place_).append("/").append(uid);
}

std::string runs_of(std::string_view queue) { return in_queue(kRunPrefix, queue); }
std::string owners_of(std::string_view queue) { return in_queue("partition/", queue); }
std::string inboxes_of(std::string_view queue) { return in_queue(kInboxPrefix, queue); }
std::string engines_of(std::string_view queue) { return in_queue("engine/", queue); }

std::uint32_t partition_in(std::string_view key, std::string_view prefix) {
  if (!key.starts_with(prefix) || key.size() < prefix.size() + kPartitionDigits) {
    refuse_key(key, "partition of runs");
  }
  const std::uint64_t number =
      number_of(key.substr(prefix.size(), kPartitionDigits), key, "partition of runs");
  if (number >= kPartitionsPerQueue) {
    refuse_key(key, "partition of runs");
  }
  return static_cast<std::uint32_t>(number);
}

namespace {

/// The place in a key behind a prefix, the rest of which is taken for the uid.
RunPlace place_behind(std::string_view prefix, std::string_view key, const char* what) {
  const std::size_t queue_end = key.find('/', prefix.size());
  if (!key.starts_with(prefix) || queue_end == std::string_view::npos) {
    refuse_key(key, what);
  }
  const auto queue = text_of_key_part(key.substr(prefix.size(), queue_end - prefix.size()));
  const std::size_t rest_at = queue_end + 1 + kPartitionDigits + 1;
  if (!queue || key.size() <= rest_at) {
    refuse_key(key, what);
  }
  return {*queue, partition_in(key, key.substr(0, queue_end + 1)),
          std::string(key.substr(rest_at))};
}

}  // namespace

RunPlace place_in_run_key(std::string_view key) { return place_behind(kRunPrefix, key, "run"); }

RunPlace place_in_message_key(std::string_view key, std::string_view uid) {
  RunPlace place = place_behind(kInboxPrefix, key, "message to a run");
  place.uid = uid;
  return place;
}

std::string run_id_key(std::string_view id) { return "run_id/" + key_part(id); }
std::string start_key_key(std::string_view start_key) { return "start_key/" + key_part(start_key); }
std::string reply_key(std::string_view session_id, std::string_view request) {
  return std::string(kReplyPrefix)
      .append(key_part(session_id))
      .append("/")
      .append(key_part(request));
}

std::string session_in_reply_key(std::string_view key) {
  const std::size_t end = key.find('/', kReplyPrefix.size());
  if (!key.starts_with(kReplyPrefix) || end == std::string_view::npos) {
    refuse_key(key, "answer");
  }
  const auto session = text_of_key_part(key.substr(kReplyPrefix.size(), end - kReplyPrefix.size()));
  if (!session) {
    refuse_key(key, "answer");
  }
  return *session;
}

TimerKey read_timer_key(std::string_view key, std::string_view prefix) {
  const std::string_view rest = key.substr(std::min(prefix.size(), key.size()));
  const std::size_t uid_at = kTimeDigits + 1;
  const std::size_t operation_at = rest.size() - std::min(rest.size(), kNumberDigits);
  if (!key.starts_with(prefix) || operation_at <= uid_at + 1) {
    refuse_key(key, "timer");
  }
  TimerKey timer;
  const std::uint64_t due = number_of(rest.substr(0, kTimeDigits), key, "timer");
  timer.due = StoreTime(Duration(static_cast<std::int64_t>(due)));
  timer.uid = rest.substr(uid_at, operation_at - 1 - uid_at);
  timer.operation = number_of(rest.substr(operation_at), key, "timer");
  return timer;
}

JournalKey read_journal_key(std::string_view key, std::string_view prefix) {
  std::string_view rest = key.substr(std::min(prefix.size(), key.size()));
  JournalKey read;
  if (rest.starts_with(kAttemptsMark)) {
    read.is_attempts = true;
    rest.remove_prefix(1);
  }
  if (!key.starts_with(prefix) || rest.size() != kNumberDigits) {
    refuse_key(key, "row of a journal");
  }
  read.number = number_of(rest, key, "row of a journal");
  return read;
}

}  // namespace holdfast::detail
