// SPDX-License-Identifier: Apache-2.0
#include <holdfast/lease.hpp>

#include <array>
#include <chrono>
#include <random>

#include <lease.pb.h>

#include "lost_sight.hpp"
#include "printable.hpp"

namespace holdfast {

namespace {

constexpr std::uint32_t kFormat = 1;
constexpr Duration kTtlMax = std::chrono::hours(24 * 366);

void check_ttl(Duration ttl) {
  if (ttl <= Duration::zero() || ttl > kTtlMax) {
    throw InvalidArgument("a lease of " + std::to_string(ttl.count()) +
                          " ns was asked for; give more than zero and at most a year");
  }
}

std::string random_id() {
  std::random_device device;
  std::string id;
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t word = device();
    id.append(reinterpret_cast<const char*>(&word), sizeof word);
  }
  return id;
}

record::Lease parse(const Entry& entry) {
  record::Lease record;
  if (!record.ParseFromString(entry.value)) {
    throw StoreCorrupt("the lease " + detail::printable(entry.key) +
                       " cannot be read: its record is damaged, or something else is stored there");
  }
  if (record.format() > kFormat) {
    throw NewerFormat("the lease " + detail::printable(entry.key) + " has format " +
                      std::to_string(record.format()) + ", and this version of Holdfast knows " +
                      std::to_string(kFormat) + "; use a newer one");
  }
  return record;
}

std::uint64_t token_of(const record::Lease& record, Version version) {
  return record.token() == 0 ? version : record.token();
}

StoreTime expiry_of(const record::Lease& record) {
  return StoreTime(Duration(record.expires_at_ns()));
}

TimePoint valid_until(TimePoint asked_at, Duration ttl) {
  return asked_at + (ttl - ttl / kLeaseDriftParts);
}

LeaseHeld held_by(const record::Lease& record, Version version, StoreTime now) {
  return {record.owner(), token_of(record, version), expiry_of(record) - now};
}

struct Request {
  std::string key;
  std::string owner;
  Duration ttl;
  std::string id = random_id();
};

record::Lease new_record(const Request& request, StoreTime now) {
  record::Lease record;
  record.set_format(kFormat);
  record.set_owner(request.owner);
  record.set_expires_at_ns((now + request.ttl).time_since_epoch().count());
  record.set_request_id(request.id);
  return record;
}

Task<LeaseAnswer> acquire(Store& store, Request request) {
  // Of the first attempt: a grant whose answer got lost was asked for no earlier.
  const TimePoint asked_at = store.clock().now();
  for (;;) {
    const std::optional<Entry> entry = co_await store.get(request.key);
    const StoreTime now = co_await store.time();
    Batch batch;
    if (entry) {
      const record::Lease current = parse(*entry);
      if (current.request_id() == request.id) {
        co_return Lease{request.key, request.owner, token_of(current, entry->version),
                        valid_until(asked_at, request.ttl)};
      }
      if (expiry_of(current) > now) {
        co_return held_by(current, entry->version, now);
      }
      batch.require_version(request.key, entry->version);
    } else {
      batch.require_absent(request.key);
    }
    batch.put_with(request.key, [record = new_record(request, now)](std::string& bytes) {
      record.AppendToString(&bytes);
    });
    const auto outcome = co_await detail::commit_or_lose_sight(store, std::move(batch));
    if (outcome && outcome->committed() != nullptr) {
      co_return Lease{request.key, request.owner, outcome->committed()->version,
                      valid_until(asked_at, request.ttl)};
    }
    // Someone was faster, and may have let go meanwhile, or the answer got lost: look again.
  }
}

/// The row of `lease`, if it is still that one.
std::optional<record::Lease> own_record(const std::optional<Entry>& entry, const Lease& lease) {
  if (!entry) {
    return std::nullopt;
  }
  record::Lease record = parse(*entry);
  if (token_of(record, entry->version) != lease.token || record.owner() != lease.owner) {
    return std::nullopt;
  }
  return record;
}

Task<std::optional<Lease>> renew(Store& store, Lease lease, Duration ttl) {
  for (;;) {
    const TimePoint asked_at = store.clock().now();
    const std::optional<Entry> entry = co_await store.get(lease.key);
    const StoreTime now = co_await store.time();
    std::optional<record::Lease> record = own_record(entry, lease);
    if (!record || expiry_of(*record) <= now) {
      co_return std::nullopt;
    }
    record->set_token(lease.token);
    record->set_expires_at_ns((now + ttl).time_since_epoch().count());
    Batch batch;
    batch.require_version(lease.key, entry->version)
        .put_with(lease.key, [&record](std::string& bytes) { record->AppendToString(&bytes); });
    const auto outcome = co_await detail::commit_or_lose_sight(store, std::move(batch));
    if (outcome && outcome->committed() != nullptr) {
      lease.valid_until = valid_until(asked_at, ttl);
      co_return std::move(lease);
    }
  }
}

Task<bool> release(Store& store, Lease lease) {
  bool lost_sight = false;
  for (;;) {
    const std::optional<Entry> entry = co_await store.get(lease.key);
    if (!own_record(entry, lease)) {
      co_return lost_sight;  // It was there before, so it was us.
    }
    Batch batch;
    batch.require_version(lease.key, entry->version).erase(lease.key);
    const auto outcome = co_await detail::commit_or_lose_sight(store, std::move(batch));
    if (outcome && outcome->committed() != nullptr) {
      co_return true;
    }
    lost_sight = !outcome;
  }
}

}  // namespace

Task<LeaseAnswer> acquire_lease(Store& store, std::string_view key, std::string_view owner,
                                Duration ttl) {
  check_ttl(ttl);
  if (owner.empty()) {
    throw InvalidArgument("the owner of the lease " + detail::printable(key) +
                          " is empty; say who asks for it");
  }
  return acquire(store, Request{std::string(key), std::string(owner), ttl});
}

Task<std::optional<Lease>> renew_lease(Store& store, const Lease& lease, Duration ttl) {
  check_ttl(ttl);
  return renew(store, lease, ttl);
}

Task<bool> release_lease(Store& store, const Lease& lease) { return release(store, lease); }

}  // namespace holdfast
