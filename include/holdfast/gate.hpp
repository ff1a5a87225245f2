// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>
#include <holdfast/store.hpp>

namespace holdfast {

inline constexpr std::size_t kGateNameMax = 200;
inline constexpr std::uint64_t kGateCapacityMax = std::uint64_t{1} << 32U;
/// How many read at once, unless it is said otherwise.
inline constexpr std::uint64_t kGateReadersMax = 1'000;
/// Of the last holds that have ended it is kept who had them and how that was: of so many for each
/// gate, and for so long, unless an operator has set another time.
inline constexpr std::uint64_t kGateGrantsKept = 1'000;
inline constexpr Duration kGateGrantsKeptFor = std::chrono::hours(24 * 30);
/// The range of a waiter's priority. A waiter of a higher one goes before those of a lower one, but
/// not for ever: each is overtaken by at most `kGateOvertakesPerStep` for each step between the
/// two.
inline constexpr int kGatePriorityMin = -100;
inline constexpr int kGatePriorityMax = 100;
inline constexpr std::uint64_t kGateOvertakesPerStep = 64;

/// What the code that uses a gate says of it. The first to use it writes it into the store; who
/// says something else later is told so (`DefinitionMismatch`), and changes nothing.
struct GateDefinition {
  enum class Kind : std::uint8_t {
    kPermits,    ///< Holders share the capacity by their weights.
    kReadWrite,  ///< One writer, or up to `capacity` readers.
  };
  Kind kind = Kind::kPermits;
  std::uint64_t capacity = 1;           ///< At least 1.
  std::vector<std::string> slot_names;  ///< None, or one for each of the capacity.
  /// So many grants in each period; 0: as many as fit.
  std::uint64_t rate_count = 0;
  Duration rate_period{};

  bool operator==(const GateDefinition&) const = default;
};

/// A gate is defined differently in the store. Nothing was changed.
class DefinitionMismatch final : public detail::ErrorOf<ErrorCode::kDefinitionMismatch> {
  using ErrorOf::ErrorOf;
};

/// There is no gate of that name in the store.
class NoSuchGate final : public detail::ErrorOf<ErrorCode::kNoSuchGate> {
  using ErrorOf::ErrorOf;
};

/// Why someone is not let in. It is what the rule that refuses says, not a guess.
struct WhyNot {
  enum class Kind : std::uint8_t {
    kFull,      ///< Too little of the capacity is free.
    kHeld,      ///< A writer holds it, or readers do and a writer wants it.
    kBehind,    ///< It would fit, but others came first.
    kRate,      ///< So many were let in lately that the next one may go in only at `until`.
    kPaused,    ///< By an operator.
    kDraining,  ///< Likewise, and nobody may wait.
    kTooHeavy,  ///< It needs more than the gate has at present, by an operator's change.
    kNext,      ///< Nothing is in its way any more.
  };
  Kind kind = Kind::kFull;
  std::uint64_t wanted = 0;
  std::uint64_t free = 0;
  std::optional<StoreTime> until{};
};

/// In a sentence.
[[nodiscard]] std::string to_string(const WhyNot& why);

}  // namespace holdfast
