// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gate.pb.h>

#include <holdfast/batch.hpp>
#include <holdfast/commit_outcome.hpp>
#include <holdfast/gate.hpp>

#include "gate_keys.hpp"
#include "gate_parties.hpp"
#include "gate_records.hpp"

namespace holdfast::detail {

/// What one hangs on whose row has this `lease_key`.
[[nodiscard]] record::GateGrant::Tie tie_of(std::string_view lease_key) noexcept;

/// The rows of a gate as they were read, and what is made of them: each change is done here and
/// written down in a batch, which is on condition that nobody else has changed the gate meanwhile.
///
/// Of the waiters only the first ones are here; `has_more_waiters` says whether there are others.
class GateRows {
 public:
  explicit GateRows(GateKeys keys) : keys_(std::move(keys)) {}

  // As read. Damaged rows are a `StoreCorrupt`, those of later versions a `NewerFormat`.

  void read_head(const Entry& entry);
  void read_holder(const Entry& entry);
  void read_waiter(const Entry& entry);
  /// The next ones in their order, which are read with this, or added if they are known.
  void read_next_waiter(const Entry& entry);
  void add_next_waiter(KeyedWaiter next);
  void has_more_waiters(bool more) noexcept { more_waiters_ = more; }
  /// If so many waiters are here, who comes behind them is not.
  void keep_at_most(std::size_t waiters) noexcept { waiters_max_ = waiters; }

  [[nodiscard]] const GateKeys& keys() const noexcept { return keys_; }
  [[nodiscard]] Version head_version() const noexcept { return head_version_; }
  [[nodiscard]] bool exists() const noexcept { return head_version_ != 0 || head_changed_; }
  [[nodiscard]] const record::GateHead& head() const noexcept { return head_; }
  [[nodiscard]] const std::map<std::string, GateHolder>& holders() const noexcept {
    return holders_;
  }
  /// None if there is no such holder.
  [[nodiscard]] std::vector<std::uint64_t> slots_of(const std::string& holder_key) const;
  [[nodiscard]] const std::map<std::string, GateWaiter>& waiters() const noexcept {
    return waiters_;
  }
  [[nodiscard]] bool has_more_waiters() const noexcept { return more_waiters_; }
  /// All there are, those that were not read included.
  [[nodiscard]] std::uint64_t waiter_count() const noexcept { return head_.waiter_count(); }
  /// If there are more: all up to this key are here, and none behind it.
  [[nodiscard]] const std::string& waiters_known_to() const noexcept { return waiters_known_to_; }
  /// Who came, by the batch, and is behind those that are here. To be moved out just before the
  /// batch is taken.
  [[nodiscard]] std::vector<KeyedWaiter>& came_behind() noexcept { return came_behind_; }
  /// Somebody left, by the batch, who was behind the others that are here.
  [[nodiscard]] bool has_lost_one_behind() const noexcept { return has_lost_one_behind_; }

  // Changes.

  record::GateHead& change_head() noexcept;
  /// A waiter behind all of its priority; its key.
  std::string enqueue(SharedRequest request, StoreTime now);
  /// Removes a waiter.
  GateWaiter leave(const std::string& waiter_key);
  void grant(std::string holder_key, GateHolder holder);
  /// Ends a hold, and keeps a record of it.
  void end(const std::string& holder_key, record::GateGrant::End how, StoreTime now);
  struct ByOperator {
    std::string name;
    std::string reason;
  };
  void end_by_force(const std::string& holder_key, const ByOperator& by, StoreTime now);
  /// Keeps a record of what an operator did.
  void note(const ByOperator& by, std::string what, StoreTime now);
  /// More conditions and writes that belong to the change.
  [[nodiscard]] Batch& batch() noexcept { return batch_; }

  [[nodiscard]] bool changed() const noexcept { return head_changed_; }
  /// The change, to be committed; then comes `committed`, or all this is read again.
  [[nodiscard]] Batch take_batch();
  void committed(Version version) noexcept;

 private:
  /// How a hold ends, and, if that was by force, who did that.
  struct Ending {
    record::GateGrant::End how;
    const ByOperator* by = nullptr;
  };
  void end(const std::string& holder_key, const Ending& ending, StoreTime now);
  /// In the place of the holder, which is gone then.
  void keep_grant(const GateHolder& held, const Ending& ending, StoreTime now);
  void write_waits(const std::string& waiter_key, const GateRequest& request);
  [[nodiscard]] GateWaiter take_waiter(const std::string& key);

  GateKeys keys_;
  Version head_version_ = 0;
  bool head_changed_ = false;
  record::GateHead head_;
  std::map<std::string, GateHolder> holders_;
  std::map<std::string, GateWaiter> waiters_;
  bool more_waiters_ = false;
  std::size_t waiters_max_ = std::numeric_limits<std::size_t>::max();
  std::string waiters_known_to_;
  std::vector<KeyedWaiter> came_behind_;
  bool has_lost_one_behind_ = false;
  std::vector<GateHolder*> granted_;  // By the batch.
  Batch batch_;
};

}  // namespace holdfast::detail
