// SPDX-License-Identifier: Apache-2.0
#include "leased_use.hpp"

#include <cstddef>
#include <utility>

#include <holdfast/error.hpp>

namespace holdfast::detail {

namespace {

/// Owner of no session: its requests are called by their holders.
constexpr std::string_view kNoOwner;
constexpr std::size_t kWaitersCounted = 1'000;

}  // namespace

std::string checked_leased_holder(std::string_view holder, std::string_view gate) {
  if (holder.empty() || holder.size() > kGateNameMax) {
    throw InvalidArgument("the holder of '" + std::string(gate) + "' has a name of " +
                          std::to_string(holder.size()) + " bytes; give 1 to " +
                          std::to_string(kGateNameMax));
  }
  return std::string(holder);
}

void check_lease(Duration lease, std::string_view gate) {
  if (lease <= Duration::zero()) {
    throw InvalidArgument("the lease asked of '" + std::string(gate) + "' is " +
                          std::to_string(lease.count()) + " ns; give more than zero");
  }
}

void check_release(std::uint64_t fence, std::string_view gate) {
  if (fence == 0) {
    throw InvalidArgument("a release of '" + std::string(gate) +
                          "' has no fence; give that of the grant");
  }
}

LeasedUse::LeasedUse(const GateKeys& keys, std::string holder, StoreTime now)
    : holder_(std::move(holder)),
      now_(now),
      lease_key_(keys.lease(holder_)),
      holder_key_(keys.holder(kNoOwner, holder_)) {}

Task<void> LeasedUse::read(Store& store) {
  const std::optional<Entry> row = co_await store.get(lease_key_, Read::kApplied);
  lease_version_ = row ? row->version : 0;
  waiter_key_.clear();
  if (row) {
    const auto record = parse_gate_record<record::GateLease>(*row, "the lease of a holder");
    expires_at_ = store_time(record.expires_at_ns());
    waiter_key_ = record.waiter_key();
  }
}

void LeasedUse::depend_on_lease(GateRows& rows, KnownLeases& leases) const {
  const auto liveness = is_live() ? Liveness::kLive : Liveness::kGone;
  leases.learn(lease_key_, {.liveness = liveness, .own = true});
  if (lease_version_ == 0) {
    rows.batch().require_absent(lease_key_);
  } else {
    rows.batch().require_version(lease_key_, lease_version_);
  }
}

Asked LeasedUse::acquire(GateRows& rows, KnownLeases& leases, const GateDefinition& definition,
                         GateRequest request, Duration lease) {
  depend_on_lease(rows, leases);
  request.request_id = holder_;
  GateAsker asker = *request.asker;
  asker.lease_key = lease_key_;
  request.asker = shared_asker(std::move(asker));
  define(rows, definition);
  check_request(rows, request);
  Asked asked =
      ask_again_or_anew(rows, leases, std::make_shared<const GateRequest>(std::move(request)));
  if (asked.outcome == Asked::Outcome::kRefused) {
    forget_lease(rows);
  } else {
    const bool waits = asked.outcome == Asked::Outcome::kWaits;
    rows.change_head();
    rows.batch().put(lease_key_, lease_row(now_ + lease, waits ? asked.key : std::string()));
  }
  return asked;
}

LeasedUse::GivenBack LeasedUse::give_back(GateRows& rows, KnownLeases& leases, Version fence) {
  depend_on_lease(rows, leases);
  GivenBack given;
  const auto held = rows.holders().find(holder_key_);
  if (held != rows.holders().end()) {
    if (fence != 0 && held->second.fence != fence) {
      return given;
    }
    given.was_there = is_live();
    rows.end(holder_key_,
             given.was_there ? record::GateGrant::RELEASED : record::GateGrant::EXPIRED, now_);
  } else if (fence == 0 && rows.waiters().contains(waiter_key_)) {
    given.was_there = is_live();
    rows.leave(waiter_key_);
  } else {
    return given;
  }
  forget_lease(rows);
  leases.learn(lease_key_, {});
  given.served = serve(rows, leases, now_);
  return given;
}

std::optional<Batch> LeasedUse::renewal(const std::optional<Entry>& held, Version fence,
                                        Duration lease) const {
  std::optional<Batch> batch;
  if (is_live() && held && held->version == fence) {
    batch.emplace();
    batch->require_version(holder_key_, fence).require_version(lease_key_, lease_version_);
    batch->put(lease_key_, lease_row(now_ + lease, {}));
  }
  return batch;
}

Asked LeasedUse::ask_again_or_anew(GateRows& rows, KnownLeases& leases, SharedRequest request) {
  const bool waits = rows.waiters().contains(waiter_key_);
  if (is_live() && waits && !rows.holders().contains(holder_key_)) {
    Asked asked;
    asked.served = serve(rows, leases, now_);
    if (rows.holders().contains(holder_key_)) {
      asked.outcome = Asked::Outcome::kHeld;
      return asked;
    }
    asked.outcome = Asked::Outcome::kWaits;
    asked.key = waiter_key_;
    asked.why = why_not(rows, request->weight, request->shared, now_)
                    .value_or(WhyNot{.kind = WhyNot::Kind::kBehind, .wanted = request->weight});
    return asked;
  }
  if (!is_live()) {
    // It is somebody else by now, who only has the same name.
    if (rows.holders().contains(holder_key_)) {
      rows.end(holder_key_, record::GateGrant::EXPIRED, now_);
    }
    if (waits) {
      rows.leave(waiter_key_);
    }
    leases.learn(lease_key_, {.liveness = Liveness::kLive, .own = true});
  }
  return ask(rows, leases, std::move(request), now_);
}

std::string LeasedUse::lease_row(StoreTime expires_at, std::string waiter_key) const {
  record::GateLease record;
  record.set_format(kGateFormat);
  record.set_holder(holder_);
  record.set_expires_at_ns(expires_at.time_since_epoch().count());
  record.set_waiter_key(std::move(waiter_key));
  return record.SerializeAsString();
}

void LeasedUse::forget_lease(GateRows& rows) const {
  if (lease_version_ != 0) {
    rows.batch().erase(lease_key_);
  }
}

Task<std::int64_t> count_waiters_before(Store& store, GateKeys keys, std::string waiter_key) {
  const std::string prefix = keys.waiters();
  std::int64_t count = 0;
  std::string after;
  for (;;) {
    const ScanOptions next{.after = after, .limit = kWaitersCounted, .read = Read::kApplied};
    const Page page = co_await store.scan(prefix, next);
    for (const Entry& entry : page.entries) {
      if (entry.key >= waiter_key) {
        co_return count;
      }
      ++count;
    }
    if (!page.more) {
      co_return count;
    }
    after = page.entries.back().key;
  }
}

}  // namespace holdfast::detail
