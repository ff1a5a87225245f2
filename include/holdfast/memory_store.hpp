// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include <holdfast/clock.hpp>
#include <holdfast/store.hpp>

namespace holdfast {

/// What becomes of the commit at which a machine stops.
enum class CrashOutcome : std::uint8_t {
  kBySeed,      ///< One of the two.
  kLost,        ///< It was not applied.
  kUnanswered,  ///< It was applied, and nobody was told.
};

/// What goes wrong on a `MemoryDisk`, on purpose: for tests. The same seed makes the same faults.
/// A chance is between 0 (never) and 1 (always), for each commit.
struct MemoryFaults {
  std::uint64_t seed = 0;
  double busy_chance = 0;  ///< `StoreBusy`: nothing happened.
  double conflict_chance =
      0;                      ///< Another writer rewrites a key of a `require_version` just before.
  double unknown_chance = 0;  ///< `OutcomeUnknown`: it happened, or not.
  /// A commit becomes durable up to this much later, by the disk's clock; until then a crash takes
  /// it back. Zero: at once.
  Duration sync_delay_max{};
  /// More than this many bytes of keys and values do not fit: `StoreFull`.
  std::size_t bytes_max = std::numeric_limits<std::size_t>::max();
  /// The machine stops at the n-th commit from now, counted from 1: before that commit is applied,
  /// or after it and before anyone is told.
  std::optional<std::uint64_t> crash_at_commit{};
  CrashOutcome crash_outcome = CrashOutcome::kBySeed;
};

/// A disk that is made of memory: what stores are opened on, and what outlives them.
///
/// ```
/// VirtualClock clock;
/// auto disk = std::make_shared<MemoryDisk>(clock, MemoryFaults{.seed = 7, .sync_delay_max = 5ms});
/// auto store = open_memory_store(disk);
/// ...
/// disk->crash();                      // As a power cut.
/// store = open_memory_store(disk);    // What was durable is there.
/// ```
///
/// Thread-safe.
class MemoryDisk {
 public:
  explicit MemoryDisk(Clock& clock, const MemoryFaults& faults = {});
  /// With these entries on it, at their versions: a copy of what another store has.
  MemoryDisk(Clock& clock, std::vector<Entry> entries);
  MemoryDisk(const MemoryDisk&) = delete;
  MemoryDisk& operator=(const MemoryDisk&) = delete;
  ~MemoryDisk();

  /// As if the machine lost its power: stores that are open throw `StoreFailed` from now on, and
  /// whoever waits for one gets `OutcomeUnknown`. Of the commits that were not durable the first
  /// few survive, how many is up to the seed, as no disk writes them in another order.
  void crash();

  /// From now on; the seed starts anew. What is durable already stays so.
  void set_faults(const MemoryFaults& faults);

  /// Commits that were applied since the disk was made.
  [[nodiscard]] std::uint64_t commit_count() const;
  /// How often it has crashed.
  [[nodiscard]] std::uint64_t crash_count() const;

  class State;
  [[nodiscard]] State& state() noexcept { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

/// A store in memory, on a disk of its own: atomic, and gone with the object.
[[nodiscard]] std::unique_ptr<Store> open_memory_store();
/// A store on `disk`, shared with all others that are opened on it.
[[nodiscard]] std::unique_ptr<Store> open_memory_store(std::shared_ptr<MemoryDisk> disk);

}  // namespace holdfast
