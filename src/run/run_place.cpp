// SPDX-License-Identifier: Apache-2.0
#include "run_place.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>

#include "base/sortable_number.hpp"
#include "stable_hash.hpp"

namespace holdfast::detail {

namespace {

constexpr std::size_t kStartDigits = 12;
constexpr std::size_t kCountDigits = 8;
constexpr std::size_t kRandomDigits = 12;
constexpr std::size_t kUidDigits = kStartDigits + kCountDigits + kRandomDigits;

bool is_digit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

/// A uid and those of its descent: digits, then numbers behind dots.
bool is_uid(std::string_view text) {
  if (text.size() < kUidDigits || (text.size() > kUidDigits && text[kUidDigits] != '.')) {
    return false;
  }
  const auto* const descent = text.begin() + kUidDigits;
  return std::all_of(text.begin(), descent, is_digit) &&
         std::all_of(descent, text.end(), [](char c) { return c == '.' || is_digit(c); });
}

}  // namespace

record::RunPlace record_of(const RunPlace& place) {
  record::RunPlace record;
  record.set_queue(place.queue);
  record.set_partition(place.partition);
  record.set_uid(place.uid);
  return record;
}

RunPlace place_of(const record::RunPlace& record) {
  return {record.queue(), record.partition(), record.uid()};
}

std::string new_uid(StoreTime now, std::uint32_t count, std::uint64_t random) {
  const auto time =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
  std::string uid;
  uid.reserve(kUidDigits);
  uid.append(sortable(static_cast<std::uint64_t>(time), kStartDigits));
  uid.append(sortable(count, kCountDigits));
  uid.append(sortable(random, kRandomDigits));
  return uid;
}

std::string id_of_place(const RunPlace& place) {
  std::string id;
  id.reserve(place.uid.size() + place.queue.size() + 4);
  id.append(place.uid);
  id.append("-").append(std::to_string(place.partition));
  if (place.queue != kDefaultQueue) {
    id.append("-").append(place.queue);
  }
  return id;
}

std::optional<RunPlace> place_in_id(std::string_view id) {
  const std::size_t dash = id.find('-');
  if (dash == std::string_view::npos || !is_uid(id.substr(0, dash))) {
    return std::nullopt;
  }
  RunPlace place;
  place.uid = id.substr(0, dash);
  const std::string_view rest = id.substr(dash + 1);
  const auto [stopped, error] = std::from_chars(rest.begin(), rest.end(), place.partition);
  if (error != std::errc() || place.partition >= kPartitionsPerQueue) {
    return std::nullopt;
  }
  if (stopped != rest.end()) {
    if (*stopped != '-' || stopped + 1 == rest.end()) {
      return std::nullopt;
    }
    place.queue = std::string(stopped + 1, rest.end());
  }
  return place;
}

std::string child_uid(std::string_view parent, std::uint64_t operation) {
  std::string uid(parent);
  std::string digits = sortable(operation, 16);
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
  return uid.append(".").append(digits);
}

std::uint32_t partition_for(std::string_view uid) {
  return static_cast<std::uint32_t>((stable_hash(uid) >> 32U) % kPartitionsPerQueue);
}

}  // namespace holdfast::detail
