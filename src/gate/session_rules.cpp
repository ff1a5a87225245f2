// SPDX-License-Identifier: Apache-2.0
#include "session_rules.hpp"

#include <chrono>

#include <session.pb.h>

#include "store/printable.hpp"

namespace holdfast::detail {

namespace {

constexpr std::uint32_t kFormat = 1;
constexpr int kTimeDigits = 12;
constexpr int kHighDigits = 16;
constexpr int kLowDigits = 4;

void append_hex(std::string& text, std::uint64_t number, int digits) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  constexpr int kBitsPerDigit = 4;
  for (int digit = digits - 1; digit >= 0; --digit) {
    text.push_back(kDigits[(number >> (digit * kBitsPerDigit)) & 0xf]);
  }
}

std::int64_t ns_of(StoreTime time) { return time.time_since_epoch().count(); }
StoreTime time_of_ns(std::int64_t ns) { return StoreTime(Duration(ns)); }

record::Session parse(const Entry& row) {
  record::Session record;
  const bool parsed = record.ParseFromString(row.value);
  if (parsed && record.format() > kFormat) {
    throw NewerFormat("the session " + printable(row.key) + " has format " +
                      std::to_string(record.format()) + ", and this version of Holdfast knows " +
                      std::to_string(kFormat) + "; use a newer one");
  }
  // An empty value parses, too, and would be a session that expired long ago.
  if (!parsed || record.format() == 0 || record.ttl_ns() <= 0 ||
      record.expires_at_ns() <= record.began_at_ns()) {
    throw StoreCorrupt("the session " + printable(row.key) +
                       " cannot be read: its record is damaged, or something else is stored there");
  }
  return record;
}

}  // namespace

std::string session_key(std::string_view id) { return std::string(kSessionPrefix).append(id); }

std::string session_id(StoreTime now, std::uint64_t random_high, std::uint16_t random_low) {
  const auto now_ms = std::chrono::floor<std::chrono::milliseconds>(now.time_since_epoch());
  std::string id;
  append_hex(id, static_cast<std::uint64_t>(now_ms.count()), kTimeDigits);
  append_hex(id, random_high, kHighDigits);
  append_hex(id, random_low, kLowDigits);
  return id;
}

std::string session_row(const SessionFacts& facts, StoreTime now) {
  record::Session record;
  record.set_format(kFormat);
  record.set_began_at_ns(ns_of(now));
  record.set_expires_at_ns(ns_of(now + facts.ttl));
  record.set_name(facts.name);
  record.set_host(facts.host);
  record.set_pid(facts.pid);
  record.set_ttl_ns(facts.ttl.count());
  return record.SerializeAsString();
}

std::optional<std::string> renewed_session_row(const Entry& row, StoreTime now) {
  record::Session record = parse(row);
  if (time_of_ns(record.expires_at_ns()) <= now) {
    return std::nullopt;
  }
  record.set_expires_at_ns(ns_of(now + Duration(record.ttl_ns())));
  return record.SerializeAsString();
}

SessionInfo read_session(const Entry& row, StoreTime now) {
  const record::Session record = parse(row);
  SessionInfo info;
  info.id = row.key.substr(kSessionPrefix.size());
  info.name = record.name();
  info.host = record.host();
  info.pid = record.pid();
  info.began = time_of_ns(record.began_at_ns());
  info.expires = time_of_ns(record.expires_at_ns());
  info.live = info.expires > now;
  return info;
}

Liveness liveness(const std::optional<Entry>& row, StoreTime now) {
  if (!row) {
    return Liveness::kGone;
  }
  return read_session(*row, now).live ? Liveness::kLive : Liveness::kExpired;
}

void bury(Batch& batch, const Entry& row) {
  batch.require_version(row.key, row.version).erase(row.key);
}

}  // namespace holdfast::detail
