// SPDX-License-Identifier: Apache-2.0
#include "run_place.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>

#include "sortable_number.hpp"
#include "stable_hash.hpp"

namespace holdfast::detail {

namespace {

constexpr std::size_t kStartDigits = 12;
constexpr std::size_t kCountDigits = 8;
constexpr std::size_t kRandomDigits = 12;
constexpr std::size_t kUidDigits = kStartDigits + kCountDigits + kRandomDigits;

bool is_hexadecimal(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// A uid and those of its descent: digits, then numbers behind dots.
bool is_uid(std::string_view text) {
  return text.size() >= kUidDigits && is_hexadecimal(text.substr(0, kUidDigits)) &&
         (text.size() == kUidDigits ||
          (text[kUidDigits] == '.' &&
           text.substr(kUidDigits).find_first_not_of("0123456789abcdef.") ==
               std::string_view::npos));
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
  return sortable(static_cast<std::uint64_t>(time), kStartDigits) + sortable(count, kCountDigits) +
         sortable(random, kRandomDigits);
}

std::string id_of_place(const RunPlace& place) {
  std::string id = place.uid;
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
