// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <holdfast/session.hpp>
#include <holdfast/store.hpp>
#include <holdfast/task.hpp>

#include "gate_rows.hpp"
#include "gate_rules.hpp"
#include "waiters_ahead.hpp"

namespace holdfast::detail {

/// The rows of a gate in the store, changed by one task at a time: read, changed by what a plan
/// makes of them, and committed, as often as it takes to come before others.
class GateLedger {
 public:
  /// Pure: it is called as often as it takes.
  using Plan = std::function<Served(GateRows&, KnownLeases&, StoreTime)>;

  struct Terms {
    /// A waiter whose row has to be there, wherever it is in the queue.
    std::string waiter_key;
    std::vector<std::string> more_waiters{};
    /// Called before each try, to read what the plan has to know besides the rows; it may change
    /// the waiter's key.
    std::function<Task<void>(std::string& waiter_key)> prepare;
    /// By which leases are judged that were given for a time; nothing: by the store's clock, as
    /// sessions are always.
    std::optional<StoreTime> now;
    /// Called with the changed rows before they are committed: may add to the batch, or throw.
    std::function<Task<void>(GateRows&)> check;
  };
  struct Changed {
    Version version = 0;  ///< 0: nothing had to be written.
    Version after = 0;    ///< Of the head that it was founded on; 0: there was none.
    Served served;
  };

  /// With a session all is on condition that it is not over: `SessionLost` if it is.
  GateLedger(Store& store, GateKeys keys, const Session* session);

  /// `plan` is there until it is done, and so are the terms of `prepare`.
  [[nodiscard]] Task<Changed> change(const Plan& plan);
  [[nodiscard]] Task<Changed> change(const Plan& plan, Terms terms);

  /// A change that is still to be committed, by whoever has more to put into the same commit.
  struct Prepared {
    Changed changed;
    Batch batch;  ///< Empty: there is nothing to write.
    std::unique_ptr<GateRows> rows;
  };
  [[nodiscard]] Task<Prepared> prepare(const Plan& plan, const Terms& terms);
  /// The same at once, by what is known, for those who do not hang on a session. False: something
  /// has to be read or awaited, so `prepare` is to be asked.
  [[nodiscard]] bool prepare_known(const Plan& plan, const Terms& terms, StoreTime now,
                                   Prepared& prepared);
  /// It was committed, with this version, or there was nothing to write (zero). If this is not
  /// called, the next change reads anew.
  void settle(Prepared& prepared, Version version);

  [[nodiscard]] const GateKeys& keys() const noexcept { return keys_; }
  /// As of the last commit that is known here; null: not known.
  [[nodiscard]] const GateRows* rows() const noexcept { return rows_.get(); }
  /// The next change reads anew.
  void forget();
  /// The same, but rows that nobody has changed since are kept.
  [[nodiscard]] Task<void> forget_what_is_old();

 private:
  [[nodiscard]] bool are_known(const Terms& terms, StoreTime now);
  void take_batch(GateRows& rows, Prepared& prepared);
  [[nodiscard]] Task<bool> is_current(const GateRows& rows);
  [[nodiscard]] Task<void> read_ahead(const GateRows& rows);
  void add_next_waiters(GateRows& rows);
  void note_changes_ahead(GateRows& rows);
  [[nodiscard]] Task<void> add_waiter(GateRows& rows, std::string key);
  [[nodiscard]] Task<void> read_leases(std::vector<std::string> keys, std::optional<StoreTime> now,
                                       StoreTime store_now);
  [[nodiscard]] Task<void> drop_old_grants(GateRows& rows, StoreTime now);

  Store& store_;
  const GateKeys keys_;
  const Session* session_;
  std::unique_ptr<GateRows> rows_;  // To be moved at no cost.
  // The waiters behind those of `rows_`, without a gap. Those who come to the end of the queue by
  // way of this ledger need not be read at all.
  WaitersAhead ahead_;
  bool more_behind_ahead_ = false;
  KnownLeases leases_;
  std::minstd_rand random_;
};

/// The head of a gate and all its holders; `waiters_max` of its waiters, the first ones.
[[nodiscard]] Task<GateRows> load_gate(Store& store, GateKeys keys, std::size_t waiters_max,
                                       Read read);

/// What the row `lease_key` says of those that hang on it. `now` is for the leases that were given
/// for a time, `store_now` for sessions.
[[nodiscard]] KnownLeases::Lease read_lease(std::string_view lease_key,
                                            const std::optional<Entry>& row, StoreTime now,
                                            StoreTime store_now);

}  // namespace holdfast::detail
