// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <holdfast/batch.hpp>
#include <holdfast/memory_store.hpp>

#include "gate/gate_rows.hpp"
#include "mortal_store.hpp"

namespace holdfast::testing {

/// Looks at every commit whether gates keep what they promise: never more are in than fit, first
/// come is first served, nobody waits who could be in, and whoever is let in is told. The gates
/// here have permits, which no operator changes.
class GateWatch {
 public:
  GateWatch(std::shared_ptr<MemoryDisk> disk, Tally& tally)
      : disk_(std::move(disk)), tally_(tally) {}

  /// A batch is about to be committed. What becomes of it is looked at before the next one: whoever
  /// commits it may never hear of it.
  void before_commit(const Batch& batch);
  /// At the last one, if it was committed. Also before anything else happens to the disk.
  void look_at_last();

  [[nodiscard]] const std::vector<std::string>& faults() const noexcept { return faults_; }

 private:
  struct Last {
    std::uint64_t number = 0;  ///< How many commits there were before it.
    StoreTime at{};
    Batch batch;
    std::vector<detail::GateRows> before{};  ///< The gates that it changes.
  };
  /// What a commit made of a gate.
  struct Change {
    const Last& commit;
    const detail::GateRows& before;
    const detail::GateRows& written;  ///< The rows that the batch puts, erased again or not.
    const detail::GateRows& after;
  };

  [[nodiscard]] detail::GateRows rows_of(const std::string& gate) const;
  void look_at(const Change& change);
  void check_capacity(const detail::GateRows& after);
  void check_arrivals(const Change& change);
  void check_grant(const Change& change, const std::string& holder_key);
  void check_order(const Change& change, const std::string& holder_key,
                   const detail::GateWaiter* granted);
  void check_notice(const Change& change, const detail::GateWaiter& granted);
  void check_departures(const Change& change);
  void check_next(const detail::GateRows& after);
  void fault(const detail::GateRows& after, const std::string& text);

  std::shared_ptr<MemoryDisk> disk_;
  Tally& tally_;
  std::optional<Last> last_;
  std::set<std::string> broken_;
  std::vector<std::string> faults_;
};

}  // namespace holdfast::testing
