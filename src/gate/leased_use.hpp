// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <holdfast/leased_gate.hpp>
#include <holdfast/store.hpp>
#include <holdfast/task.hpp>

#include "gate_keys.hpp"
#include "gate_rows.hpp"
#include "gate_rules.hpp"

namespace holdfast::detail {

/// Throw `InvalidArgument`.
[[nodiscard]] std::string checked_leased_holder(std::string_view holder, std::string_view gate);
void check_lease(Duration lease, std::string_view gate);
void check_release(std::uint64_t fence, std::string_view gate);

/// What one holder does at a gate by the plain operations, as changes of the rows, for whoever
/// commits them: on condition that its lease is as it was read.
class LeasedUse {
 public:
  LeasedUse(const GateKeys& keys, std::string holder, StoreTime now);

  /// Its lease, as it is. Comes before each try.
  [[nodiscard]] Task<void> read(Store& store);
  /// The row with which it waits, which has to be among the rows; empty: it does not.
  [[nodiscard]] const std::string& waiter_key() const noexcept { return waiter_key_; }
  [[nodiscard]] const std::string& holder_key() const noexcept { return holder_key_; }

  [[nodiscard]] Asked acquire(GateRows& rows, KnownLeases& leases, const GateDefinition& definition,
                              GateRequest request, Duration lease);
  struct GivenBack {
    bool was_there = false;
    Served served;
  };
  /// Ends the grant with this fence; 0: whatever it has, a place in the queue included.
  [[nodiscard]] GivenBack give_back(GateRows& rows, KnownLeases& leases, Version fence);
  /// No other row changes: so it is a batch of its own, to be made of the holder's row, read after
  /// the lease. Nothing: the grant is over.
  [[nodiscard]] std::optional<Batch> renewal(const std::optional<Entry>& held, Version fence,
                                             Duration lease) const;

 private:
  void depend_on_lease(GateRows& rows, KnownLeases& leases) const;
  [[nodiscard]] Asked ask_again_or_anew(GateRows& rows, KnownLeases& leases, SharedRequest request);
  [[nodiscard]] bool is_live() const noexcept { return lease_version_ != 0 && expires_at_ > now_; }
  [[nodiscard]] std::string lease_row(StoreTime expires_at, std::string waiter_key) const;
  void forget_lease(GateRows& rows) const;

  std::string holder_;
  StoreTime now_;
  std::string lease_key_;
  std::string holder_key_;
  Version lease_version_ = 0;  // 0: there is none.
  StoreTime expires_at_{};
  std::string waiter_key_;
};

/// How many are before that waiter.
[[nodiscard]] Task<std::int64_t> count_waiters_before(Store& store, GateKeys keys,
                                                      std::string waiter_key);

}  // namespace holdfast::detail
