// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <holdfast/clock.hpp>
#include <holdfast/store.hpp>

namespace holdfast::detail {

/// What a store keeps of its clock. The machine's clock begins anew with each boot; the offset
/// between the two is the same for all processes of one boot.
struct TimeRecord {
  std::string boot_id;
  std::int64_t offset_ns = 0;
  /// No time above this one was told before it was written.
  std::int64_t high_water_ns = 0;

  bool operator==(const TimeRecord&) const = default;
};

/// The store's time when the machine's is `now`.
[[nodiscard]] StoreTime time_of(const TimeRecord& record, TimePoint now) noexcept;

/// `record` as it has to be on this boot: itself, or, after another boot or whenever time would go
/// back, one that goes on from the highest time that is known. To be written before it is used.
[[nodiscard]] TimeRecord continued(TimeRecord record, TimePoint now, const std::string& boot_id);

/// `record` with all that was told until now under its high-water mark. To be written with each
/// transaction: what builds on a time is then never older than the mark.
[[nodiscard]] TimeRecord marked(TimeRecord record, TimePoint now);

/// What the kernel calls this boot. The same empty text each time if it does not say.
[[nodiscard]] std::string read_boot_id();

}  // namespace holdfast::detail
