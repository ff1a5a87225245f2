// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <holdfast/gate_inspection.hpp>
#include <holdfast/store.hpp>
#include <holdfast/task.hpp>

namespace holdfast {

/// Who changes a gate, and why: both are kept with the change. Up to `kGateNameMax` bytes each; the
/// name must not be empty.
struct OperatorNote {
  std::string_view by{};
  std::string_view reason{};
};

/// What operators do to the gates of a store, whoever uses them.
///
/// ```
/// GateControl control(*store);
/// co_await control.set_capacity("gpus", 6, {.by = "ada", .reason = "two more cards"});
/// ```
///
/// Each change is one commit, together with what follows from it: those who fit now are let in and
/// woken. A change that is so already is no change, and not kept. An unknown gate is a
/// `NoSuchGate`. The store outlives this. Thread-safe.
class GateControl {
 public:
  /// Throws `Unsupported` if the store is not atomic.
  explicit GateControl(Store& store);

  /// From now on; nothing: as it is defined. Nobody who is in is put out: if there are more than
  /// that, they leave in their own time.
  [[nodiscard]] Task<void> set_capacity(std::string_view gate,
                                        std::optional<std::uint64_t> capacity,
                                        const OperatorNote& note);
  /// For how long the records of ended holds are kept; nothing: `kGateGrantsKeptFor`.
  [[nodiscard]] Task<void> keep_grants_for(std::string_view gate, std::optional<Duration> time,
                                           const OperatorNote& note);
  /// Nobody is let in, and who asks waits, until `resume`.
  [[nodiscard]] Task<void> pause(std::string_view gate, const OperatorNote& note);
  /// Nobody is let in, who asks is refused, and those who wait stay where they are, until `resume`.
  [[nodiscard]] Task<void> drain(std::string_view gate, const OperatorNote& note);
  [[nodiscard]] Task<void> resume(std::string_view gate, const OperatorNote& note);
  /// The slot is given to nobody any more. Whoever has it keeps it. An `InvalidArgument` if there
  /// is no such slot, or it is the last.
  [[nodiscard]] Task<void> disable_slot(std::string_view gate, std::uint64_t slot,
                                        const OperatorNote& note);
  [[nodiscard]] Task<void> enable_slot(std::string_view gate, std::uint64_t slot,
                                       const OperatorNote& note);
  /// Ends the hold with this fence: whoever has it is not asked, and learns of it when it releases,
  /// or when its fence is refused. Nothing: there is no such hold any more.
  [[nodiscard]] Task<std::optional<GateHolderInfo>> force_release(std::string_view gate,
                                                                  std::uint64_t fence,
                                                                  const OperatorNote& note);

 private:
  Store& store_;
};

/// What an operator did.
struct OperatorChangeInfo {
  std::uint64_t number = 0;  ///< Counted from 0, by gate.
  StoreTime at{};
  std::string by;
  std::string reason;
  std::string what;  ///< In words, such as "capacity 4 -> 6".
};

/// What operators did to a gate, the last change first: at most `kGateGrantsKept`.
[[nodiscard]] Task<std::vector<OperatorChangeInfo>> operator_changes(Store& store,
                                                                     std::string_view gate);

}  // namespace holdfast
