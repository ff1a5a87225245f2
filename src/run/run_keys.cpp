// SPDX-License-Identifier: Apache-2.0
#include "run_keys.hpp"

#include <charconv>
#include <system_error>

#include <holdfast/store_error.hpp>

#include "store/key_part.hpp"
#include "store/printable.hpp"

namespace holdfast::detail {

namespace {

constexpr std::string_view kDigits = "0123456789abcdef";
constexpr std::size_t kTimeDigits = 16;
constexpr std::size_t kNumberDigits = 8;
constexpr std::size_t kPartitionDigits = 3;

/// As many digits for every number, so that keys sort as numbers do.
std::string sortable(std::uint64_t number, std::size_t digits) {
  std::string text(digits, '0');
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit, number >>= 4U) {
    *digit = kDigits[number & 0xfU];
  }
  return text;
}

std::uint64_t number_of(std::string_view digits, std::string_view key) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), number, 16);
  if (error != std::errc() || end != digits.end()) {
    throw StoreCorrupt("the key " + printable(key) + " is that of no timer");
  }
  return number;
}

}  // namespace

PartitionKeys::PartitionKeys(std::string_view queue, std::uint32_t partition)
    : place_(key_part(queue)) {
  place_.append("/").append(sortable(partition, kPartitionDigits));
}

std::string PartitionKeys::journal(std::string_view uid) const {
  return std::string("journal/").append(place_).append("/").append(uid).append("/");
}

std::string PartitionKeys::journal_row(std::string_view uid, std::uint64_t row) const {
  return journal(uid).append(sortable(row, kNumberDigits));
}

std::string PartitionKeys::timer(StoreTime due, std::string_view uid,
                                 std::uint64_t operation) const {
  const auto due_ns = static_cast<std::uint64_t>(due.time_since_epoch().count());
  return timers()
      .append(sortable(due_ns, kTimeDigits))
      .append("/")
      .append(uid)
      .append("/")
      .append(sortable(operation, kNumberDigits));
}

std::string run_id_key(std::string_view id) { return "run_id/" + key_part(id); }

TimerKey read_timer_key(std::string_view key, std::string_view prefix) {
  const std::string_view rest = key.substr(std::min(prefix.size(), key.size()));
  const std::size_t uid_at = kTimeDigits + 1;
  const std::size_t operation_at = rest.size() - std::min(rest.size(), kNumberDigits);
  if (!key.starts_with(prefix) || operation_at <= uid_at + 1) {
    throw StoreCorrupt("the key " + printable(key) + " is that of no timer");
  }
  TimerKey timer;
  timer.due = StoreTime(
      Duration(static_cast<std::int64_t>(number_of(rest.substr(0, kTimeDigits), key))));
  timer.uid = rest.substr(uid_at, operation_at - 1 - uid_at);
  timer.operation = number_of(rest.substr(operation_at), key);
  return timer;
}

}  // namespace holdfast::detail
